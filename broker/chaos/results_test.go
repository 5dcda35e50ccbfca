//go:build linux

package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// result is what came of a run.
type result struct {
	Seed       uint64      `json:"seed"`
	Began      time.Time   `json:"began"`
	Version    string      `json:"version"`
	Nodes      int         `json:"nodes"`
	Lacks      []string    `json:"lacks,omitempty"` // what this machine can't do
	Also       []string    `json:"also,omitempty"`  // clients beside kgo
	Faults     []fault     `json:"faults"`
	Ops        ops         `json:"ops"`
	HealMS     int64       `json:"heal_ms"` // until every replica was in sync again, from the last fault's end
	Took       float64     `json:"took_s"`
	Violations []violation `json:"violations,omitempty"`
}

// ops counts what clients did.
type ops struct {
	Sent    int `json:"sent"`
	Acked   int `json:"acked"`
	Refused int `json:"refused"`
	Unknown int `json:"unknown"`
	Read    int `json:"read"`
	Commits int `json:"commits"`
	Fetched int `json:"fetched"` // offsets of the group
	Stale   int `json:"stale"`   // of these, such as answered an older state
	Loads   int `json:"loads"`
	Retried int `json:"retried"`
	Rows    int `json:"rows"`
}

func count(h *history) ops {
	o := ops{Sent: len(h.Sent), Read: len(h.Seen), Commits: len(h.Commits), Fetched: len(h.Fetched)}
	for _, s := range h.Sent {
		switch s.Verdict {
		case acked:
			o.Acked++
		case refused:
			o.Refused++
		default:
			o.Unknown++
		}
	}
	return o
}

// line is what the results file keeps of a run.
type line struct {
	Seed    uint64 `json:"seed"`
	Version string `json:"version"` // the commit
	Nodes   int    `json:"nodes"`
	Lacks   int    `json:"lacks,omitempty"` // kinds of faults and clients this machine could not have
	Also    string `json:"also,omitempty"`  // clients beside kgo
	Ops     int    `json:"ops"`             // records sent and read, offsets committed and fetched
	Acked   int    `json:"acked"`
	Stale   int    `json:"stale,omitempty"` // answers that a group stands where it stood before
	Rows    int    `json:"rows"`
	HealMS  int64  `json:"heal_ms"`
	// For each fault how long a partition took no writes from then on.
	Out      map[string][]int64 `json:"out_ms"`
	Violated []string           `json:"violated,omitempty"`
}

func (r *result) line() line {
	l := line{
		Seed: r.Seed, Version: r.Version, Nodes: r.Nodes, Lacks: len(r.Lacks), Also: strings.Join(r.Also, ","), Acked: r.Ops.Acked, Stale: r.Ops.Stale, Rows: r.Ops.Rows,
		Ops: r.Ops.Sent + r.Ops.Read + r.Ops.Commits + r.Ops.Fetched, HealMS: r.HealMS, Out: map[string][]int64{},
	}
	for _, f := range r.Faults {
		if f.Failed == "" {
			l.Out[f.Kind] = append(l.Out[f.Kind], f.Out)
		}
	}
	for _, v := range r.Violations {
		if !slices.Contains(l.Violated, v.Check) {
			l.Violated = append(l.Violated, v.Check)
		}
	}
	return l
}

// readResults reads a results file; a last line that was torn off is left out.
func readResults(file string) ([]line, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	var all []line
	for dec := json.NewDecoder(bufio.NewReader(f)); ; {
		var l line
		if err := dec.Decode(&l); err != nil {
			return all, nil
		}
		all = append(all, l)
	}
}

