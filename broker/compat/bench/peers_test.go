package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"sawlog/broker/compat/peer"
)

var (
	rounds  = flag.Int("rounds", 0, "pairs for each figure; 0 looks only at whether everything works, with one short pair")
	seconds = flag.Duration("seconds", 2*time.Second, "length of one run")
	volume  = flag.Int("volume", 768<<20, "most bytes of one run: more than the page cache takes would measure the disk")
	warm    = flag.Duration("warm", 5*time.Second, "length of each part of the warm-up, when -rounds is given")
	only    = flag.String("cases", "", "regular expression: loads to measure, as they are printed")
	parts   = flag.String("parts", "cpu,latency,memory,floor", "what to measure")
	outFile = flag.String("out", "", "file for the figures as JSON")
	ours    = flag.String("sawlog", "", "command line to measure; empty: that of this tree")
	base    = flag.String("base", "", "another command line of Sawlog, to take the place of Kafka")
)

// loads are the rows of the table. The ones at the end show what flushing costs.
func loads() []load {
	var all []load
	for _, driver := range []string{"kgo", "replay"} {
		for _, size := range []int{100, 1024} {
			for _, codec := range []string{"none", "zstd"} {
				for _, partitions := range []int32{1, 16} {
					all = append(all, load{driver, size, codec, partitions, "never"})
				}
			}
		}
	}
	return append(all, load{"replay", 1024, "none", 16, "default"}, load{"replay", 1024, "none", 16, "second"})
}

// pair is one load on both brokers, next to each other in time.
type pair struct {
	Sawlog run `json:"sawlog"`
	Kafka  run `json:"kafka"`
}

// row is all pairs of one load in one direction.
type row struct {
	Load  load   `json:"load"`
	Op    string `json:"op"` // produce or fetch
	Pairs []pair `json:"pairs"`
	CPU   spread `json:"cpu"`  // ratio of CPU seconds per GB
	Rate  spread `json:"rate"` // ratio of bytes per second
}

// tail is the latency of one load at one share of the slower broker's peak.
type tail struct {
	Load   load        `json:"load"`
	Share  float64     `json:"share"`
	Rate   float64     `json:"rate"` // bytes per second
	Sawlog []quantiles `json:"sawlog"`
	Kafka  []quantiles `json:"kafka"`
	P50    spread      `json:"p50"` // ratios
	P99    spread      `json:"p99"`
	P999   spread      `json:"p999"`
}

// results is the whole outcome, as it is written to -out.
type results struct {
	Command string    `json:"command"`
	Peer    string    `json:"peer"` // what K stands for
	Machine string    `json:"machine"`
	Time    time.Time `json:"time"`
	Rows    []*row    `json:"rows"`
	Tails   []*tail   `json:"tails"`
	Memory  []memory  `json:"memory"`
	Floors  []floor   `json:"floors"`
}

// newBench measures what the flags ask for: those of all loads that -only names;
// without -rounds a few of them, once and little of each, which only shows that
// everything works.
func newBench(t *testing.T, all, few []load) *bench {
	b := &bench{rounds: *rounds, seconds: *seconds, loads: few}
	b.results = results{Command: strings.Join(os.Args, " "), Machine: machine(), Time: time.Now().UTC()}
	if *rounds > 0 {
		pattern := regexp.MustCompile(*only)
		b.loads = slices.DeleteFunc(all, func(l load) bool { return !pattern.MatchString(l.String()) })
		return b
	}
	b.rounds, b.seconds = 1, time.Second/2
	whole := *volume
	*volume /= 16
	t.Cleanup(func() { *volume = whole })
	return b
}

// TestPeers measures Sawlog against Apache Kafka. Its only judgement is that
// everything was acknowledged and read again, in order: what the figures have to
// be is for the reader, who knows what else the machine was doing.
func TestPeers(t *testing.T) {
	// One of each driver, codec and size is enough to see that it works.
	b := newBench(t, loads(), []load{{"kgo", 100, "zstd", 16, "never"}, {"replay", 1024, "none", 1, "default"}})
	if *base != "" {
		b.kafka = start(t, peer.Sawlog, peer.Options{Binary: *base})
		b.kafka.Name, b.results.Peer = "base", *base
	} else {
		b.kafka = start(t, peer.Kafka, peer.Options{Heap: "1g", Topics: map[string]string{"file.delete.delay.ms": "1000"}})
		b.results.Peer = "Apache Kafka of testdata/java/pom.xml, KRaft, one node, heap 1g"
	}
	b.sawlog = start(t, peer.Sawlog, peer.Options{Binary: *ours})
	defer b.report(t) // what there is, also when something fails
	b.remember(t, "idle, new")
	b.warmUp(t)
	for part := range strings.SplitSeq(*parts, ",") {
		switch part {
		case "cpu":
			b.pairs(t)
		case "latency":
			b.tails(t)
		case "memory":
			b.remember(t, "idle, after load")
			b.catchUp(t)
		case "floor":
			for range b.rounds {
				b.results.Floors = append(b.results.Floors, measureFloor(t, int64(min(*volume, 256<<20))))
			}
		default:
			t.Fatalf("no part %q", part)
		}
	}
}

