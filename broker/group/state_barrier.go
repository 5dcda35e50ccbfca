package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// rebalanceTimeout is the longest any member asks to be given.
func (g *Group) rebalanceTimeout() int64 {
	var longest int64
	for _, m := range g.order {
		longest = max(longest, m.Rebalance)
	}
	return longest
}

func (g *Group) allJoined() bool { return len(g.pending) == 0 && g.awaitingJoin() == len(g.order) }

func (g *Group) awaitingJoin() int {
	n := 0
	for _, m := range g.order {
		if m.join != 0 {
			n++
		}
	}
	return n
}

// rebalance calls all members to join again, or, when they are being called
// already, looks whether they are complete.
func (g *Group) rebalance(now int64) {
	if g.state != PreparingRebalance {
		g.prepare(now)
		return
	}
	g.tryComplete(now)
}

func (g *Group) prepare(now int64) {
	if g.state == CompletingRebalance {
		g.dropAssignment(kerr.RebalanceInProgress.Code)
	}
	g.stop(SyncTimer, "")
	clear(g.unsynced)
	g.initial = g.state == Empty
	g.become(PreparingRebalance, now)
	timeout := g.rebalanceTimeout()
	switch {
	case g.initial:
		g.grown = false
		g.remaining = max(0, timeout-g.rules.InitialDelay)
		if g.rules.InitialDelay <= 0 {
			g.complete(now)
			return
		}
		g.start(JoinTimer, "", g.rules.InitialDelay)
	case g.allJoined():
		g.complete(now)
	default:
		g.start(JoinTimer, "", timeout)
	}
}

// tryComplete ends the barrier when nobody is missing; the initial rebalance
// ends by its delay only.
func (g *Group) tryComplete(now int64) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		g.complete(now)
	}
}

// delayOver is the initial delay's end: it is extended once for every delay in
// which members came, up to the rebalance timeout.
func (g *Group) delayOver(now int64) {
	if g.grown && g.remaining > 0 {
		g.grown = false
		delay := min(g.rules.InitialDelay, g.remaining)
		g.remaining -= delay
		g.start(JoinTimer, "", delay)
		return
	}
	g.complete(now)
}

// complete ends the barrier: dynamic members that did not join are dropped, a
// generation is formed of the rest.
func (g *Group) complete(now int64) {
	g.stop(JoinTimer, "")
	for _, m := range slices.Clone(g.order) {
		if m.join == 0 && m.Instance == "" {
			g.remove(m)
		}
	}
	if len(g.order) > 0 && !g.electJoined() {
		// Only static members that are away are left: their sessions decide.
		g.start(JoinTimer, "", g.rebalanceTimeout())
		g.initial = false
		return
	}
	g.initial = false
	g.generation++
	clear(g.unsynced)
	if len(g.order) == 0 {
		g.becomeEmpty(now)
		return
	}
	g.protocol = g.selectProtocol()
	g.topics = g.subscribed()
	g.become(CompletingRebalance, now)
	for _, m := range g.order {
		g.answerJoin(m, g.joined(m, false))
		m.fresh = false
		g.start(SessionTimer, m.ID, m.Session)
		g.unsynced[m.ID] = true
	}
	g.start(SyncTimer, "", g.rebalanceTimeout())
}

func (g *Group) becomeEmpty(now int64) {
	g.protocol, g.leader = "", ""
	g.topics = map[string]bool{}
	g.become(Empty, now)
	g.write(nil)
}

// electJoined makes sure the leader is a member that has joined.
func (g *Group) electJoined() bool {
	if m := g.members[g.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range g.order {
		if m.join != 0 {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// dropAssignment forgets an assignment that will not be used and sends those
// who wait for it away.
func (g *Group) dropAssignment(code int16) {
	g.assigning, g.assigned = 0, nil
	for _, m := range g.order {
		m.Assignment = nil
		if m.sync != 0 {
			// Its session may have run out while it waited, which was let pass.
			g.start(SessionTimer, m.ID, m.Session)
			g.answerSync(m, SyncReply{Code: code})
		}
	}
}
