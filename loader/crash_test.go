package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
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

// crashSteps is what the data set is to hold in the end: loads that seal hours,
// and late rows of hours sealed before.
var crashSteps = [][]span{
	{{0, 0, 50}, {1, 0, 30}},
	{{0, 50, 90}, {1, 30, 100}},
	{{2, 0, 30}},
}

// drive brings the data set to its end from whatever state it is in, as a
// scheduler's driver does: open plans are resumed, then what is missing is
// planned.
func drive(ctx context.Context, s sink.Sink, src *source, fault func(FaultPoint) error) error {
	c := src.config(s)
	c.Fault = fault
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
	for _, spans := range crashSteps {
		p := fakePlan(l.Fold(), spans...)
		if l.Fold().Overlap(p) != nil {
			continue // loaded before
		}
		if err := driveOne(ctx, l, src, p); err != nil {
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

// faultless is the data of a run nothing disturbs, and the points it passes.
func faultless(t *testing.T) (want map[string]string, points []FaultPoint) {
	t.Helper()
	s := memSink()
	err := drive(t.Context(), s, &source{}, func(p FaultPoint) error {
		points = append(points, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want = data(t, s)
	late := 0
	for name, body := range want {
		if path.Base(name) == manifestName && !strings.Contains(body, `"late":0,"rows":`) {
			late++
		}
	}
	if len(want) < 20 || late == 0 {
		t.Fatalf("the steps make %d files and %d late hours: they show too little", len(want), late)
	}
	return want, points
}

// recovered drives a data set left by a crash to its end and compares.
func recovered(t *testing.T, s sink.Sink, want map[string]string) {
	t.Helper()
	unspoilt(t, s, want)
	src := &source{prefix: "recovery-"}
	if err := drive(t.Context(), s, src, nil); err != nil {
		t.Fatalf("recovery: %v", err)
	}
	l := src.open(t, s)
	sound(t, l)
	if _, err := l.Sweep(t.Context(), false); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	sameTree(t, data(t, s), want)
	if left := tree(t, s, StagesDir); len(left) > 0 {
		t.Errorf("the sweep left %d staged files", len(left))
	}
	sound(t, l)
}

// unspoilt checks what a reader may see at any time: every data file whole, and
// under a success mark every file the ledger then had.
func unspoilt(t *testing.T, s sink.Sink, want map[string]string) {
	t.Helper()
	files := data(t, s)
	for name, body := range files {
		base := path.Base(name)
		if base != manifestName && base != successName && want[name] != body {
			t.Errorf("%s holds %d bytes, want %d: part of a file under its final name", name, len(body), len(want[name]))
		}
	}
	l, err := OpenLedger(t.Context(), s, "", "", LedgerConfig{Check: checkRows})
	if ExitCode(err) == ExitNotFound {
		return
	}
	if err != nil {
		t.Fatalf("the ledger after a crash: %v", err)
	}
	for key, h := range l.fold.Hours {
		for _, dir := range h.Dirs {
			var success Success
			if err := decodeStrict([]byte(files[SuccessPath(dir)]), &success); err != nil {
				continue
			}
			for _, v := range l.fold.Files {
				if v.Hour != nil && *v.Hour == key && v.Number <= success.Number && files[v.Path] == "" {
					t.Errorf("%s says complete as of record %d, %s is missing", SuccessPath(dir), success.Number, v.Path)
				}
			}
		}
	}
}

// TestCrashTable dies at each fault point in turn, by losing the process and by
// losing the power, and recovers.
func TestCrashTable(t *testing.T) {
	want, points := faultless(t)
	rows := map[FaultPoint]int{}
	for k, point := range points {
		kind, _, _ := strings.Cut(string(point), ":")
		rows[FaultPoint(kind)]++
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
			t.Run(fmt.Sprintf("%s/%d/%d", kind, k, seed), func(t *testing.T) {
				recovered(t, local.New(mem.CrashClone(rnd), "/root"), want)
			})
		}
	}
	for _, row := range []FaultPoint{
		AfterPlan, "attempt", AfterSeal, AfterDurable, BeforeCommit, AfterCommit, "published", AfterPublish, "marked", AfterMark,
	} {
		if rows[row] == 0 {
			t.Errorf("no crash after %q: the row of the table was not tested", row)
		}
	}
}

// TestCrashRetire dies at each fault point of a record that retires files.
func TestCrashRetire(t *testing.T) {
	again := func(ctx context.Context, s sink.Sink, src *source, fault func(FaultPoint) error) error {
		c := src.config(s)
		c.Fault = fault
		l, err := OpenLedger(ctx, s, "", "", c)
		if err != nil {
			return err
		}
		if err := l.Publish(ctx); err != nil {
			return err
		}
		p := fakePlan(l.fold, span{0, 0, 50}, span{1, 0, 30})
		p.Kind, p.Base = Supersede, 1
		if l.fold.Plans[PlanID(p)].State == PlanCommitted || l.fold.Head > 1 {
			return nil
		}
		for _, v := range l.fold.VisibleOf(0) {
			p.Retires = append(p.Retires, v.Path)
		}
		_, err = src.run(ctx, l, p, "again")
		return err
	}
	var points []FaultPoint
	s := memSink()
	src, _ := ran(t, s)
	if err := again(t.Context(), s, src, func(p FaultPoint) error { points = append(points, p); return nil }); err != nil {
		t.Fatal(err)
	}
	want := data(t, s)
	retired := 0
	for k, point := range points {
		if strings.HasPrefix(string(point), string(AfterRetireOne)) {
			retired++
		}
		for seed := range uint64(3) {
			mem := vfs.NewMem()
			s := local.New(mem, "/root")
			src, _ := ran(t, s)
			count := 0
			err := again(t.Context(), s, src, func(FaultPoint) error {
				if count++; count == k+1 {
					return errCrash
				}
				return nil
			})
			if !errors.Is(err, errCrash) {
				t.Fatalf("point %d (%s): %v", k, point, err)
			}
			var rnd *rand.Rand
			if seed > 0 {
				rnd = rand.New(rand.NewPCG(seed, uint64(k)))
			}
			s = local.New(mem.CrashClone(rnd), "/root")
			if strings.HasPrefix(string(point), string(AfterRetireOne)) && seed == 0 {
				if _, err := s.Stat("dt=2025-11-29/hr=00/_SUCCESS"); !errors.Is(err, sink.ErrNotExist) {
					t.Fatalf("%s: files are on the move and the hour says complete: %v", point, err)
				}
			}
			if err := again(t.Context(), s, &source{prefix: "recovery-"}, nil); err != nil {
				t.Fatalf("%s: recovery: %v", point, err)
			}
			sameTree(t, data(t, s), want)
			sound(t, src.open(t, s))
		}
	}
	if retired != 7 {
		t.Errorf("%d points among retired files, want 7", retired)
	}
}

// TestCrashAnywhere cuts the power at every operation of the file system.
func TestCrashAnywhere(t *testing.T) {
	want, _ := faultless(t)
	mem := vfs.NewMem()
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
		if ops++; ops%4 == 0 {
			crashed = append(crashed, mem.CrashClone(rnd))
		}
		return nil
	})
	if err := drive(t.Context(), local.New(mem, "/root"), &source{}, nil); err != nil {
		t.Fatal(err)
	}
	if len(crashed) < 80 {
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
	failures := 0
	for seed := range uint64(60) {
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
	if failures < 60 {
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
		kind, _, _ := strings.Cut(string(point), ":")
		if seen[kind]++; seen[kind] > 2 && k%13 != 0 {
			continue // two of each kind, and some more
		}
		t.Run(fmt.Sprintf("%s/%d", kind, k), func(t *testing.T) {
			root := t.TempDir()
			cmd := osexec.Command(os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), killRoot+"="+root, fmt.Sprintf("%s=%d", killPoint, k+1))
			out, err := cmd.CombinedOutput()
			var exit *osexec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child ended with %v, want signal 9:\n%s", err, out)
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
