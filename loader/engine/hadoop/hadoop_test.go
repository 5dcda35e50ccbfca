package hadoop

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sawlog/loader"
	"sawlog/loader/engine/enginetest"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(hadoopEnv); addr != "" {
		hadoopMain(addr)
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

func engine(c *cluster, s sink.Sink) *Engine {
	return &Engine{Settings: Settings{ResourceManagers: []string{c.url}, Command: []string{os.Args[0]}}, Sink: s, Poll: 50 * time.Millisecond}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name  string
		twins bool
		harm  string
	}{
		{"quiet", false, ""},
		{"twins and kills", true, "kill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var made *cluster
			enginetest.Suite{
				Open: openTemp,
				Engine: func(t *testing.T, s sink.Sink) loader.Engine {
					made = newCluster(t)
					made.twin, made.harm = c.twins, c.harm
					return engine(made, s)
				},
				Idle:  func(t *testing.T) { made.idle(t) },
				Twins: c.twins,
			}.Run(t)
		})
	}
}

// Attempts whose node goes away don't count, those that are killed do.
func TestAttemptsAreMadeAgain(t *testing.T) {
	for _, harm := range []string{"lost", "kill"} {
		w := enginetest.New(t, openTemp(t))
		c := newCluster(t)
		c.harm = harm
		w.Driver.Engine = engine(c, w.Driver.Sink)
		w.Produce(500)
		w.Load(w.Plan(), "r1", 1470)
		if a := c.apps[0]; len(a.attempts) != 6 || len(a.failed) != map[string]int{"lost": 0, "kill": 3}[harm] {
			t.Errorf("%s: %d attempts, %d tasks with failures", harm, len(a.attempts), len(a.failed))
		}
	}
}

// Attempts that sleep through the commit, and wake after it, change nothing; nor
// do those that wake after the sweep.
func TestAttemptsThatWakeLate(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	c.twin, c.harm = true, "sleep"
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470) // its record sweeps
	before := w.Tree()
	c.wake()
	c.idle(t)
	w.Unchanged(before, "attempts that woke after the sweep")
	w.Produce(500)
	w.Load(w.Plan(), "r2", 1470)
	before = w.Tree()
	c.wake()
	c.idle(t)
	w.Unchanged(before, "attempts that woke after the commit")
}

// dies runs a plan by a driver that is no more once the job runs: it asks for
// nothing any more, so nobody kills the application.
func dies(t *testing.T, w *enginetest.World, c *cluster, p *loader.Plan, while func()) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	defer die()
	var dead atomic.Bool
	c.fail = func(r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/apps/") && !dead.Load() {
			while()
			dead.Store(true)
			die()
		}
		return dead.Load()
	}
	if _, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "dies", Memory: 256 << 20, Retries: 2}); loader.ExitCode(err) != loader.ExitInterrupted {
		t.Fatal(err)
	}
	c.fail = nil
}

// A driver that comes back follows what runs, whatever is done of it by then;
// an application that ended is not taken for one that runs.
func TestApplicationIsFollowedByItsTag(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(500)
	p := w.Plan()
	c.harm = "sleep"
	dies(t, w, c, p, func() {})
	c.harm = ""
	c.wake()
	w.Load(p, "r1", 1470)
	if c.made() != 1 {
		t.Errorf("%d applications, want the first to be followed", c.made())
	}
	for range 2 {
		if report, err := w.Driver.Rerun(t.Context(), "r1"); err != nil || report.Changed > 0 {
			t.Errorf("%+v %v", report, err)
		}
	}
	if c.made() != 3 {
		t.Errorf("%d applications, want one for each rerun", c.made())
	}
}

