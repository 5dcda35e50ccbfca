package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Snapshot is what of a group is persisted.
type Snapshot struct {
	ProtocolType string
	Generation   int32
	Protocol     string
	Leader       string
	Since        int64 // when the state was entered, ms; -1 = not known
	Members      []SnapshotMember
}

// SnapshotMember is a member as persisted: of its protocols only the chosen one.
type SnapshotMember struct {
	ID, Instance, ClientID, ClientHost string
	Rebalance, Session                 int64
	Subscription, Assignment           []byte
}

func (g *Group) snapshot(assignment map[string][]byte) Snapshot {
	s := Snapshot{
		ProtocolType: g.protocolType, Generation: g.generation,
		Protocol: g.protocol, Leader: g.leader, Since: g.since,
	}
	for _, m := range g.order {
		s.Members = append(s.Members, SnapshotMember{
			m.ID, m.Instance, m.ClientID, m.ClientHost, m.Rebalance, m.Session,
			m.metadata(g.protocol), assignment[m.ID],
		})
	}
	return s
}

func (g *Group) assignment() map[string][]byte {
	a := make(map[string][]byte, len(g.order))
	for _, m := range g.order {
		a[m.ID] = m.Assignment
	}
	return a
}

// Restore makes the group a snapshot holds. With members it is Stable and
// their sessions start anew, so that a coordinator's move is no rebalance.
func Restore(name string, rules Rules, now int64, s Snapshot) *Group {
	g := NewGroup(name, rules, now)
	g.generation, g.protocolType = s.Generation, s.ProtocolType
	g.since = s.Since
	for _, p := range s.Members {
		m := &Member{
			ID: p.ID, Instance: p.Instance, ClientID: p.ClientID, ClientHost: p.ClientHost,
			Session: p.Session, Rebalance: p.Rebalance, ProtocolType: s.ProtocolType,
			Protocols:  []Protocol{{s.Protocol, p.Subscription}},
			Assignment: p.Assignment,
		}
		if _, taken := g.static[m.Instance]; taken || g.members[m.ID] != nil || s.Protocol == "" {
			continue // not of our writing, and no group could be like that
		}
		g.add(m)
		g.start(SessionTimer, m.ID, m.Session)
	}
	if len(g.order) == 0 {
		g.topics = map[string]bool{}
		return g
	}
	g.state, g.protocol = Stable, s.Protocol
	if g.members[s.Leader] != nil {
		g.leader = s.Leader
	}
	g.topics = g.subscribed()
	return g
}

// subscribed reads the topics the members of a consumer group ask for; nil when
// one of them cannot be read.
func (g *Group) subscribed() map[string]bool {
	if g.protocolType != consumerType {
		return nil
	}
	topics := map[string]bool{}
	for _, m := range g.order {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(m.metadata(g.protocol)); err != nil {
			return nil
		}
		for _, t := range meta.Topics {
			topics[t] = true
		}
	}
	return topics
}

// Subscribed tells whether a member may be reading the topic; yes when that is
// not known.
func (g *Group) Subscribed(topic string) bool {
	switch {
	case len(g.order) == 0:
		return false
	case g.topics == nil:
		return true
	default:
		return g.topics[topic]
	}
}

// ExpiresFrom gives the time from which an offset's retention counts, and
// whether it can run out at all (KIP-211): since the group became empty; since
// the commit for groups that never had members, and for topics nobody of a
// stable consumer group is subscribed to any more.
func (g *Group) ExpiresFrom(topic string, committed int64) (from int64, ok bool) {
	switch {
	case g.protocolType == "":
		return committed, true
	case g.state == Empty && g.since < 0:
		return committed, true
	case g.state == Empty:
		return max(g.since, committed), true
	case g.state == Stable && g.topics != nil && !g.topics[topic]:
		return committed, true
	default:
		return 0, false
	}
}

// Blank tells a group nothing has come of: no member, none on its way, no
// generation.
func (g *Group) Blank() bool {
	return g.state == Empty && g.generation == 0 && len(g.order) == 0 && len(g.pending) == 0
}
