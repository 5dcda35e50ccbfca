package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// nobody is a base above all epochs: from then on no leader promises anything.
const nobody = 1 << 30

// maxLag is replica.lag.time.max.ms in the model.
const maxLag = 400

// step is one thing that happens. What the numbers mean depends on the state it
// meets; where nothing fits, nothing happens. So any part of a trace is a trace.
type step struct {
	kind    int
	a, b, c int
}

// action is a kind of step and how often it happens.
type action struct {
	name   string
	weight int
	do     func(w *world, s step)
}

var actions = []action{
	{"produce", 20, (*world).produce},
	{"fetch", 40, (*world).fetch},
	{"deliver", 60, (*world).deliver},
	{"drop", 3, (*world).drop},
	{"learn", 16, (*world).learns},
	{"old news", 2, (*world).oldNews},
	{"propose", 16, (*world).propose},
	{"timeout", 3, (*world).timeout},
	{"wait", 9, (*world).wait},
	{"sync", 3, (*world).sync},
	{"fence", 5, (*world).fence},
	{"unfence", 12, (*world).unfence},
	{"shutdown", 1, (*world).shutdown},
	{"kill", 3, (*world).kill},
	{"power", 2, (*world).power},
	{"wipe", 1, (*world).wipe},
	{"stop", 1, (*world).stop},
	{"start", 14, (*world).start},
	{"quick wipe", 2, func(w *world, s step) { w.wipe(s); w.startNode(w.pick(s.a)) }},
	{"quick cut", 2, func(w *world, s step) { w.power(s); w.startNode(w.pick(s.a)) }},
	{"bounce", 2, (*world).bounce},
	{"retain", 5, (*world).retain},
	{"min isr", 1, (*world).alterMinISR},
	{"prefer", 1, (*world).prefer},
	{"reassign", 2, (*world).reassign},
}

// drawWeights makes each trace a world of its own: some faults are missing in
// it, others are common.
func drawWeights(rnd *rand.Rand) (weights []int, total int) {
	for _, a := range actions {
		weight := a.weight * 3
		if a.weight < 10 {
			weight = a.weight * []int{0, 1, 3, 10}[rnd.IntN(4)]
		}
		weights, total = append(weights, weight), total+weight
	}
	return weights, total
}

func drawStep(rnd *rand.Rand, weights []int, total int) step {
	n := rnd.IntN(total)
	kind := 0
	for n >= weights[kind] {
		n -= weights[kind]
		kind++
	}
	return step{kind, rnd.IntN(1 << 16), rnd.IntN(1 << 16), rnd.IntN(1 << 16)}
}

func drawSetting(rnd *rand.Rand) setting {
	s := setting{nodes: 3 + rnd.IntN(3), minISR: 1 + rnd.IntN(3)}
	s.replicas = 3
	if rnd.IntN(4) == 0 {
		s.replicas = 2 + rnd.IntN(s.nodes-1)
	}
	s.unclean = rnd.IntN(6) == 0
	s.ruthless = rnd.IntN(12) == 0
	return s
}

func (w *world) do(s step) {
	a := actions[s.kind]
	if w.trace != nil {
		w.log("%s", s.String())
	}
	a.do(w, s)
	w.decided()
}

func (w *world) pick(a int) *node { return w.nodes[a%len(w.nodes)] }

// pickUp is a running node with a replica for which ok holds, or nil.
func (w *world) pickUp(a int, ok func(*node) bool) *node {
	for i := range w.nodes {
		if n := w.nodes[(a+i)%len(w.nodes)]; n.up && n.state != nil && ok(n) {
			return n
		}
	}
	return nil
}

func leads(n *node) bool { return n.state.Leads() }

// produce appends one to three records to a log whose broker believes it leads.
func (w *world) produce(s step) {
	n := w.pickUp(s.a, leads)
	if n == nil || n.log.end() > 60 {
		return
	}
	all := s.b%4 > 0
	if all && n.state.UnderMinISR() {
		return // H4
	}
	for range 1 + s.c%3 {
		w.ids++
		n.log.append(rec{n.state.Assigned().Epoch, w.ids})
	}
	n.state.Appended(n.log.end(), -1)
	if all {
		n.tickets = append(n.tickets, ticket{n.state.Assigned().Epoch, n.log.end()})
	}
	w.log("  %s", n.describe())
}

func (w *world) fetch(s step) {
	n := w.pickUp(s.a, func(n *node) bool { return !n.state.Leads() && n.state.Assigned().Leader != offsets.NoBroker })
	if n == nil {
		return
	}
	w.sendFetch(n)
}

