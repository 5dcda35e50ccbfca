package brokertest_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
)

// TestCutOffLeaderTellsNoEnd: a leader that the others don't hear is overcome by
// another. From then on it must not tell where the log ends: what was acknowledged
// meanwhile would seem to be gone.
func TestCutOffLeaderTellsNoEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l := newLoad()
		l.send(t, cl, "before", 10)
		first := partitionsSeen(t, c.Nodes[0])[0].LeaderID
		old := c.Nodes[first-1]
		c.Isolate(old)
		ends := func(special int64) (int64, error) {
			conn, err := old.Conn(t.Context(), "reader")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // it has answered
			r := kmsg.NewPtrListOffsetsRequest()
			r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: special}}}}
			m, err := conn.Request(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			p := m.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			return p.Offset, kerr.ErrorForCode(p.ErrorCode)
		}
		before, err := ends(-1)
		if err != nil {
			t.Errorf("as soon as it is cut off: %v", err)
		}
		for now := first; now == first || now < 0; now = partitionsSeen(t, c.Nodes[first%3])[0].LeaderID {
			time.Sleep(10 * time.Millisecond) // until the controller has chosen another
		}
		l.send(t, cl, "beside", 30)
		for special, want := range map[int64]error{-1: kerr.OffsetNotAvailable, -2: nil, -3: kerr.OffsetNotAvailable, 0: kerr.OffsetNotAvailable} {
			if at, err := ends(special); err != want {
				t.Errorf("special offset %d of a leader cut off: %d %v, want %v", special, at, err, want)
			}
		}
		c.Fabric.Heal()
		awaitISR(t, c, 3)
		if at, err := ends(-1); err == nil && at < before {
			t.Errorf("healed, it tells that the log ends at %d, before it was %d", at, before)
		}
		cl.Close()
		check(t, c, l)
	})
}
