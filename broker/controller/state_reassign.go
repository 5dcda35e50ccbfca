package controller

import (
	"fmt"
	"slices"

	"sawlog/offsets"
)

// A reassignment moves a partition to other replicas without a moment in which
// fewer of them hold its records than before (rule E8): first the new ones are
// added, and follow; once all of them are in sync the old ones go. What it is
// to become stands in the partition: Replicas is the target, then Removing.

// target is the replicas as they will be when the reassignment is done.
func (p *Partition) target() []offsets.BrokerID {
	return filter(p.Replicas, func(id offsets.BrokerID) bool { return !slices.Contains(p.Removing, id) })
}

// arrived is p as if its reassignment were done.
func (p Partition) arrived() *Partition {
	p.Replicas, p.Adding, p.Removing = p.target(), nil, nil
	return &p
}

// original is the replicas as they were before it.
func (p *Partition) original() []offsets.BrokerID {
	return filter(p.Replicas, func(id offsets.BrokerID) bool { return !slices.Contains(p.Adding, id) })
}

// Reassigning tells whether a reassignment is under way.
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// MinISR is how many replicas must be in sync when min.insync.replicas is
// configured: never more than there are, not counting those being added, so
// that adding one never makes a partition unavailable.
func (p *Partition) MinISR(configured int) int {
	return max(1, min(configured, len(p.Replicas)-len(p.Adding)))
}

// reassign decides on other replicas of a partition.
func (im *Image) reassign(s settings, r Reassignment) (decision, error) {
	t, ok := im.byName.get(r.Topic)
	if !ok {
		return decision{}, refuse(ErrUnknownTopic, "Unable to find a topic named %s.", r.Topic)
	}
	p, ok := im.Partition(t.ID, r.Partition)
	if !ok {
		return decision{}, refuse(ErrUnknownPartition, "Unable to find partition %s:%d.", r.Topic, r.Partition)
	}
	want := r.Replicas
	if err := im.allows(reassignLevel, "A reassignment"); err != nil && want != nil {
		return decision{}, err
	}
	if want == nil {
		if !p.Reassigning() {
			return decision{}, fmt.Errorf("%w: of %s-%d", ErrNoReassignment, r.Topic, r.Partition)
		}
		want = p.original()
	} else if err := im.CheckReplicas(want); err != nil {
		return decision{}, err
	}
	next, err := p.towards(want)
	if err != nil {
		return decision{}, fmt.Errorf("%s-%d: %w", r.Topic, r.Partition, err)
	}
	next = next.advance(s.minISR(im, t, next.arrived()), im.usable)
	next = next.settle(s.minISR(im, t, &next), im.usable, im.inService, s.unclean(im, t)) // who is in sync may have left all to the ELR
	if rec := p.to(t.ID, next, next.newEpoch(p)); rec != nil {
		return decision{records: []record{rec}, atomic: true}, nil
	}
	return decision{}, nil
}

// towards returns p on its way to the replicas wanted, from where it was before
// any reassignment. Those that were being added and aren't wanted any more
// leave at once, unless nobody else is complete.
func (p *Partition) towards(want []offsets.BrokerID) (Partition, error) {
	next, was := *p, p.original()
	not := func(in []offsets.BrokerID) func(offsets.BrokerID) bool {
		return func(id offsets.BrokerID) bool { return !slices.Contains(in, id) }
	}
	next.Adding, next.Removing = filter(want, not(was)), filter(was, not(want))
	next.Replicas = union(want, next.Removing)
	held := func(id offsets.BrokerID) bool { return slices.Contains(next.Replicas, id) }
	next.ISR, next.ELR = filter(p.ISR, held), filter(p.ELR, held)
	if len(p.ISR) > 0 && len(next.ISR) == 0 || len(p.ELR) > 0 && len(next.ISR)+len(next.ELR) == 0 {
		return next, fmt.Errorf("%w: none of the replicas that would stay holds all records", ErrInvalidAssignment)
	}
	if !held(next.Leader) {
		next.Leader = offsets.NoBroker
	}
	return next, nil
}

// advance returns p with its reassignment done, if it can be: all that are
// being added are in sync, and as many of the target as must be afterwards, minISR.
// Where the leader has left, another one leads.
func (p Partition) advance(minISR int, alive func(offsets.BrokerID) bool) Partition {
	if p.Reassigning() && !slices.ContainsFunc(p.Adding, func(id offsets.BrokerID) bool { return !p.inSync(id) }) {
		target := p.target()
		stays := func(id offsets.BrokerID) bool { return slices.Contains(target, id) }
		if isr := filter(p.ISR, stays); len(isr) > 0 && len(isr) >= minISR {
			p.Replicas, p.ISR, p.ELR = target, isr, filter(p.ELR, stays)
			p.Adding, p.Removing = nil, nil
		}
	}
	if p.Leader != offsets.NoBroker && p.inSync(p.Leader) {
		return p
	}
	p.Leader = first(p.Replicas, func(id offsets.BrokerID) bool { return p.inSync(id) && alive(id) })
	return p
}

// newEpoch tells whether the step from was to p begins a new leader epoch
// though the leader stays: a replica has left, and must not be heard any more.
func (p *Partition) newEpoch(was *Partition) bool {
	return slices.ContainsFunc(was.Replicas, func(id offsets.BrokerID) bool { return !slices.Contains(p.Replicas, id) })
}

// internalFactor is how many replicas the topics of the brokers' own get, as
// soon as there are as many brokers.
const internalFactor = 3

// raise is the records by which internal topics that were made when there were
// fewer brokers get the replicas they lack.
func (im *Image) raise() (records []record) {
	sites := im.sites(nil)
	usable := 0
	for _, s := range sites {
		if s.usable {
			usable++
		}
	}
	if !im.writes(reassignLevel) {
		return nil
	}
	factor := min(internalFactor, usable)
	for _, t := range im.byName.all() {
		if !t.Internal {
			continue
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if len(p.Removing) > 0 || p.Leader == offsets.NoBroker || len(p.Replicas) >= factor {
				continue
			}
			var chosen []*site
			for j := range sites {
				if slices.Contains(p.Replicas, sites[j].id) {
					chosen = append(chosen, &sites[j])
				}
			}
			want := slices.Clone(p.Replicas)
			for len(want) < factor {
				s := choose(sites, chosen)
				if !s.usable {
					break // those that are usable hold it already
				}
				s.count(len(want))
				chosen, want = append(chosen, s), append(want, s.id)
			}
			if next, err := p.towards(want); err == nil && len(next.Adding) > len(p.Adding) {
				records = append(records, p.to(t.ID, next, false))
			}
		}
	}
	return records
}
