package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/loader"
	"sawlog/loader/sink/local"
)

// reload is a load of a topic, all of it in one task, that goes on for as long as
// it is let: a task that has ended is begun again.
type reload struct {
	t    *testing.T
	root *local.Sink
	spec loader.ExecSpec
	log  string // what tasks print
}

// newReload plans the load of a topic.
func newReload(t *testing.T, addr, topic string) *reload {
	t.Helper()
	dir := t.TempDir()
	root, err := local.Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	source := consumer.Config{Brokers: []string{addr}, Timeout: time.Minute}
	cluster, err := consumer.Dial(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	d := loader.Driver{Cluster: cluster, Source: source, Sink: root, Logger: slog.New(slog.DiscardHandler), Now: time.Now, By: "bench"}
	spec := loader.Spec{
		Name: "load", Topics: []string{topic}, Root: root.Root(), TargetBytes: 1 << 40, Codec: "snappy",
		Decode: formats.Options{Value: "raw", Time: formats.TimeOptions{Field: []string{"_timestamp"}}},
	}
	plan, _, err := d.Plan(t.Context(), &spec, loader.PlanAsk{})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Splits) != 1 {
		t.Fatalf("%d splits", len(plan.Splits))
	}
	id := loader.PlanID(plan)
	if err := root.MkdirAll(loader.StageDir(id, 0)); err != nil {
		t.Fatal(err)
	}
	return &reload{t: t, root: root, log: filepath.Join(dir, "log"), spec: loader.ExecSpec{
		V: 1, Root: root.Root(), PlanID: id, Plan: plan, Source: source, Memory: 256 << 20, Spool: t.TempDir(),
	}}
}

// start begins to load, on the clients' core and as a client of that id, and
// returns what ends it.
func (r *reload) start(id string) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			r.task(ctx, id)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// task carries the task out once, or until the context ends.
func (r *reload) task(ctx context.Context, id string) {
	spec := r.spec
	spec.Source.ClientID, spec.Attempt = id, loader.NewAttempt()
	text, err := json.Marshal(spec)
	if err != nil {
		r.t.Error(err)
		return
	}
	binary := *ours
	if binary == "" {
		binary = peer.Binary(r.t)
	}
	p, err := peer.Launch{
		Argv: []string{binary, "task", "exec", "--stdin"}, LogFile: r.log,
		How: func(cmd *exec.Cmd) error { // on a thread of its own
			var set unix.CPUSet
			set.Set(clientCore)
			_ = unix.SchedSetaffinity(0, &set) // there may be one core only
			cmd.Stdin = bytes.NewReader(text)
			return cmd.Start()
		},
	}.Start()
	if err != nil {
		r.t.Error(err)
		return
	}
	select {
	case <-ctx.Done():
		p.Kill()
	case <-p.Ended():
		if _, err := r.root.Stat(loader.ResultPath(loader.AttemptDir(spec.PlanID, 0, spec.Attempt))); err != nil {
			said, _ := os.ReadFile(r.log) // the error is the one to report
			r.t.Errorf("the load made no result: %v\n%s", err, said)
			<-ctx.Done() // not again and again
		}
	}
	if err := r.root.RemoveAll(loader.AttemptDir(spec.PlanID, 0, spec.Attempt)); err != nil {
		r.t.Error(err)
	}
}
