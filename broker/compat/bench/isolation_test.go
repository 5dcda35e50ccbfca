package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// The setting of TestIsolation.
const (
	oldLog     = 2 << 30   // bytes of the log that is loaded: several times what fits into memory
	roomInAll  = 384 << 20 // bytes of memory of the broker, its page cache included
	tailRate   = 8 << 20   // bytes a second that go through the end of another log
	limitRate  = 32 << 20  // bytes a second of batch.bytes.per.second
	settleFor  = 2 * time.Second
	mostAdded  = 1. / 3
	fairRounds = 6 // fewer are not judged
)

// mode is what goes on beside the followers of a log's end.
type mode struct {
	name  string
	id    string // of the load; "" = there is none
	limit int64  // of the batch class
}

var modes = []mode{
	{"nothing", "", 0},
	{"a load as any client", otherID, 0},
	{"a load of the batch class", loadID, 0},
	{"the same within a limit", loadID, limitRate},
}

// beside is one run: how late batches came to who follows the end, and how fast
// the load went.
type beside struct {
	tail quantiles
	load float64 // MB of log per second
}

// TestIsolation measures what a load of old log adds to the time from a producer
// to who follows the log's end, on a broker whose memory holds a part of that log.
// Broker, producer and follower share a core, the load has another. It is judged
// with six rounds or more: the batch class within its limit may add a third of
// what a load adds that is none of it (median of the pairs).
func TestIsolation(t *testing.T) {
	b := newBench(t, nil, nil)
	bytes := int64(oldLog)
	if *rounds == 0 {
		bytes = int64(*volume)
	}
	room := newBound(t, roomInAll)
	if *rounds > 0 && (room == nil || runtime.NumCPU() < 2) {
		peer.Lacks(t, "a memory cgroup that may be made, and two cores")
	}
	s := start(t, peer.Sawlog, peer.Options{Binary: *ours, Topics: map[string]string{"segment.bytes": "268435456"}})
	if room != nil {
		room.take(t, s.PID)
	}
	pin(t, brokerCore) // the follower is beside the broker
	old := load{"replay", 1024, "none", 1, "never"}
	s.create(t, "old", old.Partitions, old.configs())
	p := produceFrame(t, "old", indexes(old.Partitions), old.Size, old.Codec, time.Now().UnixMilli())
	replayProduce(t.Context(), t, s.Addr, p.frame, conns, bytes/int64(p.bytes))
	s.leave(t, "old", false) // or what follows waits for the disk to take it all
	again := newReload(t, s.Addr, "old")
	all := make([][]beside, len(modes))
	for round := range b.rounds {
		for i := range modes {
			at := i
			if round%2 == 1 {
				at = len(modes) - 1 - i
			}
			got := s.beside(t, again, modes[at], b)
			all[at] = append(all[at], got)
			t.Logf("round %d, beside %-26s %s; load %.0f MB/s", round, modes[at].name+":", got.tail, got.load)
		}
	}
	judge(t, all)
}

// beside measures one run.
func (s *target) beside(t *testing.T, again *reload, m mode, b *bench) beside {
	t.Helper()
	s.limit(t, m.limit)
	stop := func() {}
	if m.id != "" {
		stop = again.start(m.id)
		defer func() { stop() }()
		time.Sleep(b.seconds / 8) // another process starts
	}
	sent := func() float64 {
		return s.metric(t, "sawlog_fetch_bytes_total") - s.metric(t, "sawlog_produce_bytes_total")
	}
	before, from := sent(), time.Now()
	// The end of the log is read once, as it is written.
	tail := s.openLoop(t, load{"replay", 1024, "none", 16, "default"}, b.topic(), tailRate, min(settleFor, b.seconds), b.seconds)
	got := beside{tail: tail, load: (sent() - before) / 1e6 / time.Since(from).Seconds()}
	stop()
	stop = func() {}
	return got
}

// limit sets what the batch class may be sent in a second.
func (s *target) limit(t *testing.T, rate int64) {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(s.ID))
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	value := strconv.FormatInt(rate, 10)
	c.Name, c.Op, c.Value = "batch.bytes.per.second", kmsg.IncrementalAlterConfigOpSet, &value
	rr.Configs = append(rr.Configs, c)
	r.Resources = append(r.Resources, rr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := r.RequestWith(ctx, s.admin)
	if err == nil {
		err = kerr.ErrorForCode(reply.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("limit of the batch class: %v", err)
	}
}

// judge prints the table, and fails where the batch class adds too much.
func judge(t *testing.T, all [][]beside) {
	t.Helper()
	p99 := func(b beside) float64 { return b.tail.P99 }
	added := make([][]float64, len(all)) // ms of each round, over nothing
	for i, runs := range all {
		for round, r := range runs {
			added[i] = append(added[i], p99(r)-p99(all[0][round]))
		}
	}
	share := func(i int) spread { // of what a load as any client adds
		var v []float64
		for round := range added[i] {
			if any := added[1][round]; any > 0 {
				v = append(v, max(0, added[i][round])/any)
			} else {
				v = append(v, 1) // nothing was added that could have been kept apart
			}
		}
		return spreadOf(v)
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "beside\tp50 ms\tp99 ms\tp99.9 ms\tadded p99\tof the load as any client: median  min..max  [bootstrap 95 %%]\tload MB/s\n")
	for i, runs := range all {
		ratio := ""
		if i > 1 {
			ratio = share(i).String()
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.0f\n", modes[i].name,
			medianOf(runs, func(b beside) float64 { return b.tail.P50 }), medianOf(runs, p99),
			medianOf(runs, func(b beside) float64 { return b.tail.P999 }), median(added[i]), ratio,
			medianOf(runs, func(b beside) float64 { return b.load }))
	}
	_ = w.Flush() // to a string: can't fail
	t.Logf("\n%s\n%s, %d rounds\n%s", strings.Join(os.Args, " "), machine(), len(all[0]), out.String())
	if len(all[0]) < fairRounds {
		return
	}
	for i, runs := range all[1:] {
		if medianOf(runs, func(b beside) float64 { return b.load }) <= 0 {
			t.Errorf("%s read nothing", modes[i+1].name)
		}
	}
	if median(added[1]) <= 0 {
		t.Errorf("a load as any client adds %.2f ms: there is nothing to keep apart", median(added[1]))
	}
	if got := share(len(all) - 1).Median; got > mostAdded {
		t.Errorf("the batch class within its limit adds %.2f of what a load as any client does, more than %.2f", got, mostAdded)
	}
}
