package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

var errCrash = errors.New("the process died here")

// crashStep is one act on the way to what a data set is to hold in the end. Its
// name stands before its fault points, none before those of loads.
type crashStep struct {
	name string
	done func(f *Fold) bool
	act  func(ctx context.Context, l *Ledger, src *source) error
}

// crashSteps are loads that seal hours, late rows of hours sealed before, what
// takes files back in each way there is, and a load after all that.
var crashSteps = []crashStep{
	crashLoad(span{0, 0, 50}, span{1, 0, 30}),
	crashLoad(span{0, 50, 90}, span{1, 30, 100}),
	crashLoad(span{2, 0, 30}),
	{"supersede ", hasKind(Supersede), func(ctx context.Context, l *Ledger, src *source) error {
		p := src.plan(l.Fold(), span{0, 0, 50}, span{1, 0, 30})
		p.Kind = Supersede
		for _, v := range l.Fold().VisibleOf(0) {
			p.Retires = append(p.Retires, v.Path)
		}
		return driveOne(ctx, l, src, p)
	}},
	{"compact ", hasKind(Compact), func(ctx context.Context, l *Ledger, src *source) error {
		d := &Driver{Sink: l.sink, Now: src.config(l.sink).Now}
		p, err := d.PlanRewrite(ctx, RewriteAsk{Hours: &HourSpan{hourZero, hourZero + 2*3600}, TargetBytes: 2000})
		if err != nil {
			return err
		}
		return driveOne(ctx, l, src, p)
	}},
	{"drop ", hasKind(Drop), func(ctx context.Context, l *Ledger, _ *source) error {
		_, _, err := l.Drop(ctx, "drop", DropAsk{Hours: &HourSpan{hourZero + 2*3600, hourZero + 3*3600}}, CommitOptions{})
		return err
	}},
	crashLoad(span{2, 30, 50}),
}

func crashLoad(spans ...span) crashStep {
	done := func(f *Fold) bool { return f.Overlap(fakePlan(f, spans...)) != nil }
	return crashStep{"", done, func(ctx context.Context, l *Ledger, src *source) error {
		return driveOne(ctx, l, src, src.plan(l.Fold(), spans...))
	}}
}

func hasKind(kind Kind) func(f *Fold) bool {
	return func(f *Fold) bool {
		return slices.ContainsFunc(f.Records, func(ref RecordRef) bool { return ref.Kind == kind })
	}
}

// rowOf is a point without the file it is of: "published:" comes after one
// file, "published" after all.
func rowOf(point FaultPoint) string {
	if kind, _, ofFile := strings.Cut(string(point), ":"); ofFile {
		return kind + ":"
	}
	return string(point)
}

// drive brings the data set to its end from whatever state it is in, as a
// scheduler's driver does: open plans are resumed, then what is missing is
// planned.
func drive(ctx context.Context, s sink.Sink, src *source, fault func(FaultPoint) error) error {
	c, under := src.config(s), ""
	if fault != nil {
		c.Fault = func(p FaultPoint) error { return fault(FaultPoint(under) + p) }
	}
	l, err := OpenLedger(ctx, s, "views", "views-hourly", c)
	if err != nil {
		return err
	}
	if err := l.Publish(ctx); err != nil {
		return err
	}
	open, err := l.OpenPlans(ctx)
	if err != nil {
		return err
	}
	for _, ref := range open {
		if err := driveOne(ctx, l, src, ref.Plan); err != nil {
			return err
		}
	}
	for _, step := range crashSteps {
		under = step.name
		if step.done(l.Fold()) {
			continue
		}
		if err := step.act(ctx, l, src); err != nil {
			return err
		}
	}
	return nil
}

