package loader

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"

	"sawlog/formats/parquet"
	"sawlog/loader/sink"
)

// ran is a data set of two runs.
func ran(t *testing.T, s sink.Sink) (*source, *Ledger) {
	t.Helper()
	src := &source{}
	l := src.open(t, s)
	src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 50}, span{1, 0, 30}), "run-1")
	src.mustRun(t, l, merged(fakePlan(l.Fold(), span{0, 50, 90}, span{1, 30, 60})), "run-2")
	return src, l
}

func TestRerun(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	whole := data(t, s)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, identical, restored int64) {
		t.Helper()
		report, err := src.open(t, s).Rerun(t.Context(), what)
		if err != nil {
			t.Fatal(err)
		}
		if report.Run != "run-1" || report.Number != 0 || report.Identical != identical || report.Restored != restored || report.Changed+report.Retired != 0 {
			t.Errorf("rerun %s: %+v", what, report)
		}
		sameTree(t, data(t, s), whole)
		if left := tree(t, s, StageDir(rec.Plan, 0)); len(left) != 1 { // the first attempt's result
			t.Errorf("the rerun left %d staged files: %v", len(left), left)
		}
	}
	check("run-1", 7, 0)
	check(rec.Plan, 7, 0)
	check("0", 7, 0)
	rewrite(s, rec.Files[0].Path, func(b []byte) []byte { b[2] ^= 1; return b })
	rewrite(s, rec.Files[1].Path, func(b []byte) []byte { return b[:3] })
	if err := errors.Join(s.Remove(rec.Files[2].Path), s.RemoveAll(QuarantineDir)); err != nil {
		t.Fatal(err)
	}
	report, err := src.open(t, s).Rerun(t.Context(), "run-2") // brings back its own quarantine file only
	if err != nil || report.Restored != 1 {
		t.Fatalf("rerun of run-2: %+v, %v", report, err)
	}
	check("run-1", 2, 5)
	if err := s.RemoveAll("dt=2025-11-29"); err != nil { // with manifests and marks
		t.Fatal(err)
	}
	if report, err = src.open(t, s).Rerun(t.Context(), "run-2"); err != nil || report.Restored != 4 || report.Identical != 1 {
		t.Fatalf("rerun of run-2: %+v, %v", report, err)
	}
	if report, err = src.open(t, s).Rerun(t.Context(), "run-1"); err != nil || report.Restored != 5 || report.Identical != 2 {
		t.Fatalf("rerun of run-1: %+v, %v", report, err)
	}
	sound(t, src.open(t, s))
	_, err = src.open(t, s).Rerun(t.Context(), "run-9")
	exits(t, err, ExitNotFound, "run-9")
}

