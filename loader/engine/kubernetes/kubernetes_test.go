package kubernetes

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"sawlog/loader"
	"sawlog/loader/engine/enginetest"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(kubectlEnv); addr != "" {
		kubectlMain(addr)
		return
	}
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
	return &Engine{Settings: Settings{Kubectl: []string{os.Args[0]}, Image: "sawlog"}, Sink: s, Poll: 50 * time.Millisecond}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*cluster)
	}{
		{"quiet", func(*cluster) {}},
		{"twins", func(c *cluster) { c.twin = true }},
		{"evicted", func(c *cluster) { c.harm = "evict" }},
		{"out of memory", func(c *cluster) { c.harm = "oom" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made *cluster
			enginetest.Suite{
				Open: openTemp,
				Engine: func(t *testing.T, s sink.Sink) loader.Engine {
					made = newCluster(t)
					c.set(made)
					return engine(s)
				},
				Idle: func(t *testing.T) { made.idle(t) },
			}.Run(t)
		})
	}
}

// Pods that sleep through the commit, and wake after it, change nothing; nor do
// those that wake after the sweep.
func TestPodsThatWakeLate(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	c.twin, c.harm = true, "sleep"
	w.Driver.Engine = engine(w.Driver.Sink)
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470) // its record sweeps, the Job is complete: the pods sleep on
	before := w.Tree()
	c.idle(t)
	w.Unchanged(before, "pods that woke after the sweep")
	w.Produce(500)
	w.Load(w.Plan(), "r2", 1470)
	before = w.Tree()
	c.idle(t)
	w.Unchanged(before, "pods that woke after the commit")
}

// A driver that comes back finds its Job; one that ended is made anew.
func TestJobIsFollowedByItsName(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	c.harm = "sleep"
	w.Driver.Engine = engine(w.Driver.Sink)
	w.Produce(500)
	p := w.Plan()
	// A driver dies: the Job stays, as no one deletes it.
	ctx, die := context.WithCancel(t.Context())
	c.mu.Lock()
	c.fail = func(args []string) string {
		if args[0] == "get" {
			die()
		}
		if args[0] == "delete" {
			return "error: the driver is dead"
		}
		return ""
	}
	c.mu.Unlock()
	if _, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "r1", Memory: 256 << 20, Retries: 2}); loader.ExitCode(err) != loader.ExitInterrupted {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.fail, c.harm = nil, ""
	c.mu.Unlock()
	c.wake()
	w.Load(p, "r2", 1470)
	if c.made != 1 {
		t.Errorf("%d Jobs were made, want the first to be followed", c.made)
	}
	for range 2 {
		if report, err := w.Driver.Rerun(t.Context(), "r2"); err != nil || report.Changed > 0 {
			t.Errorf("%+v %v", report, err)
		}
	}
	if c.made != 3 {
		t.Errorf("%d Jobs were made, want one for each rerun", c.made)
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
		c := newCluster(t)
		c.fail = func(args []string) string { return said }
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
