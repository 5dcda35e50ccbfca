package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// LeaveAsk is one member of a LeaveGroup; only Instance set removes whoever
// holds it.
type LeaveAsk struct{ Member, Instance string }

// Leave removes members and gives one code for each.
func (g *Group) Leave(now int64, members []LeaveAsk) []int16 {
	codes := make([]int16, len(members))
	removed := false
	for i, a := range members {
		id := a.Member
		if id == "" && a.Instance != "" {
			id = g.static[a.Instance]
		}
		if g.pending[id] && a.Instance == "" {
			g.stop(SessionTimer, id)
			delete(g.pending, id)
			continue
		}
		if codes[i] = g.validate(id, a.Instance); codes[i] == 0 {
			g.remove(g.members[id])
			removed = true
		}
	}
	if removed {
		g.shrunk(now)
	} else {
		g.tryComplete(now)
	}
	return codes
}

// shrunk goes on after members were removed.
func (g *Group) shrunk(now int64) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepare(now)
	case PreparingRebalance:
		g.tryComplete(now)
	}
}

// Expired is the end of a timer that was started and not stopped.
func (g *Group) Expired(now int64, key TimerKey) {
	switch key.Kind {
	case SessionTimer:
		g.sessionOver(now, key.Member)
	case JoinTimer:
		if g.state == PreparingRebalance {
			if g.initial {
				g.delayOver(now)
			} else {
				g.complete(now)
			}
		}
	case SyncTimer:
		g.syncOver(now)
	}
}

func (g *Group) sessionOver(now int64, id string) {
	if g.pending[id] {
		delete(g.pending, id)
		g.tryComplete(now)
		return
	}
	m := g.members[id]
	if m == nil {
		return
	}
	if !m.fresh && (m.join != 0 || m.sync != 0) {
		return // it waits for us; its session starts again with the answer
	}
	g.remove(m)
	g.shrunk(now)
}

// syncOver drops the members that joined the generation and never asked for
// their assignment; without it one of them could hold the group up for ever.
func (g *Group) syncOver(now int64) {
	if len(g.unsynced) == 0 || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	for _, m := range slices.Clone(g.order) {
		if g.unsynced[m.ID] {
			g.remove(m)
		}
	}
	g.prepare(now)
}

// CheckCommit tells whether an OffsetCommit is accepted, and takes it for a
// sign of life. A negative generation without a member is an outsider, who may
// commit only while the group has no members.
func (g *Group) CheckCommit(member, instance string, generation int32) int16 {
	switch {
	case g.state == Dead:
		return kerr.CoordinatorNotAvailable.Code
	case generation < 0 && g.state == Empty:
		return 0
	case generation < 0 && member == "" && instance == "":
		return kerr.UnknownMemberID.Code
	}
	if code := g.validate(member, instance); code != 0 {
		return code
	}
	if generation != g.generation {
		return kerr.IllegalGeneration.Code
	}
	if g.state == CompletingRebalance {
		return kerr.RebalanceInProgress.Code
	}
	g.alive(member)
	return 0
}

// CheckDelete tells whether the group may be deleted.
func (g *Group) CheckDelete() int16 {
	switch g.state {
	case Empty:
		return 0
	case Dead:
		return kerr.GroupIDNotFound.Code
	default:
		return kerr.NonEmptyGroup.Code
	}
}

// CheckOffsetDelete tells whether single offsets may be deleted: of a group
// with members only where it is known what they are subscribed to.
func (g *Group) CheckOffsetDelete() int16 {
	switch {
	case g.state == Dead:
		return kerr.GroupIDNotFound.Code
	case g.state != Empty && g.protocolType != consumerType:
		return kerr.NonEmptyGroup.Code
	default:
		return 0
	}
}
