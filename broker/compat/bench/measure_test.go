package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"
)

// load is one way to use a broker: records of a size and a codec through so many
// partitions by one of the two drivers.
type load struct {
	Driver     string `json:"driver"` // kgo or replay
	Size       int    `json:"size"`   // bytes of a record's value
	Codec      string `json:"codec"`
	Partitions int32  `json:"partitions"`
	Flush      string `json:"flush"` // never: flush.ms off on both; default: each as it comes; second: flush.ms 1000 on both
}

func (l load) String() string {
	return fmt.Sprintf("%s %d B %s ×%d flush %s", l.Driver, l.Size, l.Codec, l.Partitions, l.Flush)
}

// configs are the topic's.
func (l load) configs() map[string]string {
	c := map[string]string{}
	switch l.Flush {
	case "never":
		c["flush.ms"] = strconv.FormatInt(1<<63-1, 10)
	case "second":
		c["flush.ms"] = "1000"
	}
	return c
}

// run is what one run on one broker took.
type run struct {
	Bytes   int64   `json:"bytes"`   // of record values
	CPU     float64 `json:"cpu"`     // seconds of the broker's process
	Wall    float64 `json:"wall"`    // seconds
	Foreign float64 `json:"foreign"` // share of one core that neither the broker nor the client used
}

func (r run) cpuPerGB() float64 { return r.CPU / (float64(r.Bytes) / 1e9) }
func (r run) mbPerS() float64   { return float64(r.Bytes) / 1e6 / r.Wall }

func (r run) String() string {
	return fmt.Sprintf("%.1f MB/s, %.3f s/GB", r.mbPerS(), r.cpuPerGB())
}

// measure runs f, which returns the number of bytes it moved, against a broker.
func (s *target) measure(t testing.TB, f func() int64) run {
	t.Helper()
	all, mine, its, from := busy(t), own(), s.cpu(t), time.Now()
	bytes := f()
	wall := time.Since(from)
	r := run{Bytes: bytes, CPU: (s.cpu(t) - its).Seconds(), Wall: wall.Seconds()}
	r.Foreign = max(0, ((busy(t)-all)-(own()-mine)).Seconds()-r.CPU) / r.Wall
	return r
}

// cell is one load on one broker: it is produced, then fetched.
func (s *target) cell(t testing.TB, l load, topic string, d time.Duration) (produce, fetch run) {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	var records int64
	produce = s.measure(t, func() int64 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		if l.Driver == "kgo" {
			records = kgoProduce(ctx, t, s.Addr, topic, l.Codec, l.Size)
		} else {
			p := produceFrame(t, topic, indexes(l.Partitions), l.Size, l.Codec, time.Now().UnixMilli())
			records = replayProduce(ctx, t, s.Addr, p.frame, conns, int64(*volume/p.bytes)) * int64(p.records)
		}
		return records * int64(l.Size)
	})
	fetch = s.measure(t, func() int64 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		if l.Driver == "kgo" {
			return kgoFetch(ctx, t, s.Addr, topic, l.Partitions, records) * int64(l.Size)
		}
		return replayFetch(ctx, t, s.Addr, topic, l.Partitions, records) * int64(l.Size)
	})
	return produce, fetch
}

// indexes are the numbers of n partitions.
func indexes(n int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
