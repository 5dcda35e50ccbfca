package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
)

// Client ids of readers: of load tasks, and of others.
const (
	loadID  = "sawlog-batch/bench"
	otherID = "bench"
)

// TestClassCost measures what it costs the broker to keep loads out of the page
// cache: the same log is fetched by a load task, whose answers are copied, and by
// another client, which is answered by sendfile, in turn. What it fails by is that
// records are missing, or were not sent as they should have been.
func TestClassCost(t *testing.T) {
	s := start(t, peer.Sawlog, peer.Options{Binary: *ours})
	b := newBench(t, nil, nil)
	l := load{"replay", 1024, "none", 1, "never"}
	s.create(t, "log", l.Partitions, l.configs())
	p := produceFrame(t, "log", indexes(l.Partitions), l.Size, l.Codec, time.Now().UnixMilli())
	there := replayProduce(t.Context(), t, s.Addr, p.frame, conns, int64(*volume/p.bytes)) * int64(p.records)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "the log is\tCPU s/GB load\tother\tload / other: median  min..max  [bootstrap 95 %%]\n")
	for _, place := range []string{"in memory", "on disk"} {
		var mine, others, ratio []float64
		for round := range b.rounds {
			var got [2]run
			for i := range got {
				who := (i + round) % 2
				s.leave(t, "log", place == "in memory")
				got[who] = s.fetchAs(t, []string{loadID, otherID}[who], "log", there, l)
			}
			mine, others = append(mine, got[0].cpuPerGB()), append(others, got[1].cpuPerGB())
			ratio = append(ratio, got[0].cpuPerGB()/got[1].cpuPerGB())
			t.Logf("round %d, %s: load %s; other %s", round, place, got[0], got[1])
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%s\n", place, median(mine), median(others), spreadOf(ratio))
	}
	_ = w.Flush() // to a string: can't fail
	t.Logf("\n%s, %s\n%s", strings.Join(os.Args, " "), machine(), out.String())
}

// fetchAs reads all records of a topic once.
func (s *target) fetchAs(t *testing.T, id, topic string, there int64, l load) run {
	t.Helper()
	once, cancel := context.WithCancel(t.Context())
	cancel()
	passed := s.metric(t, "sawlog_passing_read_bytes_total")
	got := s.measure(t, func() int64 {
		f := newFetcher(t, s.Addr, topic, l.Partitions, 500*time.Millisecond)
		defer func() { _ = f.conn.Close() }() // nothing is due on it
		f.format = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
		return f.again(once, t, there) * int64(l.Size)
	})
	passed = s.metric(t, "sawlog_passing_read_bytes_total") - passed
	if load := id == loadID; load && passed < 0.99*float64(got.Bytes) || !load && passed > 0 {
		t.Fatalf("%s was sent %.0f bytes past the page cache, of %d", id, passed, got.Bytes)
	}
	return got
}

// leave has the segments of a topic in the page cache, or not.
func (s *target) leave(t *testing.T, topic string, there bool) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(s.Dir, topic+"-*", "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments of %s: %v, %v", topic, segments, err)
	}
	for _, name := range segments {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if there {
			_, err = io.Copy(io.Discard, f)
		} else if err = f.Sync(); err == nil { // dirty pages would stay
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // only read
	}
}
