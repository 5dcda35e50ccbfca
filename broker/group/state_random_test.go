package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// world is a group among clients that join, sync, leave, vanish and come back
// in any order, with writes that fail and timers that run out. It knows what
// every answer may be.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	g       *Group
	now     int64
	ticket  Ticket
	joins   map[Ticket]*peer
	syncs   map[Ticket]asked
	alarms  map[TimerKey]int64
	writes  []uint64
	highest int32
	leaders map[int32]string // generation → who was given the members
	ids     int
	trace   []string
}

// peer is one client process.
type peer struct {
	name, instance string
	id             string
	version        int
	generation     int32
	leader         bool
	members        []Joined
	member         bool // has joined a generation
	assigned       bool // and has its assignment
	waits          bool // for an answer
}

type asked struct {
	p          *peer
	generation int32
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.trace[max(0, len(w.trace)-40):], "\n"))
}

// key is what an assignment is addressed to: what of a member survives a new id.
func key(id, instance string) string {
	if instance != "" {
		return instance
	}
	return id
}

func (w *world) join(p *peer) {
	w.ticket++
	w.ids++
	w.joins[w.ticket] = p
	p.waits = true
	metadata := []byte{byte(w.rnd.IntN(3))}
	a := JoinAsk{
		Ticket: w.ticket, Member: p.id, Instance: p.instance, NewID: fmt.Sprintf("%s-%d", p.name, w.ids),
		Session: 10_000, Rebalance: 30_000, ProtocolType: "x",
		Protocols: []Protocol{{"one", metadata}, {"two", metadata}}, NeedID: p.version >= 4, Skip: p.version >= 9,
	}
	if w.rnd.IntN(4) == 0 {
		a.Protocols[0], a.Protocols[1] = a.Protocols[1], a.Protocols[0]
	}
	if p.instance != "" && w.rnd.IntN(3) == 0 {
		a.Member = "" // a restart: the id is forgotten
	}
	w.log("join#%d %s as %q", w.ticket, p.name, a.Member)
	w.g.Join(w.now, a)
}

func (w *world) sync(p *peer) {
	w.ticket++
	w.syncs[w.ticket] = asked{p, p.generation}
	p.waits = true
	a := SyncAsk{Ticket: w.ticket, Member: p.id, Instance: p.instance, Generation: p.generation}
	if p.leader {
		a.Assignment = map[string][]byte{}
		for _, m := range p.members {
			a.Assignment[m.Member] = fmt.Appendf(nil, "%d/%s", p.generation, key(m.Member, m.Instance))
		}
	}
	w.log("sync#%d %s as %s gen %d", w.ticket, p.name, p.id, p.generation)
	w.g.Sync(w.now, a)
}

func (w *world) carryOut() {
	for _, e := range w.g.Take() {
		switch x := e.(type) {
		case StartTimer:
			w.alarms[x.Key] = w.now + x.After
		case StopTimer:
			delete(w.alarms, x.Key)
		case Write:
			w.writes = append(w.writes, x.ID)
		case JoinReply:
			w.joined(x)
		case SyncReply:
			w.synced(x)
		}
	}
	if err := w.g.Check(); err != nil {
		w.fail("%v", err)
	}
	if g := w.g.Generation(); g < w.highest {
		w.fail("generation went back from %d to %d", w.highest, g)
	}
	w.highest = w.g.Generation()
}

func (w *world) joined(x JoinReply) {
	p := w.joins[x.Ticket]
	if p == nil {
		w.fail("join#%d answered twice", x.Ticket)
	}
	delete(w.joins, x.Ticket)
	p.waits, p.assigned = false, false
	w.log("  join#%d → %s %s gen %d leader %s", x.Ticket, codeName(x.Code), x.Member, x.Generation, x.Leader)
	switch x.Code {
	case 0:
		p.id, p.generation, p.member = x.Member, x.Generation, true
		p.leader, p.members = len(x.Members) > 0, x.Members
		if x.Generation != w.g.Generation() && x.Generation < w.highest-1 {
			w.fail("join#%d answered with old generation %d", x.Ticket, x.Generation)
		}
		if p.leader {
			if x.Leader != x.Member {
				w.fail("members given to %s, leader is %s", x.Member, x.Leader)
			}
			who := key(x.Member, p.instance)
			if have, ok := w.leaders[x.Generation]; ok && have != who {
				w.fail("generation %d has two leaders, %s and %s", x.Generation, have, who)
			}
			w.leaders[x.Generation] = who
		}
		if x.Skip {
			p.members = nil
		}
	case kerr.MemberIDRequired.Code:
		p.id = x.Member
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code, kerr.GroupMaxSizeReached.Code:
		p.id, p.member = "", false
	}
}

func (w *world) synced(x SyncReply) {
	a, ok := w.syncs[x.Ticket]
	if !ok {
		w.fail("sync#%d answered twice", x.Ticket)
	}
	delete(w.syncs, x.Ticket)
	a.p.waits, a.p.assigned = false, x.Code == 0
	if x.Code != 0 {
		a.p.member = false
	}
	w.log("  sync#%d → %s %q", x.Ticket, codeName(x.Code), x.Assignment)
	if x.Code == 0 {
		if want := fmt.Sprintf("%d/%s", a.generation, key(a.p.id, a.p.instance)); string(x.Assignment) != want {
			w.fail("%s got assignment %q, want %q", a.p.name, x.Assignment, want)
		}
	}
}

