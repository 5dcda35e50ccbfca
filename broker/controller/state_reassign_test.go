package controller

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"sawlog/offsets"
)

// reassigned is a world of five brokers and one partition of broker 1 and 2.
func reassigned(t *testing.T, minISR string) (*Model, offsets.TopicID) {
	t.Helper()
	m := NewModel(map[string]string{"min.insync.replicas": minISR})
	for id := range offsets.BrokerID(5) {
		if err := m.Register(Registration{ID: id + 1, Incarnation: UUID{byte(id + 1)}, Directory: UUID{9, byte(id + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	topic := offsets.TopicID{1}
	if err := m.CreateTopic(NewTopic{Name: "t", Partitions: -1, ReplicationFactor: -1, Assignment: [][]offsets.BrokerID{{1, 2}}}, topic); err != nil {
		t.Fatal(err)
	}
	return m, topic
}

// inSync has the leader ask for an ISR.
func inSync(t *testing.T, m *Model, topic offsets.TopicID, isr ...offsets.BrokerID) error {
	t.Helper()
	p, _ := m.Image().Partition(topic, 0)
	leader, ok := m.Image().Broker(p.Leader)
	if !ok {
		return ErrInvalidISR // nobody leads who could ask
	}
	c := ISRChange{Topic: topic, Broker: p.Leader, BrokerEpoch: leader.Epoch, LeaderEpoch: p.Epoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range isr {
		b, _ := m.Image().Broker(id)
		c.ISR = append(c.ISR, Member{id, b.Epoch})
	}
	return m.ChangeISR(c)
}

func partitionOf(t *testing.T, m *Model, topic offsets.TopicID) Partition {
	t.Helper()
	p, ok := m.Image().Partition(topic, 0)
	if !ok {
		t.Fatal("no partition")
	}
	return *p
}

func TestReassignmentGrowsBeforeItShrinks(t *testing.T) {
	m, topic := reassigned(t, "2")
	before := partitionOf(t, m, topic)
	if err := m.Reassign(Reassignment{"t", 0, []offsets.BrokerID{3, 4, 2}}); err != nil {
		t.Fatal(err)
	}
	p := partitionOf(t, m, topic)
	if !slices.Equal(p.Replicas, []offsets.BrokerID{3, 4, 2, 1}) || !slices.Equal(p.Adding, []offsets.BrokerID{3, 4}) ||
		!slices.Equal(p.Removing, []offsets.BrokerID{1}) || p.Leader != 1 || p.Epoch != before.Epoch || !slices.Equal(p.ISR, before.ISR) {
		t.Fatalf("begun: %+v", p)
	}
	if n := m.MinISR(topicNamed(t, m, "t"), &p); n != 2 {
		t.Errorf("min ISR %d", n)
	}
	if err := inSync(t, m, topic, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	if p := partitionOf(t, m, topic); !p.Reassigning() {
		t.Fatalf("done while 4 isn't in sync: %+v", p)
	}
	if err := inSync(t, m, topic, 1, 2, 3, 4); err != nil {
		t.Fatal(err)
	}
	p = partitionOf(t, m, topic)
	if p.Reassigning() || !slices.Equal(p.Replicas, []offsets.BrokerID{3, 4, 2}) || p.Leader != 3 || p.Epoch != before.Epoch+1 || slices.Contains(p.ISR, 1) {
		t.Errorf("done: %+v", p)
	}
}

// TestReassignmentEndsWritable: it isn't done while fewer of the target are in
// sync than acks=all will ask for then, which may be more than while it grows. A
// replica that never comes can be replaced by another.
func TestReassignmentEndsWritable(t *testing.T) {
	m, topic := reassigned(t, "3") // of two replicas both
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(inSync(t, m, topic, 1))
	must(m.Reassign(Reassignment{"t", 0, []offsets.BrokerID{1, 2, 3}}))
	must(inSync(t, m, topic, 1, 3))
	if p := partitionOf(t, m, topic); !p.Reassigning() {
		t.Fatalf("done with two in sync, and three to be: %+v", p)
	}
	must(m.Reassign(Reassignment{"t", 0, []offsets.BrokerID{1, 3, 4}}))
	must(inSync(t, m, topic, 1, 3))
	if p := partitionOf(t, m, topic); !p.Reassigning() {
		t.Fatalf("done without 4: %+v", p)
	}
	must(inSync(t, m, topic, 1, 3, 4))
	if p := partitionOf(t, m, topic); p.Reassigning() || len(p.ISR) != 3 {
		t.Fatalf("not done: %+v", p)
	}
}

func TestReassignmentTakenBack(t *testing.T) {
	m, topic := reassigned(t, "1")
	if err := m.Reassign(Reassignment{Topic: "t"}); !errors.Is(err, ErrNoReassignment) {
		t.Errorf("nothing to take back: %v", err)
	}
	if err := m.Reassign(Reassignment{"t", 0, []offsets.BrokerID{3, 4}}); err != nil {
		t.Fatal(err)
	}
	if err := inSync(t, m, topic, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	before := partitionOf(t, m, topic)
	if err := m.Reassign(Reassignment{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	p := partitionOf(t, m, topic)
	if p.Reassigning() || len(p.Replicas) != 2 || slices.Contains(p.ISR, 3) || p.Leader != 1 || p.Epoch != before.Epoch+1 {
		t.Errorf("taken back: %+v", p)
	}
}

func TestReassignmentNeverLeavesNobodyComplete(t *testing.T) {
	m, topic := reassigned(t, "1")
	if err := m.Reassign(Reassignment{"t", 0, []offsets.BrokerID{3, 4}}); err != nil {
		t.Fatal(err)
	}
	if err := inSync(t, m, topic, 1, 3); err != nil {
		t.Fatal(err)
	}
	b, _ := m.Image().Broker(1)
	if err := m.ChangeBroker(BrokerChange{ID: 1, Epoch: b.Epoch, Fenced: true}); err != nil {
		t.Fatal(err)
	}
	if p := partitionOf(t, m, topic); p.Leader != 3 || !slices.Equal(p.ISR, []offsets.BrokerID{3}) {
		t.Fatalf("%+v", p)
	}
	if err := m.Reassign(Reassignment{Topic: "t"}); !errors.Is(err, ErrInvalidAssignment) {
		t.Errorf("the one complete replica would go: %v", err)
	}
}

// TestReassignmentsAtRandom mixes reassignments with everything that happens to
// brokers, and holds every step to what may never be: a leader that isn't in
// service, an ISR that loses its last complete member, a reassignment that is
// done without all it added.
func TestReassignmentsAtRandom(t *testing.T) {
	done := 0
	for seed := range uint64(300) {
		m, topic := reassigned(t, "2")
		rnd := rand.New(rand.NewPCG(seed, 4))
		for range 150 {
			before := partitionOf(t, m, topic)
			switch id := offsets.BrokerID(1 + rnd.IntN(5)); rnd.IntN(5) {
			case 0:
				want := []offsets.BrokerID{1, 2, 3, 4, 5}
				rnd.Shuffle(5, func(i, j int) { want[i], want[j] = want[j], want[i] })
				_ = m.Reassign(Reassignment{"t", 0, want[:1+rnd.IntN(4)]}) // a refusal is an answer as well
			case 1:
				_ = m.Reassign(Reassignment{Topic: "t"}) // likewise
			case 2:
				b, _ := m.Image().Broker(id)
				if err := m.ChangeBroker(BrokerChange{ID: id, Epoch: b.Epoch, Fenced: rnd.IntN(3) == 0, Full: rnd.IntN(4) == 0}); err != nil {
					t.Fatal(err)
				}
			default:
				isr := slices.Clone(before.ISR)
				if slices.Contains(before.Replicas, id) && !slices.Contains(isr, id) {
					isr = append(isr, id)
				}
				_ = inSync(t, m, topic, isr...) // likewise
			}
			p := partitionOf(t, m, topic)
			if p.Leader != offsets.NoBroker && !m.Image().inService(p.Leader) {
				t.Fatalf("seed %d: leader %d is out of service: %+v", seed, p.Leader, p)
			}
			if len(before.ISR)+len(before.ELR) > 0 && len(p.ISR)+len(p.ELR) == 0 {
				t.Fatalf("seed %d: nobody is complete: %+v after %+v", seed, p, before)
			}
			if before.Reassigning() && !p.Reassigning() {
				done++
			}
			for _, left := range before.Replicas {
				if !slices.Contains(p.Replicas, left) && p.Epoch == before.Epoch {
					t.Fatalf("seed %d: %d left within a leader epoch: %+v after %+v", seed, left, p, before)
				}
			}
		}
	}
	if done < 1000 {
		t.Errorf("only %d reassignments came to an end", done)
	}
}

func topicNamed(t *testing.T, m *Model, name string) *Topic {
	t.Helper()
	topic, ok := m.Image().TopicByName(name)
	if !ok {
		t.Fatal("no topic", name)
	}
	return topic
}

func TestInternalTopicsGrowWithTheCluster(t *testing.T) {
	m := NewModel(nil)
	register := func(id offsets.BrokerID) {
		t.Helper()
		if err := m.Register(Registration{ID: id, Incarnation: UUID{byte(id)}, Directory: UUID{9, byte(id)}, Fenced: true}); err != nil {
			t.Fatal(err)
		}
		b, _ := m.Image().Broker(id)
		if err := m.ChangeBroker(BrokerChange{ID: id, Epoch: b.Epoch}); err != nil {
			t.Fatal(err)
		}
	}
	register(1)
	if err := m.CreateTopic(NewTopic{Name: "__consumer_offsets", Internal: true, Partitions: 50, ReplicationFactor: -1}, offsets.TopicID{1}); err != nil {
		t.Fatal(err)
	}
	register(2)
	register(3)
	held := map[offsets.BrokerID]int{}
	for _, p := range topicNamed(t, m, "__consumer_offsets").Partitions {
		if p.Leader != 1 || len(p.Adding) == 0 || len(p.ISR) != 1 {
			t.Fatalf("%+v", p)
		}
		for _, id := range p.Replicas {
			held[id]++
		}
	}
	if held[1] != 50 || held[2] != 50 || held[3] != 50 {
		t.Errorf("replicas by broker: %v", held)
	}
}
