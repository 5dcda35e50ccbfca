package controller

import (
	"fmt"
	"slices"

	"sawlog/offsets"
)

// settle returns p as it must be when exactly the brokers that alive approves
// may lead. Those that atNeed approves of beside them, because their disks are
// full, lead and are in sync only where else nobody would lead: so records can
// be read still.
func (p Partition) settle(minISR int, alive, atNeed func(offsets.BrokerID) bool, unclean bool) Partition {
	if next := p.settleAmong(minISR, alive, false); next.Leader != offsets.NoBroker {
		return next
	}
	return p.settleAmong(minISR, atNeed, unclean)
}

// settleAmong returns p as it must be when exactly the brokers that alive
// approves are in service (rules E1 and E2):
//
//   - brokers out of service leave the ISR;
//   - who left it while the rest is smaller than minISR is complete all the
//     same, because the high watermark stands still then, and goes to the ELR;
//   - the leader stays if it is in the ISR, else the first replica that is
//     leads; where the ISR is empty, the first live member of the ELR alone;
//   - where that is empty too, unclean lets any live replica lead: records may
//     be lost, and the partition says so by Recovering;
//   - else there is no leader.
//
// settle of what it returned changes nothing.
func (p Partition) settleAmong(minISR int, alive func(offsets.BrokerID) bool, unclean bool) Partition {
	next := p
	next.ISR, next.ELR = p.shrink(minISR, alive)
	switch {
	case next.Leader != offsets.NoBroker && next.inSync(next.Leader):
		return next
	case len(next.ISR) > 0:
		next.Leader = first(next.Replicas, next.inSync)
		return next
	}
	next.Leader = first(next.Replicas, func(id offsets.BrokerID) bool { return slices.Contains(next.ELR, id) && alive(id) })
	if next.Leader == offsets.NoBroker && unclean {
		next.Leader = first(next.Replicas, alive)
		if next.Leader != offsets.NoBroker {
			next.Recovering, next.ELR = true, nil
		}
	}
	if next.Leader != offsets.NoBroker {
		next.ISR = []offsets.BrokerID{next.Leader}
		next.ELR = eligible(next.ISR, next.ELR, minISR)
	}
	return next
}

// shrink returns the ISR without those not alive and the ELR that goes with it.
func (p *Partition) shrink(minISR int, alive func(offsets.BrokerID) bool) (isr, elr []offsets.BrokerID) {
	isr = p.ISR
	if slices.ContainsFunc(isr, func(id offsets.BrokerID) bool { return !alive(id) }) {
		isr = filter(isr, alive)
	}
	return isr, eligible(isr, union(p.ELR, p.ISR), minISR)
}

// eligible is the ELR beside an ISR: those complete but not in sync, as long
// as the ISR is smaller than minISR.
func eligible(isr, complete []offsets.BrokerID, minISR int) []offsets.BrokerID {
	if len(isr) >= minISR {
		return nil
	}
	return filter(complete, func(id offsets.BrokerID) bool { return !slices.Contains(isr, id) })
}

// lose returns p without a broker that may have lost records it had: it leaves
// the ISR and doesn't go to the ELR. When nobody else is complete it keeps its
// place, as the best copy there is, but for an empty disk, which is none.
func (p Partition) lose(id offsets.BrokerID, empty bool) Partition {
	complete := union(p.ISR, p.ELR)
	if !empty && len(complete) == 1 && complete[0] == id {
		return p
	}
	others := func(other offsets.BrokerID) bool { return other != id }
	p.ISR, p.ELR = filter(p.ISR, others), filter(p.ELR, others)
	if p.Leader == id {
		p.Leader = offsets.NoBroker
	}
	return p
}