// TestRerunChanged has the log give other bytes: exit 8, nothing is written,
// not even what could be restored.
func TestRerunChanged(t *testing.T) {
	s := memSink()
	_, l := ran(t, s)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(rec.Files[0].Path); err != nil {
		t.Fatal(err)
	}
	before := tree(t, s, "", StagesDir, TempDir)
	changed := &source{salt: " compacted", prefix: "c-"}
	report, err := changed.open(t, s).Rerun(t.Context(), "run-1")
	exits(t, err, ExitMismatch, "7 of 7", "run-1", "nothing was written")
	if report == nil || report.Changed != 7 || report.Files[0].Want == report.Files[0].Got {
		t.Errorf("report %+v", report)
	}
	sameTree(t, tree(t, s, "", StagesDir, TempDir), before)
	// Fewer files than before is a change as well.
	c := changed.config(s)
	c.Remake = func(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
		results, err := (&source{prefix: "d-"}).remake(s)(ctx, ask)
		for _, r := range results {
			for i := range r.Inputs {
				r.Inputs[i].Skipped += r.Inputs[i].Data
				r.Inputs[i].Data = 0
			}
			r.Files = slices.DeleteFunc(r.Files, func(f File) bool { return f.Hour != nil })
		}
		return results, err
	}
	less, err := OpenLedger(t.Context(), s, "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	report, err = less.Rerun(t.Context(), "run-1")
	exits(t, err, ExitMismatch, "5 of 7")
	if report.Identical != 2 {
		t.Errorf("report %+v", report)
	}
}

// supersedeOf replaces all files of a record.
func supersedeOf(t *testing.T, src *source, l *Ledger, number int64) (*Record, error) {
	t.Helper()
	rec, err := l.Record(number)
	if err != nil {
		t.Fatal(err)
	}
	var spans []span
	for _, in := range rec.Inputs {
		spans = append(spans, span{in.Partition, int64(in.Start), int64(in.End)})
	}
	p := fakePlan(l.Fold(), spans...)
	p.Kind = Supersede
	for _, v := range l.Fold().VisibleOf(number) {
		p.Retires = append(p.Retires, v.Path)
	}
	return src.run(t.Context(), l, p, fmt.Sprintf("supersede-%d", number))
}

// TestFolderInPlace puts a folder where a file belongs: verify names it, a rerun
// says that the file is not back and of none that it is. All is well once the
// folder is moved away.
func TestFolderInPlace(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	whole, name := data(t, s), rec.Files[0].Path
	if err := errors.Join(s.Remove(rec.Files[1].Path), s.Remove(name), s.MkdirAll(name+"/in")); err != nil {
		t.Fatal(err)
	}
	verified, err := src.open(t, s).Verify(t.Context(), "")
	exits(t, err, ExitMismatch, "is a folder")
	if verified == nil || !slices.Contains(verified.Problems, Problem{name, "changed", "is a folder"}) {
		t.Errorf("verify: %+v, %v", verified, err)
	}
	report, err := src.open(t, s).Rerun(t.Context(), "run-1")
	exits(t, err, ExitMismatch, name, "a folder is in its place")
	if report == nil || report.Restored != 0 || report.Damaged != 2 || report.Files[0].State != RerunDamaged {
		t.Errorf("report of what failed: %+v", report)
	}
	changed, err := (&source{salt: " compacted", prefix: "c-"}).open(t, s).Rerun(t.Context(), "run-1")
	exits(t, err, ExitMismatch, "nothing was written")
	if changed == nil || changed.Restored != 0 {
		t.Errorf("report of a log that changed: %+v", changed)
	}
	if err := s.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if report, err = src.open(t, s).Rerun(t.Context(), "run-1"); err != nil || report.Restored != 2 || report.Damaged != 0 {
		t.Errorf("without the folder: %+v, %v", report, err)
	}
	sameTree(t, data(t, s), whole)
}

func TestRerunRetired(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	rec, err := supersedeOf(t, src, l, 0)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, l)
	attempts := src.attempts.Load()
	report, err := l.Rerun(t.Context(), "run-1")
	if err != nil || report.Retired != 7 || report.Identical+report.Restored != 0 || *report.Files[0].RetiredBy != rec.Number {
		t.Errorf("rerun of a retired run: %+v, %v", report, err)
	}
	if src.attempts.Load() != attempts {
		t.Error("retired splits were carried out")
	}
	for _, f := range report.Files {
		if _, err := s.Stat(RetiredPath(rec.Number, f.Path)); err != nil {
			t.Errorf("the retired file is not kept: %v", err)
		}
	}
	_, err = l.Rerun(t.Context(), "1")
	if err != nil {
		t.Error(err)
	}
}

// meddler acts once, just before a rename to a path.
type meddler struct {
	sink.Sink
	before string
	act    func()
}

func (s *meddler) Rename(from, to string) error {
	if act := s.act; act != nil && to == s.before {
		s.act = nil
		act()
	}
	return s.Sink.Rename(from, to)
}

// TestRerunOvertaken has a record retire the file between the last look of a
// rerun and its rename: the stage is gone by then, the rename fails (L4), and the
// next look tells why.
func TestRerunOvertaken(t *testing.T) {
	mem := memSink()
	src, l := ran(t, mem)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	lost := rec.Files[0].Path
	if err := mem.Remove(lost); err != nil {
		t.Fatal(err)
	}
	s := &meddler{Sink: mem, before: lost, act: func() {
		if _, err := supersedeOf(t, src, src.open(t, mem), 0); err != nil {
			t.Error(err)
		}
	}}
	report, err := src.open(t, s).Rerun(t.Context(), "run-1")
	if err != nil || report.Retired != 7 || report.Restored+report.Identical != 0 {
		t.Errorf("rerun %+v, %v", report, err)
	}
	if _, err := mem.Stat(lost); !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("a retired file came back: %v", err)
	}
	sound(t, src.open(t, mem))
}