func driveOne(ctx context.Context, l *Ledger, src *source, p *Plan) error {
	planID, err := l.PutPlan(ctx, p)
	if err != nil {
		return err
	}
	for {
		results, err := l.Results(ctx, p, planID)
		if err != nil {
			return err
		}
		for n := range p.Splits {
			if slices.ContainsFunc(results, func(r *Result) bool { return r.Split == n }) {
				continue
			}
			r, err := src.attempt(l.sink, p, planID, n)
			if err != nil {
				return err
			}
			results = append(results, r)
			if err := l.fault("attempt"); err != nil {
				return err
			}
		}
		_, err = l.Commit(ctx, p, planID, "run of "+planID, results, CommitOptions{})
		var missing *IncompleteError
		if !errors.As(err, &missing) {
			return err
		}
	}
}

// ending is what a data set holds when nothing disturbed it on its way.
type ending struct {
	now     map[string]string // what readers see
	ever    map[string]string // and all that was visible before, by final path
	retired map[string]string // what waits to be swept
	fields  []BucketField
}

// faultless is the end of a run nothing disturbs, and the points it passes.
func faultless(t *testing.T, fields ...BucketField) (want *ending, points []FaultPoint) {
	t.Helper()
	s := memSink()
	err := drive(t.Context(), s, &source{fields: fields}, func(p FaultPoint) error {
		points = append(points, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want = &ending{data(t, s), data(t, s), tree(t, s, RetiredDir), fields}
	late := 0
	for name, body := range want.now {
		if path.Base(name) == manifestName && !strings.Contains(body, `"late":0,"rows":`) {
			late++
		}
	}
	for name, body := range want.retired {
		parts := strings.SplitN(strings.TrimPrefix(name, RetiredDir+"/"), "/", 2)
		want.ever[parts[1]] = body
	}
	if len(want.now) < 20 || late == 0 || len(want.ever) < len(want.now)+15 {
		t.Fatalf("the steps make %d files, take %d back, %d hours are late: they show too little", len(want.now), len(want.ever)-len(want.now), late)
	}
	return want, points
}

// recovered drives a data set left by a crash to its end and compares.
func recovered(t *testing.T, s sink.Sink, want *ending) {
	t.Helper()
	unspoilt(t, s, want)
	src := &source{prefix: "recovery-", fields: want.fields}
	if err := drive(t.Context(), s, src, nil); err != nil {
		t.Fatalf("recovery: %v", err)
	}
	l := src.open(t, s)
	sound(t, l)
	if _, err := l.Sweep(t.Context(), false); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	sameTree(t, data(t, s), want.now)
	sameTree(t, tree(t, s, RetiredDir), want.retired)
	if left := tree(t, s, StagesDir); len(left) > 0 {
		t.Errorf("the sweep left %d staged files", len(left))
	}
	sound(t, l)
}

// unspoilt checks what a reader may see at any time: every data file whole, and
// under a success mark every file the ledger then had.
func unspoilt(t *testing.T, s sink.Sink, want *ending) {
	t.Helper()
	files := data(t, s)
	for name, body := range files {
		base := path.Base(name)
		if base != manifestName && base != successName && want.ever[name] != body {
			t.Errorf("%s holds %d bytes, want %d: part of a file under its final name", name, len(body), len(want.ever[name]))
		}
	}
	l, err := OpenLedger(t.Context(), s, "", "", LedgerConfig{Check: checkRows})
	if ExitCode(err) == ExitNotFound {
		return
	}
	if err != nil {
		t.Fatalf("the ledger after a crash: %v", err)
	}
	for _, problem := range unmarked(t, l, files) {
		t.Error(problem)
	}
}

// unmarked tells where a success mark does not hold what it promises: every
// file of its folder that was visible as of its number (L6). A record that
// retires takes the mark away before it moves a file, and nothing may bring the
// mark back.
func unmarked(t *testing.T, l *Ledger, files map[string]string) (problems []string) {
	t.Helper()
	marks := map[string]int64{} // folder → number
	for name, body := range files {
		var success Success
		if path.Base(name) == successName && decodeStrict([]byte(body), &success) == nil {
			marks[path.Dir(name)] = success.Number
		}
	}
	for dir, number := range marks {
		if number > l.fold.Head {
			problems = append(problems, fmt.Sprintf("L6: %s is as of record %d of %d", dir, number, l.fold.Head))
		}
	}
	f := NewFold()
	for f.Head < l.fold.Head {
		rec, hash, err := readRecord(l.sink, f.Head+1)
		if err == nil {
			err = f.Apply(rec, hash)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range f.Files {
			dir := v.HourDir()
			if number, marked := marks[dir]; marked && number == f.Head && files[name] == "" {
				problems = append(problems, fmt.Sprintf("L6: %s is as of record %d of %d, %s is missing", dir, number, l.fold.Head, name))
			}
		}
	}
	return problems
}

// TestCrashTable dies at each fault point in turn, by losing the process and by
// losing the power, and recovers; past the second point of a row in one of these
// ways.
func TestCrashTable(t *testing.T) {
	want, points := faultless(t)
	rows := map[string]int{}
	for k, point := range points {
		row := rowOf(point)
		if rows[row]++; testing.Short() && rows[row] > 2 {
			continue
		}
		mem := vfs.NewMem()
		count := 0
		err := drive(t.Context(), local.New(mem, "/root"), &source{}, func(FaultPoint) error {
			if count++; count == k+1 {
				return errCrash
			}
			return nil
		})
		if !errors.Is(err, errCrash) {
			t.Fatalf("point %d (%s): error %v, want the crash", k, point, err)
		}
		for seed := range uint64(3) {
			rnd := rand.New(rand.NewPCG(uint64(k), seed))
			if seed == 0 {
				rnd = nil // the process died, the machine did not
			}
			if (testing.Short() || rows[row] > 2) && seed != uint64(k%3) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%d", row, k, seed), func(t *testing.T) {
				recovered(t, local.New(mem.CrashClone(rnd), "/root"), want)
			})
		}
	}
	for _, row := range []string{
		"plan", "attempt", "seal", "durable", "before commit", "commit", "published:", "published", "marked:", "marked",
		"supersede commit", "supersede retired:", "supersede published:", "compact commit", "compact retired:", "compact published:",
		"drop before commit", "drop commit", "drop retired:", "drop published", "drop marked:", "drop marked",
	} {
		if rows[row] == 0 {
			t.Errorf("no crash after %q: the row of the table was not tested", row)
		}
	}
}

// TestCrashAnywhere cuts the power at every operation of the file system, while
// files go to folders below those of their hours.
func TestCrashAnywhere(t *testing.T) {
	fields := []BucketField{{Name: "p"}, {Name: "q", From: "x.y"}}
	want, _ := faultless(t, fields...)
	mem := vfs.NewMem()
	every := 8
	if testing.Short() {
		every = 64
	}
	var crashed []*vfs.Mem
	rnd := rand.New(rand.NewPCG(1, 2))
	ops := 0
	var mu sync.Mutex // the probe of a new root has two goroutines
	mem.Inject(func(op vfs.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == vfs.OpStat || op == vfs.OpRead || op == vfs.OpReadDir || op == vfs.OpOpen {
			return nil // changes nothing: the cut before the next change is the same
		}
		if ops++; ops%every == 0 {
			crashed = append(crashed, mem.CrashClone(rnd))
		}
		return nil
	})
	if err := drive(t.Context(), local.New(mem, "/root"), &source{fields: fields}, nil); err != nil {
		t.Fatal(err)
	}
	if len(crashed) < 640/every {
		t.Fatalf("only %d cuts", len(crashed))
	}
	for n, left := range crashed {
		t.Run(strconv.Itoa(n), func(t *testing.T) { recovered(t, local.New(left, "/root"), want) })
	}
}

// TestFaultAnywhere has every kind of operation fail now and then with an error
// the process survives; whatever it answers, a later run brings all to its end.
func TestFaultAnywhere(t *testing.T) {
	want, _ := faultless(t)
	failures, seeds := 0, 60
	if testing.Short() {
		seeds = 9
	}
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		mem := vfs.NewMem()
		errno := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.ETIMEDOUT}[seed%3]
		var mu sync.Mutex // the probe of a new root has two goroutines
		mem.Inject(func(vfs.Op, string) error {
			mu.Lock()
			defer mu.Unlock()
			if rnd.IntN(150) == 0 {
				return errno
			}
			return nil
		})
		s := local.New(mem, "/root")
		for try := range 3 {
			if err := drive(t.Context(), s, &source{prefix: fmt.Sprintf("try-%d-", try)}, nil); err != nil {
				failures++
				var place *sink.Error
				if !errors.As(err, &place) && !errors.Is(err, errno) && !strings.Contains(err.Error(), "no good result") {
					t.Errorf("seed %d: error does not say where: %v", seed, err)
				}
			}
		}
		mem.Inject(nil)
		recovered(t, s, want)
	}
	if failures < seeds {
		t.Errorf("only %d runs failed: the faults were not felt", failures)
	}
}