// to is the record that leads from p to next, or nil when they are equal.
// again begins a new leader epoch though the leader stays.
func (p *Partition) to(topic offsets.TopicID, next Partition, again bool) record {
	c := &partitionChangeRecord{Topic: topic, Index: p.Index, PartitionEpoch: p.PartitionEpoch + 1}
	changed := false
	if next.Leader != p.Leader || again {
		c.Leader, changed = &next.Leader, true
	}
	for _, f := range []struct {
		was, is []offsets.BrokerID
		field   **[]offsets.BrokerID
	}{{p.Replicas, next.Replicas, &c.Replicas}, {p.ISR, next.ISR, &c.ISR}, {p.ELR, next.ELR, &c.ELR}, {p.Adding, next.Adding, &c.Adding}, {p.Removing, next.Removing, &c.Removing}} {
		if !slices.Equal(f.was, f.is) {
			*f.field, changed = &f.is, true
		}
	}
	if next.Recovering != p.Recovering {
		c.Recovering, changed = &next.Recovering, true
	}
	if !changed {
		return nil
	}
	return c
}

// settleAll is the records that settle every partition touched picks (nil =
// all of them). A pass over 10,000 partitions is under a millisecond, so there
// is no index from brokers to partitions.
func (im *Image) settleAll(s settings, touched func(*Partition) bool) (records []record) {
	for _, t := range im.byName.all() {
		unclean := s.unclean(im, t)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if touched != nil && !touched(p) {
				continue
			}
			if r := p.to(t.ID, p.settle(s.minISR(im, t, p), im.usable, im.inService, unclean), false); r != nil {
				records = append(records, r)
			}
		}
	}
	return records
}

// repair finishes what a former controller left half done.
func (im *Image) repair(s settings) (decision, error) {
	return decision{records: im.settleAll(s, nil)}, nil
}

// electLeader decides on one partition's leader at somebody's wish.
func (im *Image) electLeader(s settings, kind ElectionKind, tp offsets.TopicPartition) (decision, error) {
	t, ok := im.byName.get(tp.Topic)
	if !ok {
		return decision{}, refuse(ErrUnknownTopic, "No such topic as %s", tp.Topic)
	}
	p, ok := im.Partition(t.ID, tp.Partition)
	if !ok {
		return decision{}, refuse(ErrUnknownPartition, "No such partition as %s-%d", tp.Topic, tp.Partition)
	}
	next := *p
	switch {
	case kind == Preferred && p.Leader == p.Replicas[0], kind == Unclean && p.Leader != offsets.NoBroker:
		return decision{}, refuse(ErrElectionNotNeeded, "Leader election not needed for topic partition.")
	case kind == Preferred:
		if next.Leader = p.Replicas[0]; !p.inSync(next.Leader) || !im.usable(next.Leader) {
			return decision{}, fmt.Errorf("%w: broker %d is not in sync with %v or not in service", ErrNotEligibleLeader, next.Leader, tp)
		}
	default:
		if next = p.settle(s.minISR(im, t, p), im.usable, im.inService, true); next.Leader == offsets.NoBroker {
			return decision{}, fmt.Errorf("%w: no replica of %v is in service", ErrNotEligibleLeader, tp)
		}
	}
	return decision{records: []record{p.to(t.ID, next, false)}, atomic: true}, nil
}

// first is the first id that ok approves, or NoBroker.
func first(ids []offsets.BrokerID, ok func(offsets.BrokerID) bool) offsets.BrokerID {
	if i := slices.IndexFunc(ids, ok); i >= 0 {
		return ids[i]
	}
	return offsets.NoBroker
}

// filter copies the ids that keep approves; none is nil.
func filter(ids []offsets.BrokerID, keep func(offsets.BrokerID) bool) (kept []offsets.BrokerID) {
	for _, id := range ids {
		if keep(id) {
			kept = append(kept, id)
		}
	}
	return kept
}

// union is a, then those of b that are not in it.
func union(a, b []offsets.BrokerID) []offsets.BrokerID {
	all := slices.Clone(a)
	for _, id := range b {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
