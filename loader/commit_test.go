package loader

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/vfs"
	"sawlog/formats"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

func TestCommit(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 50}, span{1, 0, 30}), "run-1")
	if rec.Number != 0 || rec.Kind != Load || rec.Prev != "" || rec.Published != -1 || rec.Base != -1 || rec.By != "test" {
		t.Errorf("record %+v", rec)
	}
	// Partition 0: 50 offsets = 40 rows in hours 0, 1, 2; 5 bad; 5 control.
	if in := rec.Inputs[0]; in.Data != 40 || in.Quarantined != 5 || in.Control != 5 {
		t.Errorf("input %+v", in)
	}
	files := data(t, s)
	for _, want := range []string{
		"dt=2025-11-29/hr=00/views-abcdef01-00000-00000000000000000000-00000000000000000050-" + rec.Plan[:8] + ".parquet",
		"dt=2025-11-29/hr=02/views-abcdef01-00000-00000000000000000000-00000000000000000050-" + rec.Plan[:8] + ".parquet",
		"dt=2025-11-29/hr=01/views-abcdef01-00001-00000000000000000000-00000000000000000030-" + rec.Plan[:8] + ".parquet",
		"dt=2025-11-29/hr=01/_manifest.json",
		"_sawlog/quarantine/" + rec.Plan[:8] + "-00000.quarantine",
		"_sawlog/quarantine/" + rec.Plan[:8] + "-00001.quarantine",
	} {
		if _, ok := files[want]; !ok {
			t.Errorf("%s is missing of %v", want, slices.Sorted(maps.Keys(files)))
		}
	}
	report := sound(t, l)
	if report.Files != 7 || report.Rows != 64 || report.Hours != 3 || report.Records != 1 {
		t.Errorf("report %+v", report)
	}
	again := src.open(t, s)
	if have, want := mustEncode(t, again.Fold()), mustEncode(t, l.Fold()); have != want {
		t.Errorf("read back the fold is\n%s\nwant\n%s", have, want)
	}
	// The same plan again is covered, by the same process and by another.
	for _, l := range []*Ledger{l, again} {
		p := fakePlan(NewFold(), span{0, 0, 50}, span{1, 0, 30})
		rec2, err := src.run(t.Context(), l, p, "run-2")
		if err != nil || rec2.Number != 0 || rec2.Run != "run-1" {
			t.Errorf("again: %+v, %v; want record 0 of run-1", rec2, err)
		}
	}
	// The next load starts where this one ended.
	rec = src.mustRun(t, again, fakePlan(again.Fold(), span{0, 50, 60}, span{1, 30, 80}), "run-3")
	if rec.Number != 1 || rec.Published != 0 || rec.Prev == "" {
		t.Errorf("record %+v", rec)
	}
	sound(t, l)
}

