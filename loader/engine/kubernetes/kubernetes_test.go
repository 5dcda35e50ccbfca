package kubernetes

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
	"sawlog/loader"
	"sawlog/loader/engine/enginetest"
	"sawlog/loader/engine/kubernetes/kubetest"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

func TestMain(m *testing.M) {
	kubetest.Main()
	os.Exit(m.Run())
}

func openTemp(t *testing.T) sink.Sink {
	s, err := local.Open("file://" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func engine(s sink.Sink) *Engine {
	return &Engine{Settings: Settings{Image: "sawlog"}, Sink: s, Poll: 50 * time.Millisecond}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name    string
		conduct kubetest.Conduct
	}{
		{"quiet", kubetest.Conduct{}},
		{"twins", kubetest.Conduct{Twin: true}},
		{"evicted", kubetest.Conduct{Harm: kubetest.Evict}},
		{"out of memory", kubetest.Conduct{Harm: kubetest.Kill}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made *kubetest.Cluster
			enginetest.Suite{
				Open: openTemp,
				Engine: func(t *testing.T, s sink.Sink) loader.Engine {
					made = kubetest.Start(t, c.conduct)
					return engine(s)
				},
				Idle:  func(t *testing.T) { made.Idle(t) },
				Twins: c.conduct.Twin,
			}.Run(t)
		})
	}
}

// Pods that sleep through the commit, and wake after it, change nothing; nor do
// those that wake after the sweep.
func TestPodsThatWakeLate(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := kubetest.Start(t, kubetest.Conduct{Twin: true, Harm: kubetest.Sleep})
	w.Driver.Engine = engine(w.Driver.Sink)
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470) // its record sweeps, the Job is complete: the pods sleep on
	before := w.Tree()
	c.Idle(t)
	w.Unchanged(before, "pods that woke after the sweep")
	w.Produce(500)
	w.Load(w.Plan(), "r2", 1470)
	before = w.Tree()
	c.Idle(t)
	w.Unchanged(before, "pods that woke after the commit")
}

// die ends a driver once a condition holds, as a kill does: its Job stays.
func die(t *testing.T, w *enginetest.World, c *kubetest.Cluster, p *loader.Plan, conduct kubetest.Conduct, when func() bool) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	conduct.Refuse = func(args []string) string {
		if args[0] == "delete" {
			return "error: the driver is dead"
		}
		return ""
	}
	c.Behave(conduct)
	done := make(chan error, 1)
	go func() {
		_, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "dies", Memory: 256 << 20, Retries: 2})
		done <- err
	}()
	for late := time.Now().Add(time.Minute); !when(); time.Sleep(20 * time.Millisecond) { // pods are processes
		if time.Now().After(late) {
			t.Fatal("the driver lives on")
		}
	}
	end()
	if err := <-done; loader.ExitCode(err) != loader.ExitInterrupted {
		t.Fatal(err)
	}
	c.Behave(kubetest.Conduct{})
}

// wentWell is how many pods did their work.
func wentWell(c *kubetest.Cluster) (n int) {
	for _, code := range c.Ends() {
		if code == 0 {
			n++
		}
	}
	return n
}

// A driver that comes back finds the Job of its root and plan, whatever is done by
// then and however its own Job would be named; that is made for the rest only.
func TestDriverComesBack(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := kubetest.Start(t, kubetest.Conduct{})
	w.Driver.Engine = engine(w.Driver.Sink)
	w.Produce(500)
	p := w.Plan()
	die(t, w, c, p, kubetest.Conduct{Harm: kubetest.Sleep, From: 1}, func() bool { return wentWell(c) == 1 })
	later := engine(w.Driver.Sink)
	later.Image = "sawlog:next"
	w.Driver.Engine = later
	c.Wake()
	w.Load(p, "r1", 1470)
	if c.Made() != 1 {
		t.Errorf("%d Jobs were made, want the first to be followed", c.Made())
	}
	c.Idle(t)

	// The Job is taken away while it is followed: another is made for the rest.
	w.Produce(500)
	p = w.Plan()
	die(t, w, c, p, kubetest.Conduct{Harm: kubetest.Sleep, From: 1}, func() bool { return wentWell(c) == 4 })
	looks := 0
	c.Behave(kubetest.Conduct{Refuse: func(args []string) string {
		if args[0] == "get" && args[1] == "job" {
			if looks++; looks == 1 {
				return `Error from server (NotFound): jobs.batch "x" not found`
			}
		}
		return ""
	}})
	w.Load(p, "r2", 1470)
	if c.Made() != 3 {
		t.Errorf("%d Jobs were made, want one more for what the one that is gone has left", c.Made())
	}
	c.Idle(t)
}