func (w *world) sendFetch(n *node) {
	a := n.state.Assigned()
	w.numbers++
	n.fetching = w.numbers
	w.send(&message{
		number: w.numbers, from: n.id, fromBoot: n.boot, to: a.Leader, toBoot: w.node(a.Leader).boot,
		fetch: &replica.Fetch{
			Follower: n.id, BrokerEpoch: n.epoch, LeaderEpoch: a.Epoch,
			At: n.log.end(), LastEpoch: n.log.lastEpoch(), Start: n.log.start,
		},
	})
}

func (w *world) deliver(s step) {
	if len(w.soup) == 0 {
		return
	}
	// Mostly in order, as connections are; one in four anyhow.
	at := 0
	if s.b%4 == 0 {
		at = s.a % len(w.soup)
	}
	m := w.soup[at]
	// A fetch may come twice: by a connection that was given up, and by the next.
	if m.fetch == nil || s.c%8 > 0 {
		w.soup = slices.Delete(w.soup, at, at+1)
	}
	w.receive(m, s.c)
}

func (w *world) drop(s step) {
	if len(w.soup) > 0 {
		at := s.a % len(w.soup)
		w.soup = slices.Delete(w.soup, at, at+1)
	}
}

func (w *world) receive(m *message, how int) {
	if m.ask != nil {
		w.decide(m)
		return
	}
	n := w.node(m.to)
	if !n.up || n.state == nil || n.boot != m.toBoot {
		return
	}
	switch {
	case m.fetch != nil:
		w.serve(n, m, how)
	case m.answer != nil:
		w.follow(n, m)
	case m.reply != nil && n.asked != nil && n.asked.number == m.number:
		n.asked = nil
		if m.reply.outcome == replica.Granted && m.reply.seen > n.seen {
			n.learn(w, m.reply.seen)
		}
		if n.state != nil {
			n.state.Answered(m.as, m.reply.outcome)
		}
	}
}

// serve is a leader's part of a fetch.
func (w *world) serve(n *node, m *message, how int) {
	f := *m.fetch
	f.Now = w.now
	a := &answer{fetch: f}
	diverging, err := n.state.Serve(f, &n.log)
	var outOfRange *log.ErrOffsetOutOfRange
	switch {
	case errors.As(err, &outOfRange):
		a.outOfRange = true
	case err != nil:
		return // the follower will ask again
	case diverging != nil:
		a.diverging = diverging
	default:
		to := min(n.log.end(), f.At+offsets.Offset(how%5))
		a.records = slices.Clone(n.log.recs[f.At-n.log.start : to-n.log.start])
	}
	a.highWater, a.start, a.end = n.state.HighWatermark(), n.log.start, n.log.end()
	w.log("  serve %d at %d by %d: diverging %v, %d records, hw %d, err %v", f.Follower, f.At, n.id, diverging, len(a.records), a.highWater, err)
	w.send(&message{number: m.number, from: n.id, fromBoot: n.boot, to: m.from, toBoot: m.fromBoot, answer: a})
}

// follow is a follower's part of an answer.
func (w *world) follow(n *node, m *message) {
	a := m.answer
	if n.fetching != m.number || !n.state.Takes(a.fetch.LeaderEpoch, a.fetch.At) {
		return
	}
	n.fetching = 0
	switch {
	case a.diverging != nil:
		w.events["divergence"]++
		n.log.truncate(n.state.TruncateTo(*a.diverging, &n.log))
		if n.state.Truncated(n.log.end(), -1) {
			w.events["cut below the high watermark"]++
			w.cutShort = w.cutShort || w.base < 0
		}
	case a.outOfRange:
		w.events["out of range"]++
		if to, anew := n.state.OutOfRange(a.start, a.end); anew {
			n.log.reset(to)
			n.state.Restarted(to)
		} else if to < n.log.end() {
			n.log.truncate(to)
			n.state.Truncated(n.log.end(), -1)
		}
	default:
		for _, r := range a.records {
			n.log.append(r)
		}
		n.state.FollowTo(n.log.end(), -1, a.highWater, a.start)
		n.log.trim(n.state.LogStart())
	}
	w.log("  %s", n.describe())
}

func (w *world) learns(s step) {
	n := w.pick(s.a)
	if n.up && n.seen < len(w.moments)-1 {
		to := n.seen + 1
		if s.b%2 == 0 {
			to = len(w.moments) - 1
		}
		n.learn(w, to)
		w.log("  %s", n.describe())
	}
}

