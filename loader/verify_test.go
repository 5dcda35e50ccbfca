package loader

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		ruin func(s sink.Sink, rec *Record) (name string, err error)
		kind string
		run  bool // a verify of the run sees it too
	}{
		"missing": {func(s sink.Sink, rec *Record) (string, error) {
			return rec.Files[0].Path, s.Remove(rec.Files[0].Path)
		}, "missing", true},
		"cut": {func(s sink.Sink, rec *Record) (string, error) {
			rewrite(s, rec.Files[0].Path, func(b []byte) []byte { return b[1:] })
			return rec.Files[0].Path, nil
		}, "changed", true},
		"flipped": {func(s sink.Sink, rec *Record) (string, error) {
			rewrite(s, rec.Files[0].Path, func(b []byte) []byte { b[0] ^= 1; return b })
			return rec.Files[0].Path, nil
		}, "changed", true},
		"quarantine missing": {func(s sink.Sink, rec *Record) (string, error) {
			name := QuarantinePath(rec.Plan, 0)
			return name, s.Remove(name)
		}, "missing", true},
		"extra in an hour": {func(s sink.Sink, rec *Record) (string, error) {
			name := path.Join(path.Dir(rec.Files[0].Path), "part-0.parquet")
			return name, sink.Write(s, name, []byte("x"))
		}, "extra", true},
		"extra hour": {func(s sink.Sink, _ *Record) (string, error) {
			return "dt=2020-01-01/x.parquet", errors.Join(s.MkdirAll("dt=2020-01-01"), sink.Write(s, "dt=2020-01-01/x.parquet", []byte("x")))
		}, "extra", false},
		"extra quarantine": {func(s sink.Sink, _ *Record) (string, error) {
			return QuarantineDir + "/x", sink.Write(s, QuarantineDir+"/x", []byte("x"))
		}, "extra", false},
		"manifest gone": {func(s sink.Sink, rec *Record) (string, error) {
			name := ManifestPath(path.Dir(rec.Files[0].Path))
			return name, s.Remove(name)
		}, "mark", true},
		"manifest changed": {func(s sink.Sink, rec *Record) (string, error) {
			name := ManifestPath(path.Dir(rec.Files[0].Path))
			rewrite(s, name, func(b []byte) []byte { return []byte(strings.Replace(string(b), `"rows":`, `"rows":1`, 1)) })
			return name, nil
		}, "mark", true},
		"manifest cut": {func(s sink.Sink, rec *Record) (string, error) {
			name := ManifestPath(path.Dir(rec.Files[0].Path))
			rewrite(s, name, func(b []byte) []byte { return b[:20] })
			return name, nil
		}, "mark", true},
		"success gone": {func(s sink.Sink, rec *Record) (string, error) {
			dir := path.Dir(rec.Files[0].Path)
			return ManifestPath(dir), s.Remove(SuccessPath(dir))
		}, "mark", true},
		"success of another": {func(s sink.Sink, rec *Record) (string, error) {
			dir := path.Dir(rec.Files[0].Path)
			rewrite(s, SuccessPath(dir), func([]byte) []byte { return []byte(`{"number":7}`) })
			return ManifestPath(dir), nil
		}, "mark", true},
		"success too early": {func(s sink.Sink, rec *Record) (string, error) {
			dir := "dt=2025-11-29/hr=02"
			return ManifestPath(dir), sink.Write(s, SuccessPath(dir), []byte(`{"number":0}`))
		}, "mark", true},
		"plan gone": {func(s sink.Sink, rec *Record) (string, error) {
			return PlanPath(rec.Plan), s.Remove(PlanPath(rec.Plan))
		}, "plan", false},
	} {
		t.Run(name, func(t *testing.T) {
			src, s := &source{}, memSink()
			l := src.open(t, s)
			rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 50}), "run-1")
			// A record that touches no hour: the head says nothing of the hours.
			p := fakePlan(l.Fold(), span{1, 0, 10})
			planID, err := l.PutPlan(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Abandon(t.Context(), planID, "run-2", CommitOptions{}); err != nil {
				t.Fatal(err)
			}
			want, err := c.ruin(s, rec)
			if err != nil {
				t.Fatal(err)
			}
			for what, sees := range map[string]bool{"": true, "run-1": c.run} {
				report, err := src.open(t, s).Verify(t.Context(), what)
				if !sees {
					if err != nil {
						t.Errorf("verify of the run: %v", err)
					}
					continue
				}
				exits(t, err, ExitMismatch, want)
				if len(report.Problems) != 1 || report.Problems[0].Path != want || report.Problems[0].Kind != c.kind || report.OK {
					t.Errorf("verify %q: %+v, want one %s at %s", what, report.Problems, c.kind, want)
				}
			}
			if c.kind == "mark" { // a sweep mends marks
				if report, err := src.open(t, s).Sweep(t.Context(), false); err != nil || len(report.Marked) != 1 {
					t.Errorf("sweep: %+v, %v", report, err)
				}
				sound(t, src.open(t, s))
			}
		})
	}
	_, l := ran(t, memSink())
	_, err := l.Verify(t.Context(), "nothing")
	exits(t, err, ExitNotFound, "nothing")
}

