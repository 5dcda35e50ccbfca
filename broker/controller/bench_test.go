package controller

import (
	"fmt"
	"sync"
	"testing"

	"sawlog/broker/vfs"
)

// BenchmarkCreateTopics makes 1,000 topics of 10 partitions, one after the
// other and by 100 clients at once, on the file system of the temporary folder.
func BenchmarkCreateTopics(b *testing.B) {
	for _, clients := range []int{1, 100} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				config := testConfig(vfs.OS)
				config.Dir = b.TempDir()
				c := start(b, config)
				b.StartTimer()
				var all sync.WaitGroup
				for i := range clients {
					all.Go(func() {
						for n := i; n < 1000; n += clients {
							create(b, c, fmt.Sprint("t", n), 10)
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(c.Image().Sequence), "entries")
			}
		})
	}
}

// benchImage is an image with 1,000 topics of 10 partitions.
func benchImage(b *testing.B) *world {
	w := newWorld()
	w.join(b, 3)
	for i := range 1000 {
		id := w.topicID()
		id[1], id[2] = byte(i>>8), byte(i)
		if err := w.do(func(im *Image) (decision, error) {
			return im.createTopic(w.settings, NewTopic{Name: fmt.Sprintf("topic-%04d", i), Partitions: 10, ReplicationFactor: 3}, id)
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	return w
}

// BenchmarkApplyTopic adds one topic to an image of 10,000 partitions.
func BenchmarkApplyTopic(b *testing.B) {
	w := benchImage(b)
	d, err := w.image.createTopic(w.settings, NewTopic{Name: "one", Partitions: 10, ReplicationFactor: 3}, w.topicID())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := w.image.apply(w.image.Index+1, d.records); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFence decides on the death of one of three brokers with 10,000
// partitions, and applies it.
func BenchmarkFence(b *testing.B) {
	w := benchImage(b)
	br, _ := w.image.Broker(1)
	for b.Loop() {
		d, err := w.image.changeBroker(w.settings, BrokerChange{ID: 1, Epoch: br.Epoch, Fenced: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.image.apply(w.image.Index+1, d.records); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHash encodes and hashes 10,000 partitions.
func BenchmarkHash(b *testing.B) {
	w := benchImage(b)
	for b.Loop() {
		w.image.Hash()
	}
}

// TestSharing: a change of one topic allocates for that topic and a path of the
// tree, not for the other thousand.
func TestSharing(t *testing.T) {
	w := newWorld()
	w.join(t, 1)
	for i := range 2000 {
		id := w.topicID()
		id[1], id[2] = byte(i>>8), byte(i)
		if err := w.do(func(im *Image) (decision, error) {
			return im.createTopic(w.settings, NewTopic{Name: fmt.Sprint("t", i), Partitions: 1, ReplicationFactor: 1}, id)
		}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := w.image.createTopic(w.settings, NewTopic{Name: "one", Partitions: 1, ReplicationFactor: 1}, w.topicID())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(20, func() {
		if _, err := w.image.apply(w.image.Index+1, d.records); err != nil {
			t.Fatal(err)
		}
	}); n > 60 {
		t.Errorf("%.0f allocations for one topic beside 2,000", n)
	}
}

// BenchmarkChangeISRs decides on the ISRs of a third of a large topic at once,
// as a leader asks for them when a follower dies.
func BenchmarkChangeISRs(b *testing.B) {
	w := newWorld()
	w.join(b, 3)
	if err := w.create(NewTopic{Name: "t", Partitions: 9000, ReplicationFactor: 3}); err != nil {
		b.Fatal(err)
	}
	t := w.topic(b, "t")
	var changes []ISRChange
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Leader != 1 {
			continue
		}
		br, _ := w.image.Broker(1)
		changes = append(changes, ISRChange{Topic: t.ID, Partition: p.Index, Broker: 1, BrokerEpoch: br.Epoch, LeaderEpoch: p.Epoch, PartitionEpoch: p.PartitionEpoch, ISR: []Member{{1, br.Epoch}}})
	}
	b.ReportMetric(float64(len(changes)), "changes")
	for b.Loop() {
		if _, a, err := (changeISRsAsk{changes}).decide(w.image, w.settings); err != nil || a.refusal(0) != nil {
			b.Fatal(err, a.refusal(0))
		}
	}
}