// A driver that comes back finds its Job; one that ended is made anew.
func TestJobIsFollowedByItsName(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := kubetest.Start(t, kubetest.Conduct{Harm: kubetest.Sleep})
	w.Driver.Engine = engine(w.Driver.Sink)
	w.Produce(500)
	p := w.Plan()
	// A driver dies: the Job stays, as no one deletes it.
	ctx, die := context.WithCancel(t.Context())
	c.Behave(kubetest.Conduct{Harm: kubetest.Sleep, Refuse: func(args []string) string {
		if args[0] == "get" {
			die()
		}
		if args[0] == "delete" {
			return "error: the driver is dead"
		}
		return ""
	}})
	if _, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "r1", Memory: 256 << 20, Retries: 2}); loader.ExitCode(err) != loader.ExitInterrupted {
		t.Fatal(err)
	}
	c.Behave(kubetest.Conduct{})
	c.Wake()
	w.Load(p, "r2", 1470)
	if c.Made() != 1 {
		t.Errorf("%d Jobs were made, want the first to be followed", c.Made())
	}
	for range 2 {
		if report, err := w.Driver.Rerun(t.Context(), "r2"); err != nil || report.Changed > 0 {
			t.Errorf("%+v %v", report, err)
		}
	}
	if c.Made() != 3 {
		t.Errorf("%d Jobs were made, want one for each rerun", c.Made())
	}
}

func TestWhatKubectlSays(t *testing.T) {
	for said, code := range map[string]int{
		`Error from server (Forbidden): jobs.batch is forbidden: User "x" cannot create resource`: 5,
		`error: You must be logged in to the server (Unauthorized)`:                               5,
		`Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout`:                     6,
		`Error from server (NotFound): namespaces "loads" not found`:                              3,
		`The Job "x" is invalid (Invalid)`:                                                        4,
		`error: context "prod" does not exist`:                                                    2,
	} {
		w := enginetest.New(t, openTemp(t))
		kubetest.Start(t, kubetest.Conduct{Refuse: func([]string) string { return said }})
		w.Driver.Engine = engine(w.Driver.Sink)
		w.Produce(50)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := w.Driver.Run(ctx, w.Plan(), loader.RunAsk{Run: "r", Memory: 256 << 20})
		cancel()
		if loader.ExitCode(err) != code || !strings.Contains(err.Error(), said) {
			t.Errorf("%v: want exit code %d and %q", err, code, said)
		}
	}
	w := enginetest.New(t, openTemp(t))
	w.Driver.Engine = &Engine{Settings: Settings{Kubectl: []string{"no-such-kubectl"}, Image: "i"}, Sink: w.Driver.Sink}
	w.Produce(50)
	_, err := w.Driver.Run(t.Context(), w.Plan(), loader.RunAsk{Run: "r", Memory: 256 << 20})
	var e *loader.Error
	if loader.ExitCode(err) != 2 || !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("%v: want exit 2 and a way out", err)
	}
}

// The real kubectl says what the engine reads, and understands what it is told.
func TestRealKubectl(t *testing.T) {
	kubectl := peer.Tool(t, "kubectl")
	w := enginetest.New(t, openTemp(t))
	c := kubetest.Start(t, kubetest.Conduct{Harm: kubetest.Kill})
	e := engine(w.Driver.Sink)
	e.Kubectl = []string{kubectl, "--kubeconfig", c.Kubeconfig(), "--cache-dir", t.TempDir()}
	w.Driver.Engine = e
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470)

	// Its errors, and a Job that is there already.
	j := &job{e, "absent"}
	if state, err := j.State(t.Context()); err != nil || !state.Ended || loader.ExitCode(state.Err) != loader.ExitUnavailable {
		t.Errorf("a Job that isn't there: %+v %v", state, err)
	}
	if err := j.Kill(t.Context()); err != nil {
		t.Errorf("a Job that isn't there: %v", err)
	}
	if err := j.create(t.Context(), []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {name: odd}\nspec: {compeltions: 1}\n")); loader.ExitCode(err) != loader.ExitConflict || !strings.Contains(err.Error(), "compeltions") {
		t.Errorf("a field nobody knows: %v", err)
	}
	c.Behave(kubetest.Conduct{Harm: kubetest.Sleep})
	w.Produce(500)
	p := w.Plan()
	ctx, die := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "r2", Memory: 256 << 20})
		done <- err
	}()
	for end := time.Now().Add(time.Minute); c.Made() < 2 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // kubectl works
	}
	die()
	c.Wake()
	if err := <-done; loader.ExitCode(err) != loader.ExitInterrupted || c.Jobs() > 1 {
		t.Errorf("a run that is stopped leaves %d Jobs: %v", c.Jobs(), err)
	}
	c.Behave(kubetest.Conduct{})
	w.Load(p, "r3", 1470)
}