// addResult appends a run.
func addResult(file string, l line) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	b, err := json.Marshal(l)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// keep leaves all there is to know of a run in its directory.
func (r *result) keep(dir string, h *history) error {
	var errs []error
	for name, what := range map[string]any{
		"result.json": r, "sent.json": h.Sent, "seen.json": h.Seen,
		"offsets.json": slices.Concat(h.Commits, h.Fetched, h.Final),
	} {
		b, err := json.MarshalIndent(what, "", " ")
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return errors.Join(errs...)
}

// summary says what runs have shown.
func summary(all []line) string {
	var b strings.Builder
	failed, joined, ops, acked, stale, rows := 0, 0, 0, 0, 0, 0
	broken, faults := map[string][]uint64{}, map[string][]int64{}
	var heals []int64
	for _, l := range all {
		if len(l.Violated) > 0 {
			failed++
		}
		if l.Also != "" {
			joined++
		}
		for _, check := range l.Violated {
			broken[check] = append(broken[check], l.Seed)
		}
		for kind, out := range l.Out {
			faults[kind] = append(faults[kind], out...)
		}
		heals = append(heals, l.HealMS)
		ops, acked, stale, rows = ops+l.Ops, acked+l.Acked, stale+l.Stale, rows+l.Rows
	}
	_, _ = fmt.Fprintf(&b, "%d runs, %d with a violation", len(all), failed)
	if failed == 0 && len(all) > 0 {
		_, _ = fmt.Fprintf(&b, "; at 95 %% confidence fewer than %.1f %% of runs have one", min(100, 300/float64(len(all))))
	}
	_, _ = fmt.Fprintf(&b, "\noperations %d, records acknowledged %d, Parquet rows %d; Java and librdkafka clients in %d runs; stale offsets told %d times\n", ops, acked, rows, joined, stale)
	for _, c := range []string{"acknowledged lost", "doubled", "reordered"} {
		_, _ = fmt.Fprintf(&b, "%s: %d runs\n", c, len(broken[c]))
	}
	for _, c := range slices.Sorted(maps.Keys(broken)) {
		_, _ = fmt.Fprintf(&b, "violation: %s, seeds %v\n", c, broken[c])
	}
	_, _ = fmt.Fprintf(&b, "all replicas in sync after healing: p50 %s, max %s\n", quantile(heals, 0.5), quantile(heals, 1))
	_, _ = fmt.Fprintf(&b, "%-18s %6s %8s %8s %8s   a partition takes no writes for\n", "fault", "count", "p50", "p99", "max")
	for _, k := range slices.Sorted(maps.Keys(faults)) {
		out := faults[k]
		_, _ = fmt.Fprintf(&b, "%-18s %6d %8s %8s %8s\n", k, len(out), quantile(out, 0.5), quantile(out, 0.99), quantile(out, 1))
	}
	return b.String()
}

// quantile of milliseconds.
func quantile(ms []int64, q float64) time.Duration {
	if len(ms) == 0 {
		return 0
	}
	ms = slices.Sorted(slices.Values(ms))
	return time.Duration(ms[min(len(ms)-1, int(q*float64(len(ms))))]) * time.Millisecond
}

// blame gives each outage to the fault it followed.
func blame(faults []fault, all []outage) {
	for _, o := range all {
		at := o.From.Milliseconds() + probeTick.Milliseconds()
		i, _ := slices.BinarySearchFunc(faults, at, func(f fault, at int64) int { return cmp.Compare(f.At, at) })
		// The fault may have begun while the last acknowledgement was on its way.
		for i > 0 && i == len(faults) || i > 0 && faults[i].At > at {
			i--
		}
		if len(faults) > 0 && faults[i].At <= at {
			faults[i].Out = max(faults[i].Out, (o.To - o.From).Milliseconds())
		}
	}
}

// A results file goes on where it was, even when its last line is torn; its lines
// are short.
func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "results.jsonl")
	for seed := range uint64(3) {
		r := result{Seed: 900 + seed, Version: "0123456+", Nodes: 5, HealMS: int64(1000 * seed), Ops: ops{Sent: 22_000, Acked: 21_000, Read: 60_000, Rows: 18_000}}
		for i, k := range kinds[:12] {
			r.Faults = append(r.Faults, fault{Kind: k.name, Out: int64(1000 + i)})
		}
		r.Faults = append(r.Faults, fault{Kind: "flood", Failed: "there was no water"})
		if seed == 2 {
			r.Violations = []violation{{"doubled", "x"}, {"doubled", "y"}}
		}
		if err := addResult(file, r.line()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		if len(text) > 400 {
			t.Errorf("a line of %d bytes: %s", len(text), text)
		}
	}
	if err := os.WriteFile(file, append(b, `{"seed":9,"nod`...), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readResults(file)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	text := summary(all)
	for _, want := range []string{
		"3 runs, 1 with a violation", "operations 246000, records acknowledged 63000, Parquet rows 54000",
		"doubled: 1 runs", "acknowledged lost: 0 runs", "seeds [902]", "max 2s", "kill                    3       1s       1s       1s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "flood") {
		t.Errorf("a fault that was none is counted:\n%s", text)
	}
	if text := summary(all[:2]); !strings.Contains(text, "fewer than 100.0 %") {
		t.Error(text)
	}
}

// The README says how many runs there were, and what it says is so.
func TestResultsAreWhatTheReadmeSays(t *testing.T) {
	all, err := readResults("results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	acked := 0
	for _, l := range all {
		acked += l.Acked
		if len(l.Violated) > 0 {
			t.Errorf("seed %d of %s violated %v", l.Seed, l.Version, l.Violated)
		}
	}
	want := fmt.Sprintf("%d runs of it with %.1f million acknowledged records", len(all), float64(acked)/1e6)
	if !strings.Contains(string(readme), want) {
		t.Errorf("results.jsonl has grown: README.md has to say %q", want)
	}
}

// An outage counts for the fault before it, an early one for none.
func TestOutagesAreBlamed(t *testing.T) {
	h := newHistory()
	p := place{events, 0}
	for _, at := range []time.Duration{0, 1, 2, 12, 13, 20, 21} {
		h.send(sent{place: p, value: value{Producer: "probe"}, Verdict: acked, From: at * time.Second, To: at * time.Second})
	}
	h.send(sent{place: p, value: value{Producer: "probe"}, Verdict: unknown, From: 14 * time.Second, To: 15 * time.Second})
	all := outages(h, 30*time.Second, 5*time.Second)
	if len(all) != 3 || all[0].To != 12*time.Second || all[1].From != 13*time.Second || all[2].To != 30*time.Second {
		t.Fatalf("outages %v", all)
	}
	faults := []fault{{Kind: "a", At: 1990}, {Kind: "b", At: 13_020}, {Kind: "c", At: 25_000}}
	blame(faults, all)
	if faults[0].Out != 10_000 || faults[1].Out != 9_000 || faults[2].Out != 0 {
		t.Errorf("blamed %+v", faults)
	}
}

// A plan follows from its seed, and has every kind before one comes twice.
func TestPlansFollowFromSeeds(t *testing.T) {
	yes := func(string) bool { return true }
	a, b, c := planned(7, yes, nil), planned(7, yes, nil), planned(8, yes, nil)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Error("a plan is not a function of its seed")
	}
	seen := map[string]bool{}
	for _, s := range a[:len(kinds)] {
		seen[s.kind] = true
	}
	if len(seen) != len(kinds) {
		t.Errorf("%d kinds in the first %d steps", len(seen), len(kinds))
	}
	for _, s := range planned(7, func(needs string) bool { return needs == "" }, nil) {
		if s.kind == "isolate" || s.kind == "disk full" {
			t.Errorf("%s on a machine that can't", s.kind)
		}
	}
	if one := planned(7, yes, []string{"kill"}); len(one) != 4 || one[0].kind != "kill" {
		t.Errorf("only kills: %v", one)
	}
}