// bench is one run of TestPeers.
type bench struct {
	sawlog, kafka *target
	rounds        int
	seconds       time.Duration
	loads         []load
	results       results
	topics        int
}

// report prints the table and writes the figures.
func (b *bench) report(t *testing.T) {
	t.Helper()
	for _, r := range b.results.Rows {
		var cpu, rate []float64
		for _, p := range r.Pairs {
			cpu = append(cpu, p.Sawlog.cpuPerGB()/p.Kafka.cpuPerGB())
			rate = append(rate, p.Sawlog.mbPerS()/p.Kafka.mbPerS())
		}
		r.CPU, r.Rate = spreadOf(cpu), spreadOf(rate)
	}
	t.Logf("\n%s", b.results.table())
	if *outFile == "" {
		return
	}
	if err := writeJSON(*outFile, b.results); err != nil {
		t.Error(err)
	}
}

// writeJSON writes figures to a file.
func writeJSON(path string, figures any) error {
	data, err := json.MarshalIndent(figures, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// topic is a name that was not used before.
func (b *bench) topic() string {
	b.topics++
	return fmt.Sprintf("bench-%d", b.topics)
}

// order is which broker comes first in a round.
func (b *bench) order(round int) []*target {
	if round%2 == 0 {
		return []*target{b.sawlog, b.kafka}
	}
	return []*target{b.kafka, b.sawlog}
}

// warmUp loads both brokers, discarding the figures: the compilers of Java's
// machine need some time until the code is as fast as it gets.
func (b *bench) warmUp(t *testing.T) {
	t.Helper()
	each := time.Second / 2
	if *rounds > 0 {
		each = *warm
	}
	if each == 0 {
		return
	}
	for _, l := range []load{{"kgo", 100, "zstd", 16, "never"}, {"kgo", 1024, "none", 1, "never"}, {"replay", 100, "none", 16, "never"}, {"replay", 1024, "zstd", 1, "never"}} {
		for _, s := range b.order(0) {
			produce, fetch := s.cell(t, l, b.topic(), each)
			t.Logf("warm-up: %-6s %-36s produce %7.1f MB/s, %.3f s/GB; fetch %7.1f MB/s, %.3f s/GB", s.Name, l,
				produce.mbPerS(), produce.cpuPerGB(), fetch.mbPerS(), fetch.cpuPerGB())
		}
	}
}

// pairs measures CPU time and peak rates.
func (b *bench) pairs(t *testing.T) {
	t.Helper()
	for _, l := range b.loads {
		for _, op := range []string{"produce", "fetch"} {
			b.results.Rows = append(b.results.Rows, &row{Load: l, Op: op})
		}
	}
	for round := range b.rounds {
		for i, l := range b.loads {
			var produce, fetch pair
			for _, s := range b.order(round + i) {
				p, f := s.cell(t, l, b.topic(), b.seconds)
				if s == b.sawlog {
					produce.Sawlog, fetch.Sawlog = p, f
				} else {
					produce.Kafka, fetch.Kafka = p, f
				}
			}
			t.Logf("round %d: %-36s produce %s; fetch %s", round, l, produce, fetch)
			b.results.Rows[2*i].Pairs = append(b.results.Rows[2*i].Pairs, produce)
			b.results.Rows[2*i+1].Pairs = append(b.results.Rows[2*i+1].Pairs, fetch)
		}
	}
}

func (p pair) String() string {
	return fmt.Sprintf("CPU %.3f/%.3f s/GB = %.2f, rate %.0f/%.0f MB/s = %.2f", p.Sawlog.cpuPerGB(), p.Kafka.cpuPerGB(),
		p.Sawlog.cpuPerGB()/p.Kafka.cpuPerGB(), p.Sawlog.mbPerS(), p.Kafka.mbPerS(), p.Sawlog.mbPerS()/p.Kafka.mbPerS())
}

// tails measures latencies in open loops.
func (b *bench) tails(t *testing.T) {
	t.Helper()
	for _, l := range []load{{"replay", 1024, "none", 16, "never"}, {"replay", 100, "zstd", 16, "never"}, {"replay", 1024, "none", 16, "default"}} {
		if !regexp.MustCompile(*only).MatchString(l.String()) {
			continue
		}
		var slowest float64
		for round := range 2 {
			for _, s := range b.order(round) {
				rate := s.tailRate(t, l, b.topic(), b.seconds)
				t.Logf("peak with a tail: %-6s %s: %.1f MB/s", s.Name, l, rate/1e6)
				if slowest == 0 || rate < slowest {
					slowest = rate
				}
			}
		}
		for _, share := range []float64{0.3, 0.6} {
			r := &tail{Load: l, Share: share, Rate: share * slowest}
			for round := range b.rounds {
				for _, s := range b.order(round) {
					q := s.openLoop(t, l, b.topic(), r.Rate, b.seconds/2, 2*b.seconds)
					t.Logf("round %d: %-6s %s at %.0f %%: %s", round, s.Name, l, 100*share, q)
					if s == b.sawlog {
						r.Sawlog = append(r.Sawlog, q)
					} else {
						r.Kafka = append(r.Kafka, q)
					}
				}
			}
			r.compare()
			b.results.Tails = append(b.results.Tails, r)
		}
	}
}

// compare fills the ratios in.
func (r *tail) compare() {
	r.P50 = ratios(r, func(q quantiles) float64 { return q.P50 })
	r.P99 = ratios(r, func(q quantiles) float64 { return q.P99 })
	r.P999 = ratios(r, func(q quantiles) float64 { return q.P999 })
}

func ratios(r *tail, of func(quantiles) float64) spread {
	var v []float64
	for i := range r.Sawlog {
		v = append(v, of(r.Sawlog[i])/of(r.Kafka[i]))
	}
	return spreadOf(v)
}

// medianOf is the median of one figure over runs.
func medianOf[T any](all []T, of func(T) float64) float64 {
	v := make([]float64, len(all))
	for i := range all {
		v[i] = of(all[i])
	}
	return median(v)
}

// table prints the results for people.
func (r *results) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s, %s\nS is Sawlog, K is %s\nratios are S / K: median of the pairs  min..max  [bootstrap 95 %%]\n\n", r.Command, r.Machine, r.Time.Format(time.DateTime), r.Peer)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	if len(r.Rows) > 0 {
		fmt.Fprintf(w, "op\tdriver\tbytes\tcodec\tparts\tflush\tCPU s/GB S\tK\tratio\tMB/s S\tK\tratio\tforeign\n")
	}
	for _, op := range []string{"produce", "fetch"} {
		for _, row := range r.Rows {
			if row.Op != op {
				continue
			}
			l := row.Load
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%s\t%.3f\t%.3f\t%s\t%.0f\t%.0f\t%s\t%.0f %%\n", op, l.Driver, l.Size, l.Codec, l.Partitions, l.Flush,
				medianOf(row.Pairs, func(p pair) float64 { return p.Sawlog.cpuPerGB() }),
				medianOf(row.Pairs, func(p pair) float64 { return p.Kafka.cpuPerGB() }), row.CPU,
				medianOf(row.Pairs, func(p pair) float64 { return p.Sawlog.mbPerS() }),
				medianOf(row.Pairs, func(p pair) float64 { return p.Kafka.mbPerS() }), row.Rate,
				100*medianOf(row.Pairs, func(p pair) float64 { return (p.Sawlog.Foreign + p.Kafka.Foreign) / 2 }))
		}
	}
	if len(r.Tails) > 0 {
		fmt.Fprintf(w, "\nlatency\tMB/s\tquantile\tms S\tK\tratio\n")
	}
	for _, q := range r.Tails {
		for _, part := range []struct {
			name string
			of   func(quantiles) float64
			r    spread
		}{
			{"p50", func(q quantiles) float64 { return q.P50 }, q.P50},
			{"p99", func(q quantiles) float64 { return q.P99 }, q.P99},
			{"p99.9", func(q quantiles) float64 { return q.P999 }, q.P999},
		} {
			fmt.Fprintf(w, "%s at %.0f %%\t%.0f\t%s\t%.2f\t%.2f\t%s\n", q.Load, 100*q.Share, q.Rate/1e6, part.name,
				medianOf(q.Sawlog, part.of), medianOf(q.Kafka, part.of), part.r)
		}
	}
	if len(r.Memory) > 0 {
		fmt.Fprintf(w, "\nmemory\tRssAnon MiB S\tK\tratio\tRSS MiB S\tK\tHeapInuse MiB S\n")
	}
	for _, m := range r.Memory {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.3f\t%.1f\t%.1f\t%.1f\n", m.When, m.SawlogAnon/mib, m.KafkaAnon/mib, m.SawlogAnon/m.KafkaAnon,
			m.SawlogRSS/mib, m.KafkaRSS/mib, m.HeapInuse/mib)
	}
	if len(r.Floors) > 0 {
		fmt.Fprintf(w, "\nthe kernel's part\tCPU s/GB\n")
		fmt.Fprintf(w, "produce: read, pwrite of 16 KiB\t%.3f\n", medianOf(r.Floors, func(f floor) float64 { return f.Produce }))
		fmt.Fprintf(w, "fetch: sendfile of 1 MiB\t%.3f\n", medianOf(r.Floors, func(f floor) float64 { return f.Fetch }))
	}
	_ = w.Flush() // to a string: can't fail
	return out.String()
}