const (
	killRoot  = "SAWLOG_TEST_KILL_ROOT"
	killPoint = "SAWLOG_TEST_KILL_POINT"
)

// TestKilled is the process TestKill starts and kills; by itself it does nothing.
func TestKilled(t *testing.T) {
	root := os.Getenv(killRoot)
	if root == "" {
		return
	}
	point, err := strconv.Atoi(os.Getenv(killPoint))
	if err != nil {
		t.Fatal(err)
	}
	s, done := openRoot(t, root)
	defer done()
	count := 0
	err = drive(t.Context(), s, &source{}, func(FaultPoint) error {
		if count++; count == point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // there is no after
			select {}
		}
		return nil
	})
	t.Fatalf("point %d was not reached: %v", point, err)
}

// TestKill kills a process by signal 9 at fault points on real files.
func TestKill(t *testing.T) {
	want, points := faultless(t)
	seen := map[string]int{}
	for k, point := range points {
		row := rowOf(point)
		if seen[row]++; seen[row] > 1 && (testing.Short() || k%13 != 0) {
			continue // the first of each row, and some more
		}
		t.Run(fmt.Sprintf("%s/%d", row, k), func(t *testing.T) {
			root := t.TempDir()
			if !killed(t, root, k+1) {
				t.Fatal("the child ended by itself, want signal 9")
			}
			s, err := local.Open(root)
			if err != nil {
				t.Fatal(err)
			}
			recovered(t, s, want)
		})
	}
}

