package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
)

// inBubble runs a test against a broker whose network and disk are memory, so
// that time stands still while anything runs.
func inBubble(t *testing.T, test func(t *testing.T, b *broker.Broker, dial func() *wire.Conn)) {
	bubbleOf(t, func(*broker.Config) {}, test)
}

// bubbleOf is inBubble for a broker of another configuration.
func bubbleOf(t *testing.T, change func(*broker.Config), test func(t *testing.T, b *broker.Broker, dial func() *wire.Conn)) {
	bubbleAs(t, change, func(t *testing.T, b *broker.Broker, dial func(string) *wire.Conn) {
		test(t, b, func() *wire.Conn { return dial("bubble") })
	})
}

// bubbleAs is bubbleOf for clients of other ids.
func bubbleAs(t *testing.T, change func(*broker.Config), test func(t *testing.T, b *broker.Broker, dial func(clientID string) *wire.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		network := brokertest.NewNetwork()
		b := brokertest.Start(t, func(c *broker.Config) {
			c.FS, c.Dir, c.Listener, c.Advertise = vfs.NewMem(), "/data", network, "broker:9092"
			change(c)
		})
		test(t, b, func(clientID string) *wire.Conn {
			nc, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			c, err := wire.NewConn(t.Context(), nc, clientID)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // it may be closed already
			return c
		})
	})
}

// parked starts a fetch and returns a channel with its reply and how long it
// took.
type fetched struct {
	part kmsg.FetchResponseTopicPartition
	took time.Duration
}

func startFetch(t *testing.T, c *wire.Conn, minBytes int32, wait time.Duration) chan fetched {
	r := fetchFrom("t", 0, 0)
	r.MinBytes, r.MaxWaitMillis = minBytes, int32(wait/time.Millisecond)
	done := make(chan fetched, 1)
	began := time.Now()
	go func() {
		m, err := c.Exchange(t.Context(), r)
		if err != nil {
			t.Error(err)
			close(done)
			return
		}
		done <- fetched{m.(*kmsg.FetchResponse).Topics[0].Partitions[0], time.Since(began)}
	}()
	synctest.Wait()
	return done
}

func TestFetchWaitsForItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "t", 1)
		got := <-startFetch(t, c, 1, 750*time.Millisecond)
		if got.took != 750*time.Millisecond || got.part.ErrorCode != 0 || len(got.part.RecordBatches) != 0 {
			t.Errorf("after %v: code %d, %d bytes", got.took, got.part.ErrorCode, len(got.part.RecordBatches))
		}
		if b.Metrics().FetchParked != 1 {
			t.Errorf("parked %d", b.Metrics().FetchParked)
		}
		if got := <-startFetch(t, c, 0, time.Minute); got.took != 0 {
			t.Errorf("a fetch that wants nothing waited %v", got.took)
		}
		if got := <-startFetch(t, c, 1, 0); got.took != 0 {
			t.Errorf("a fetch without patience waited %v", got.took)
		}
	})
}

func TestFetchIsWokenByAnAppend(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		reader, writer := dial(), dial()
		createTopic(t, writer, "t", 1)
		done := startFetch(t, reader, 1, time.Minute)
		time.Sleep(300 * time.Millisecond)
		if len(done) != 0 {
			t.Fatal("answered before there was anything")
		}
		batch := batchOf(t, record.None, now(), "woken")
		if got := put(t, writer, "t", batch); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		got := <-done
		if got.took != 300*time.Millisecond || len(got.part.RecordBatches) != len(batch) {
			t.Errorf("after %v: %d bytes", got.took, len(got.part.RecordBatches))
		}
	})
}

func TestFetchWaitsForItsBytes(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		reader, writer := dial(), dial()
		createTopic(t, writer, "t", 1)
		batch := batchOf(t, record.None, now(), "0123456789")
		done := startFetch(t, reader, int32(3*len(batch)), time.Minute)
		for i := range 3 {
			time.Sleep(100 * time.Millisecond)
			if len(done) != 0 {
				t.Fatalf("answered after %d batches of 3", i)
			}
			if got := put(t, writer, "t", append(record.Batch{}, batch...)); got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
			synctest.Wait()
		}
		got := <-done
		if got.took != 300*time.Millisecond || len(got.part.RecordBatches) != 3*len(batch) {
			t.Errorf("after %v: %d bytes", got.took, len(got.part.RecordBatches))
		}
	})
}

func TestFetchLearnsThatItsTopicIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		reader, admin := dial(), dial()
		createTopic(t, admin, "t", 1)
		done := startFetch(t, reader, 1, time.Minute)
		deleteTopic(t, admin, "t")
		got := <-done
		if got.took != 0 || got.part.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("after %v: code %d", got.took, got.part.ErrorCode)
		}
	})
}

func TestFetchDoesNotWaitWithAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "t", 1)
		for name, change := range map[string]struct {
			alter func(*kmsg.FetchRequest)
			code  int16
		}{
			"unknown topic": {func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "none" }, kerr.UnknownTopicOrPartition.Code},
			"partition":     {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 1 }, kerr.UnknownTopicOrPartition.Code},
			"past the end":  {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = 1 }, kerr.OffsetOutOfRange.Code},
			"negative":      {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].FetchOffset = -1 }, kerr.OffsetOutOfRange.Code},
			"newer epoch":   {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 99 }, kerr.UnknownLeaderEpoch.Code},
			"from a broker": {func(r *kmsg.FetchRequest) { r.ReplicaID = 2 }, kerr.NotLeaderForPartition.Code},
		} {
			r := fetchFrom("t", 0, 0)
			r.MinBytes, r.MaxWaitMillis = 1, 60000
			change.alter(r)
			began := time.Now()
			got := askAt[*kmsg.FetchResponse](t, c, 12, r).Topics[0].Partitions[0]
			if got.ErrorCode != change.code || time.Since(began) != 0 {
				t.Errorf("%s: code %d after %v", name, got.ErrorCode, time.Since(began))
			}
		}
		r := fetchFrom("t", 0, 0)
		r.SessionID, r.SessionEpoch = 5, 3
		if got := askAt[*kmsg.FetchResponse](t, c, 12, r); got.ErrorCode != kerr.FetchSessionIDNotFound.Code || len(got.Topics) != 0 {
			t.Errorf("inside a session: %+v", got)
		}
	})
}

func TestCloseAnswersParkedFetches(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "t", 1)
		done := startFetch(t, c, 1, time.Minute)
		brokertest.Stop(t, b)
		if got := <-done; got.took > time.Second || got.part.ErrorCode != 0 {
			t.Errorf("after %v: code %d", got.took, got.part.ErrorCode)
		}
	})
}
