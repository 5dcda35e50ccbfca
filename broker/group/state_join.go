package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// JoinAsk is a JoinGroup.
type JoinAsk struct {
	Ticket               Ticket
	Member, Instance     string
	NewID                string // the id to give when Member is empty
	ClientID, ClientHost string
	Session, Rebalance   int64
	ProtocolType         string
	Protocols            []Protocol
	NeedID               bool // v4+: a new dynamic member is first told its id (KIP-394)
	Skip                 bool // v9+: understands SkipAssignment
}

// maxProtocols is how many protocols a member may name: the vote on them takes
// the square of it.
const maxProtocols = 256

// Join answers or parks a JoinGroup.
func (g *Group) Join(now int64, a JoinAsk) {
	refuse := func(code int16) {
		g.emit(JoinReply{Ticket: a.Ticket, Code: code, Member: a.Member})
	}
	switch {
	case g.state == Dead:
		refuse(kerr.CoordinatorNotAvailable.Code)
	case a.Session < g.rules.MinSession || a.Session > g.rules.MaxSession:
		refuse(kerr.InvalidSessionTimeout.Code)
	case !g.accepts(a.Member):
		if g.pending[a.Member] {
			g.stop(SessionTimer, a.Member)
			delete(g.pending, a.Member)
		}
		g.emit(JoinReply{Ticket: a.Ticket, Code: kerr.GroupMaxSizeReached.Code})
	case len(a.Protocols) > maxProtocols, !g.supports(a.ProtocolType, a.Protocols):
		refuse(kerr.InconsistentGroupProtocol.Code)
	case a.Member == "":
		g.joinNew(now, a)
	default:
		g.joinKnown(now, a, refuse)
	}
	g.tryComplete(now)
}

// accepts keeps the group at its maximum size: during a rebalance the members
// that came first stay, otherwise the ones that are members.
func (g *Group) accepts(member string) bool {
	m := g.members[member]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != 0 || g.awaitingJoin() < g.rules.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.order) < g.rules.MaxSize
	default:
		return true
	}
}

func (g *Group) joinNew(now int64, a JoinAsk) {
	switch {
	case a.Instance != "":
		if old, ok := g.static[a.Instance]; ok {
			g.replaceStatic(now, g.members[old], a)
			return
		}
		g.admit(now, a.NewID, a)
	case a.NeedID:
		g.pending[a.NewID] = true
		g.start(SessionTimer, a.NewID, a.Session)
		g.emit(JoinReply{Ticket: a.Ticket, Code: kerr.MemberIDRequired.Code, Member: a.NewID})
	default:
		g.admit(now, a.NewID, a)
	}
}

func (g *Group) joinKnown(now int64, a JoinAsk, refuse func(int16)) {
	if g.pending[a.Member] {
		if a.Instance != "" { // ids are given out to dynamic members only
			refuse(kerr.UnknownMemberID.Code)
			return
		}
		g.admit(now, a.Member, a)
		return
	}
	if code := g.validate(a.Member, a.Instance); code != 0 {
		refuse(code)
		return
	}
	m := g.members[a.Member]
	same := sameProtocols(m.Protocols, a.Protocols)
	switch {
	case g.state == CompletingRebalance && same, g.state == Stable && same && g.leader != m.ID:
		// It missed the answer, or wants to know where the group stands.
		r := g.joined(m, false)
		r.Ticket = a.Ticket
		g.emit(r)
	default:
		// New metadata, or a leader that wants a new assignment.
		g.update(m, a)
		g.rebalance(now)
	}
}

// admit makes a member of whoever asks.
func (g *Group) admit(now int64, id string, a JoinAsk) {
	m := &Member{
		ID: id, Instance: a.Instance, ClientID: a.ClientID, ClientHost: a.ClientHost,
		Session: a.Session, Rebalance: a.Rebalance, ProtocolType: a.ProtocolType, Protocols: a.Protocols,
		join: a.Ticket, fresh: true,
	}
	if g.state == PreparingRebalance && g.initial {
		g.grown = true
	}
	g.add(m)
	// It cannot send heartbeats while it waits here, and its going away is not
	// seen either, so it gets a fixed time instead of its session timeout.
	g.start(SessionTimer, id, g.rules.NewMemberTimeout)
	g.rebalance(now)
}

func (g *Group) update(m *Member, a JoinAsk) {
	m.Protocols, m.ProtocolType = a.Protocols, a.ProtocolType
	m.Rebalance, m.Session = a.Rebalance, a.Session
	m.ClientID, m.ClientHost = a.ClientID, a.ClientHost
	g.parkJoin(m, a.Ticket)
}

