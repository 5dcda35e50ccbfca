package consumer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// nearby is a cluster whose brokers stand in racks of their own, a log on all of
// them, and a reader beside a follower.
type nearby struct {
	*ride
	log          []string
	id           offsets.TopicID
	leader, near *brokertest.Node
	reader       *KafkaCluster
}

func newNearby(t *testing.T) *nearby {
	t.Helper()
	n := &nearby{ride: &ride{t: t, c: brokertest.NewCluster(t, 3)}}
	n.c.Change = func(c *broker.Config) { c.Rack = fmt.Sprint("r", c.NodeID) }
	n.c.StartAll()
	n.create()
	n.whole()
	n.send(200)
	far := n.reach("far", "")
	defer far.Close()
	topics, _, err := Describe(t.Context(), far, []string{views.Topic}, "")
	if err != nil {
		t.Fatal(err)
	}
	leads := int(topics[0].Partitions[0].Leader)
	n.id, n.leader, n.near = topics[0].ID, n.c.Nodes[leads-1], n.c.Nodes[leads%3]
	n.reader = n.reach("reader", fmt.Sprint("r", n.near.ID))
	t.Cleanup(n.reader.Close)
	return n
}

// send appends records of 1 KB, each a batch.
func (n *nearby) send(records int) {
	n.t.Helper()
	cl := n.c.Client("writer", kgo.DefaultProduceTopic(views.Topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	for range records {
		value := fmt.Sprintf("%04d%s", len(n.log), strings.Repeat(".", 1000))
		if err := cl.ProduceSync(n.t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
			n.t.Fatal(err)
		}
		n.log = append(n.log, value)
	}
}

// read reads the whole log, and calls halfway after half of it. It tells how many
// bytes came from the replica nearby, and from the leader.
func (n *nearby) read(halfway func()) (near, far int64) {
	n.t.Helper()
	count := func(of *brokertest.Node) int64 {
		if of.Broker == nil {
			return 0
		}
		return of.Broker.Metrics().FetchBatchBytes
	}
	near, far = count(n.near), count(n.leader)
	rd := NewReader(n.reader, views, n.id, rng(0, offsets.Offset(len(n.log))), Options{FetchBytes: 4000})
	defer rd.Close()
	var got []string
	for range n.log {
		rec, err := rd.Next(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		if got = append(got, string(rec.Value)); len(got) == len(n.log)/2 {
			halfway()
		}
	}
	if !slices.Equal(got, n.log) {
		n.t.Error("other records than were written")
	}
	return max(count(n.near)-near, 0), count(n.leader) - far
}

// TestNearReplicaServes: what is read comes from the replica in the reader's rack,
// and not from the leader; when that replica goes away or falls behind in the
// middle, the leader serves the same records, and the replica does again once it
// is back.
func TestNearReplicaServes(t *testing.T) {
	for name, harm := range map[string]func(n *nearby){
		"calm":     func(*nearby) {},
		"killed":   func(n *nearby) { n.near.Kill() },
		"stopped":  func(n *nearby) { n.near.Stop() },
		"wiped":    func(n *nearby) { n.near.Kill(); n.near.Wipe(); n.near.Start() },
		"cut off":  func(n *nearby) { n.c.Isolate(n.near, "reader") },
		"isolated": func(n *nearby) { n.c.Isolate(n.near) }, // the reader still reaches it
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNearby(t)
				whole := int64(len(n.log)) * 1000
				near, far := n.read(func() { harm(n) })
				t.Logf("%d bytes from the replica nearby, %d from the leader", near, far)
				switch {
				case (name == "calm" || name == "isolated") && (near < whole || far > whole/20):
					t.Errorf("%d bytes of %d from the replica nearby, %d from the leader", near, whole, far)
				case name == "wiped" && near+far < whole/3: // it may be whole again before it is asked
					t.Errorf("only %d bytes of %d after half of it", near+far, whole)
				case name != "calm" && name != "isolated" && name != "wiped" && far < whole/3:
					t.Errorf("only %d bytes of %d from the leader after half of it", far, whole)
				}
				n.c.Fabric.Heal()
				n.c.StartAll()
				n.whole()
				time.Sleep(10 * time.Second)
				if near, far := n.read(func() {}); near < whole || far > whole/20 {
					t.Errorf("afterwards %d bytes of %d from the replica nearby, %d from the leader", near, whole, far)
				}
			})
		})
	}
}

// TestNearReplicaLags: a replica that hears late what is committed sends nobody
// astray: the newest records are read as soon as they are acknowledged.
func TestNearReplicaLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNearby(t)
		n.c.Fabric.Delay(n.leader.Host, n.near.Host, 200*time.Millisecond)
		for range 20 {
			n.send(5)
			began := time.Now()
			n.read(func() {})
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%d records took %v", len(n.log), took)
			}
		}
	})
}
