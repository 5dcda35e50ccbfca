package controller

import (
	"fmt"
	"slices"

	"sawlog/offsets"
)

// changeISR decides on an ISR a leader proposes (rule I3): it is taken only
// from the present leader, who knows the partition's present state, and only
// with members that are in service and were there, in their present
// incarnation, when the leader counted them.
func (im *Image) changeISR(s settings, c ISRChange) (decision, error) {
	t, ok := im.byID.get(c.Topic)
	if !ok {
		return decision{}, fmt.Errorf("%w: id %v", ErrUnknownTopic, c.Topic)
	}
	p, ok := im.Partition(c.Topic, c.Partition)
	if !ok {
		return decision{}, fmt.Errorf("%w: %s/%d", ErrUnknownPartition, t.Name, c.Partition)
	}
	if err := im.checkISR(p, c); err != nil {
		return decision{}, fmt.Errorf("%s/%d: %w", t.Name, c.Partition, err)
	}
	next := *p
	next.ISR = make([]offsets.BrokerID, len(c.ISR))
	for i, m := range c.ISR {
		next.ISR[i] = m.ID
	}
	next.Recovering = c.Recovering
	next.ELR = eligible(next.ISR, union(p.ELR, p.ISR), s.minISR(im, t, p))
	if next.Reassigning() {
		next = next.advance(s.minISR(im, t, next.arrived()), im.usable)
	}
	if !im.usable(next.Leader) { // somebody else may be able to lead now
		next = next.settle(s.minISR(im, t, &next), im.usable, im.inService, s.unclean(im, t))
	}
	rec := p.to(t.ID, next, next.newEpoch(p))
	if rec == nil {
		// A leader asks for what it has when the answer to an earlier ask was
		// lost: a new partition epoch makes that one void, should it still come.
		rec = &partitionChangeRecord{Topic: t.ID, Index: p.Index, PartitionEpoch: p.PartitionEpoch + 1}
	}
	return decision{records: []record{rec}, atomic: true}, nil
}

func (im *Image) checkISR(p *Partition, c ISRChange) error {
	leader, ok := im.Broker(c.Broker)
	switch {
	case c.LeaderEpoch > p.Epoch || c.PartitionEpoch > p.PartitionEpoch:
		return fmt.Errorf("%w: leader epoch %d over %d, partition epoch %d over %d",
			ErrAheadOfController, c.LeaderEpoch, p.Epoch, c.PartitionEpoch, p.PartitionEpoch)
	case c.LeaderEpoch < p.Epoch:
		return fmt.Errorf("%w: %d, now %d", ErrFencedEpoch, c.LeaderEpoch, p.Epoch)
	case c.PartitionEpoch < p.PartitionEpoch:
		return fmt.Errorf("%w: %d, now %d", ErrStalePartition, c.PartitionEpoch, p.PartitionEpoch)
	case !ok || leader.Epoch != c.BrokerEpoch:
		return fmt.Errorf("%w: broker %d, epoch %d", ErrStaleBrokerEpoch, c.Broker, c.BrokerEpoch)
	case c.Broker != p.Leader:
		return fmt.Errorf("%w: broker %d does not lead, %d does", ErrInvalidISR, c.Broker, p.Leader)
	case !slices.ContainsFunc(c.ISR, func(m Member) bool { return m.ID == p.Leader }):
		return fmt.Errorf("%w: without the leader", ErrInvalidISR)
	case c.Recovering && !p.Recovering:
		return fmt.Errorf("%w: a leader that was elected cleanly can't be recovering", ErrInvalidISR)
	case c.Recovering && len(c.ISR) > 1:
		return fmt.Errorf("%w: a recovering leader can't take members", ErrInvalidISR)
	}
	for i, m := range c.ISR {
		b, ok := im.Broker(m.ID)
		switch {
		case !slices.Contains(p.Replicas, m.ID):
			return fmt.Errorf("%w: broker %d is not a replica", ErrInvalidISR, m.ID)
		case slices.ContainsFunc(c.ISR[:i], func(o Member) bool { return o.ID == m.ID }):
			return fmt.Errorf("%w: broker %d is in it twice", ErrInvalidISR, m.ID)
		case !ok || !b.inService() || b.Full && m.ID != p.Leader || b.Epoch != m.Epoch:
			return fmt.Errorf("%w: broker %d with epoch %d is not in service", ErrIneligible, m.ID, m.Epoch)
		}
	}
	return nil
}
