package controller

import (
	"slices"
	"strings"

	"sawlog/offsets"
)

// balanceKey turns the moving of leaders to where they belong off.
const balanceKey = "auto.leader.rebalance.enable"

// balanceAsk has leaders move back to their preferred replicas.
type balanceAsk struct{ Most int }

func (balanceAsk) repeatable() bool { return true }

func (a balanceAsk) decide(im *Image, s settings) (decision, answer, error) {
	return decision{records: im.balance(s, a.Most)}, answer{}, nil
}

// balance is the records by which partitions are led by their first replicas
// again, of at most so many (rule E6). A broker gets nothing to lead while any
// of its replicas is out of sync: it has enough to do. Nothing is moved away
// from a leader that isn't done recovering, or during a reassignment.
func (im *Image) balance(s settings, most int) (records []record) {
	if strings.EqualFold(s.lookup(im, nil, balanceKey), "false") {
		return nil
	}
	behind := make(map[offsets.BrokerID]bool)
	for _, t := range im.byName.all() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			for _, id := range p.Replicas {
				if !p.inSync(id) && !slices.Contains(p.Adding, id) {
					behind[id] = true
				}
			}
		}
	}
	for _, t := range im.byName.all() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			to := p.Replicas[0]
			if p.Leader == to || p.Reassigning() || p.Recovering || !p.inSync(to) || !im.usable(to) || behind[to] {
				continue
			}
			if len(records) == most {
				return records
			}
			next := *p
			next.Leader = to
			records = append(records, p.to(t.ID, next, false))
		}
	}
	return records
}
