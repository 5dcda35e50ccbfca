package admin

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer"
	"sawlog/offsets"
)

func TestTopics(t *testing.T) {
	c := threeBrokers()
	all, err := Topics(t.Context(), c)
	if err != nil || len(all) != 3 || all[0].Name != "__internal" || all[1].Name != "keys" || all[2].Name != "views" || !all[0].Internal {
		t.Fatalf("%+v %v", all, err)
	}
	views := all[2]
	if p := views.Partitions[1]; p.Place() != (offsets.TopicPartition{Topic: "views", Partition: 1}) || p.TopicID != views.ID || p.Leader != 2 || p.End != Untold || p.Records() != Untold {
		t.Errorf("views/1: %+v", p)
	}
	if views.Records() != Untold || views.Bytes() != Untold || views.Replicas() != 2 {
		t.Errorf("untold numbers were told: %+v", views)
	}
	_, err = Topics(t.Context(), c, "views", "nope")
	var refused *Error
	if !errors.Is(err, consumer.ErrUnknownTopic) || !errors.As(err, &refused) || refused.What != "topic nope" || refused.Error() != "topic nope: no such topic or partition (UNKNOWN_TOPIC_OR_PARTITION)" {
		t.Errorf("a topic that is not there: %v", err)
	}
	gone := map[offsets.TopicPartition]bool{{Topic: "views", Partition: 2}: true, {Topic: "views", Partition: 9}: true, {Topic: "nope"}: true}
	if ps, err := PartitionsAt(t.Context(), c, gone); err != nil || len(ps) != 1 || ps[0].Index != 2 {
		t.Errorf("of three partitions one is there: %v %v", ps, err)
	}
}

// TestRefusedIsNotGone: of all codes with which a broker refuses a topic, only
// those that say it is not there leave its partitions out.
func TestRefusedIsNotGone(t *testing.T) {
	wanted := map[offsets.TopicPartition]bool{{Topic: "keys"}: true, {Topic: "views", Partition: 1}: true, {Topic: "views"}: true}
	for code := int16(-1); code < 130; code++ {
		known := kerr.TypedErrorForCode(code)
		if known == nil {
			continue
		}
		c := threeBrokers()
		c.refused = map[string]*kerr.Error{"views": known}
		ps, err := PartitionsAt(t.Context(), c, wanted)
		if known == kerr.UnknownTopicOrPartition || known == kerr.UnknownTopicID {
			if err != nil || len(ps) != 1 || ps[0].Topic != "keys" {
				t.Errorf("%s: %v %v", known.Message, ps, err)
			}
			continue
		}
		if !errors.Is(err, known) || len(ps) != 3 {
			t.Errorf("%s: %d partitions, %v", known.Message, len(ps), err)
			continue
		}
		if err := AtLeaders(t.Context(), c, ps, Ends); err != nil || ps[0].End != 100 || ps[1].Index != 0 || ps[1].End != Untold || ps[2].Index != 1 || !ps[2].Offline() {
			t.Errorf("%s: %v, %+v", known.Message, err, ps)
		}
	}
	c := threeBrokers()
	c.down[1] = true
	if ps, err := PartitionsAt(t.Context(), c.Broker(1), wanted); !errors.Is(err, consumer.ErrUnavailable) || len(ps) != 3 || ps[0].End != Untold {
		t.Errorf("nobody answered: %v %v", ps, err)
	}
}

// TestWhatAMoveLacks: what a move adds need not be complete before it has ended,
// what it removes must be.
func TestWhatAMoveLacks(t *testing.T) {
	p := Partition{Replicas: []int32{4, 2, 1}, ISR: []int32{1, 2}, Adding: []int32{4}, Removing: []int32{1}, Leader: 2}
	if p.Lacking() || !p.Moving() || !slices.Equal(p.Target(), []int32{4, 2}) || !slices.Equal(p.Settled(), []int32{2, 1}) {
		t.Errorf("lacks %v, target %v, settled %v", p.Lacking(), p.Target(), p.Settled())
	}
	if p.UnderMinISR(3) || p.UnderMinISR(0) {
		t.Error("with all its copies in sync it takes no records")
	}
	if p.ISR = []int32{2}; !p.Lacking() || !p.UnderMinISR(2) || p.Trouble() != "under-replicated" {
		t.Error("a copy that is to go lacks no less before it may go")
	}
	if p.Leader = Untold; p.Trouble() != "offline" {
		t.Error("without a leader it is not offline")
	}
}

func TestBoundsStandForOffsets(t *testing.T) {
	p := Partition{Start: 10, End: 100, Found: 42}
	young := Partition{Start: 10, End: 100, Found: Untold}
	for _, c := range []struct {
		p    Partition
		b    offsets.Bound
		want int64
	}{
		{p, offsets.Bound{Kind: offsets.Earliest}, 10},
		{p, offsets.Bound{Kind: offsets.Latest}, 100},
		{p, offsets.Bound{Kind: offsets.FromEnd, N: 5}, 95},
		{p, offsets.Bound{Kind: offsets.FromEnd, N: 500}, 10},
		{p, offsets.Bound{Kind: offsets.AtTime}, 42},
		{young, offsets.Bound{Kind: offsets.AtTime}, 100},
		{p, offsets.Bound{Kind: offsets.AtOffset, N: 7}, 7},
	} {
		if got := c.p.At(c.b); got != c.want {
			t.Errorf("%+v: %d, want %d", c.b, got, c.want)
		}
	}
}