func mustEncode(t *testing.T, f *Fold) string {
	t.Helper()
	data, err := encodeCheckpoint(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCommitConflicts(t *testing.T) {
	src, s := &source{}, memSink()
	a, b := src.open(t, s), src.open(t, s)
	// Both plan on the empty ledger; b wins.
	overlapping := fakePlan(a.Fold(), span{0, 0, 40})
	disjoint := fakePlan(a.Fold(), span{1, 0, 40})
	disjoint.Schema = fakeSchema("b")
	clashing := fakePlan(a.Fold(), span{2, 0, 40})
	clashing.Schema = fakeSchema("a")
	clashing.Schema.Fields[3].Type = &formats.Type{Kind: formats.String}
	won := fakePlan(b.Fold(), span{0, 20, 60})
	won.Schema = fakeSchema("a")
	src.mustRun(t, b, won, "b")

	_, err := src.run(t.Context(), a, overlapping, "a1")
	exits(t, err, ExitConflict, "views/0", "20..60")
	_, err = src.run(t.Context(), a, clashing, "a2")
	exits(t, err, ExitConflict, "column a", "int64", "string")
	rec := src.mustRun(t, a, disjoint, "a3")
	var names []string
	for _, f := range rec.Schema.Fields {
		names = append(names, f.Name)
	}
	if rec.Number != 1 || strings.Join(names, " ") != "_partition _offset id a b" {
		t.Errorf("record %d has schema %v", rec.Number, names)
	}
	sound(t, a)

	other, err := OpenLedger(t.Context(), s, "clicks", "clicks-hourly", src.config(s))
	exits(t, err, ExitConflict, "views-hourly", "clicks-hourly")
	if other == nil {
		t.Fatal("a refused ledger can be read still")
	}
	if _, err := OpenLedger(t.Context(), memSink(), "", "", src.config(s)); ExitCode(err) != ExitNotFound {
		t.Errorf("no ledger: %v", err)
	}
}

// TestFirstRecordRace has two jobs find the same new root: one gets it.
func TestFirstRecordRace(t *testing.T) {
	src, s := &source{}, memSink()
	a := src.open(t, s)
	b, err := OpenLedger(t.Context(), s, "clicks", "clicks-hourly", src.config(s))
	if err != nil {
		t.Fatal(err)
	}
	src.mustRun(t, a, fakePlan(a.Fold(), span{0, 0, 40}), "a")
	p := fakePlan(b.Fold(), span{0, 0, 40})
	p.Dataset, p.Job = "clicks", "clicks-hourly"
	_, err = src.run(t.Context(), b, p, "b")
	exits(t, err, ExitConflict, "views-hourly")
}

// lossy is a sink whose puts answer with an error, having worked or not.
type lossy struct {
	sink.Sink
	answers []func(put func() error) error
}

func (s *lossy) PutIfAbsent(name string, data []byte) error {
	put := func() error { return s.Sink.PutIfAbsent(name, data) }
	if !strings.HasPrefix(name, LedgerDir) || len(s.answers) == 0 {
		return put()
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next(put)
}

func ambiguous() error {
	return &sink.Error{Op: "put", Path: "x", Class: sink.Ambiguous, Err: syscall.ETIMEDOUT}
}

func TestCommitReplyLost(t *testing.T) {
	worked := func(put func() error) error { return errors.Join(put(), ambiguous()) }
	vanished := func(func() error) error { return ambiguous() }
	refused := func(func() error) error {
		return &sink.Error{Op: "put", Path: "x", Class: sink.Permanent, Err: syscall.EROFS}
	}
	for name, c := range map[string]struct {
		answers []func(func() error) error
		code    int
	}{
		"it worked":              {[]func(func() error) error{worked}, 0},
		"it did not":             {[]func(func() error) error{vanished}, 0},
		"it did not, twice":      {[]func(func() error) error{vanished, vanished, worked}, 0},
		"it never does":          {slices.Repeat([]func(func() error) error{vanished}, 5), ExitUnavailable},
		"it is refused for good": {[]func(func() error) error{refused}, ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			src := &source{}
			s := &lossy{Sink: memSink(), answers: c.answers}
			l := src.open(t, s)
			rec, err := src.run(t.Context(), l, fakePlan(l.Fold(), span{0, 0, 40}), "run-1")
			if ExitCode(err) != c.code {
				t.Fatalf("error %v, want code %d", err, c.code)
			}
			s.answers = nil
			if err != nil {
				// The stage is kept: a resume commits it without new attempts.
				before := src.attempts.Load()
				rec = src.mustRun(t, src.open(t, s), fakePlan(NewFold(), span{0, 0, 40}), "run-2")
				if src.attempts.Load() != before {
					t.Error("the resume made attempts anew")
				}
			}
			if rec.Number != 0 {
				t.Errorf("number %d", rec.Number)
			}
			sound(t, src.open(t, s))
		})
	}
}

// TestCommitReplyLostToAnother has the reply lost and another record found.
func TestCommitReplyLostToAnother(t *testing.T) {
	src, mem := &source{}, memSink()
	rival := src.open(t, mem)
	s := &lossy{Sink: mem}
	l := src.open(t, s)
	s.answers = []func(func() error) error{func(func() error) error {
		if _, err := src.run(t.Context(), rival, fakePlan(rival.Fold(), span{1, 0, 40}), "rival"); err != nil {
			return err
		}
		return ambiguous()
	}}
	rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 40}), "mine")
	if rec.Number != 1 || l.Fold().Records[0].Run != "rival" {
		t.Errorf("record %d after %+v", rec.Number, l.Fold().Records)
	}
	sound(t, l)
}

