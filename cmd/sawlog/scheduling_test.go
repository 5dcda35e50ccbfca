package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/brokertest"
	"sawlog/jobs"
	"sawlog/loader"
)

// secondsLedger is a data set in which every second is a record: a plan covers
// the seconds up to a moment. All nodes share it.
type secondsLedger struct {
	mu      sync.Mutex
	covered time.Time
	open    *secondsPlan
	plans   map[string]*secondsPlan
	commits int
}

type secondsPlan struct {
	id       string
	from, to time.Time
	run      string // that committed it
}

// secondsRunner is a node's way to the ledger; it is cut when its process ends.
type secondsRunner struct {
	*secondsLedger
	ended atomic.Bool
}

func (*secondsRunner) Topics(context.Context, *jobs.Spec) ([]string, error) { return nil, nil }

func (r *secondsRunner) Plan(_ context.Context, _ *jobs.Spec, _ jobs.Set, ask jobs.Ask) (*jobs.Planned, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil {
		return &jobs.Planned{ID: r.open.id, Preview: &loader.Preview{Status: loader.PreviewResume}}, nil
	}
	p := &secondsPlan{from: r.covered, to: time.Now()}
	if !ask.UpTo.IsZero() {
		p.to = ask.UpTo
	}
	if !p.from.Before(p.to) {
		return &jobs.Planned{Preview: &loader.Preview{Status: loader.StatusCovered}}, nil
	}
	p.id = fmt.Sprintf("%d-%d", p.from.UnixMilli(), p.to.UnixMilli())
	if r.plans[p.id] == nil {
		r.plans[p.id] = p
	}
	return &jobs.Planned{ID: p.id, Preview: &loader.Preview{Status: loader.PreviewReady}}, nil
}

// Run takes a while and goes on though it is told to stop, as tasks of a node
// that was cut off do.
func (r *secondsRunner) Run(_ context.Context, _ *jobs.Spec, _ jobs.Set, p *jobs.Planned, e jobs.Exec) (*loader.Outcome, error) {
	r.mu.Lock()
	plan := r.plans[p.ID]
	if plan.run == "" {
		r.open = plan
	}
	r.mu.Unlock()
	time.Sleep(3 * time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended.Load():
		return nil, context.Canceled
	case plan.run != "": // by another node
		return &loader.Outcome{Status: jobs.Covered, Plan: plan.id, Number: -1}, nil
	case !plan.from.Equal(r.covered):
		return nil, &loader.Error{Code: loader.ExitConflict, Msg: "overlap"}
	}
	plan.run, r.covered, r.open = e.Run, plan.to, nil
	r.commits++
	return &loader.Outcome{Run: e.Run, Status: jobs.Committed, Plan: plan.id, Number: int64(r.commits) - 1}, nil
}

func (r *secondsRunner) Committed(_ context.Context, _ *jobs.Spec, _ jobs.Set, plan string) (*loader.Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.plans[plan]; p != nil && p.run != "" {
		return &loader.Outcome{Run: p.run, Status: jobs.Committed, Plan: plan}, nil
	}
	return nil, nil
}

func (*secondsRunner) Abandon(context.Context, *jobs.Spec, jobs.Set, string, string, string) error {
	return nil
}

func (*secondsRunner) Release(context.Context, *jobs.Spec, []string) error { return nil }

func (*secondsRunner) Loads(context.Context, *jobs.Spec, jobs.Set, time.Time, time.Time) ([]int64, error) {
	return nil, nil
}

func (*secondsRunner) Windows(context.Context, *jobs.Spec, jobs.Set, []jobs.Ask) ([]jobs.Window, error) {
	return nil, nil
}

func (*secondsRunner) View(context.Context, *jobs.Spec, jobs.Set) (*jobs.View, error) {
	return &jobs.View{Head: -1}, nil
}

// house is a cluster on each of whose nodes the scheduler may run.
type house struct {
	t      *testing.T
	c      *brokertest.Cluster
	ledger *secondsLedger
	rooms  map[*brokertest.Node]*room
	ending sync.WaitGroup
}

// room is what follows the leadership on one node.
type room struct {
	*scheduling
	runner *secondsRunner
	cancel context.CancelFunc
	ended  chan struct{}
}

func (h *house) begin(n *brokertest.Node) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &room{runner: &secondsRunner{secondsLedger: h.ledger}, cancel: cancel, ended: make(chan struct{})}
	r.scheduling = &scheduling{
		broker: n.Broker, runner: r.runner, log: slog.New(slog.DiscardHandler),
		face: func(*jobs.Scheduler) http.Handler { return http.NotFoundHandler() },
	}
	r.show(nil)
	h.rooms[n] = r
	go func() {
		defer close(r.ended)
		r.run(ctx)
	}()
}

// end stops following on a node, before its broker stops in good order.
func (h *house) end(n *brokertest.Node) {
	h.rooms[n].cancel()
	<-h.rooms[n].ended
}

// drop leaves what follows on a node whose process has ended.
func (h *house) drop(n *brokertest.Node) {
	r := h.rooms[n]
	r.runner.ended.Store(true)
	r.cancel()
	h.ending.Go(func() { <-r.ended })
}

