package controller

import (
	"cmp"
	"fmt"
	"slices"

	"sawlog/offsets"
)

// place chooses the replicas of count new partitions of a topic whose present
// ones are given. Of the brokers that may be chosen it takes, in this order of
// importance:
//
//	leader     who leads fewest of this topic, who leads and holds fewest of all
//	followers  a rack that has fewest replicas of the partition, who holds fewest
//	           of this topic, who is heir to fewest of the leader's, who holds
//	           fewest of all
//
// with the lower id where nothing else decides, so the result is the same on
// every node. The heir of a partition is its second replica, which leads when
// the first is gone: what one broker led goes to all others, not to one of them.
// Leaders of one topic are even to within one. A broker without a rack counts as
// a rack of its own. Brokers with a full disk are taken only when the others
// don't suffice, those out of service only after them, and never as leaders.
func (im *Image) place(present []Partition, count, factor int) ([][]offsets.BrokerID, error) {
	if factor < 1 || factor > len(im.Brokers) {
		return nil, refuse(ErrInvalidFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.", factor, factor, len(im.Brokers))
	}
	sites := im.sites(present)
	placed := make([][]offsets.BrokerID, count)
	for n := range placed {
		chosen := make([]*site, 0, factor)
		for at := range factor {
			s := choose(sites, chosen)
			if at == 0 && !s.inService {
				return nil, fmt.Errorf("%w: no broker is in service", ErrInvalidFactor)
			}
			if s.count(at); at == 1 {
				s.heirOf[chosen[0].id]++
			}
			chosen = append(chosen, s)
			placed[n] = append(placed[n], s.id)
		}
	}
	return placed, nil
}

// sites is the brokers with what they hold of the partitions of a topic.
func (im *Image) sites(present []Partition) []site {
	sites := make([]site, len(im.Brokers))
	for i := range im.Brokers {
		b := &im.Brokers[i]
		sites[i] = site{id: b.ID, rack: b.Rack, usable: b.usable(), inService: b.inService(), all: im.load[b.ID], heirOf: map[offsets.BrokerID]int{}}
		for _, p := range present {
			if at := slices.Index(p.Replicas, b.ID); at >= 0 {
				sites[i].count(at)
			}
		}
	}
	for _, t := range im.byID.all() {
		for _, p := range t.Partitions {
			if len(p.Replicas) < 2 {
				continue
			}
			if i, ok := im.brokerAt(p.Replicas[1]); ok {
				sites[i].heirOf[p.Replicas[0]]++
			}
		}
	}
	return sites
}

// site is a broker as placement sees it.
type site struct {
	id        offsets.BrokerID
	rack      string
	usable    bool // in service, and with room
	inService bool
	topic     Load // of the topic being placed
	all       Load // of all topics
	heirOf    map[offsets.BrokerID]int
}

func (s *site) count(at int) {
	s.topic.Replicas++
	s.all.Replicas++
	if at == 0 {
		s.topic.Preferred++
		s.all.Preferred++
	}
}

// choose picks the next replica of a partition that has the chosen ones.
func choose(sites []site, chosen []*site) *site {
	var best *site
	for i := range sites {
		s := &sites[i]
		if !slices.Contains(chosen, s) && (best == nil || s.compare(best, chosen) < 0) {
			best = s
		}
	}
	return best
}

func (s *site) compare(o *site, chosen []*site) int {
	if s.standing() != o.standing() {
		return cmp.Compare(o.standing(), s.standing())
	}
	if len(chosen) == 0 {
		return cmp.Or(
			cmp.Compare(s.topic.Preferred, o.topic.Preferred),
			cmp.Compare(s.all.Preferred, o.all.Preferred),
			cmp.Compare(s.all.Replicas, o.all.Replicas),
			cmp.Compare(s.id, o.id))
	}
	return cmp.Or(
		cmp.Compare(s.neighbours(chosen), o.neighbours(chosen)),
		cmp.Compare(s.topic.Replicas, o.topic.Replicas),
		cmp.Compare(s.heirOf[chosen[0].id], o.heirOf[chosen[0].id]),
		cmp.Compare(s.all.Replicas, o.all.Replicas),
		cmp.Compare(s.id, o.id))
}

// standing is the higher the sooner a broker is taken.
func (s *site) standing() int {
	switch {
	case s.usable:
		return 2
	case s.inService:
		return 1
	default:
		return 0
	}
}

// neighbours counts the chosen replicas in the same rack.
func (s *site) neighbours(chosen []*site) (n int) {
	for _, c := range chosen {
		if s.rack != "" && s.rack == c.rack {
			n++
		}
	}
	return n
}

// checkAssignment holds replicas somebody chose by hand to the rules: all of
// one length, registered brokers, none twice in a partition, one of them in
// service.
func (im *Image) checkAssignment(assignment [][]offsets.BrokerID, factor int) error {
	for i, replicas := range assignment {
		if err := im.CheckReplicas(replicas); err != nil {
			return err
		}
		if len(replicas) != factor {
			return refuse(ErrInvalidAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor)
		}
		if !slices.ContainsFunc(replicas, im.inService) {
			return fmt.Errorf("%w: partition %d of the request has no broker in service", ErrInvalidAssignment, i)
		}
	}
	return nil
}

// CheckReplicas tells whether a partition could have these replicas: one at
// least, registered brokers, none twice.
func (im *Image) CheckReplicas(replicas []offsets.BrokerID) error {
	if len(replicas) == 0 {
		return refuse(ErrInvalidAssignment, "The manual partition assignment includes an empty replica list.")
	}
	for i, id := range replicas {
		if slices.Contains(replicas[:i], id) {
			return refuse(ErrInvalidAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
		if _, ok := im.Broker(id); !ok {
			return refuse(ErrInvalidAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
	}
	return nil
}

// newPartition is a partition as it begins: the replicas in service are in
// sync, as there is nothing to lag behind; those with a full disk only where no
// other is.
func (im *Image) newPartition(index int32, replicas []offsets.BrokerID) Partition {
	p := Partition{Index: index, Leader: offsets.NoBroker, Replicas: replicas}
	for _, may := range []func(offsets.BrokerID) bool{im.usable, im.inService} {
		if len(p.ISR) == 0 {
			p.ISR = filter(replicas, may)
		}
	}
	if len(p.ISR) > 0 {
		p.Leader = p.ISR[0]
	}
	return p
}