// What the application of a dead driver doesn't carry out is submitted after it
// has ended: here it is killed with a part of the splits done.
func TestRestOfAnApplicationIsSubmitted(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(500)
	p := w.Plan()
	l, err := w.Driver.Ledger(t.Context(), w.Spec.Name, w.Spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	c.harm = "sleep"
	dies(t, w, c, p, func() {
		c.mu.Lock()
		_ = c.asleep[0].Signal(syscall.SIGCONT) // one task comes through
		c.mu.Unlock()
		for { // another process works
			if results, err := l.Results(t.Context(), p, loader.PlanID(p)); err != nil || len(results) > 0 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	c.harm = ""
	asked := 0
	c.fail = func(r *http.Request) bool {
		if asked++; asked == 3 { // it is followed by now
			c.mu.Lock()
			c.apps[0].end("KILLED", "KILLED", "by an operator")
			c.mu.Unlock()
			c.wake()
		}
		return false
	}
	w.Load(p, "r1", 1470)
	if c.made() != 2 || len(c.apps[1].lines) != 2 {
		t.Errorf("%d applications, the last with %d tasks: want the two splits left", c.made(), len(c.apps[len(c.apps)-1].lines))
	}
}

// Two drivers that submit in the same moment follow one application.
func TestSubmittedTwice(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	twice := false
	c.submit = func(args []string) string {
		if !twice {
			twice = true
			if said := c.take(args); !strings.Contains(said, "background") {
				return said
			}
		}
		return ""
	}
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470)
	if c.made() != 2 || c.apps[0].state != "FINISHED" || c.apps[1].state != "KILLED" {
		t.Errorf("%d applications: %s, %s", c.made(), c.apps[0].state, c.apps[1].state)
	}
}

// A job that was submitted although the command said it wasn't, or whose
// ResourceManager doesn't answer for a while, is followed.
func TestLostAnswers(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	c.submit = func(args []string) string {
		c.submit = nil
		c.take(args)
		return "Error Launching job : java.io.EOFException"
	}
	asked := 0
	c.fail = func(r *http.Request) bool {
		asked++
		return strings.Contains(r.URL.Path, "/apps/") && asked%3 == 0
	}
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(500)
	w.Load(w.Plan(), "r1", 1470)
	if c.made() != 1 {
		t.Errorf("%d applications", c.made())
	}
}

// A run that fails says what its last attempt failed of.
func TestFailureNamesTheAttempts(t *testing.T) {
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	w.Driver.Engine = engine(c, w.Driver.Sink)
	w.Produce(50)
	p := w.Plan()
	w.Driver.Source.Brokers, w.Driver.Source.Timeout = []string{"127.0.0.1:1"}, time.Second
	_, err := w.Driver.Run(t.Context(), p, loader.RunAsk{Run: "r1", Retries: 1, Memory: 256 << 20})
	var e *loader.Error
	if loader.ExitCode(err) != loader.ExitUnavailable || !errors.As(err, &e) || !strings.Contains(e.Hint, "yarn logs") {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"application_", "Job failed as tasks failed", "127.0.0.1:1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

func TestWhatTheCommandSays(t *testing.T) {
	for said, code := range map[string]int{
		"ERROR streaming.StreamJob: Error Launching job : org.apache.hadoop.yarn.exceptions.YarnException: Failed to submit application_1 to YARN : Application application_1 submitted by user x to unknown queue: y": 4,
		"ERROR streaming.StreamJob: Error Launching job : org.apache.hadoop.security.AccessControlException: Permission denied: user=x":                                                                                5,
		"Error Launching job : java.net.ConnectException: Call From a to b:8032 failed on connection exception: Connection refused":                                                                                    6,
		"ERROR: JAVA_HOME is not set and could not be found.":             2,
		"JAR does not exist or is not a normal file: /x.jar":              2,
		"Error: Could not find or load main class org.apache.hadoop.Nope": 2,
	} {
		w := enginetest.New(t, openTemp(t))
		c := newCluster(t)
		c.submit = func([]string) string { return "first\n" + said + "\n\tat Some.java" }
		w.Driver.Engine = engine(c, w.Driver.Sink)
		w.Produce(50)
		_, err := w.Driver.Run(t.Context(), w.Plan(), loader.RunAsk{Run: "r", Memory: 256 << 20})
		if loader.ExitCode(err) != code {
			t.Errorf("%v: exit code %d, want %d", err, loader.ExitCode(err), code)
		}
	}
	w := enginetest.New(t, openTemp(t))
	c := newCluster(t)
	w.Driver.Engine = &Engine{Settings: Settings{Command: []string{"no-such-hadoop"}, ResourceManagers: []string{c.url}}, Sink: w.Driver.Sink}
	w.Produce(50)
	_, err := w.Driver.Run(t.Context(), w.Plan(), loader.RunAsk{Run: "r", Memory: 256 << 20})
	var e *loader.Error
	if loader.ExitCode(err) != 2 || !errors.As(err, &e) || !strings.Contains(e.Hint, "run.hadoop.command") {
		t.Errorf("%v: want exit 2 and a way out", err)
	}
}
