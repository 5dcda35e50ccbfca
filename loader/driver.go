package loader

import (
	"context"
	"log/slog"
	"time"

	"sawlog/consumer"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

// Driver plans runs and carries them out on one data set.
type Driver struct {
	Cluster consumer.Cluster // the source, as the driver itself reads it
	Source  consumer.Config  // the same, as tasks reach it
	Sink    sink.Sink
	Access  sink.Access // how tasks reach the sink's root
	Engine  Engine
	// Spread is set where tasks run on the machines of a cluster: each gets the
	// memory of a run, and as many run as there are splits unless a number is
	// asked for.
	Spread  bool
	Logger  *slog.Logger
	Now     func() time.Time
	By      string      // who runs it, for the ledger
	Observe func(Event) // may be nil; called from any goroutine
}

// PlanAsk says what a plan is for.
type PlanAsk struct {
	Kind Kind      // Load when empty
	Tick time.Time // of the schedule; zero = none
	// Bounds is the range a person asked for; nil = from the end of the
	// coverage to the last stable offsets.
	Bounds *offsets.Query
	// Again says what a Supersede replaces, where no Bounds do.
	Again *Again
	// UpTo bounds ends per partition, such as the offsets a tick would take.
	UpTo map[offsets.TopicPartition]offsets.Offset
	// AcceptGap is the reason a person gives for going on although offsets
	// are gone, or are left out.
	AcceptGap string
	By        string
	Scan      bool // read the log, so that the preview is exact
	Replay    bool // into a data set of its own, without going on from a ledger
}

// Event is something a run tells while it goes on.
type Event struct {
	Run  string
	Kind string // plan | task | attempt | revision | commit | publish | done
	Task *TaskProgress
	Err  error
	Text string
}

// engine has the engine carry out work in the stage folders it needs.
func (d *Driver) engine(ctx context.Context, w Work) error {
	for _, split := range w.Splits {
		if err := d.Sink.MkdirAll(StageDir(w.PlanID, split)); err != nil {
			return sinkError("stage of plan "+w.PlanID, err)
		}
	}
	w.Root, w.Access, w.Source = d.Sink.Root(), d.Access, d.Source
	if w.Memory == 0 {
		w.Parallelism, w.Memory = d.share(w.Parallelism, 0, len(w.Splits))
	}
	if err := d.Engine.Run(ctx, w); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return coded(err, ExitFailed)
	}
	return nil
}

// share says how many tasks run at a time, and the memory of each.
func (d *Driver) share(parallelism int, memory int64, splits int) (tasks int, bytes int64) {
	if !d.Spread {
		return share(parallelism, memory, splits)
	}
	if parallelism <= 0 {
		parallelism = splits
	}
	if memory <= 0 {
		memory = defaultMemory
	}
	return max(1, min(parallelism, splits)), memory
}
