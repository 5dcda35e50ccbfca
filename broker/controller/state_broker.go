package controller

import (
	"cmp"
	"fmt"
	"slices"

	"sawlog/offsets"
)

// register decides on a broker's start. The broker's former incarnation is
// over, so the records
//
//  1. take the broker out of every partition it leads or is in sync with,
//     without a place in the ELR when it may have lost records (not Intact, or
//     the proof is of another epoch than its last);
//  2. register it;
//  3. elect it where it is wanted, unless it is to stay fenced.
//
// Its epoch is the index of its entry, known only afterwards, so the entry
// ends with it. // Cut after any of them the state is sound: nobody leads who is not in
// service, and nobody counts as complete who may not be.
func (im *Image) register(s settings, r Registration) (decision, error) {
	old, known := im.Broker(r.ID)
	switch {
	case r.ID < 0 || r.Incarnation.IsZero():
		return decision{}, fmt.Errorf("%w: registration of broker %d, incarnation %x", ErrUnknownBroker, r.ID, r.Incarnation)
	case known && old.Incarnation == r.Incarnation && old.Fenced == r.Fenced && !old.ShuttingDown:
		return decision{}, nil // the answer to the same request was lost
	case known && !old.Fenced && old.Directory != r.Directory:
		return decision{}, fmt.Errorf("%w: %d, with another data directory", ErrDuplicateBroker, r.ID)
	}
	if err := r.Levels.check(im.FormatLevel); err != nil {
		return decision{}, err
	}
	intact := r.Intact && known && old.Directory == r.Directory && old.Epoch == r.PreviousEpoch
	var records []record
	without := func(of func(offsets.BrokerID) bool) func(offsets.BrokerID) bool {
		return func(id offsets.BrokerID) bool { return id != r.ID && of(id) }
	}
	for _, t := range im.byName.all() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if !known || !p.inSync(r.ID) && !slices.Contains(p.ELR, r.ID) {
				continue
			}
			next := *p
			if !intact {
				next = p.lose(r.ID, old.Directory != r.Directory)
			}
			next = next.settle(s.minISR(im, t, p), without(im.usable), without(im.inService), s.unclean(im, t))
			if rec := p.to(t.ID, next, false); rec != nil {
				records = append(records, rec)
			}
		}
	}
	b := Broker{
		ID: r.ID, Incarnation: r.Incarnation, Directory: r.Directory, Rack: r.Rack, Fenced: r.Fenced, Levels: r.Levels,
		Endpoints: slices.SortedFunc(slices.Values(r.Endpoints), func(a, b Endpoint) int { return cmp.Compare(a.Listener, b.Listener) }),
	}
	records = append(records, &brokerRecord{b})
	if r.Fenced {
		return decision{records: records, last: true}, nil
	}
	after, err := im.apply(im.Index+1, records)
	if err != nil {
		return decision{}, err
	}
	return decision{records: append(records, after.settleAll(s, holds(r.ID))...), last: true}, nil
}

// holds picks the partitions that have a replica on a broker.
func holds(id offsets.BrokerID) func(*Partition) bool {
	return func(p *Partition) bool { return slices.Contains(p.Replicas, id) }
}

// changeBroker decides on taking a broker in or out of service.
func (im *Image) changeBroker(s settings, c BrokerChange) (decision, error) {
	b, ok := im.Broker(c.ID)
	switch {
	case !ok:
		return decision{}, fmt.Errorf("%w: %d", ErrUnknownBroker, c.ID)
	case b.Epoch != c.Epoch:
		return decision{}, fmt.Errorf("%w: broker %d has %d, not %d", ErrStaleBrokerEpoch, c.ID, b.Epoch, c.Epoch)
	case b.Fenced == c.Fenced && b.ShuttingDown == c.ShuttingDown && b.Full == c.Full:
		return decision{}, nil
	}
	change := brokerChangeRecord(c)
	records := []record{&change}
	after, err := im.apply(im.Index+1, records)
	if err != nil {
		return decision{}, err
	}
	settled := after.settleAll(s, holds(c.ID))
	if records = append(records, settled...); c.Fenced || c.ShuttingDown || c.Full {
		return decision{records: records}, nil
	}
	if after, err = after.apply(after.Index+1, settled); err != nil {
		return decision{}, err
	}
	return decision{records: append(records, after.raise()...)}, nil
}

// unregister decides on forgetting a broker.
func (im *Image) unregister(id offsets.BrokerID) (decision, error) {
	b, ok := im.Broker(id)
	switch l := im.load[id]; {
	case !ok:
		return decision{}, refuse(ErrUnknownBroker, "Broker ID %d is not currently registered", id)
	case !b.Fenced:
		return decision{}, fmt.Errorf("%w: broker %d is in service", ErrDuplicateBroker, id)
	case l.Replicas > 0:
		return decision{}, fmt.Errorf("%w: broker %d holds %d replicas", ErrInvalidAssignment, id, l.Replicas)
	}
	return decision{records: []record{&brokerRemovalRecord{id, b.Epoch}}, atomic: true}, nil
}

// producerIDBlock is how many producer ids a broker takes at a time.
const producerIDBlock = 1000

// takeProducerIDs decides on the next block of producer ids.
func (im *Image) takeProducerIDs(broker offsets.BrokerID) (decision, error) {
	var epoch int64
	if b, ok := im.Broker(broker); ok {
		epoch = b.Epoch
	}
	return decision{records: []record{&producerIDsRecord{broker, epoch, im.nextProducerID + producerIDBlock}}, atomic: true}, nil
}

// takeNodeID decides on the next node id.
func (im *Image) takeNodeID() (decision, error) {
	return decision{records: []record{&nodeIDRecord{im.nextNodeID + 1}}, atomic: true}, nil
}

// found decides on the first records of a cluster, once.
func (im *Image) found(clusterID string, level int16) (decision, error) {
	var records []record
	if im.FormatLevel == 0 {
		records = append(records, &formatRecord{level})
	}
	if im.ClusterID == "" {
		records = append(records, &clusterRecord{clusterID})
	}
	return decision{records: records, atomic: true}, nil
}
