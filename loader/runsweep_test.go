package loader

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

// TestRunsSweepOnceADay has runs leave stages behind, each day at other times, and
// the first of a day take all of them away, whatever else comes before it.
func TestRunsSweepOnceADay(t *testing.T) {
	r := newRig(t, 1)
	r.loads(1)
	for day, hours := range [][]int{{1, 2, 23}, {0}, {5, 6}, {}, {}, {12}, {3, 4}} {
		r.now = time.Date(2026, 12, 1+day, 0, 5, 0, 0, time.UTC)
		if day == 6 { // a person comes first
			if _, _, err := r.ledger().Drop(t.Context(), "drop", DropAsk{Of: "0"}, CommitOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for n, hour := range hours {
			r.now = time.Date(2026, 12, 1+day, hour, 30, 0, 0, time.UTC)
			r.loads(1)
			stages, err := r.d.Sink.List(StagesDir)
			if err != nil {
				t.Fatal(err)
			}
			if len(stages) != n {
				t.Errorf("day %d, run %d: %d stages are left, want %d", day, n, len(stages), n)
			}
		}
	}
}

// loads makes runs of one row each.
func (r *rig) loads(runs int) {
	r.t.Helper()
	for range runs {
		value := fmt.Sprintf(`{"ts":"2026-11-29T14:%02d:00Z","n":%d}`, r.runs%60, r.runs)
		r.src.log("views", 0).put(r.t, 1, record.None, record.Record{Timestamp: -1, Value: []byte(value)})
		if out := r.load(PlanAsk{}); out.Rows != 1 {
			r.t.Fatalf("run %d: %d rows", r.runs, out.Rows)
		}
	}
}

// TestRunsSweepRetired has the next run take away what was retired long ago.
func TestRunsSweepRetired(t *testing.T) {
	r := newRig(t, 1)
	r.loads(2)
	if _, _, err := r.ledger().Drop(t.Context(), "drop", DropAsk{Of: "0"}, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {retiredGrace + time.Hour, 0}} {
		r.now = r.now.Add(c.later)
		r.loads(1)
		if left := tree(t, r.d.Sink, RetiredDir); len(left) != c.want {
			t.Errorf("%v later the retired files are %v, want %d", c.later, left, c.want)
		}
	}
	r.sound()
}

// TestSweepTakesOldPuts leaves what a crash leaves of a put, a day old and new,
// beside records, plans and files on their way.
func TestSweepTakesOldPuts(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	left := []string{LedgerDir + "/" + sink.PutPrefix + "1", PlansDir + "/" + sink.PutPrefix + "2", TempDir + "/3"}
	for _, dir := range left {
		if err := errors.Join(s.MkdirAll(dir), sink.Write(s, dir+"/commit.json", []byte("half"))); err != nil {
			t.Fatal(err)
		}
	}
	c := src.config(s)
	for age, want := range map[time.Duration]int{23 * time.Hour: 0, 25 * time.Hour: len(left)} {
		c.Now = func() time.Time { return time.Now().Add(age) }
		l, err := OpenLedger(t.Context(), s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		report, err := l.Sweep(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		old := 0
		for _, name := range report.Removed {
			if slices.Contains(left, name) {
				old++
			}
		}
		if old != want {
			t.Errorf("after %v %d of %v would go, want %d", age, old, left, want)
		}
	}
	sound(t, l)
}

// TestSweepTakesWhatPutsLeave dies at every change of the file system on the way
// to plans and records, once: a day later a sweep leaves nothing under the ledger
// and the plans that a run without harm does not have there.
func TestSweepTakesWhatPutsLeave(t *testing.T) {
	load := func(mem *vfs.Mem, attempts string) error {
		s := local.New(mem, "/root")
		l, err := OpenLedger(t.Context(), s, "views", "views-hourly", (&source{}).config(s))
		if err != nil {
			return err
		}
		return driveOne(t.Context(), l, &source{prefix: attempts}, fakePlan(NewFold(), span{0, 0, 50}))
	}
	names := func(s sink.Sink) []string {
		return slices.Concat(slices.Sorted(maps.Keys(tree(t, s, LedgerDir))), slices.Sorted(maps.Keys(tree(t, s, PlansDir))), slices.Sorted(maps.Keys(tree(t, s, TempDir))))
	}
	whole := vfs.NewMem()
	changes := 0
	whole.Inject(counted(&changes, -1))
	if err := load(whole, ""); err != nil {
		t.Fatal(err)
	}
	want := names(local.New(whole, "/root"))
	left := 0
	for cut := range changes {
		mem := vfs.NewMem()
		n := 0
		mem.Inject(counted(&n, cut))
		_ = load(mem, "dies-")
		mem = mem.CrashClone(nil)
		s := local.New(mem, "/root")
		if err := load(mem, "again-"); err != nil {
			t.Fatalf("change %d: %v", cut, err)
		}
		left += len(names(s)) - len(want)
		c := (&source{}).config(s)
		c.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
		l, err := OpenLedger(t.Context(), s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Sweep(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := names(s); !slices.Equal(got, want) {
			t.Errorf("change %d: left is %v, want %v", cut, got, want)
		}
	}
	if left < 2 {
		t.Errorf("%d left-overs in %d crashes: the puts were not hit", left, changes)
	}
}
