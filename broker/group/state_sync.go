package group

import "github.com/twmb/franz-go/pkg/kerr"

// SyncAsk is a SyncGroup; nil pointers are fields its version does not have.
type SyncAsk struct {
	Ticket                 Ticket
	Member, Instance       string
	Generation             int32
	ProtocolType, Protocol *string
	Assignment             map[string][]byte // of the leader: by member id
}

// consumerType is the protocol type of consumer groups, the only one whose
// metadata and assignments the coordinator can read.
const consumerType = "consumer"

// emptyAssignment is a ConsumerMemberAssignment v0 of no partitions: clients
// refuse an answer of no bytes.
const emptyAssignment = "\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"

// Sync answers or parks a SyncGroup.
func (g *Group) Sync(now int64, a SyncAsk) {
	if code := g.checkSync(a); code != 0 {
		g.emit(SyncReply{Ticket: a.Ticket, Code: code})
		return
	}
	m := g.members[a.Member]
	g.fetched(m)
	if g.state == Stable {
		g.start(SessionTimer, m.ID, m.Session)
		g.parkSync(m, a.Ticket)
		g.answerSync(m, g.synced(m))
		return
	}
	g.parkSync(m, a.Ticket)
	if m.ID != g.leader || g.assigning != 0 {
		return
	}
	g.assigned = make(map[string][]byte, len(g.order))
	for _, o := range g.order {
		g.assigned[o.ID] = a.Assignment[o.ID]
	}
	g.assigning = g.write(g.assigned)
}

func (g *Group) checkSync(a SyncAsk) int16 {
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	if code := g.validate(a.Member, a.Instance); code != 0 {
		return code
	}
	switch {
	case a.Generation != g.generation:
		return kerr.IllegalGeneration.Code
	case a.ProtocolType != nil && *a.ProtocolType != g.protocolType,
		a.Protocol != nil && *a.Protocol != g.protocol:
		return kerr.InconsistentGroupProtocol.Code
	case g.state == PreparingRebalance:
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

func (g *Group) synced(m *Member) SyncReply {
	r := SyncReply{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.Assignment}
	if len(r.Assignment) == 0 && g.protocolType == consumerType {
		r.Assignment = []byte(emptyAssignment)
	}
	return r
}

// fetched notes that a member asked for its assignment.
func (g *Group) fetched(m *Member) {
	delete(g.unsynced, m.ID)
	if len(g.unsynced) == 0 {
		g.stop(SyncTimer, "")
	}
}

// Written is the outcome of a Write; code 0 means it is committed.
func (g *Group) Written(now int64, id uint64, code int16) {
	if r, ok := g.replacing[id]; ok {
		delete(g.replacing, id)
		g.replaced(r, code)
		return
	}
	if id != g.assigning || g.state != CompletingRebalance {
		return // a later rebalance has made it void
	}
	if code != 0 {
		g.dropAssignment(code)
		g.prepare(now)
		return
	}
	assigned := g.assigned
	g.assigning, g.assigned = 0, nil
	g.become(Stable, now)
	for _, m := range g.order {
		m.Assignment = assigned[m.ID]
		if m.sync != 0 {
			g.start(SessionTimer, m.ID, m.Session)
			g.answerSync(m, g.synced(m))
		}
	}
}

// Heartbeat is a sign of life; the answer tells of a rebalance.
func (g *Group) Heartbeat(member, instance string, generation int32) int16 {
	if g.state == Dead {
		return kerr.CoordinatorNotAvailable.Code
	}
	if code := g.validate(member, instance); code != 0 {
		return code
	}
	if generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	g.alive(member)
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

func (g *Group) alive(member string) {
	// A new member parked in a join keeps the time it was given.
	if m := g.members[member]; !m.fresh {
		g.start(SessionTimer, m.ID, m.Session)
	}
}