// TestVerifyMakesNothing has the folder of an hour gone: verify tells, and does
// not make its files again; rerun does.
func TestVerifyMakesNothing(t *testing.T) {
	s := memSink()
	src, _ := ran(t, s)
	if err := s.RemoveAll("dt=2025-11-29/hr=02"); err != nil {
		t.Fatal(err)
	}
	before := src.attempts.Load()
	report, err := src.open(t, s).Verify(t.Context(), "run-2")
	exits(t, err, ExitMismatch)
	if len(report.Problems) != 3 { // the file, the manifest, and that the head cannot be published
		t.Errorf("problems %+v", report.Problems)
	}
	if src.attempts.Load() != before {
		t.Error("verify carried splits out")
	}
	// The hour held files of both runs; run-1's are not the last record's.
	for _, run := range []string{"run-2", "run-1"} {
		if report, err := src.open(t, s).Rerun(t.Context(), run); err != nil || report.Restored != 1 {
			t.Errorf("rerun of %s: %+v, %v", run, report, err)
		}
	}
	sound(t, src.open(t, s))
}

func TestSweep(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	open := fakePlan(l.Fold(), span{2, 0, 40})
	openID, err := l.PutPlan(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.attempt(s, open, openID, 0); err != nil {
		t.Fatal(err)
	}
	// A replaced plan whose stage an open one carries over, and one whose is not.
	carried, plain := fakePlan(l.Fold(), span{3, 0, 40}), fakePlan(l.Fold(), span{4, 0, 40})
	carriedID, err1 := l.PutPlan(t.Context(), carried)
	plainID, err2 := l.PutPlan(t.Context(), plain)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for id, p := range map[string]*Plan{carriedID: carried, plainID: plain} {
		if _, err := src.attempt(s, p, id, 0); err != nil {
			t.Fatal(err)
		}
		next := fakePlan(l.Fold(), span{p.Inputs[0].Partition, 0, 40})
		next.Replaces, next.Revision = id, 1
		if p == carried {
			next.Splits[0].Stage, next.Splits[0].Schema = id, p.Schema
		}
		if _, err := l.PutPlan(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	late := FinalPath("dt=2025-11-29/hr=00", "0123456789abcdef", "parquet", &open.Splits[0])
	foreign := "dt=2025-11-29/hr=00/notes.txt"
	unknown := AttemptDir("0123456789abcdef", 0, "x")
	bad := QuarantinePath("0123456789abcdef", 0)
	if err := errors.Join(
		sink.Write(s, late, []byte("x")), sink.Write(s, foreign, []byte("x")), sink.Write(s, bad, []byte("x")),
		s.MkdirAll(unknown), s.MkdirAll(TempDir), sink.Write(s, TempDir+"/old", []byte("x")),
	); err != nil {
		t.Fatal(err)
	}
	c := src.config(s)
	c.Now = func() time.Time { return time.Now().Add(tempAge + time.Hour) }
	sweeper, err := OpenLedger(t.Context(), s, "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{late, bad, path.Join(StagesDir, rec.Plan), path.Join(StagesDir, plainID), TempDir + "/old"}
	for _, dry := range []bool{true, false} {
		before := tree(t, s, "")
		report, err := sweeper.Sweep(t.Context(), dry)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if !slices.Contains(report.Removed, name) {
				t.Errorf("dry %v: %s stays; removed %v", dry, name, report.Removed)
			}
		}
		for _, name := range report.Removed {
			if strings.Contains(name, openID) || strings.Contains(name, carriedID) || name == foreign {
				t.Errorf("dry %v: %s was swept", dry, name)
			}
		}
		if fmt.Sprint(report.Kept) != "["+path.Dir(path.Dir(unknown))+"]" {
			t.Errorf("kept %v", report.Kept)
		}
		if dry {
			sameTree(t, tree(t, s, ""), before)
		}
	}
	if err := s.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	sound(t, sweeper)
	before := src.attempts.Load()
	src.mustRun(t, sweeper, open, "run-3")
	if src.attempts.Load() != before {
		t.Error("the stage of the open plan was swept")
	}
}

func TestHistory(t *testing.T) {
	_, l := ran(t, memSink())
	f := l.Fold()
	for what, want := range map[string]int64{"run-1": 0, "run-2": 1, "0": 0, "1": 1, f.Records[1].Plan: 1} {
		if ref, err := f.Lookup(what); err != nil || ref.Number != want {
			t.Errorf("%s is record %d, %v; want %d", what, ref.Number, err, want)
		}
	}
	for _, what := range []string{"2", "-1", "run-3", ""} {
		if _, err := f.Lookup(what); ExitCode(err) != ExitNotFound {
			t.Errorf("%q: %v", what, err)
		}
	}
	names := func(files []*Visible) string {
		var out []string
		for _, v := range files {
			out = append(out, path.Base(v.Path))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		topic     string
		partition int32
		at        int64
		files     int
		word      string
	}{
		{"views", 0, 10, 4, "-00000-00000000000000000000-"}, // 3 hours and the bad records
		{fakeTopic.String(), 1, 29, 3, "-00001-"},
		{"views", 1, 30, 5, "merged-"}, // 4 hours and the bad records
		{"views", 0, 89, 5, "merged-"},
		{"views", 0, 90, 0, ""},
		{"views", 2, 0, 0, ""},
		{"clicks", 0, 0, 0, ""},
	} {
		found := f.HoldersOf(c.topic, c.partition, toOffset(c.at))
		if len(found) != c.files || !strings.Contains(names(found), c.word) {
			t.Errorf("%s/%d@%d: %s", c.topic, c.partition, c.at, names(found))
		}
		if f.Covers(c.topic, c.partition, toOffset(c.at)) != (c.files > 0) {
			t.Errorf("%s/%d@%d: covered %v", c.topic, c.partition, c.at, c.files == 0)
		}
	}
	if n := len(f.All()); n != len(f.Files) || n != 12 {
		t.Errorf("%d files of %d", n, len(f.Files))
	}
	for _, h := range f.HourStates(hourZero, hourZero+3600) {
		if h.Key != hourZero || h.Hour != "2025-11-29T00:00:00Z" {
			t.Errorf("hour %+v", h)
		}
	}
}

// TestTwoDrivers has two drivers commit to one data set at once: disjoint work
// lands twice, overlapping work once and the other is a conflict.
func TestTwoDrivers(t *testing.T) {
	disk, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("memory", func(t *testing.T) { twoDrivers(t, memSink(), 100) })
	t.Run("disk", func(t *testing.T) { twoDrivers(t, disk, 10) })
}

func twoDrivers(t *testing.T, s sink.Sink, rounds int) {
	src := &source{}
	conflicts, both := 0, 0
	for round := range rounds {
		at := int64(round) * 10
		disjoint := round%2 == 0
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for d := range 2 {
			l := src.open(t, s)
			spans := []span{{int32(d), at, at + 10}}
			if !disjoint {
				spans = []span{{0, at, at + 10}, {1, at, at + 10}}
			}
			p := fakePlan(l.Fold(), spans...)
			p.Now += int64(d) // two plans
			p.Schema = fakeSchema(fmt.Sprintf("column_%d", d))
			wg.Go(func() { _, errs[d] = src.run(t.Context(), l, p, fmt.Sprintf("run-%d-%d", round, d)) })
		}
		wg.Wait()
		for _, err := range errs {
			switch {
			case err == nil:
			case ExitCode(err) == ExitConflict && !disjoint:
				conflicts++
			default:
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if disjoint && errors.Join(errs...) == nil {
			both++
		}
	}
	l := src.open(t, s)
	if conflicts != rounds/2 || both != rounds/2 || l.Fold().Head != int64(rounds/2+rounds)-1 {
		t.Errorf("%d conflicts and %d times both in %d rounds, head %d", conflicts, both, rounds, l.Fold().Head)
	}
	for key, p := range l.Fold().Partitions {
		if p.Next() != toOffset(int64(rounds)*10) {
			t.Errorf("partition %d is loaded to %d", key.Partition, p.Next())
		}
	}
	sound(t, l)
}

// readOnlyFS is a file system mounted for reading only, or of somebody else.
type readOnlyFS struct {
	vfs.FS
	err error
}

func (f *readOnlyFS) no(op, name string) error { return &os.PathError{Op: op, Path: name, Err: f.err} }

func (f *readOnlyFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		return nil, f.no("open", name)
	}
	return f.FS.OpenFile(name, flag, perm)
}
func (f *readOnlyFS) Remove(name string) error                  { return f.no("remove", name) }
func (f *readOnlyFS) RemoveAll(name string) error               { return f.no("remove", name) }
func (f *readOnlyFS) Rename(from, _ string) error               { return f.no("rename", from) }
func (f *readOnlyFS) Link(from, _ string) error                 { return f.no("link", from) }
func (f *readOnlyFS) Mkdir(name string, _ os.FileMode) error    { return f.no("mkdir", name) }
func (f *readOnlyFS) MkdirAll(name string, _ os.FileMode) error { return f.no("mkdir", name) }

// A data set that may only be read is verified by reading; a run of it says that
// the store takes nothing.
func TestVerifyWhereNothingIsWritten(t *testing.T) {
	for code, cause := range map[int]error{ExitConflict: syscall.EROFS, ExitAuth: syscall.EACCES} {
		r := newRig(t, 1)
		log := r.src.log("views", 0)
		log.put(t, 1, record.None, lines(view(9, 0, "/a"), view(10, 0, "/b"), "no record")...)
		out := r.load(PlanAsk{})
		open := r.d.Sink
		r.d.Sink = local.New(&readOnlyFS{vfs.OS, cause}, r.root)
		for _, what := range []string{"", out.Run} {
			if v, err := r.d.Verify(t.Context(), what); err != nil || !v.OK || v.Files != 3 {
				t.Errorf("%v, verify %q: %v %+v", cause, what, err, v)
			}
		}
		log.put(t, 1, record.None, lines(view(11, 0, "/c"))...)
		p, _ := r.plan(PlanAsk{})
		_, err := r.run(p)
		exits(t, err, code, cause.Error())
		name := tree(t, open, "dt=2026-11-29/hr=09")
		for file := range name {
			if strings.HasSuffix(file, ".parquet") {
				if err := os.Remove(filepath.Join(r.root, file)); err != nil {
					t.Fatal(err)
				}
			}
		}
		v, err := r.d.Verify(t.Context(), "")
		exits(t, err, ExitMismatch)
		if len(v.Problems) != 1 || v.Problems[0].Kind != "missing" {
			t.Errorf("%+v", v.Problems)
		}
	}
}