// nextAlarm fires the timer that is due first.
func (w *world) nextAlarm() bool {
	var first TimerKey
	at := int64(-1)
	for k, when := range w.alarms {
		if at < 0 || when < at || when == at && fmt.Sprint(k) < fmt.Sprint(first) {
			first, at = k, when
		}
	}
	if at < 0 {
		return false
	}
	delete(w.alarms, first)
	w.now = max(w.now, at)
	w.log("timer %v", first)
	w.g.Expired(w.now, first)
	w.carryOut()
	return true
}

func (w *world) write() {
	id := w.writes[0]
	w.writes = w.writes[1:]
	code := int16(0)
	if w.rnd.IntN(6) == 0 {
		code = kerr.NotCoordinator.Code
	}
	w.log("written %d %s", id, codeName(code))
	w.g.Written(w.now, id, code)
}

func (w *world) step(peers []*peer) {
	p := peers[w.rnd.IntN(len(peers))]
	w.now += int64(w.rnd.IntN(500))
	if w.rnd.IntN(3) > 0 {
		w.behave(p)
		w.carryOut()
		return
	}
	switch n := w.rnd.IntN(20); {
	case n < 7:
		w.join(p)
	case n < 13 && p.member:
		w.sync(p)
	case n < 15 && p.id != "":
		code := w.g.Heartbeat(p.id, p.instance, p.generation)
		w.log("heartbeat %s → %s", p.id, codeName(code))
	case n == 15 && p.id != "":
		w.log("leave %s", p.id)
		w.g.Leave(w.now, []LeaveAsk{{p.id, p.instance}})
	case n == 16 && p.instance != "":
		w.log("leave instance %s", p.instance)
		w.g.Leave(w.now, []LeaveAsk{{"", p.instance}})
	case n == 17:
		w.nextAlarm()
	case len(w.writes) > 0:
		w.write()
	}
	w.carryOut()
}

// behave is what a well-written client does next.
func (w *world) behave(p *peer) {
	switch {
	case len(w.writes) > 0:
		w.write()
	case p.waits:
		w.nextAlarm()
	case !p.member:
		w.join(p)
	case !p.assigned:
		w.sync(p)
	default:
		code := w.g.Heartbeat(p.id, p.instance, p.generation)
		w.log("heartbeat %s → %s", p.id, codeName(code))
		p.member = code == 0
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	delay := int64(3000)
	if seed%3 == 0 {
		delay = 0
	}
	return &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: 1000,
		g:     NewGroup("g", Rules{MinSession: 6000, MaxSession: 60_000, InitialDelay: delay, NewMemberTimeout: 300_000, MaxSize: 5}, 1000),
		joins: map[Ticket]*peer{}, syncs: map[Ticket]asked{}, alarms: map[TimerKey]int64{}, leaders: map[int32]string{},
	}
}

// TestRandomInterleavings: one leader a generation, generations only grow, every
// parked request is answered exactly once, assignments reach whom they are for,
// and a group left alone becomes empty.
func TestRandomInterleavings(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	formed, delivered := 0, 0
	for seed := range uint64(rounds) {
		w := newWorld(t, seed)
		var peers []*peer
		for i := range 6 {
			p := &peer{name: fmt.Sprintf("p%d", i), version: []int{2, 5, 9}[w.rnd.IntN(3)]}
			if i%2 == 0 {
				p.instance = fmt.Sprintf("i%d", i%4) // two processes may share one by mistake
			}
			peers = append(peers, p)
		}
		for range 150 {
			w.step(peers)
		}
		for len(w.writes) > 0 {
			w.write()
			w.carryOut()
		}
		for n := 0; w.nextAlarm(); n++ {
			if n > 200 {
				w.fail("the group does not come to rest")
			}
			for len(w.writes) > 0 {
				w.write()
				w.carryOut()
			}
		}
		if len(w.joins)+len(w.syncs) > 0 {
			w.fail("%d joins and %d syncs never answered", len(w.joins), len(w.syncs))
		}
		if w.g.State() != Empty {
			w.fail("left alone the group is %s", w.g.State())
		}
		formed += int(w.highest)
		delivered += strings.Count(strings.Join(w.trace, "\n"), "→ OK \"")
	}
	if formed < rounds || delivered < rounds {
		t.Fatalf("the worlds were too quiet: %d generations, %d assignments", formed, delivered)
	}
}

// TestKillAnswersEverything: whatever a group waits with is answered when its
// partition moves away.
func TestKillAnswersEverything(t *testing.T) {
	for seed := range uint64(500) {
		w := newWorld(t, seed)
		peers := []*peer{{name: "a", version: 2}, {name: "b", version: 9, instance: "i"}, {name: "c", version: 9, instance: "i"}, {name: "d", version: 5}}
		for range 10 + w.rnd.IntN(60) {
			w.step(peers)
		}
		w.g.Kill(w.now, kerr.NotCoordinator.Code)
		w.carryOut()
		if len(w.joins)+len(w.syncs) > 0 {
			w.fail("%d joins and %d syncs never answered", len(w.joins), len(w.syncs))
		}
		if len(w.alarms) > 0 {
			w.fail("timers left: %v", w.alarms)
		}
	}
}
