package broker

import (
	"testing"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// TestChangesAreCounted counts what happens to partitions that node 1 leads, and
// nothing that happens to others'.
func TestChangesAreCounted(t *testing.T) {
	p := func(leader offsets.BrokerID, isr ...offsets.BrokerID) controller.Partition {
		return controller.Partition{Leader: leader, Replicas: []offsets.BrokerID{1, 2, 3}, ISR: isr}
	}
	recovering := p(1, 1)
	recovering.Recovering = true
	for name, c := range map[string]struct {
		was, is                              controller.Partition
		shrinks, expands, elections, unclean int64
	}{
		"nothing":           {p(1, 1, 2), p(1, 1, 2), 0, 0, 0, 0},
		"one leaves":        {p(1, 1, 2, 3), p(1, 1, 3), 1, 0, 0, 0},
		"one joins":         {p(1, 1), p(1, 3, 1), 0, 1, 0, 0},
		"one for another":   {p(1, 1, 2), p(1, 1, 3), 1, 1, 0, 0},
		"elected":           {p(2, 1, 2), p(1, 1), 1, 0, 1, 0},
		"elected uncleanly": {p(-1, 2), recovering, 1, 1, 1, 1},
		"another's":         {p(1, 1, 2), p(2, 2), 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got changes
			got.count(1, &controller.Topic{Partitions: []controller.Partition{c.was}}, &controller.Topic{Partitions: []controller.Partition{c.is}})
			if s, e, l, u := got.isrShrinks.Load(), got.isrExpands.Load(), got.elections.Load(), got.unclean.Load(); s != c.shrinks || e != c.expands || l != c.elections || u != c.unclean {
				t.Errorf("%d shrinks, %d expands, %d elections, %d unclean", s, e, l, u)
			}
		})
	}
	var fresh changes
	fresh.count(1, nil, &controller.Topic{Partitions: []controller.Partition{p(1, 1)}})
	if fresh.elections.Load() != 0 {
		t.Error("a new topic counts as an election")
	}
}

func TestLedPartitionsAreJudged(t *testing.T) {
	var s ClusterSnapshot
	s.lead(&controller.Partition{Replicas: []offsets.BrokerID{1, 2, 3}, ISR: []offsets.BrokerID{1, 2, 3}}, 2)
	s.lead(&controller.Partition{Replicas: []offsets.BrokerID{1, 2, 3}, ISR: []offsets.BrokerID{1, 2}}, 2)
	s.lead(&controller.Partition{Replicas: []offsets.BrokerID{1, 2, 3}, ISR: []offsets.BrokerID{1}}, 2)
	// One that is being copied to others lacks nothing before that is done.
	s.lead(&controller.Partition{Replicas: []offsets.BrokerID{1, 2, 3}, ISR: []offsets.BrokerID{1}, Adding: []offsets.BrokerID{2, 3}}, 2)
	if s.Leads != 4 || s.UnderReplicated != 2 || s.UnderMinISR != 1 || s.AtMinISR != 1 || s.Reassigning != 1 {
		t.Errorf("%+v", s)
	}
}
