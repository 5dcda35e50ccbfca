package broker_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

const batchRate = "batch.bytes.per.second"

// limited is a broker that sends load tasks so many bytes a second.
func limited(rate int64) func(*broker.Config) {
	return func(c *broker.Config) { c.Defaults = map[string]string{batchRate: strconv.FormatInt(rate, 10)} }
}

// longLog puts n batches of a record each into a new topic t and tells how long one
// is.
func longLog(t *testing.T, c *wire.Conn, n, size int) int64 {
	t.Helper()
	createTopic(t, c, "t", 1)
	batch := batchOf(t, record.None, now(), strings.Repeat("x", size))
	for range n {
		if got := put(t, c, "t", batch); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	return int64(len(batch))
}

// answer is what one fetch brought.
type answer struct {
	bytes    int64
	throttle time.Duration
	at       time.Time
}

// readAll reads n batches of topic t, asking again as soon as an answer is there,
// whatever it tells.
func readAll(t *testing.T, c *wire.Conn, n int) (all []answer) {
	for next := int64(0); next < int64(n); {
		m, err := c.Exchange(t.Context(), fetchFrom("t", 0, next))
		if err != nil {
			t.Error(err)
			return all
		}
		reply := m.(*kmsg.FetchResponse)
		part := reply.Topics[0].Partitions[0]
		if part.ErrorCode != 0 || len(part.RecordBatches) == 0 {
			t.Errorf("at %d: code %d, %d bytes", next, part.ErrorCode, len(part.RecordBatches))
			return all
		}
		all = append(all, answer{int64(len(part.RecordBatches)), time.Duration(reply.ThrottleMillis) * time.Millisecond, time.Now()})
		for rest := part.RecordBatches; len(rest) > 0; {
			b, tail, err := record.Split(rest)
			if err != nil {
				t.Error(err)
				return all
			}
			next, rest = int64(b.LastOffset())+1, tail
		}
	}
	return all
}

// Loads together get the rate and no more, each its share, though they don't heed
// what answers tell them; who isn't one is answered at once.
func TestBatchClassKeepsItsRate(t *testing.T) {
	const rate, batches, size, loads = 1_000_000, 100, 30_000, 3
	bubbleAs(t, limited(rate), func(t *testing.T, b *broker.Broker, dial func(string) *wire.Conn) {
		c := dial("follows the end")
		total := loads * batches * longLog(t, c, batches, size)
		want := time.Duration(total) * time.Second / rate
		began := time.Now()
		var got [loads][]answer
		var wg sync.WaitGroup
		for i := range got {
			load := dial(fmt.Sprint(wire.BatchPrefix, i))
			wg.Go(func() { got[i] = readAll(t, load, batches) })
		}
		for time.Since(began) < want {
			asked := time.Now()
			if part := get(t, c, "t", batches-1); len(part.RecordBatches) == 0 || time.Since(asked) > 0 {
				t.Fatalf("beside the loads: %d bytes after %v", len(part.RecordBatches), time.Since(asked))
			}
			time.Sleep(70 * time.Millisecond)
		}
		wg.Wait()
		var rests time.Duration
		for i, all := range got {
			for j, a := range all {
				rests += a.throttle
				if a.bytes > rate/10 {
					t.Errorf("load %d: an answer of %d bytes", i, a.bytes)
				}
				if j == 0 {
					continue
				}
				if waited, told := a.at.Sub(all[j-1].at), all[j-1].throttle; waited > told || waited < told-time.Millisecond {
					t.Errorf("load %d: answer %d after %v, told was %v", i, j, waited, told)
				}
			}
			if took := all[len(all)-1].at.Sub(began); took > want || took < want*9/10 {
				t.Errorf("load %d had all after %v, want about %v", i, took, want)
			}
		}
		m := b.Metrics()
		if m.FetchBatchBytes != total || m.FetchBatchLimit != rate || (rests-m.FetchBatchRest).Abs() > time.Second {
			t.Errorf("metrics: %d bytes of %d, limit %d, rests %v of %v", m.FetchBatchBytes, total, m.FetchBatchLimit, m.FetchBatchRest, rests)
		}
	})
}

// A load without company gets the whole rate, also when it heeds what answers
// tell it and comes a little late each time. It waits for no more than an answer
// may carry.
func TestBatchClassOfOne(t *testing.T) {
	const rate, batches, size = 1_000_000, 100, 30_000
	bubbleAs(t, limited(rate), func(t *testing.T, b *broker.Broker, dial func(string) *wire.Conn) {
		total := batches * longLog(t, dial("x"), batches, size)
		load := dial(wire.BatchPrefix + "1")
		began := time.Now()
		for next := int64(0); next < batches; {
			r := fetchFrom("t", 0, next)
			r.MinBytes, r.MaxWaitMillis = 1<<20, 10_000
			m := askAt[*kmsg.FetchResponse](t, load, 12, r)
			next += int64(len(m.Topics[0].Partitions[0].RecordBatches)) / (total / batches)
			time.Sleep(time.Duration(m.ThrottleMillis)*time.Millisecond + 5*time.Millisecond)
		}
		if took, want := time.Since(began), time.Duration(total)*time.Second/rate; took > want*11/10 || took < want*9/10 {
			t.Errorf("%d bytes took %v, want about %v", total, took, want)
		}
	})
}

// A batch longer than the rate wants passes whole, and its reader is back in time
// to keep its connection.
func TestBatchClassPassesLongBatches(t *testing.T) {
	const batches, longest = 3, 10 * time.Second
	bubbleAs(t, limited(1), func(t *testing.T, b *broker.Broker, dial func(string) *wire.Conn) {
		size := longLog(t, dial("x"), batches, 500_000)
		began := time.Now()
		all := readAll(t, dial(wire.BatchPrefix+"1"), batches)
		if len(all) != batches {
			t.Fatalf("%d answers for %d batches", len(all), batches)
		}
		for i, a := range all {
			if a.bytes != size || a.throttle != longest || a.at.Sub(began) != time.Duration(i)*longest {
				t.Errorf("answer %d: %d bytes after %v, throttle %v", i, a.bytes, a.at.Sub(began), a.throttle)
			}
		}
	})
}

// The rate is changed while the broker runs, for one broker or for all; without
// one nobody waits.
func TestBatchClassRateIsChanged(t *testing.T) {
	const (
		node    = kmsg.ConfigResourceTypeBroker
		set     = kmsg.IncrementalAlterConfigOpSet
		unset   = kmsg.IncrementalAlterConfigOpDelete
		batches = 10
	)
	for _, start := range []int64{0, 500} {
		bubbleAs(t, limited(start), func(t *testing.T, b *broker.Broker, dial func(string) *wire.Conn) {
			c := dial("x")
			size := longLog(t, c, batches, 30_000)
			for i, step := range []struct {
				resource string
				op       op
				want     int64
			}{
				{"", op{batchRate, set, "100000"}, 100_000},
				{"1", op{batchRate, set, " 200000"}, 200_000},
				{"1", op{batchRate, set, "0"}, 0},
				{"1", op{batchRate, unset, "<nil>"}, 100_000},
				{"", op{batchRate, unset, "<nil>"}, start},
			} {
				if code, message := alterOne(t, c, node, step.resource, false, step.op); code != 0 {
					t.Fatalf("step %d: %d %s", i, code, message)
				}
				if got := b.Metrics().FetchBatchLimit; got != step.want {
					t.Errorf("step %d: limit %d, not %d", i, got, step.want)
				}
				began := time.Now()
				all := readAll(t, dial(wire.BatchPrefix+strconv.Itoa(i)), batches)
				took := all[len(all)-1].at.Sub(began)
				switch {
				case step.want == 0 && (took > 0 || all[0].throttle > 0):
					t.Errorf("step %d: without a limit %v, throttle %v", i, took, all[0].throttle)
				case step.want >= 100_000:
					if want := time.Duration(batches*size) * time.Second / time.Duration(step.want); took > want || took < want*3/4 {
						t.Errorf("step %d: %v, want about %v", i, took, want)
					}
				}
			}
			all, _ := described(t, c, node, "1")
			if got := all[batchRate]; deref(got.Value) != strconv.FormatInt(start, 10) || got.ReadOnly || deref(got.Documentation) == "" || got.Source != kmsg.ConfigSourceStaticBrokerConfig {
				t.Errorf("described as %+v", got)
			}
		})
	}
}

// A setting that is given at the start counts, or the start is refused: none is
// passed over.
func TestNoSettingIsPassedOver(t *testing.T) {
	for name, value := range map[string]string{
		batchRate: "-1", "leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000",
		"broker.session.timeout.ms": "2000", "auto.leader.rebalance.enable": "false", "controller.voter.replacement.ms": "60000",
		"replica.alter.log.dirs.io.max.bytes.per.second": "1000",
	} {
		b, err := broker.Open(t.Context(), broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Defaults: map[string]string{name: value}})
		if err == nil {
			t.Errorf("%s=%s was taken", name, value)
			brokertest.Stop(t, b)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
