package loader

import (
	"context"
	"time"

	"sawlog/consumer"
)

// Engine carries out splits as tasks somewhere. The driver believes the
// result.json a task leaves in its attempt folder, never the engine's word.
type Engine interface {
	// Run carries out every split of the work, with retries, and returns when
	// none is running any more. Splits that failed for good are reported
	// through Done; the error of Run is the first of theirs, or ctx's.
	Run(ctx context.Context, w Work) error
}

// Work is what a driver asks an engine to carry out.
type Work struct {
	Root        string // URI of the data set
	PlanID      string
	Plan        *Plan
	Splits      []int           // indexes into Plan.Splits
	Source      consumer.Config // how tasks reach the brokers
	Parallelism int             // tasks at a time
	Memory      int64           // bytes of one task
	FetchBytes  int
	Retries     int           // attempts after the first
	Timeout     time.Duration // of one attempt; 0 = none

	// Done is called once for every attempt that ended, from any goroutine.
	Done func(split int, attempt string, err error)
	// Progress is called now and then while a task works, from any goroutine.
	Progress func(TaskProgress)
}

// TaskProgress is how far a task has come.
type TaskProgress struct {
	Split   int    `json:"split"`
	Attempt string `json:"attempt"`
	Phase   string `json:"phase"` // read | sort | write | stage | scan | done
	Offsets int64  `json:"offsets"`
	Total   int64  `json:"total"` // offsets of the split
	Rows    int64  `json:"rows"`
	Bad     int64  `json:"bad"`
	Files   int    `json:"files"`
}
