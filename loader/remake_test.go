package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sawlog/broker/vfs"
	"sawlog/consumer"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

// remaking is a data set whose first record lost files before their hours were
// marked: whoever comes next makes them again.
func remaking(t *testing.T) (*vfs.Mem, *source) {
	t.Helper()
	mem := vfs.NewMem()
	src, s := &source{}, local.New(mem, "/root")
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 50}, span{1, 0, 30})
	p.Writer.Profile = 1 // so that it can be amended
	rec := src.mustRun(t, l, p, "run-1")
	for _, n := range []int{0, 3, 5} {
		if err := s.Remove(rec.Files[n].Path); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range l.Fold().Hours {
		for _, dir := range h.Dirs {
			if err := s.Remove(ManifestPath(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return mem, src
}

// during has other act once, before call n of whatever the file system is asked
// next; the answer tells afterwards whether there were so many calls.
func during(mem *vfs.Mem, n int, other func()) (came func() bool) {
	var mu sync.Mutex
	calls := 0
	mem.Inject(func(vfs.Op, string) error {
		mu.Lock()
		calls++
		now := calls == n
		mu.Unlock()
		if now { // its own calls are counted, and none of them is the nth
			other()
		}
		return nil
	})
	return func() bool {
		mem.Inject(nil)
		mu.Lock()
		defer mu.Unlock()
		return calls >= n
	}
}

// TestRemadeMeanwhile has another process put the same lost files back and sweep,
// or retire them, at any call of one that makes them again. What one staged is
// swept by the other; none of them fails for that, and the data set is whole.
func TestRemadeMeanwhile(t *testing.T) {
	sweep := func(l *Ledger) error { _, err := l.Sweep(t.Context(), false); return err }
	drop := func(l *Ledger) error {
		_, _, err := l.Drop(t.Context(), "drop", DropAsk{Of: "0"}, CommitOptions{})
		return err
	}
	amend := func(l *Ledger) error { _, err := l.Amend(t.Context(), "0", "amend", CommitOptions{}); return err }
	rerun := func(l *Ledger) error {
		report, err := l.Rerun(t.Context(), "0")
		if err == nil && report.Changed > 0 {
			err = fmt.Errorf("changed: %+v", report)
		}
		return err
	}
	acts := map[string]func(l *Ledger) error{
		"publish": func(l *Ledger) error { return l.Publish(t.Context()) },
		"sweep":   sweep, "rerun": rerun, "amend": amend, "drop": drop,
	}
	others := map[string]func(l *Ledger) error{"sweep": sweep, "drop": drop, "amend": amend}
	// What is gone for good is told, to who drops or amends what was dropped; and so
	// is who amended what is run again.
	told := func(name, other string, err error) bool {
		switch name + " " + other {
		case "drop drop":
			return ExitCode(err) == ExitNotFound
		case "amend drop", "rerun amend":
			return ExitCode(err) == ExitConflict
		}
		return false
	}
	step := 7
	if os.Getenv("SAWLOG_CRASH_RUNS") != "" {
		step = 1
	}
	for name, act := range acts {
		for what, other := range others {
			t.Run(name+" "+what, func(t *testing.T) {
				n := 1 + rand.IntN(step)
				for ; ; n += step {
					mem, src := remaking(t)
					s := local.New(mem, "/root")
					came := during(mem, n, func() {
						if err := other(src.open(t, s)); err != nil && !told(what, name, err) {
							t.Errorf("call %d: the other process: %v", n, err)
						}
					})
					err := act(src.open(t, s))
					if !came() {
						break
					}
					if err != nil && !told(name, what, err) {
						t.Fatalf("call %d of %s while another process comes to %s: %v", n, name, what, err)
					}
					l := src.open(t, s)
					if err := l.Publish(t.Context()); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					if _, err := l.Sweep(t.Context(), false); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					sound(t, l)
				}
				if n < 50 {
					t.Errorf("only %d calls", n)
				}
			})
		}
	}
}

// interposed has others act before a file is opened for reading, and once it was
// read.
type interposed struct {
	sink.Sink
	name          string
	before, after func()
}

type readFile struct {
	sink.File
	after func()
}

func (s *interposed) Open(name string) (sink.File, error) {
	if name != s.name {
		return s.Sink.Open(name)
	}
	s.before()
	f, err := s.Sink.Open(name)
	if err != nil {
		return nil, err
	}
	return &readFile{f, s.after}, nil
}

func (f *readFile) Close() error {
	err := f.File.Close()
	f.after()
	return err
}

// TestRetiredStaysGone has a record amended while a publisher looks at its files,
// and retired before it looks for newer records. The publisher, which then misses
// files of the record it knew, brings none of them back.
func TestRetiredStaysGone(t *testing.T) {
	mem, src := remaking(t)
	s := local.New(mem, "/root")
	rec, err := src.open(t, s).Record(0)
	if err != nil {
		t.Fatal(err)
	}
	amended, dropped := 0, 0
	slow := &interposed{s, rec.Files[1].Path, func() {
		if amended++; amended > 1 {
			return
		}
		if _, err := src.open(t, s).Amend(t.Context(), "0", "amend", CommitOptions{}); err != nil {
			t.Error(err)
		}
	}, func() {
		if dropped++; dropped > 1 {
			return
		}
		if _, _, err := src.open(t, s).Drop(t.Context(), "drop", DropAsk{Of: "0"}, CommitOptions{}); err != nil {
			t.Error(err)
		}
	}}
	c := src.config(slow)
	c.Fault = func(p FaultPoint) error { // dead once it has done what it takes for its work
		if p == AfterPublish {
			return errCrash
		}
		return nil
	}
	l, err := OpenLedger(t.Context(), slow, "", "", c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(t.Context()); !errors.Is(err, errCrash) || dropped == 0 {
		t.Fatalf("%d times dropped: %v", dropped, err)
	}
	left := data(t, s)
	for i := range rec.Files {
		if _, there := left[rec.Files[i].Path]; there {
			t.Errorf("%s was retired, and is back", rec.Files[i].Path)
		}
	}
	sound(t, src.open(t, s))
}

// TestRemadeByOtherProcesses has the stage swept under an engine whose tasks are
// other processes, and tell only in words that it is gone.
func TestRemadeByOtherProcesses(t *testing.T) {
	r := newRig(t, 1)
	r.loads(1)
	rec, err := r.ledger().Record(0)
	if err != nil {
		t.Fatal(err)
	}
	lost := rec.Files[0].Path
	if err := r.d.Sink.Remove(lost); err != nil {
		t.Fatal(err)
	}
	under, swept := r.d.Engine, 0
	r.d.Engine = &overtaking{telling{under}, func() {
		if swept++; swept == 1 {
			if err := r.d.Sink.RemoveAll(StagesDir); err != nil {
				t.Error(err)
			}
		}
	}, func() {}}
	report, err := r.d.Rerun(t.Context(), strconv.FormatInt(rec.Number, 10))
	if err != nil || report.Restored != 1 || swept != 2 {
		t.Errorf("%d times made, %+v, %v", swept, report, err)
	}
	r.sound()
}

// telling hides what its errors are made of.
type telling struct{ Engine }

func (e telling) Run(ctx context.Context, w Work) error {
	if err := e.Engine.Run(ctx, w); err != nil {
		return &Error{Code: ExitCode(err), Msg: err.Error()}
	}
	return nil
}

// forgetful loses the first files of a folder before they are renamed, as a sweep
// takes the temporary files of a process that stood still for a day.
type forgetful struct {
	sink.Sink
	dir    string
	losses int
}

func (s *forgetful) Rename(from, to string) error {
	if path.Dir(from) == s.dir && s.losses > 0 {
		s.losses--
		if err := s.Remove(from); err != nil {
			return err
		}
	}
	return s.Sink.Rename(from, to)
}

// TestTemporaryFilesAreSwept commits more files than a record holds while the list
// of them is swept on its way to its name.
func TestTemporaryFilesAreSwept(t *testing.T) {
	s := &forgetful{Sink: memSink(), dir: TempDir, losses: 2}
	src := &source{}
	l := src.open(t, s)
	rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, perHour * (maxInlineFiles + 10)}), "run-1")
	if rec.FilesRef == "" || s.losses > 0 {
		t.Fatalf("%d files, list %q, %d losses to come", len(rec.Files), rec.FilesRef, s.losses)
	}
	sound(t, src.open(t, s))
	s.losses = remakeTries
	_, err := src.run(t.Context(), l, fakePlan(l.Fold(), span{1, 0, perHour * (maxInlineFiles + 10)}), "run-2")
	if !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("%v, want that the list is gone, in the end", err)
	}
}

// TestLostForGood loses a file of the head, with the marks of its hour, and has
// the log no longer give it. Loads and reruns say how to go on, and a drop of what
// is lost, which need not make it again first, lets the data set live on with all
// the rest.
func TestLostForGood(t *testing.T) {
	other := func(s sink.Sink) func(context.Context, RemakeAsk) ([]*Result, error) {
		return (&source{salt: " compacted", prefix: newNonce()}).remake(s)
	}
	failing := func(err error) func(sink.Sink) func(context.Context, RemakeAsk) ([]*Result, error) {
		return func(sink.Sink) func(context.Context, RemakeAsk) ([]*Result, error) {
			return func(context.Context, RemakeAsk) ([]*Result, error) { return nil, err }
		}
	}
	for name, remake := range map[string]func(sink.Sink) func(context.Context, RemakeAsk) ([]*Result, error){
		"trimmed":   failing(coded(&consumer.GapError{LogStart: 10}, ExitFailed)),
		"deleted":   failing(coded(fmt.Errorf("views: %w", consumer.ErrUnknownTopic), ExitFailed)),
		"far away":  failing((&ExecError{Code: ExitMismatch, Msg: "offset 0 is gone", Gone: true}).Err(0)),
		"compacted": other,
	} {
		for _, crash := range []FaultPoint{"", BeforeCommit, AfterCommit, AfterPublish, AfterMark} {
			for _, hours := range []int{1, 2} {
				for _, amended := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s, %d hours, amended %v", name, crash, hours, amended), func(t *testing.T) {
						lostForGood(t, remake, crash, hours, amended)
					})
				}
			}
		}
	}
}

