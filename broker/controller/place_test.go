package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"sawlog/offsets"
)

// spread counts what each broker gets of some partitions.
func spread(placed [][]offsets.BrokerID) map[offsets.BrokerID]Load {
	load := make(map[offsets.BrokerID]Load)
	for _, replicas := range placed {
		for i, id := range replicas {
			l := load[id]
			l.Replicas++
			if i == 0 {
				l.Preferred++
			}
			load[id] = l
		}
	}
	return load
}

// TestPlaceEvenly: within a topic nobody leads more than one partition more
// than another, and replicas are as even, for all small clusters.
func TestPlaceEvenly(t *testing.T) {
	for brokers := 1; brokers <= 7; brokers++ {
		for factor := 1; factor <= brokers; factor++ {
			for _, count := range []int{1, 2, 3, 5, 12, 50} {
				w := newWorld()
				w.join(t, brokers)
				placed, err := w.image.place(nil, count, factor)
				if err != nil {
					t.Fatal(err)
				}
				if err := w.image.checkAssignment(placed, factor); err != nil {
					t.Fatal(err)
				}
				load := spread(placed)
				for a := range offsets.BrokerID(brokers) {
					for b := range offsets.BrokerID(brokers) {
						la, lb := load[a+1], load[b+1]
						if la.Preferred > lb.Preferred+1 || la.Replicas > lb.Replicas+factor {
							t.Fatalf("%d brokers, %d partitions of %d: %v", brokers, count, factor, load)
						}
					}
				}
			}
		}
	}
}

// TestPlaceManyTopics: topics of one partition spread over the cluster too.
func TestPlaceManyTopics(t *testing.T) {
	w := newWorld()
	w.join(t, 4)
	for i := range 101 {
		if err := w.create(NewTopic{Name: fmt.Sprint("t", i), Partitions: 1, ReplicationFactor: 3}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range offsets.BrokerID(4) {
		if l := w.image.Load(id + 1); l.Leading < 25 || l.Leading > 26 || l.Replicas < 75 || l.Replicas > 77 {
			t.Errorf("broker %d has %+v", id+1, l)
		}
	}
}

// TestPlaceHeirs: what a broker leads goes to all others evenly when it dies,
// whether topics have many partitions or one.
func TestPlaceHeirs(t *testing.T) {
	for _, partitions := range []int32{1, 4, 60} {
		w := newWorld()
		w.join(t, 3)
		for i := range 60 / partitions {
			if err := w.create(NewTopic{Name: fmt.Sprint("t", i), Partitions: partitions, ReplicationFactor: 3}); err != nil {
				t.Fatal(err)
			}
		}
		heirs := map[[2]offsets.BrokerID]int{}
		for _, topic := range w.image.Topics() {
			for _, p := range topic.Partitions {
				heirs[[2]offsets.BrokerID(p.Replicas[:2])]++
			}
		}
		for pair, n := range heirs {
			if n != 10 {
				t.Errorf("topics of %d: of the 20 partitions that %d leads %d has %d to inherit", partitions, pair[0], pair[1], n)
			}
		}
		if len(heirs) != 6 {
			t.Errorf("topics of %d: heirs %v", partitions, heirs)
		}
	}
}

// TestPlaceRacks: a partition's replicas stand in as many racks as there are.
func TestPlaceRacks(t *testing.T) {
	for _, c := range []struct {
		racks  []string
		factor int
		want   int // racks of each partition
	}{
		{[]string{"a", "a", "b", "b", "c", "c"}, 3, 3},
		{[]string{"a", "b", "a", "b", "a", "b"}, 2, 2},
		{[]string{"a", "a", "a", "b"}, 2, 2},
		{[]string{"a", "b", "b", "b", "b"}, 4, 2},
		{[]string{"a", "", "", "a"}, 3, 3}, // without a rack: one of its own
	} {
		w := newWorld()
		w.join(t, len(c.racks), c.racks...)
		placed, err := w.image.place(nil, 24, c.factor)
		if err != nil {
			t.Fatal(err)
		}
		for _, replicas := range placed {
			racks := make(map[string]bool)
			for _, id := range replicas {
				rack := c.racks[id-1]
				if rack == "" {
					rack = fmt.Sprint("own ", id)
				}
				racks[rack] = true
			}
			if len(racks) != c.want {
				t.Errorf("racks %q: replicas %v stand in %d racks, want %d", c.racks, replicas, len(racks), c.want)
			}
		}
	}
}

// TestPlaceOutOfService: brokers out of service are taken last and never lead.
func TestPlaceOutOfService(t *testing.T) {
	w := newWorld()
	w.join(t, 3)
	b, _ := w.image.Broker(1)
	if err := w.change(BrokerChange{ID: 1, Epoch: b.Epoch, Fenced: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.create(NewTopic{Name: "two", Partitions: 6, ReplicationFactor: 2}); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.topic(t, "two").Partitions {
		if slices.Contains(p.Replicas, 1) {
			t.Errorf("partition %d is on a fenced broker though two others are there", p.Index)
		}
	}
	if err := w.create(NewTopic{Name: "three", Partitions: 6, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.topic(t, "three").Partitions {
		if !slices.Contains(p.Replicas, 1) || p.Replicas[0] == 1 || len(p.ISR) != 2 || p.inSync(1) {
			t.Errorf("partition %s", partitionText(&p))
		}
	}
	for id := range offsets.BrokerID(2) {
		b, _ := w.image.Broker(id + 2)
		if err := w.change(BrokerChange{ID: b.ID, Epoch: b.Epoch, Fenced: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.create(NewTopic{Name: "none", Partitions: 1, ReplicationFactor: 1}); !errors.Is(err, ErrInvalidFactor) {
		t.Errorf("with nobody in service: %v", err)
	}
}

// TestPlaceOnFullDisks: brokers with a full disk get new partitions only where
// the others don't suffice; where all are full they lead them, since what keeps
// a cluster going (the offsets of groups) is written to the room set aside.
func TestPlaceOnFullDisks(t *testing.T) {
	for full := range 4 {
		w := newWorld()
		w.join(t, 3)
		for id := range offsets.BrokerID(full) {
			b, _ := w.image.Broker(id + 1)
			if err := w.change(BrokerChange{ID: b.ID, Epoch: b.Epoch, Full: true}); err != nil {
				t.Fatal(err)
			}
		}
		for factor := 1; factor <= 3; factor++ {
			placed, err := w.image.place(nil, 6, factor)
			if err == nil {
				err = w.image.checkAssignment(placed, factor)
			}
			if err != nil {
				t.Fatalf("%d of 3 full, %d replicas: %v", full, factor, err)
			}
			for _, replicas := range placed {
				p := w.image.newPartition(0, replicas)
				if p.Leader == offsets.NoBroker || full < 3 && p.Leader <= offsets.BrokerID(full) {
					t.Errorf("%d of 3 full: %v is led by %d", full, replicas, p.Leader)
				}
				for _, id := range p.ISR {
					if full < 3 && id <= offsets.BrokerID(full) {
						t.Errorf("%d of 3 full: broker %d is in sync: %v", full, id, p.ISR)
					}
				}
				if full == 3 && len(p.ISR) != factor {
					t.Errorf("all full: in sync %v of %v", p.ISR, replicas)
				}
			}
		}
	}
}
