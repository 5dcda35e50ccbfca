package controller

import (
	"testing"

	"sawlog/offsets"
)

// led counts the partitions a broker leads.
func led(w *world, id offsets.BrokerID) int { return w.image.Load(id).Leading }

func (w *world) balance(most int) error {
	return w.do(func(im *Image) (decision, error) {
		d, _, err := balanceAsk{most}.decide(im, w.settings)
		return d, err
	})
}

// rejoin has every leader take a broker into its ISR, but for some partitions.
func (w *world) rejoin(t *testing.T, topic string, id offsets.BrokerID, from int) {
	t.Helper()
	for _, p := range w.topic(t, topic).Partitions[from:] {
		c := ISRChange{Topic: w.topic(t, topic).ID, Partition: p.Index, Broker: p.Leader, LeaderEpoch: p.Epoch, PartitionEpoch: p.PartitionEpoch}
		for _, m := range union(p.ISR, []offsets.BrokerID{id}) {
			b, _ := w.image.Broker(m)
			c.ISR = append(c.ISR, Member{m, b.Epoch})
			if m == p.Leader {
				c.BrokerEpoch = b.Epoch
			}
		}
		if err := w.do(func(im *Image) (decision, error) { return im.changeISR(w.settings, c) }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeadersMoveBack(t *testing.T) {
	w := newWorld()
	w.join(t, 3)
	if err := w.create(NewTopic{Name: "t", Partitions: 30, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	b, _ := w.image.Broker(1)
	for _, fenced := range []bool{true, false} {
		if err := w.change(BrokerChange{ID: 1, Epoch: b.Epoch, Fenced: fenced}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(want int, why string) {
		t.Helper()
		if err := w.balance(4); err != nil {
			t.Fatal(err)
		}
		checkImage(t, w)
		if led(w, 1) != want {
			t.Errorf("%s: broker 1 leads %d, want %d", why, led(w, 1), want)
		}
	}
	step(0, "it isn't in sync anywhere")
	w.rejoin(t, "t", 1, 1)
	step(0, "it is behind in one partition")
	one := w.topic(t, "t").Partitions[0]
	w.rejoin(t, "t", 1, 0)
	if one.inSync(1) {
		t.Fatal("it was in sync")
	}
	w.settings.defaults[balanceKey] = "false"
	step(0, "turned off")
	delete(w.settings.defaults, balanceKey)
	step(4, "some at a time")
	step(8, "some more")
	step(10, "the rest")
	before := w.image
	step(10, "all are where they belong")
	if w.image != before {
		t.Error("nothing to do is something to log")
	}
}

func TestDefaultFactor(t *testing.T) {
	for brokers, want := range map[int]int{1: 1, 2: 2, 3: 3, 5: 3} {
		for _, set := range []string{"", "-1"} {
			w := newWorld()
			w.settings.defaults["default.replication.factor"] = set
			w.join(t, brokers)
			if err := w.create(NewTopic{Name: "t", Partitions: -1, ReplicationFactor: -1}); err != nil {
				t.Fatal(err)
			}
			if got := len(w.topic(t, "t").Partitions[0].Replicas); got != want {
				t.Errorf("%d brokers, set to %q: %d replicas, want %d", brokers, set, got, want)
			}
		}
	}
}

func TestSameBrokers(t *testing.T) {
	w := newWorld()
	w.join(t, 2)
	before := w.image
	if err := w.create(NewTopic{Name: "t", Partitions: 1, ReplicationFactor: 2}); err != nil {
		t.Fatal(err)
	}
	if !sameBrokers(before, w.image) {
		t.Error("a topic is no change of brokers")
	}
	b, _ := w.image.Broker(2)
	if err := w.change(BrokerChange{ID: 2, Epoch: b.Epoch, Fenced: true}); err != nil {
		t.Fatal(err)
	}
	if sameBrokers(before, w.image) {
		t.Error("one is out of service")
	}
	if err := w.register(Registration{ID: 2, Incarnation: incarnation(2, 9), Directory: b.Directory}); err != nil {
		t.Fatal(err)
	}
	if sameBrokers(before, w.image) {
		t.Error("one has started again")
	}
}