// scheduler is the one that runs, by the node whose broker knows that it leads.
func (h *house) scheduler() (*jobs.Scheduler, *brokertest.Node) {
	for _, n := range h.c.Nodes {
		if n.Broker == nil || !n.Broker.JournalLeader(jobsTopic).Here {
			continue
		}
		if s := h.rooms[n].scheduler(); s != nil {
			return s, n
		}
	}
	return nil, nil
}

// TestSchedulerInHarm: the node that runs the scheduler is killed, loses power, is
// stopped and cut off, again and again, while a job is due every ten seconds. No
// tick is missed, none has two runs, and none commits twice, although what a node
// was carrying out when it was cut off goes on there.
func TestSchedulerInHarm(t *testing.T) {
	t.Parallel()
	seeds := 4
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { scheduleInHarm(t, rand.New(rand.NewPCG(uint64(seed), 3))) })
		})
	}
}

func scheduleInHarm(t *testing.T, rnd *rand.Rand) {
	h := &house{
		t: t, c: brokertest.NewCluster(t, 3), rooms: map[*brokertest.Node]*room{},
		ledger: &secondsLedger{plans: map[string]*secondsPlan{}, covered: time.Now()},
	}
	h.c.StartAll()
	for _, n := range h.c.Nodes {
		h.begin(n)
	}
	time.Sleep(5 * time.Second)
	s, _ := h.scheduler()
	if s == nil {
		t.Fatal("no scheduler runs")
	}
	text := "name: seconds\nsource: {topics: [t]}\noutput: {root: 'file:///w'}\nschedule: {every: 10s}\n"
	if _, err := s.Apply(t.Context(), []byte(text), "job.yaml", "test", false); err != nil {
		t.Fatal(err)
	}
	moves := 0
	for range 15 {
		moves += h.harm(rnd)
	}
	time.Sleep(time.Minute)
	h.judge()
	if moves < 8 {
		t.Errorf("the scheduler moved only %d times", moves)
	}
	for _, n := range h.c.Nodes {
		h.end(n)
	}
	h.ending.Wait()
}

// harm does something to the scheduler's node for up to 15 s, and tells how often
// the scheduler moved.
func (h *house) harm(rnd *rand.Rand) (moves int) {
	_, n := h.scheduler()
	for range 100 {
		if n != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
		_, n = h.scheduler()
	}
	if n == nil {
		h.t.Fatal("no scheduler runs after 10 s")
	}
	kind := rnd.IntN(6)
	h.t.Logf("harm %d at node %d", kind, n.ID)
	switch kind {
	case 0:
		n.Kill()
		h.drop(n)
	case 1:
		n.PowerOff(rnd)
		h.drop(n)
	case 2:
		h.end(n)
		n.Stop()
	case 3:
		h.c.Isolate(n)
	case 4: // it is heard, and hears nothing
		for _, other := range h.c.Nodes {
			h.c.Fabric.Cut(other.Host, n.Host)
		}
	case 5:
		for _, other := range h.c.Nodes {
			h.c.Fabric.Cut(n.Host, other.Host)
		}
	}
	time.Sleep(time.Duration(rnd.IntN(15_000)) * time.Millisecond)
	h.c.Fabric.Heal()
	if n.Broker == nil {
		n.Start()
		h.begin(n)
	}
	h.c.Settle()
	time.Sleep(time.Duration(rnd.IntN(10_000)) * time.Millisecond)
	if _, now := h.scheduler(); now != n {
		moves++
	}
	return moves
}

func (h *house) judge() {
	t := h.t
	s, _ := h.scheduler()
	if s == nil {
		t.Fatal("no scheduler runs in the end")
	}
	runs := s.Runs(jobs.RunFilter{Limit: 1000})
	made := map[time.Time]string{}
	var first, last time.Time
	for _, r := range runs {
		if !r.Good() && !r.Open() {
			t.Errorf("run %s is %s: %s", r.Run, r.Status, r.Reason)
		}
		if made[r.Tick] != "" {
			t.Errorf("runs %s and %s are of one tick", made[r.Tick], r.Run)
		}
		made[r.Tick] = r.Run
		if first.IsZero() || r.Tick.Before(first) {
			first = r.Tick
		}
		if r.Tick.After(last) {
			last = r.Tick
		}
	}
	for tick := first; !tick.After(last); tick = tick.Add(10 * time.Second) {
		if made[tick] == "" {
			t.Errorf("the tick of %s has no run", tick.Format(time.TimeOnly))
		}
	}
	if late := time.Since(last); late > 12*time.Second {
		t.Errorf("the last tick is %v ago", late)
	}
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	by := map[string]string{}
	for _, p := range h.ledger.plans {
		if p.run != "" && by[p.run] != "" {
			t.Errorf("run %s committed %s and %s", p.run, by[p.run], p.id)
		}
		by[p.run] = p.id
	}
	t.Logf("%d ticks, %d commits", len(made), h.ledger.commits)
}