// overwriting is a file store on which two racers can both put a file.
type overwriting struct{ sink.Sink }

func (s overwriting) PutIfAbsent(name string, data []byte) error {
	if err := s.MkdirAll(name[:strings.LastIndexByte(name, '/')]); err != nil {
		return err
	}
	err := s.Remove(name)
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		return err
	}
	return sink.Write(s, name, data)
}

func TestProbeRefuses(t *testing.T) {
	src := &source{}
	s := overwriting{memSink()}
	l := src.open(t, s)
	planID := PlanID(fakePlan(l.Fold(), span{0, 0, 40}))
	_, err := src.run(t.Context(), l, fakePlan(l.Fold(), span{0, 0, 40}), "run-1")
	if planID == "" || err == nil {
		t.Fatal("a store that overwrites was accepted")
	}
	if _, err := s.Stat(RecordPath(0)); !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("a record was written: %v", err)
	}
}

// slowProbe is a file store on which a process stands still after its first put
// of a probe.
type slowProbe struct {
	sink.Sink
	mu    sync.Mutex
	stood bool
	still func() error
}

func (s *slowProbe) PutIfAbsent(name string, data []byte) error {
	if !strings.HasPrefix(name, TempDir) {
		return s.Sink.PutIfAbsent(name, data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Sink.PutIfAbsent(name, data)
	if !s.stood {
		s.stood = true
		err = errors.Join(err, s.still())
	}
	return err
}

// TestProbeStandsStill has a process stand still in the middle of its probe for
// more than a day, and a sweep take the first racer's file away: the store is not
// to blame.
func TestProbeStandsStill(t *testing.T) {
	src, now := &source{}, time.Unix(hourZero, 0)
	s := &slowProbe{Sink: memSink()}
	s.still = func() error {
		now = now.Add(tempAge + time.Hour)
		return s.RemoveAll(TempDir)
	}
	c := src.config(s)
	c.Now = func() time.Time { return now }
	l, err := OpenLedger(t.Context(), s, "views", "views-hourly", c)
	if err != nil {
		t.Fatal(err)
	}
	src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 40}), "run-1")
	sound(t, l)
}

