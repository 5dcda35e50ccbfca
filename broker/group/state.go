package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// State is where a classic group stands; the names are the ones tools print.
type State uint8

const (
	// Empty: no members; offsets may exist. Also a group known by offsets only.
	Empty State = iota
	// PreparingRebalance: members are called to join again; joins are parked.
	PreparingRebalance
	// CompletingRebalance: a generation is formed, its assignment awaited.
	CompletingRebalance
	// Stable: every member can have its assignment.
	Stable
	// Dead: being deleted; nothing is accepted any more.
	Dead
)

// String is the name tools know the state by.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Member is one member of a group.
type Member struct {
	ID, Instance         string // Instance "" = dynamic
	ClientID, ClientHost string
	Session, Rebalance   int64 // timeouts, ms
	ProtocolType         string
	Protocols            []Protocol // in the member's order of preference
	Assignment           []byte

	join, sync Ticket // parked requests, 0 = none
	fresh      bool   // has not been through a join barrier yet
}

// Protocol is one way of assigning a member can take part in.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Group is one classic group: it takes events, keeps no clock, does no I/O, and
// leaves what is to be done in its effects.
//
//	Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance …
//
// Invariants, checked by Check: members and order agree; a leader is a member;
// a parked sync exists only while CompletingRebalance, a parked join only while
// PreparingRebalance or while a static member's new id is being persisted;
// Empty and Dead have no members.
type Group struct {
	Name string

	rules        Rules
	state        State
	since        int64 // when the state was entered, ms
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      map[string]*Member
	order        []*Member         // by time of joining
	static       map[string]string // instance id → member id
	pending      map[string]bool   // ids given out by MEMBER_ID_REQUIRED
	unsynced     map[string]bool   // members of this generation that have not asked for their assignment
	topics       map[string]bool   // subscribed topics of a consumer group; nil = not known

	initial   bool  // this rebalance began from Empty: the delay decides when it ends
	grown     bool  // a member came while the initial delay ran
	remaining int64 // what is left of the rebalance timeout for further delays

	writes    uint64
	assigning uint64                 // the write of this generation's assignment, 0 = none
	assigned  map[string][]byte      // what that write holds
	replacing map[uint64]replacement // writes of static members' new ids

	effects []Effect
}

// replacement is what is needed to answer, or take back, a static member's new id.
type replacement struct {
	oldID, newID, oldLeader string
	ticket                  Ticket
	before                  Member // as it was, without its parked requests
	skip                    bool   // the client knows SkipAssignment
	generation              int32
}

// NewGroup makes an empty group.
func NewGroup(name string, rules Rules, now int64) *Group {
	return &Group{
		Name: name, rules: rules, since: now,
		members: map[string]*Member{}, static: map[string]string{},
		pending: map[string]bool{}, unsynced: map[string]bool{}, replacing: map[uint64]replacement{},
	}
}

// Take hands over the effects of the steps since the last Take.
func (g *Group) Take() []Effect {
	e := g.effects
	g.effects = nil
	return e
}

// State is where the group stands.
func (g *Group) State() State { return g.state }

// Generation counts the rebalances.
func (g *Group) Generation() int32 { return g.generation }

// Members lists the members in the order they joined; not to be changed.
func (g *Group) Members() []*Member { return g.order }

func (g *Group) emit(e Effect) { g.effects = append(g.effects, e) }

func (g *Group) start(kind TimerKind, member string, after int64) {
	g.emit(StartTimer{TimerKey{kind, member}, after})
}

func (g *Group) stop(kind TimerKind, member string) { g.emit(StopTimer{TimerKey{kind, member}}) }

func (g *Group) become(s State, now int64) {
	if s != g.state {
		g.since = now
	}
	g.state = s
}

// validate is the check every request of a member passes.
func (g *Group) validate(member, instance string) int16 {
	if instance != "" {
		switch have, ok := g.static[instance]; {
		case !ok:
			return kerr.UnknownMemberID.Code
		case have != member:
			return kerr.FencedInstanceID.Code
		}
	}
	if g.members[member] == nil {
		return kerr.UnknownMemberID.Code
	}
	return 0
}

func (g *Group) add(m *Member) {
	if len(g.members) == 0 {
		g.protocolType = m.ProtocolType
	}
	if m.Instance != "" {
		g.static[m.Instance] = m.ID
	}
	if g.leader == "" {
		g.leader = m.ID
	}
	delete(g.pending, m.ID)
	g.members[m.ID] = m
	g.order = append(g.order, m)
}

// remove drops a member and answers what it has parked, so that a client still
// there comes back as a new member.
func (g *Group) remove(m *Member) {
	g.stop(SessionTimer, m.ID)
	g.answerJoin(m, JoinReply{Code: kerr.UnknownMemberID.Code})
	g.answerSync(m, SyncReply{Code: kerr.UnknownMemberID.Code})
	delete(g.members, m.ID)
	delete(g.unsynced, m.ID)
	if m.Instance != "" {
		delete(g.static, m.Instance)
	}
	g.order = slices.DeleteFunc(g.order, func(o *Member) bool { return o == m })
	if g.leader == m.ID {
		g.leader = ""
		if len(g.order) > 0 {
			g.leader = g.order[0].ID
		}
	}
}

func (g *Group) answerJoin(m *Member, r JoinReply) {
	if m.join != 0 {
		r.Ticket, m.join = m.join, 0
		g.emit(r)
	}
}

func (g *Group) answerSync(m *Member, r SyncReply) {
	if m.sync != 0 {
		r.Ticket, m.sync = m.sync, 0
		g.emit(r)
	}
}

// parkJoin replaces the request a member waits with; the older one, left by a
// connection that is gone, is told to try again.
func (g *Group) parkJoin(m *Member, t Ticket) {
	g.answerJoin(m, JoinReply{Code: kerr.RebalanceInProgress.Code, Member: m.ID})
	m.join = t
}

func (g *Group) parkSync(m *Member, t Ticket) {
	g.answerSync(m, SyncReply{Code: kerr.RebalanceInProgress.Code})
	m.sync = t
}

func (g *Group) joined(m *Member, skip bool) JoinReply {
	r := JoinReply{
		Member: m.ID, Generation: g.generation, ProtocolType: g.protocolType,
		Protocol: g.protocol, Leader: g.leader, Skip: skip,
	}
	if m.ID == g.leader {
		for _, o := range g.order {
			r.Members = append(r.Members, Joined{o.ID, o.Instance, o.metadata(g.protocol)})
		}
	}
	return r
}

// write asks for the group to be persisted with the given assignment.
func (g *Group) write(assignment map[string][]byte) uint64 {
	g.writes++
	g.emit(Write{g.writes, g.snapshot(assignment)})
	return g.writes
}

// Kill makes the group Dead: everything parked is sent away with the code.
func (g *Group) Kill(now int64, code int16) {
	g.assigning, g.assigned = 0, nil
	for _, m := range g.order {
		g.stop(SessionTimer, m.ID)
		g.answerJoin(m, JoinReply{Code: code, Member: m.ID})
		g.answerSync(m, SyncReply{Code: code})
	}
	for id := range g.pending {
		g.stop(SessionTimer, id)
	}
	g.stop(JoinTimer, "")
	g.stop(SyncTimer, "")
	clear(g.replacing)
	g.members, g.order, g.leader = map[string]*Member{}, nil, ""
	clear(g.static)
	clear(g.pending)
	clear(g.unsynced)
	g.become(Dead, now)
}
