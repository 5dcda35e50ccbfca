package loader

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

// foreign are files that people and other programs put beside those of a data
// set: none has the form of its files, or stands where one belongs.
var foreign = []string{
	"notes.txt", "dt=2025-11-29/part-00000.parquet", "dt=2025-11-29/hr=00/part-00000.snappy.parquet", "dt=2025-11-29/hr=00/.hidden",
	"dt=2025-11-29/hr=00/views-abcdef01.parquet", "other/data.parquet", SystemDir + "/README", StagesDir + "/README",
	StagesDir + "/0123456789abcdef/0/x/y.part", QuarantineDir + "/notes.txt", CheckpointDir + "/notes", TempDir + "/young",
	RetiredDir + "/README", RetiredDir + "/3/kept.parquet", RetiredDir + "/99/dt=2025-11-29/hr=00/x.parquet", RetiredDir + "/0003/x",
}

func putForeign(t *testing.T, s sink.Sink) {
	t.Helper()
	for _, name := range foreign {
		dir := strings.TrimPrefix(path.Dir(name), ".")
		if err := errors.Join(s.MkdirAll(dir), sink.Write(s, name, []byte(name)), s.Sync(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutForeign wants them all to be there, and takes them out of a tree.
func withoutForeign(t *testing.T, s sink.Sink, files map[string]string) map[string]string {
	t.Helper()
	files = maps.Clone(files)
	for _, name := range foreign {
		if body, err := s.ReadFile(name); err != nil || string(body) != name {
			t.Errorf("a sweep took %s: %v", name, err)
		}
		delete(files, name)
	}
	return files
}

// sweepAt sweeps as of a time after the records were written.
func sweepAt(t *testing.T, s sink.Sink, later time.Duration) *SweepReport {
	t.Helper()
	c := (&source{}).config(s)
	now := c.Now().Add(later)
	c.Now = func() time.Time { return now }
	l, err := OpenLedger(t.Context(), s, "views", "views-hourly", c)
	if err != nil {
		t.Fatal(err)
	}
	report, err := l.Sweep(t.Context(), false)
	if err != nil {
		t.Fatalf("sweep: %v", err)
	}
	return report
}

// TestSweepTakesOnlyLeftOvers dies at fault points with files of others around,
// and sweeps before and after the recovery: what crashes left goes, once, and
// nothing else ever.
func TestSweepTakesOnlyLeftOvers(t *testing.T) {
	want, points := faultless(t)
	for k := 0; k < len(points); k += 7 {
		mem := vfs.NewMem()
		count := 0
		err := drive(t.Context(), local.New(mem, "/root"), &source{}, func(FaultPoint) error {
			if count++; count == k+1 {
				return errCrash
			}
			return nil
		})
		if !errors.Is(err, errCrash) {
			t.Fatalf("point %d (%s): %v", k, points[k], err)
		}
		s := local.New(mem.CrashClone(nil), "/root")
		putForeign(t, s)
		sweepAt(t, s, 0)
		if err := drive(t.Context(), s, &source{prefix: "recovery-"}, nil); err != nil {
			t.Fatalf("point %d (%s): recovery: %v", k, points[k], err)
		}
		sweepAt(t, s, 0)
		sameTree(t, withoutForeign(t, s, data(t, s)), want.now)
		for name := range withoutForeign(t, s, tree(t, s, StagesDir)) {
			t.Errorf("point %d (%s): the sweep left %s", k, points[k], name)
		}
		if again := sweepAt(t, s, 0); len(again.Removed)+len(again.Marked) > 0 {
			t.Errorf("point %d (%s): swept twice: %s", k, points[k], strings.Join(again.Removed, " "))
		}
	}
}

// retiredBy lists the files under the retired folder by the record that put them
// there.
func retiredBy(t *testing.T, s sink.Sink) map[string]int {
	t.Helper()
	by := map[string]int{}
	for name := range withoutForeign(t, s, tree(t, s, RetiredDir)) {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, RetiredDir+"/"), "/")
		by[number]++
	}
	return by
}

// TestSweepRetired keeps what was retired for a week and then takes it away,
// where it dies at any change of the file system too.
func TestSweepRetired(t *testing.T) {
	mem := vfs.NewMem()
	s := local.New(mem, "/root")
	if err := drive(t.Context(), s, &source{}, nil); err != nil {
		t.Fatal(err)
	}
	sweepAt(t, s, 0)
	putForeign(t, s)
	before := data(t, s)
	kept := map[string]int{"3": 7, "4": 7, "5": 3} // by supersede, compact and drop
	if by := retiredBy(t, s); !maps.Equal(by, kept) {
		t.Fatalf("retired files %v, want %v", by, kept)
	}
	if report := sweepAt(t, s, retiredGrace); len(report.Removed) > 0 {
		t.Errorf("a week is not over, and gone are %v", report.Removed)
	}
	changes := 0
	whole := mem.CrashClone(nil)
	whole.Inject(counted(&changes, -1))
	report := sweepAt(t, local.New(whole, "/root"), retiredGrace+time.Second)
	if len(report.Removed) != 9 || changes != 9 { // files of one folder that others share, and two folders
		t.Fatalf("%d removals in %d changes: %v", len(report.Removed), changes, report.Removed)
	}
	for cut := range changes {
		left := mem.CrashClone(nil)
		n := 0
		left.Inject(counted(&n, cut))
		dying := local.New(left, "/root")
		c := (&source{}).config(dying)
		c.Now = func() time.Time { return time.Unix(hourZero, 0).Add(retiredGrace + time.Second) }
		l, err := OpenLedger(t.Context(), dying, "views", "views-hourly", c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Sweep(t.Context(), false); !errors.Is(err, errCrash) {
			t.Fatalf("change %d: %v", cut, err)
		}
		left.Inject(nil)
		rest := local.New(left.CrashClone(rand.New(rand.NewPCG(uint64(cut), 3))), "/root")
		sweepAt(t, rest, retiredGrace+time.Second)
		if by := retiredBy(t, rest); len(by) > 0 {
			t.Errorf("change %d: the sweep left %v", cut, by)
		}
		sameTree(t, data(t, rest), before)
		sound(t, (&source{}).open(t, withForeignGone(t, rest)))
	}
}

// withForeignGone takes the files of others away, which a verify complains of.
func withForeignGone(t *testing.T, s sink.Sink) sink.Sink {
	t.Helper()
	for _, name := range foreign {
		if err := s.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// counted counts the changes of a file system and fails those from the nth on;
// a negative n fails none.
func counted(count *int, n int) func(op vfs.Op, _ string) error {
	var mu sync.Mutex
	return func(op vfs.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		switch op {
		case vfs.OpStat, vfs.OpRead, vfs.OpReadDir, vfs.OpOpen, vfs.OpSync, vfs.OpSyncDir:
			return nil
		}
		if *count++; n >= 0 && *count > n {
			return errCrash
		}
		return nil
	}
}

// TestSweptSources loses a file that a rewrite made, before and after the files it
// was made of were swept: it comes back, or the error says what brings its rows
// back.
func TestSweptSources(t *testing.T) {
	r := small(t)
	r.rewrite(RewriteAsk{})
	lose := func() string {
		t.Helper()
		v := r.ledger().Fold().VisibleOf(3)[0]
		if err := r.d.Sink.Remove(v.Path); err != nil {
			t.Fatal(err)
		}
		return v.Path
	}
	lose()
	if report, err := r.d.Rerun(t.Context(), "3"); err != nil || report.Restored != 1 {
		t.Fatalf("rerun %+v, %v", report, err)
	}
	r.now = r.now.Add(retiredGrace + time.Hour)
	report, err := r.ledger().Sweep(t.Context(), false)
	if err != nil || !slices.Contains(report.Removed, RetiredDir+"/3") {
		t.Fatalf("swept %+v, %v", report, err)
	}
	r.sound()
	lost := lose()
	_, err = r.d.Rerun(t.Context(), "3")
	exits(t, err, ExitMismatch, "rewrite of ")
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "backfill") {
		t.Errorf("no way out: %v", err)
	}
	p, _ := r.plan(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"0", "1", "2"}}})
	if !slices.Contains(p.Retires, lost) {
		t.Errorf("the way out leaves %s: %v", lost, p.Retires)
	}
	if out, err := r.run(p); err != nil || out.Rows != 12 {
		t.Errorf("%+v %v", out, err)
	}
	r.sound()
}