func TestManyFiles(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 1100 * perHour}), "run-1")
	if len(rec.Files) != 1101 || !isHash(rec.FilesRef) {
		t.Fatalf("%d files, ref %q", len(rec.Files), rec.FilesRef)
	}
	raw, err := s.ReadFile(RecordPath(0))
	if err != nil || len(raw) > 20_000 {
		t.Errorf("the record has %d bytes (%v): its files stand in it", len(raw), err)
	}
	again := src.open(t, s)
	if len(again.Fold().Files) != 1101 {
		t.Errorf("read back: %d files", len(again.Fold().Files))
	}
	src.mustRun(t, again, fakePlan(again.Fold(), span{0, 1100 * perHour, 1101 * perHour}), "run-2")
	// A list of files that is gone, or changed, is a damaged ledger.
	list := FilesPath(rec.Plan, rec.FilesRef)
	body, err := s.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for what, ruin := range map[string]func() error{
		"cut":  func() error { return sink.Write(s, list, body[:len(body)/2]) },
		"gone": func() error { return nil },
	} {
		if err := errors.Join(s.Remove(list), ruin()); err != nil {
			t.Fatal(err)
		}
		_, err := OpenLedger(t.Context(), s, "views", "views-hourly", src.config(s))
		exits(t, err, ExitMismatch, "record 0", "files-"+rec.FilesRef)
		if err := errors.Join(s.RemoveAll(list), sink.Write(s, list, body)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	src.open(t, s)
}

func TestSealChecks(t *testing.T) {
	ruin := func(change func(r *Result)) func(s sink.Sink, r *Result) {
		return func(_ sink.Sink, r *Result) { change(r) }
	}
	for name, c := range map[string]struct {
		ruin func(s sink.Sink, r *Result)
		want string
	}{
		"another plan":    {ruin(func(r *Result) { r.Plan = strings.Repeat("0", 16) }), "split 0 of plan"},
		"a short count":   {ruin(func(r *Result) { r.Inputs[0].Data-- }), "accounts for 39 of 40"},
		"a negative":      {ruin(func(r *Result) { r.Inputs[0].Aborted = -1; r.Inputs[0].Compacted = 1 }), "accounts for"},
		"another range":   {ruin(func(r *Result) { r.Inputs[0].End++ }), "is due"},
		"rows":            {ruin(func(r *Result) { r.Inputs[0].Data--; r.Inputs[0].Skipped++ }), "files hold"},
		"a strange path":  {ruin(func(r *Result) { r.Files[1].Path = "dt=2025-11-29/hr=07/x.parquet" }), "x.parquet: want"},
		"a path outside":  {ruin(func(r *Result) { r.Files[1].Path = "../x.parquet" }), "leaves the data set"},
		"another's stage": {ruin(func(r *Result) { r.Files[1].Stage = StagesDir + "/0123456789abcdef/0/x/y.part" }), "is staged at"},
		"unknown paths":   {ruin(func(r *Result) { r.Unknown, r.Files = &formats.Report{}, nil }), "paths the schema does not know"},
		"a cut file": {func(s sink.Sink, r *Result) {
			rewrite(s, r.Files[0].Stage, func(b []byte) []byte { return b[:len(b)-1] })
		}, "bytes, want"},
		"a flipped bit": {func(s sink.Sink, r *Result) {
			rewrite(s, r.Files[0].Stage, func(b []byte) []byte { b[3] ^= 1; return b })
		}, "sha256"},
		"a lost file": {func(s sink.Sink, r *Result) { _ = s.Remove(r.Files[0].Stage) }, "missing"},
		"a wrong footer": {func(s sink.Sink, r *Result) {
			rewrite(s, r.Files[0].Stage, func(b []byte) []byte { b[len(b)-1]++; return b })
			body, _ := s.ReadFile(r.Files[0].Stage)
			r.Files[0].SHA256 = sum(body)
		}, "footer"},
	} {
		t.Run(name, func(t *testing.T) {
			src, s := &source{}, memSink()
			l := src.open(t, s)
			p := fakePlan(l.Fold(), span{0, 0, 40})
			planID, r := src.attempted(t, l, p)
			c.ruin(s, r)
			_, err := l.Commit(t.Context(), p, planID, "run-1", []*Result{r}, CommitOptions{})
			var missing *IncompleteError
			if !errors.As(err, &missing) || !slices.Equal(missing.Splits, []int{0}) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want split 0 missing: %s", err, c.want)
			}
			if l.Fold().Head != -1 {
				t.Error("it was committed")
			}
			// A good attempt beside it is enough.
			good, err := src.attempt(s, p, planID, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = l.Commit(t.Context(), p, planID, "run-1", []*Result{r, good}, CommitOptions{}); err != nil {
				t.Fatal(err)
			}
			sound(t, l)
		})
	}
}

func rewrite(s sink.Sink, name string, change func([]byte) []byte) {
	body, err := s.ReadFile(name)
	if err == nil {
		err = errors.Join(s.Remove(name), sink.Write(s, name, change(body)))
	}
	if err != nil {
		panic(err)
	}
}

// TestSealDropsDamaged has a resume not meet a damaged attempt twice.
func TestSealDropsDamaged(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	_, r := src.attempted(t, l, p)
	rewrite(s, r.Files[0].Stage, func(b []byte) []byte { b[3] ^= 1; return b })
	var missing *IncompleteError
	if _, err := src.run(t.Context(), l, p, "run-1"); !errors.As(err, &missing) {
		t.Fatalf("error %v", err)
	}
	src.mustRun(t, l, p, "run-1")
	if src.attempts.Load() != 2 {
		t.Errorf("%d attempts, want the damaged one and its successor", src.attempts.Load())
	}
}

func TestAttemptsDiffer(t *testing.T) {
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprint("compact=", compact), func(t *testing.T) {
			src, s := &source{}, memSink()
			l := src.open(t, s)
			p := fakePlan(l.Fold(), span{0, 0, 40})
			p.Topics[0].Compact = compact
			planID, first := src.attempted(t, l, p)
			changed := &source{salt: " compacted", prefix: "b-"}
			second, err := changed.attempt(s, p, planID, 0)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := l.Commit(t.Context(), p, planID, "run-1", []*Result{first, second}, CommitOptions{})
			if !compact {
				exits(t, err, ExitMismatch, first.Attempt, second.Attempt)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !rec.SourceMutable || rec.Files[0].SHA256 != first.Files[1].SHA256 {
				t.Errorf("record %+v, want the first attempt's files, marked mutable", rec)
			}
			sound(t, l)
		})
	}
}