// TestLostForNow loses a file of the head, with the marks of its hour, where the log
// still has it and something else is the matter, whose exit code may be that of what
// is gone. Nobody is told to give anything up, and once it is mended all is back.
func TestLostForNow(t *testing.T) {
	for name, c := range map[string]struct {
		engine Engine
		code   int
		says   string
		hint   string
	}{
		"no engine":  {nil, ExitMismatch, "nothing here to do it", "sawlog rerun"},
		"no queue":   {refusing{fail(ExitNotFound, "ResourceManager: no such application").hint("start it")}, ExitNotFound, "no such application", "start it"},
		"mismatched": {refusing{fail(ExitMismatch, "the image holds another binary").hint("pull it")}, ExitMismatch, "another binary", "pull it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.loads(1)
			l := r.ledger()
			rec, err := l.Record(l.fold.Head)
			if err != nil {
				t.Fatal(err)
			}
			lost := rec.Files[0]
			if err := errors.Join(r.d.Sink.Remove(lost.Path), r.d.Sink.Remove(ManifestPath(lost.HourDir()))); err != nil {
				t.Fatal(err)
			}
			whole := r.d.Engine
			r.d.Engine = c.engine
			_, rerun := r.d.Rerun(t.Context(), rec.Run)
			for what, err := range map[string]error{"publish": r.publish(), "rerun": rerun} {
				exits(t, err, c.code, c.says)
				if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, c.hint) || strings.Contains(e.Hint, "drop") || errors.Is(err, ErrGone) {
					t.Errorf("%s: %v", what, err)
				}
			}
			r.d.Engine = whole
			plan := PlanPath(rec.Plan)
			if err := r.d.Sink.Rename(plan, plan+".away"); err != nil {
				t.Fatal(err)
			}
			err = r.publish()
			exits(t, err, ExitMismatch, "the plan is missing")
			if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, "restore "+plan) {
				t.Errorf("the way out of a missing plan: %v", err)
			}
			if err := r.d.Sink.Rename(plan+".away", plan); err != nil {
				t.Fatal(err)
			}
			if err := r.publish(); err != nil {
				t.Fatal(err)
			}
			r.sound()
		})
	}
}