// oldNews: two goroutines of a broker take an image to a replica, the later one
// first.
func (w *world) oldNews(s step) {
	n := w.pickUp(s.a, func(*node) bool { return true })
	if n == nil || n.seen == 0 {
		return
	}
	m := &w.moments[max(0, n.seen-1-s.b%3)]
	if slices.Contains(m.partition.Replicas, n.id) && n.hosts {
		n.assign(w, m)
	}
}

func (w *world) propose(s step) {
	if n := w.pickUp(s.a, leads); n != nil {
		w.sendProposal(n)
	}
}

func (w *world) sendProposal(n *node) {
	if n.asked != nil {
		return
	}
	p, ok := n.state.Propose(w.now, w.usable(n), maxLag)
	if !ok {
		return
	}
	w.numbers++
	ask := controller.ISRChange{
		Topic: topicID, Broker: n.id, BrokerEpoch: p.ISR[0].Epoch,
		LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Recovering: p.Recovering,
	}
	for _, m := range p.ISR {
		ask.ISR = append(ask.ISR, controller.Member(m))
	}
	n.asked = &message{number: w.numbers, from: n.id, fromBoot: n.boot, to: offsets.NoBroker, ask: &ask, as: p}
	w.log("  %d asks for %v", n.id, p.ISR)
	w.send(n.asked)
}

// decide is the controller's part of an ask.
func (w *world) decide(m *message) {
	err := w.model.ChangeISR(*m.ask)
	w.decided()
	r := &reply{outcome: replica.Granted, seen: len(w.moments) - 1}
	switch {
	case err == nil:
		w.events["ISR change"]++
	case errors.Is(err, controller.ErrAheadOfController):
		r.outcome = replica.Lost
	case errors.Is(err, controller.ErrStalePartition), errors.Is(err, controller.ErrFencedEpoch), errors.Is(err, controller.ErrStaleBrokerEpoch):
		r.outcome = replica.Overtaken
	default:
		w.events["ISR refused"]++
		r.outcome = replica.Refused
	}
	w.log("  ask of %d: %v", m.from, err)
	w.send(&message{number: m.number, to: m.from, toBoot: m.fromBoot, from: offsets.NoBroker, as: m.as, reply: r})
}

// timeout: a leader gives up waiting for the controller.
func (w *world) timeout(s step) {
	if n := w.pickUp(s.a, func(n *node) bool { return n.asked != nil }); n != nil {
		p := n.asked.as
		n.asked = nil
		n.state.Answered(p, replica.Lost)
	}
}

func (w *world) wait(s step) { w.now += int64(s.a % 300) }

func (w *world) sync(s step) {
	if n := w.pick(s.a); n.up {
		n.log.synced = n.log.end()
	}
}

func (w *world) changeBroker(n *node, fenced, shutting, full bool) {
	b, ok := w.model.Image().Broker(n.id)
	if ok {
		must(w.model.ChangeBroker(controller.BrokerChange{ID: n.id, Epoch: b.Epoch, Fenced: fenced, ShuttingDown: shutting, Full: full}))
	}
	w.decided()
}

func (w *world) fence(s step) { w.changeBroker(w.pick(s.a), true, false, false) }

func (w *world) unfence(s step) {
	if n := w.pick(s.a); n.up {
		w.changeBroker(n, false, false, s.b%4 == 0) // its disk may be full
	}
}

func (w *world) shutdown(s step) {
	n := w.pick(s.a)
	if b, ok := w.model.Image().Broker(n.id); ok && n.up && !b.Fenced {
		w.changeBroker(n, false, true, false)
	}
}

// down ends a process; what it knew is gone.
func (w *world) down(n *node, intact bool) {
	n.up, n.intact, n.state, n.hosts = false, intact, nil, false
	n.tickets, n.asked, n.fetching = nil, nil, 0
}

// mayLose tells whether a node may lose records now. Fewer than
// min.insync.replicas may have lost theirs at a time: that much is promised to
// survive. It counts until the controller learns of it; a fenced broker that is
// no candidate can't become one before that.
func (w *world) mayLose(n *node) bool {
	return w.setting.ruthless || w.harmless(n) || w.survives(n)
}

func (w *world) survives(n *node) bool {
	dirty := 1
	for _, other := range w.nodes {
		if other != n && (other.dirty || other.unproven) {
			dirty++
		}
	}
	// A reassignment may end with no more than its target.
	p := w.latest().partition
	return dirty < min(w.latest().minISR, len(p.Replicas)-len(p.Removing)) && slices.ContainsFunc(w.candidates(), func(id offsets.BrokerID) bool {
		return id != n.id && !w.node(id).dirty && !w.node(id).unproven
	})
}

func (w *world) harmless(n *node) bool {
	b, ok := w.latest().image.Broker(n.id)
	return ok && b.Fenced && !slices.Contains(w.candidates(), n.id)
}