// TestSyncFails has an fsync of the stage fail: the attempts are not trusted
// again, since a second fsync would say yes over lost pages.
func TestSyncFails(t *testing.T) {
	src, mem := &source{}, vfs.NewMem()
	s := local.New(mem, "/root")
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	planID, r := src.attempted(t, l, p)
	mem.Inject(func(op vfs.Op, name string) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".part") {
			return syscall.EIO
		}
		return nil
	})
	_, err := l.Commit(t.Context(), p, planID, "run-1", []*Result{r}, CommitOptions{})
	mem.Inject(nil)
	exits(t, err, ExitFailed, "durable", ".part")
	if _, err := s.Stat(AttemptDir(planID, 0, r.Attempt)); !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("the attempt is still there: %v", err)
	}
	src.mustRun(t, l, p, "run-1")
	sound(t, l)
}

// TestFinalPathTaken has a final path hold other bytes: exit 8 with the path,
// and only a rerun may replace it.
func TestFinalPathTaken(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	final := FinalPath("dt=2025-11-29/hr=01", PlanID(p), "parquet", &p.Splits[0])
	if err := s.MkdirAll("dt=2025-11-29/hr=01"); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(s, final, []byte("what is this?")); err != nil {
		t.Fatal(err)
	}
	_, err := src.run(t.Context(), l, p, "run-1")
	exits(t, err, ExitMismatch, final, "other bytes")
	again := src.open(t, s)
	exits(t, again.Publish(t.Context()), ExitMismatch, final)
	report, err := again.Verify(t.Context(), "")
	exits(t, err, ExitMismatch)
	if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Path == final && p.Kind == "changed" }) {
		t.Errorf("problems %+v", report.Problems)
	}
	rerun, err := again.Rerun(t.Context(), "run-1")
	if err != nil || rerun.Restored < 1 {
		t.Fatalf("rerun: %+v, %v", rerun, err)
	}
	sound(t, again)
}

// TestStageGoneMeanwhile loses a number to another record, and the stage with
// it: the plan must not be committed over files that are gone.
func TestStageGoneMeanwhile(t *testing.T) {
	src, mem := &source{}, memSink()
	rival := src.open(t, mem)
	s := &lossy{Sink: mem}
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	s.answers = []func(func() error) error{func(put func() error) error {
		if _, err := src.run(t.Context(), rival, fakePlan(rival.Fold(), span{1, 0, 40}), "rival"); err != nil {
			return err
		}
		if err := s.RemoveAll(StageDir(PlanID(p), 0)); err != nil {
			return err
		}
		return put()
	}}
	_, err := src.run(t.Context(), l, p, "mine")
	exits(t, err, ExitFailed, "split 0", "before the commit")
	if l.Fold().Head != 0 {
		t.Errorf("head %d: it was committed", l.Fold().Head)
	}
}
