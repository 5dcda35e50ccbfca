package group

import "fmt"

// Check tells which invariant of the group does not hold, nil if all do.
func (g *Group) Check() error {
	if len(g.members) != len(g.order) {
		return fmt.Errorf("group %s: %d members, %d in order", g.Name, len(g.members), len(g.order))
	}
	tickets := map[Ticket]bool{}
	for _, m := range g.order {
		switch {
		case g.members[m.ID] != m:
			return fmt.Errorf("group %s: member %s is not found by its id", g.Name, m.ID)
		case m.Instance != "" && g.static[m.Instance] != m.ID:
			return fmt.Errorf("group %s: instance %s belongs to %q, not %s", g.Name, m.Instance, g.static[m.Instance], m.ID)
		case m.sync != 0 && g.state != CompletingRebalance:
			return fmt.Errorf("group %s: member %s waits for an assignment while %s", g.Name, m.ID, g.state)
		case m.join != 0 && g.state != PreparingRebalance && !g.renaming(m.ID):
			return fmt.Errorf("group %s: member %s waits to join while %s", g.Name, m.ID, g.state)
		case g.pending[m.ID]:
			return fmt.Errorf("group %s: member %s is pending too", g.Name, m.ID)
		}
		for _, t := range []Ticket{m.join, m.sync} {
			if t != 0 && tickets[t] {
				return fmt.Errorf("group %s: ticket %d waits twice", g.Name, t)
			}
			tickets[t] = true
		}
	}
	switch {
	case (g.state == Empty || g.state == Dead) && len(g.order) > 0:
		return fmt.Errorf("group %s: %s with %d members", g.Name, g.state, len(g.order))
	case (g.state == Stable || g.state == CompletingRebalance) && g.members[g.leader] == nil:
		return fmt.Errorf("group %s: %s without a leader", g.Name, g.state)
	case (g.state == Stable || g.state == CompletingRebalance) && g.protocol == "":
		return fmt.Errorf("group %s: %s without a protocol", g.Name, g.state)
	case len(g.static) > len(g.order):
		return fmt.Errorf("group %s: an instance id without a member", g.Name)
	}
	return nil
}

func (g *Group) renaming(id string) bool {
	for _, r := range g.replacing {
		if r.newID == id && g.state == Stable {
			return true
		}
	}
	return false
}