// kill ends a process. One in four can't prove that nothing was lost with it,
// and counts as if it were.
func (w *world) kill(s step) {
	n := w.pick(s.a)
	if !n.up {
		return
	}
	intact := s.b%4 > 0
	// The only complete copy keeps its place, unless an ask that is under way brings
	// in another: that one must lose nothing until it is back.
	alone := slices.Equal(w.candidates(), []offsets.BrokerID{n.id}) && !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.dirty })
	if !intact && !alone && !w.mayLose(n) {
		return
	}
	w.down(n, intact)
	switch {
	case intact:
	case alone:
		n.unproven = true
	default:
		w.lost(n, "kill without proof")
	}
}

// power is a cut: what wasn't synced is lost, wholly or in part.
func (w *world) power(s step) {
	n := w.pick(s.a)
	if !n.up || !w.mayLose(n) {
		return
	}
	w.down(n, false)
	n.log.lose(n.log.synced + offsets.Offset(s.b%4))
	w.lost(n, "power cut")
}

func (w *world) wipe(s step) {
	n := w.pick(s.a)
	if !n.up || !w.mayLose(n) {
		return
	}
	w.down(n, false)
	n.log.reset(0)
	n.directory++
	w.lost(n, "wiped disk")
}

func (w *world) lost(n *node, how string) {
	w.events[how]++
	if n.dirty = !w.harmless(n); n.dirty && !w.survives(n) {
		w.base = nobody
	}
}

// stop is a clean shutdown.
func (w *world) stop(s step) {
	if n := w.pick(s.a); n.up {
		n.log.synced = n.log.end()
		w.down(n, true)
	}
}

// bounce is a power cut and a start so quick that nobody notices but the
// controller.
func (w *world) bounce(s step) {
	w.power(s)
	w.startNode(w.pick(s.a))
	w.unfence(s)
}

func (w *world) start(s step) { w.startNode(w.pick(s.a)) }

func (w *world) startNode(n *node) {
	if n.up {
		return
	}
	n.boot++
	if err := w.model.Register(n.registration(true)); err != nil {
		if !errors.Is(err, controller.ErrDuplicateBroker) {
			panic(err)
		}
		return
	}
	w.decided()
	b, _ := w.model.Image().Broker(n.id)
	n.up, n.epoch, n.dirty, n.unproven = true, b.Epoch, false, false
	w.events["start"]++
	if n.hosts = slices.Contains(w.latest().partition.Replicas, n.id); n.hosts {
		n.state = replica.NewState(n.id, n.log.start, n.log.end())
	}
	n.learn(w, len(w.moments)-1)
	w.log("  %s", n.describe())
}

// retain moves a replica's log start, by DeleteRecords or retention.
func (w *world) retain(s step) {
	n := w.pickUp(s.a, leads)
	if n == nil {
		return
	}
	to := n.state.HighWatermark()
	if s.b%4 > 0 {
		to = min(to, n.log.start+offsets.Offset(s.b%4))
	}
	n.log.trim(to)
	n.state.Trimmed(n.log.start)
	w.trimmed = max(w.trimmed, n.log.start)
}

func (w *world) alterMinISR(s step) {
	if slices.ContainsFunc(w.nodes, func(n *node) bool { return n.dirty }) {
		return // it empties the ELR, and with it the place of the complete copies
	}
	must(w.model.AlterConfigs(controller.ConfigChange{
		Resource: controller.Resource{Kind: controller.TopicResource, Name: topicName},
		Ops:      []controller.ConfigOp{{Kind: controller.Set, Key: "min.insync.replicas", Value: strconv.Itoa(1 + s.a%3)}},
	}))
}

func (w *world) prefer(step) {
	_ = w.model.ElectLeader(controller.Preferred, partition)
}

// reassign asks for other replicas, or takes that back. While somebody is dirty
// the replicas that go might be the only whole ones.
func (w *world) reassign(s step) {
	if slices.ContainsFunc(w.nodes, func(n *node) bool { return n.dirty }) {
		return
	}
	r := controller.Reassignment{Topic: topicName}
	if s.b%4 > 0 {
		for i := range 1 + s.c%min(4, len(w.nodes)) {
			r.Replicas = append(r.Replicas, offsets.BrokerID(1+(s.a+i*(1+s.b%2))%len(w.nodes)))
		}
	}
	if err := w.model.Reassign(r); err == nil {
		w.events["reassignment"]++
	}
}

func (s step) String() string { return fmt.Sprintf("%s %d %d %d", actions[s.kind].name, s.a, s.b, s.c) }
