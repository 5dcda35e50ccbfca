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
	Engine  Engine
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
	// UpTo bounds ends per partition, such as the offsets a tick would take.
	UpTo map[offsets.TopicPartition]offsets.Offset
	// AcceptGap is the reason a person gives for going on although offsets
	// are gone, or are left out.
	AcceptGap string
	By        string
	Scan      bool // read the log, so that the preview is exact
	Replay    bool // into a data set of its own, without going on from a ledger
}

// RunAsk says how a plan is carried out; nothing in it changes any byte.
type RunAsk struct {
	Run         string // id of the run
	AcceptBad   bool   // commit although too many records are bad
	Parallelism int    // tasks at a time; 0 = cores
	Memory      int64  // bytes, divided among the tasks; 0 = 512 MiB
	FetchBytes  int
	Retries     int
	Timeout     time.Duration // of one attempt
}

// Event is something a run tells while it goes on.
type Event struct {
	Run  string
	Kind string // plan | task | attempt | revision | commit | publish | done
	Task *TaskProgress
	Err  error
	Text string
}

// Plan says what a run would do and writes nothing.
func (d *Driver) Plan(ctx context.Context, s *Spec, ask PlanAsk) (*Plan, *Preview, error) {
	panic("unwritten")
}

// Run carries a plan out and commits it.
func (d *Driver) Run(ctx context.Context, p *Plan, ask RunAsk) (*Outcome, error) {
	panic("unwritten")
}

// Validate says what of the spec cannot be carried out.
func (s *Spec) Validate() error { panic("unwritten") }
