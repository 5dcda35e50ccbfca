package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sawlog/broker/controller"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

const topicName = "t"

var (
	topicID   = offsets.TopicID{1}
	partition = offsets.TopicPartition{Topic: topicName}
)

// setting is what a trace runs in.
type setting struct {
	nodes, replicas, minISR int
	unclean                 bool
	// ruthless lets power cuts take the last complete copy: then nothing is
	// asked about loss, only about order.
	ruthless bool
}

// moment is the metadata after one decision.
type moment struct {
	image     *controller.Image
	partition *controller.Partition
	minISR    int
}

// node is one broker with its replica.
type node struct {
	id        offsets.BrokerID
	up        bool
	boot      int   // starts so far: messages of another start don't reach it
	epoch     int64 // of its registration
	intact    bool  // what it can prove when it starts
	directory int
	seen      int // metadata it knows, index into world.moments
	hosts     bool
	log       replicaLog
	state     *replica.State
	dirty     bool // lost records, and the controller doesn't know
	unproven  bool // ended as the only complete copy, and can't prove that it lost nothing

	fetching int // number of the fetch that is out
	asked    *message
	tickets  []ticket
}

// ticket is a producer with acks=all that waits.
type ticket struct {
	epoch offsets.Epoch
	end   offsets.Offset
}

// message is a thing on its way.
type message struct {
	number           int
	from, to         offsets.BrokerID // NoBroker is the controller
	fromBoot, toBoot int

	fetch  *replica.Fetch
	answer *answer
	ask    *controller.ISRChange
	as     replica.ISRProposal
	reply  *reply
}

// answer is a leader's to a fetch.
type answer struct {
	fetch      replica.Fetch
	diverging  *replica.EpochEnd
	outOfRange bool
	records    []rec
	highWater  offsets.Offset
	start, end offsets.Offset
}

// reply is the controller's to an ask.
type reply struct {
	outcome replica.Outcome
	seen    int
}

// world is everything.
type world struct {
	setting setting
	model   *controller.Model
	moments []moment
	nodes   []*node // nodes[i].id == i+1
	soup    []*message
	now     int64
	numbers int
	ids     int

	// What was promised to somebody: records from offset from on, and the
	// leader epochs that promised them.
	from       offsets.Offset
	committed  []rec
	promisedIn []offsets.Epoch
	base       offsets.Epoch  // leaders before it promise nothing, because of an unclean election
	trimmed    offsets.Offset // furthest log start anybody decided on
	leaders    map[offsets.Epoch][2]int
	illegal    bool // an unclean election where the topic doesn't allow them
	cutShort   bool // a follower cut off what it knew to be committed, without an unclean election
	events     map[string]int
	trace      func(format string, args ...any) // nil = silent
}