// TestStageLost loses stages between commit and publish: they are remade from
// the plan, or the error names what is lost.
func TestStageLost(t *testing.T) {
	for name, c := range map[string]struct {
		salt string
		code int
	}{"remade": {"", 0}, "log changed": {" changed", ExitMismatch}} {
		t.Run(name, func(t *testing.T) {
			src, mem := &source{}, vfs.NewMem()
			s := local.New(mem, "/root")
			cfg := src.config(s)
			cfg.Fault = func(p FaultPoint) error {
				if strings.HasPrefix(string(p), string(AfterFile)) {
					return errCrash
				}
				return nil
			}
			l, err := OpenLedger(t.Context(), s, "views", "views-hourly", cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := src.run(t.Context(), l, fakePlan(l.Fold(), span{0, 0, 50}), "run-1"); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if err := s.RemoveAll(StagesDir); err != nil {
				t.Fatal(err)
			}
			after := &source{salt: c.salt, prefix: "again-"}
			l = after.open(t, s)
			err = l.Publish(t.Context())
			if c.code != 0 {
				exits(t, err, c.code, "is lost", "dt=2025-11-29")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sound(t, l)
			none, err := OpenLedger(t.Context(), s, "", "", LedgerConfig{Check: checkRows})
			if err != nil {
				t.Fatal(err)
			}
			sound(t, none)
		})
	}
}