// replaceStatic gives the new incarnation of a static member a new id and
// fences the old one (KIP-345). While Stable and with the same protocol chosen
// there is no rebalance: the new id is persisted and the answer given then.
func (g *Group) replaceStatic(now int64, m *Member, a JoinAsk) {
	r := replacement{
		oldID: m.ID, newID: a.NewID, oldLeader: g.leader, ticket: a.Ticket,
		before: *m, skip: a.Skip, generation: g.generation,
	}
	r.before.join, r.before.sync = 0, 0
	g.rename(m, a.NewID)
	g.update(m, a)
	g.start(SessionTimer, m.ID, m.Session)
	switch {
	case g.state == Stable && g.selectProtocol() == g.protocol:
		g.replacing[g.write(g.assignment())] = r
	case g.state == Stable, g.state == CompletingRebalance:
		// The leader may have been told the old id already.
		g.prepare(now)
	}
}

func (g *Group) rename(m *Member, id string) {
	g.answerJoin(m, JoinReply{Code: kerr.FencedInstanceID.Code, Member: m.ID})
	g.answerSync(m, SyncReply{Code: kerr.FencedInstanceID.Code})
	g.stop(SessionTimer, m.ID)
	delete(g.members, m.ID)
	if g.unsynced[m.ID] {
		delete(g.unsynced, m.ID)
		g.unsynced[id] = true
	}
	if g.leader == m.ID {
		g.leader = id
	}
	m.ID = id
	g.members[id] = m
	g.static[m.Instance] = id
}

// replaced is the outcome of persisting a static member's new id.
func (g *Group) replaced(r replacement, code int16) {
	m := g.members[r.newID]
	if m == nil || m.join != r.ticket || g.state != Stable || g.generation != r.generation {
		return // it left, came again, or a rebalance will answer it
	}
	if code != 0 {
		ticket := m.join
		m.join = 0
		g.rename(m, r.oldID)
		m.Protocols, m.ProtocolType = r.before.Protocols, r.before.ProtocolType
		m.Rebalance, m.Session = r.before.Rebalance, r.before.Session
		m.ClientID, m.ClientHost = r.before.ClientID, r.before.ClientHost
		g.start(SessionTimer, m.ID, m.Session)
		g.emit(JoinReply{
			Ticket: ticket, Code: code, Generation: g.generation, ProtocolType: g.protocolType,
			Protocol: g.protocol, Leader: r.oldLeader,
		})
		return
	}
	g.start(SessionTimer, m.ID, m.Session)
	reply := g.joined(m, r.skip && g.leader == m.ID)
	if !r.skip {
		// A client that knows no SkipAssignment must not find itself leader of
		// a generation that has its assignment already.
		reply.Members, reply.Leader = nil, r.oldLeader
	}
	g.answerJoin(m, reply)
}

// supports tells whether a member with these protocols fits in: the same type,
// and one protocol that all members have.
func (g *Group) supports(protocolType string, protocols []Protocol) bool {
	if len(g.order) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	return slices.ContainsFunc(protocols, func(p Protocol) bool { return g.supportedByAll(p.Name) })
}

func (g *Group) supportedByAll(name string) bool {
	for _, m := range g.order {
		if !m.supports(name) {
			return false
		}
	}
	return true
}

// selectProtocol lets every member vote for the first of its protocols that all
// support; among equals the one the longest-standing member prefers wins.
func (g *Group) selectProtocol() string {
	var candidates []string
	for _, p := range g.order[0].Protocols {
		if g.supportedByAll(p.Name) {
			candidates = append(candidates, p.Name)
		}
	}
	votes := map[string]int{}
	for _, m := range g.order {
		i := slices.IndexFunc(m.Protocols, func(p Protocol) bool { return slices.Contains(candidates, p.Name) })
		if i >= 0 {
			votes[m.Protocols[i].Name]++
		}
	}
	best := ""
	for _, name := range candidates {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

func (m *Member) supports(name string) bool {
	return slices.ContainsFunc(m.Protocols, func(p Protocol) bool { return p.Name == name })
}

func (m *Member) metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func sameProtocols(a, b []Protocol) bool {
	return slices.EqualFunc(a, b, func(p, q Protocol) bool {
		return p.Name == q.Name && bytes.Equal(p.Metadata, q.Metadata)
	})
}
