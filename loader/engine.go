package loader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sawlog/consumer"
	"sawlog/loader/sink"
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
	Root        string      // URI of the data set
	Access      sink.Access // how tasks reach it
	PlanID      string
	Plan        *Plan
	Splits      []int           // indexes into Plan.Splits
	Source      consumer.Config // how tasks reach the brokers
	Parallelism int             // tasks at a time
	Memory      int64           // bytes of one task
	FetchBytes  int
	Rate        int64         // bytes a second one task may fetch; 0 = no limit
	Retries     int           // attempts after the first
	Timeout     time.Duration // of one attempt; 0 = none

	// Done is called once for every attempt that ended, from any goroutine;
	// may be nil.
	Done func(split int, attempt string, err error)
	// Progress is called now and then while a task works, from any goroutine;
	// may be nil.
	Progress func(TaskProgress)
}

// TaskProgress is how far a task has come.
type TaskProgress struct {
	Split   int    `json:"split"`
	Attempt string `json:"attempt"`
	Phase   string `json:"phase"`   // read | write | stage | done; "" = it has just begun
	Offsets int64  `json:"offsets"` // passed
	Total   int64  `json:"total"`   // offsets of the split
	Rows    int64  `json:"rows"`
	Bad     int64  `json:"bad"`
	Files   int    `json:"files"`
	Fetched int64  `json:"fetched"` // bytes of the log, compressed as they are there
	Held    int64  `json:"held_ms"` // how long fetches waited for the run's rate
}

// Each carries out the splits of the work, w.Parallelism at a time, by calling
// attempt for each until it works, with pauses in between, or its error is not
// one that another attempt may cure. It is what engines that start tasks
// themselves are made of. Once a split has failed for good no further one is
// begun.
func (w *Work) Each(ctx context.Context, attempt func(ctx context.Context, split int, attempt string) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	todo := make(chan int)
	for range max(1, min(w.Parallelism, len(w.Splits))) {
		wg.Go(func() {
			for split := range todo {
				if err := w.attempts(ctx, split, attempt); err != nil {
					mu.Lock()
					if first == nil {
						first = err
						stop()
					}
					mu.Unlock()
				}
			}
		})
	}
feed:
	for _, split := range w.Splits {
		select {
		case todo <- split:
		case <-ctx.Done():
			break feed
		}
	}
	close(todo)
	wg.Wait()
	if first == nil {
		return ctx.Err()
	}
	return first
}

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

func (w *Work) attempts(ctx context.Context, split int, attempt func(context.Context, int, string) error) error {
	pause := firstBackoff
	for tries := 0; ; tries++ {
		id := NewAttempt()
		err := w.one(ctx, split, id, attempt)
		if w.Done != nil {
			w.Done(split, id, err)
		}
		if err == nil || !retryable(err) || tries >= w.Retries || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

func (w *Work) one(ctx context.Context, split int, id string, attempt func(context.Context, int, string) error) error {
	if w.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, w.Timeout)
		defer cancel()
		if err := attempt(bounded, split, id); err != nil {
			if bounded.Err() != nil && ctx.Err() == nil {
				return fail(ExitUnavailable, "split %d: attempt took longer than %v", split, w.Timeout)
			}
			return err
		}
		return nil
	}
	return attempt(ctx, split, id)
}

// retryable tells whether another attempt may do better.
func retryable(err error) bool {
	switch ExitCode(err) {
	case ExitNotFound, ExitConflict, ExitAuth, ExitMismatch:
		return false
	}
	return !errors.Is(err, context.Canceled)
}

// InProcess is an Engine whose tasks are goroutines of this process. Nothing
// keeps them from harming each other, so it is for tests and for looking at a
// task with a debugger.
type InProcess struct {
	Cluster consumer.Cluster
	Sink    sink.Sink
	Logger  *slog.Logger
	Spool   string // folder for temporary files
}

// Run carries out the work.
func (e *InProcess) Run(ctx context.Context, w Work) error {
	return w.Each(ctx, func(ctx context.Context, split int, attempt string) error {
		_, err := runTask(ctx, taskConfig{
			cluster: e.Cluster, sink: e.Sink, logger: e.Logger, plan: w.Plan, planID: w.PlanID, index: split, attempt: attempt,
			memory: w.Memory, fetch: w.FetchBytes, rate: w.Rate, spool: e.Spool, progress: w.Progress,
		})
		return coded(err, ExitUnavailable)
	})
}