// publish has a new process publish.
func (r *rig) publish() error {
	l, err := r.d.Ledger(r.t.Context(), "", "")
	if err != nil {
		return err
	}
	return l.Publish(r.t.Context())
}

// refusing is an engine whose manager carries out nothing.
type refusing struct{ err error }

func (e refusing) Run(context.Context, Work) error { return e.err }

func lostForGood(t *testing.T, remake func(sink.Sink) func(context.Context, RemakeAsk) ([]*Result, error), crash FaultPoint, hours int, amended bool) {
	s := memSink()
	src, l := ran(t, s)
	brought := l.fold.Head // the record that files are known by
	if amended {
		p := fakePlan(l.Fold(), span{0, 90, 130})
		p.Writer.Profile = 1
		brought = src.mustRun(t, l, p, "run-3").Number
		if _, err := l.Amend(t.Context(), "run-3", "amend", CommitOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := l.Record(l.fold.Head)
	if err != nil {
		t.Fatal(err)
	}
	var all []File // lost, of as many hours
	for _, f := range rec.Files {
		if f.Hour != nil && !slices.ContainsFunc(all, func(o File) bool { return *o.Hour == *f.Hour }) && len(all) < hours {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b File) int { return int(*a.Hour - *b.Hour) })
	if len(all) != hours {
		t.Fatalf("record %d has files of %d hours", rec.Number, len(all))
	}
	for _, f := range all {
		if err := errors.Join(s.Remove(f.Path), s.Remove(ManifestPath(f.HourDir()))); err != nil {
			t.Fatal(err)
		}
	}
	lost, last := all[0], all[hours-1]
	open := func() *Ledger {
		t.Helper()
		c := src.config(s)
		c.Remake = remake(s)
		l, err := OpenLedger(t.Context(), s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	way := fmt.Sprintf("sawlog out drop --run %d, with --window %s..%s", brought, HourText(*lost.Hour), HourText(*last.Hour+3600))
	err = open().Publish(t.Context())
	exits(t, err, ExitMismatch, lost.Path)
	if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, way) {
		t.Errorf("a load shows no way out: %v", err)
	}
	_, _, err = open().Drop(t.Context(), "drop", DropAsk{Of: "0"}, CommitOptions{})
	exits(t, err, ExitMismatch, lost.Path) // other files than what is lost

	ask := DropAsk{Of: fmt.Sprint(brought), Hours: &HourSpan{*lost.Hour, *lost.Hour + 1}}
	if hours > 1 { // one of them alone, by a process that has the log and one that hasn't
		without := open()
		without.c.Remake = nil
		for what, l := range map[string]*Ledger{"log": open(), "no log": without} {
			_, _, err = l.Drop(t.Context(), "drop", ask, CommitOptions{})
			exits(t, err, ExitMismatch, lost.Path, last.Path)
			if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Hint, "one drop: "+way) {
				t.Errorf("%s: the drop of one of two shows no way out: %v", what, err)
			}
		}
	}
	ask.Hours.To = *last.Hour + 1
	dying := open()
	dying.c.Fault = func(p FaultPoint) error {
		if p == crash {
			return errCrash
		}
		return nil
	}
	if _, _, err = dying.Drop(t.Context(), "drop", ask, CommitOptions{}); crash != "" && !errors.Is(err, errCrash) || crash == "" && err != nil {
		t.Fatal(err)
	}
	if crash != "" {
		if _, _, err = open().Drop(t.Context(), "drop", ask, CommitOptions{}); err != nil && ExitCode(err) != ExitNotFound {
			t.Fatal(err)
		}
	}
	again := open()
	if err := again.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, again)
	kept := l.fold.visible(func(v *Visible) bool { return v.Number != brought || v.Hour == nil || !ask.Hours.holds(*v.Hour) })
	if len(again.fold.Files) != len(kept) {
		t.Errorf("%d files are left, want the %d that were not given up", len(again.fold.Files), len(kept))
	}
	for _, v := range kept {
		if again.fold.Files[v.Path] == nil {
			t.Errorf("%s was not given up, and is gone", v.Path)
		}
	}
	src.mustRun(t, again, fakePlan(again.Fold(), span{0, 140, 160}), "run-after")
	sound(t, again)
}

// TestAmendOfWhatIsGone amends a run that the log no longer has: its files are whole
// and stay, so no advice to accept or give up anything stands beside the error.
func TestAmendOfWhatIsGone(t *testing.T) {
	s := memSink()
	src := &source{}
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 50})
	p.Writer.Profile = 1
	src.mustRun(t, l, p, "run-1")
	before := data(t, s)
	for _, gone := range []error{
		coded(&consumer.GapError{LogStart: 10}, ExitFailed),
		(&ExecError{Code: ExitNotFound, Msg: "unknown topic", Hint: "accept it", Gone: true}).Err(0),
	} {
		l.c.Remake = func(context.Context, RemakeAsk) ([]*Result, error) { return nil, gone }
		_, err := l.Amend(t.Context(), "run-1", "amend", CommitOptions{})
		exits(t, err, ExitMismatch, "run run-1 read: nothing was amended", gone.Error())
		if e := (*Error)(nil); !errors.As(err, &e) || e.Hint != "" {
			t.Errorf("advice %q beside %v", e.Hint, err)
		}
	}
	if after := data(t, s); !maps.Equal(before, after) || l.fold.Head != 0 {
		t.Error("the data set has changed")
	}
}