// TestRerunOvertakenByAmend has a record amend the file between the last look of
// a rerun and its rename: the old bytes must not come back.
func TestRerunOvertakenByAmend(t *testing.T) {
	mem := memSink()
	src := &source{}
	l := src.open(t, mem)
	old := fakePlan(l.Fold(), span{0, 0, 50})
	old.Writer.Profile = 1
	rec := src.mustRun(t, l, old, "run-1")
	lost := rec.Files[0].Path
	if err := mem.Remove(lost); err != nil {
		t.Fatal(err)
	}
	s := &meddler{Sink: mem, before: lost, act: func() {
		if _, err := src.open(t, mem).Amend(t.Context(), "run-1", "amend", CommitOptions{}); err != nil {
			t.Error(err)
		}
	}}
	report, err := src.open(t, s).Rerun(t.Context(), "run-1")
	if err != nil || report.Restored != 1 || report.Changed != 0 {
		t.Errorf("rerun %+v, %v", report, err)
	}
	sound(t, src.open(t, mem))
}

// TestRerunAfterRetire has the record come while the rerun works: it is seen,
// and nothing is put back.
func TestRerunAfterRetire(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	rec, err := l.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(rec.Files[0].Path); err != nil {
		t.Fatal(err)
	}
	c := src.config(s)
	c.Remake = func(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
		if _, err := supersedeOf(t, src, src.open(t, s), 0); err != nil {
			t.Error(err)
		}
		return src.remake(s)(ctx, ask)
	}
	late, err := OpenLedger(t.Context(), s, "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	report, err := late.Rerun(t.Context(), "run-1")
	if err != nil || report.Retired != 7 || *report.Files[0].RetiredBy != 2 {
		t.Errorf("report %+v, %v", report, err)
	}
	sound(t, src.open(t, s))
}

// TestPublishOvertaken has a slow publisher of a record find it retired: it
// must not make its files again.
func TestPublishOvertaken(t *testing.T) {
	mem := memSink()
	src := &source{}
	slow := src.open(t, mem)
	p := fakePlan(slow.Fold(), span{0, 0, 50})
	first := FinalPath("dt=2025-11-29/hr=00", PlanID(p), "parquet", &p.Splits[0])
	s := &meddler{Sink: mem, before: first, act: func() {
		fast := src.open(t, mem)
		if err := fast.Publish(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := supersedeOf(t, src, fast, 0); err != nil {
			t.Error(err)
		}
	}}
	slow.sink = s
	if _, err := src.run(t.Context(), slow, p, "run-1"); err != nil {
		t.Fatal(err)
	}
	if src.attempts.Load() != 2 {
		t.Errorf("%d attempts, want that of the run and that of its successor", src.attempts.Load())
	}
	sound(t, src.open(t, mem))
}

func TestAmend(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	// The runs were made under the binary's profile: nothing changes.
	if rec, err := l.Amend(t.Context(), "run-1", "amend-1", CommitOptions{}); rec != nil || err != nil {
		t.Fatalf("amend of a run that needs none: %+v, %v", rec, err)
	}
	// Another binary made a run under an older profile.
	old := fakePlan(l.Fold(), span{2, 0, 40})
	old.Writer.Profile = 7
	src.mustRun(t, l, old, "run-3")
	before := l.Fold().VisibleOf(2)[1].SHA256
	rec, err := l.Amend(t.Context(), "run-3", "amend-2", CommitOptions{By: "ann", Why: "old writer"})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Kind != Amend || rec.Profile != parquet.Profile || len(rec.Files) != 3 || rec.Plan != PlanID(old) || rec.By != "ann" {
		t.Errorf("record %+v", rec)
	}
	v := l.Fold().VisibleOf(2)[1]
	if v.SHA256 == before || v.Profile != parquet.Profile || v.Amended != rec.Number || v.Number != 2 {
		t.Errorf("file %+v", v)
	}
	sound(t, l)
	report, err := src.open(t, s).Rerun(t.Context(), "run-3")
	if err != nil || report.Identical != 3 {
		t.Errorf("rerun after the amend: %+v, %v", report, err)
	}
	changed := &source{salt: " compacted", prefix: "c-"}
	old = fakePlan(l.Fold(), span{2, 40, 60})
	old.Writer.Profile = 7
	src.mustRun(t, l, old, "run-4")
	_, err = changed.open(t, s).Amend(t.Context(), "run-4", "amend-3", CommitOptions{})
	exits(t, err, ExitMismatch, "other rows")
	sound(t, src.open(t, s))
}

// TestAmendPublishedByAnother crashes an amend before its files moved: finals
// hold the old bytes, and anyone finishes.
func TestAmendPublishedByAnother(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	old := fakePlan(l.Fold(), span{2, 0, 40})
	old.Writer.Profile = 7
	src.mustRun(t, l, old, "run-3")
	for _, lose := range []bool{false, true} {
		c := src.config(s)
		c.Fault = func(p FaultPoint) error {
			if p == AfterCommit {
				return errCrash
			}
			return nil
		}
		dying, err := OpenLedger(t.Context(), s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		if lose {
			old = fakePlan(dying.Fold(), span{2, 40, 60})
			old.Writer.Profile = 7
			src.mustRun(t, src.open(t, s), old, "run-5")
		}
		if _, err := dying.Amend(t.Context(), PlanID(old), "amend", CommitOptions{}); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if lose {
			if err := s.RemoveAll(path.Join(StagesDir, PlanID(old))); err != nil {
				t.Fatal(err)
			}
		}
		after := src.open(t, s)
		if err := after.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		sound(t, after)
	}
}

func TestAbandon(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	planID, _ := src.attempted(t, l, p)
	rec, err := l.Abandon(t.Context(), planID, "run-1", CommitOptions{By: "ann", Why: "wrong job"})
	if err != nil || rec.Kind != Abandon || rec.Why != "wrong job" {
		t.Fatalf("%+v, %v", rec, err)
	}
	if again, err := l.Abandon(t.Context(), planID, "run-2", CommitOptions{}); err != nil || again.Number != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	_, err = src.run(t.Context(), l, p, "run-1")
	exits(t, err, ExitConflict, planID, "abandoned by record 0")
	if open, err := l.OpenPlans(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open plans %+v, %v", open, err)
	}
	if report, err := l.Sweep(t.Context(), false); err != nil || !slices.Contains(report.Removed, path.Join(StagesDir, planID)) {
		t.Errorf("sweep %+v, %v", report, err)
	}
	// A plan whose revision was abandoned does not come back to life.
	first := fakePlan(l.Fold(), span{0, 0, 20})
	second := fakePlan(l.Fold(), span{0, 0, 20})
	firstID, err := l.PutPlan(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second.Replaces, second.Revision = firstID, 1
	secondID, err := l.PutPlan(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Abandon(t.Context(), secondID, "run-2", CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if open, err := l.OpenPlans(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open plans %+v, %v", open, err)
	}
	other := fakePlan(l.Fold(), span{0, 0, 40})
	src.mustRun(t, l, other, "run-3")
	_, err = l.Abandon(t.Context(), PlanID(other), "run-4", CommitOptions{})
	exits(t, err, ExitConflict, "committed by record 2")
	sound(t, l)
}

// TestRemakeOvertaken has a publisher make lost files again, slowly: meanwhile
// another has done so and a third record retired them. They must not come back.
func TestRemakeOvertaken(t *testing.T) {
	s := memSink()
	src := &source{}
	c := src.config(s)
	c.Fault = func(p FaultPoint) error {
		if p == AfterCommit {
			return errCrash
		}
		return nil
	}
	dying, err := OpenLedger(t.Context(), s, "views", "views-hourly", c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.run(t.Context(), dying, fakePlan(dying.Fold(), span{0, 0, 50}), "run-1"); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if err := s.RemoveAll(StagesDir); err != nil {
		t.Fatal(err)
	}
	c = src.config(s)
	c.Remake = func(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
		results, err := src.remake(s)(ctx, ask) // its folders are there before the other record
		fast := src.open(t, s)
		if err := fast.Publish(ctx); err != nil {
			t.Error(err)
		}
		if _, err := supersedeOf(t, src, fast, 0); err != nil {
			t.Error(err)
		}
		if err != nil {
			return nil, err
		}
		return src.remake(s)(ctx, RemakeAsk{PlanID: ask.PlanID, Plan: ask.Plan, Splits: []int{results[0].Split}})
	}
	slow, err := OpenLedger(t.Context(), s, "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	slow.c.Fault = func(p FaultPoint) error {
		if p == AfterPublish {
			return errCrash // before it could see the other record and mend what it did
		}
		return nil
	}
	if err := slow.Publish(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	sound(t, src.open(t, s))
}