func newWorld(s setting) *world {
	w := &world{
		setting: s,
		model:   controller.NewModel(map[string]string{}),
		leaders: map[offsets.Epoch][2]int{},
		events:  map[string]int{},
		base:    -1,
	}
	for i := range s.nodes {
		n := &node{id: offsets.BrokerID(i + 1), boot: 1, up: true}
		w.nodes = append(w.nodes, n)
		must(w.model.Register(n.registration(false)))
		b, _ := w.model.Image().Broker(n.id)
		n.epoch = b.Epoch
	}
	var replicas []offsets.BrokerID
	for i := range s.replicas {
		replicas = append(replicas, offsets.BrokerID(i+1))
	}
	must(w.model.CreateTopic(controller.NewTopic{
		Name: topicName, Partitions: -1, ReplicationFactor: -1, Assignment: [][]offsets.BrokerID{replicas},
		Configs: map[string]string{
			"min.insync.replicas":            strconv.Itoa(s.minISR),
			"unclean.leader.election.enable": strconv.FormatBool(s.unclean),
		},
	}, topicID))
	w.decided()
	for _, n := range w.nodes {
		n.learn(w, 0)
	}
	return w
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

func (w *world) latest() *moment { return &w.moments[len(w.moments)-1] }

// decided takes note of the controller's image, if it is a new one.
func (w *world) decided() {
	im := w.model.Image()
	if len(w.moments) > 0 && w.latest().image == im {
		return
	}
	t, _ := im.TopicByID(topicID)
	p := &t.Partitions[0]
	if len(w.moments) > 0 {
		before := w.latest().partition
		if p.Epoch != before.Epoch && p.Recovering {
			w.events["unclean election"]++
			w.illegal = w.illegal || !w.setting.unclean
			w.base, w.from, w.committed, w.promisedIn = p.Epoch, 0, nil, nil
		}
		if p.Epoch != before.Epoch {
			w.events["election"]++
		}
	}
	w.moments = append(w.moments, moment{im, p, w.model.MinISR(t, p)})
	w.log("  decided %d: %s min %d", len(w.moments)-1, partitionText(p), w.latest().minISR)
}

// candidates are those who may be elected cleanly.
func (w *world) candidates() []offsets.BrokerID {
	p := w.latest().partition
	return slices.Concat(p.ISR, p.ELR)
}

func (w *world) node(id offsets.BrokerID) *node { return w.nodes[id-1] }

func (n *node) registration(fenced bool) controller.Registration {
	r := controller.Registration{ID: n.id, Fenced: fenced, Intact: n.intact, PreviousEpoch: n.epoch}
	r.Incarnation[0], r.Incarnation[1], r.Incarnation[2] = byte(n.id), byte(n.boot), byte(n.boot>>8)
	r.Directory[0], r.Directory[1], r.Directory[2] = 1, byte(n.id), byte(n.directory)
	return r
}

// learn applies the metadata up to a moment, in one step: what lies between is
// not seen apart.
func (n *node) learn(w *world, seen int) {
	n.seen = seen
	m := &w.moments[seen]
	p := m.partition
	if !slices.Contains(p.Replicas, n.id) {
		n.hosts, n.state, n.tickets, n.asked = false, nil, nil, nil
		n.log.reset(0)
		return
	}
	if !n.hosts || n.state == nil {
		n.hosts = true
		n.state = replica.NewState(n.id, n.log.start, n.log.end())
	}
	n.assign(w, m)
	if s := n.state.Assigned(); n.asked != nil && (s.PartitionEpoch != n.asked.as.PartitionEpoch || !n.state.Leads()) {
		n.asked = nil
	}
}

func (n *node) assign(w *world, m *moment) {
	p := m.partition
	a := replica.Assignment{
		Image: m.image.Index, Leader: p.Leader, Epoch: p.Epoch, PartitionEpoch: p.PartitionEpoch,
		Replicas: p.Replicas, ISR: p.ISR, MinISR: m.minISR, Recovering: p.Recovering,
	}
	if n.state.Assign(a, w.now) && n.state.Leads() {
		n.log.assign(p.Epoch)
	}
}

// usable is what a node's metadata says of a broker.
func (w *world) usable(n *node) func(offsets.BrokerID) (int64, bool) {
	im := w.moments[n.seen].image
	return func(id offsets.BrokerID) (int64, bool) {
		b, ok := im.Broker(id)
		if !ok || b.Fenced || b.ShuttingDown || b.Full && id != n.id {
			return 0, false
		}
		return b.Epoch, true
	}
}

func (w *world) send(m *message) {
	w.soup = append(w.soup, m)
	if len(w.soup) > 12 {
		w.soup = slices.Delete(w.soup, 0, 1)
	}
}

func (n *node) describe() string {
	role := "down"
	if n.up {
		role = "up"
	}
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%d %s boot %d epoch %d sees %d log [%d,%d) synced %d", n.id, role, n.boot, n.epoch, n.seen, n.log.start, n.log.end(), n.log.synced))
	if n.state != nil {
		text.WriteString(fmt.Sprintf(" hw %d leads %v in %d", n.state.HighWatermark(), n.state.Leads(), n.state.Assigned().Epoch))
	}
	for i, r := range n.log.recs {
		if i == 0 || r.epoch != n.log.recs[i-1].epoch {
			text.WriteString(fmt.Sprintf(" e%d:", r.epoch))
		}
		text.WriteString(fmt.Sprintf(" %d", r.id))
	}
	return text.String()
}
