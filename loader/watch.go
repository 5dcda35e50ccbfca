package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"time"

	"sawlog/loader/sink"
)

// ClusterJob is the side of a cluster manager of work that was handed to it.
type ClusterJob interface {
	// State asks how the job is. An error says that it could not be asked.
	State(ctx context.Context) (JobState, error)
	// Kill ends the job and all its tasks; one that has ended stays as it is.
	Kill(ctx context.Context) error
}

// JobState is what a cluster manager says of a job. Its word of success is never
// believed, only that nothing more is coming.
type JobState struct {
	Ended bool
	Err   error  // of a job that ended without success
	Text  string // for people
}

// Watch follows work on a cluster by what its attempts leave in the root.
type Watch struct {
	Sink   sink.Sink
	Logger *slog.Logger
	Poll   time.Duration // between two looks; default 2 s, longer where looking takes long

	work *Work
	told map[string]bool // attempts whose outcome is known
	seen map[string]bool // attempts that began
	left map[int]bool    // splits without a result
}

const (
	firstPoll  = 2 * time.Second
	killTime   = time.Minute      // for a job to be gone
	afterDone  = 30 * time.Second // for a job to end once every split has its result
	outOfReach = 10 * time.Minute // that a manager, or the root, may be unreachable
)

// Begin remembers the attempts that ended before; their outcome is none of the
// work's.
func (w *Watch) Begin(work *Work) error {
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	w.work, w.told, w.seen, w.left = work, map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, split := range work.Splits {
		w.left[split] = true
	}
	return w.each(func(_ int, dir string) error {
		for _, name := range []string{resultName, errorName} {
			if _, err := w.Sink.Stat(path.Join(dir, name)); err == nil {
				w.told[dir] = true
			} else if !errors.Is(err, sink.ErrNotExist) {
				return sinkError("", err)
			}
		}
		return nil
	})
}

// each visits the attempts of splits without a result whose outcome is unknown.
func (w *Watch) each(visit func(split int, dir string) error) error {
	for _, split := range w.work.Splits {
		if !w.left[split] {
			continue
		}
		stage := StageDir(w.work.PlanID, split)
		attempts, err := w.Sink.List(stage)
		if err != nil && !errors.Is(err, sink.ErrNotExist) {
			return sinkError("", err)
		}
		for _, a := range attempts {
			if dir := path.Join(stage, a.Name); a.Dir && !w.told[dir] {
				if err := visit(split, dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Look tells of attempts that ended since the last look. The error is that of
// the first one that failed for good, or that of the root.
func (w *Watch) Look() error {
	return w.each(func(split int, dir string) error {
		attempt := path.Base(dir)
		if !w.seen[dir] {
			w.seen[dir] = true
			w.progress(TaskProgress{Split: split, Attempt: attempt, Phase: "read"})
		}
		var r Result
		if found, err := w.read(path.Join(dir, resultName), &r); err != nil || found {
			if err == nil {
				w.succeeded(split, dir, &r)
			}
			return err
		}
		var failed ExecError
		found, err := w.read(path.Join(dir, errorName), &failed)
		if err != nil || !found {
			return err
		}
		w.told[dir] = true
		failed.Code = TaskCode(failed.Code)
		err = failed.Err(split)
		w.Logger.Warn("attempt failed", "split", split, "attempt", attempt, "by", failed.By, "err", err)
		w.done(split, attempt, err)
		if retryable(err) {
			return nil
		}
		return &hopeless{err}
	})
}

// Left are the splits that had no result at the last look.
func (w *Watch) Left() []int { return slices.Sorted(maps.Keys(w.left)) }

// hopeless is the error of a split that no other attempt may cure.
type hopeless struct{ error }

func (h *hopeless) Unwrap() error { return h.error }

func (w *Watch) read(name string, into any) (found bool, err error) {
	data, err := w.Sink.ReadFile(name)
	if errors.Is(err, sink.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, sinkError("", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, &hopeless{&Error{Code: ExitMismatch, Msg: name, Err: err}}
	}
	return true, nil
}

func (w *Watch) succeeded(split int, dir string, r *Result) {
	w.told[dir] = true
	delete(w.left, split)
	p := TaskProgress{Split: split, Attempt: path.Base(dir), Phase: "done", Files: len(r.Files)}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		p.Total += in.Len()
		p.Rows += in.Data
		p.Bad += in.Quarantined
	}
	p.Offsets = p.Total
	w.progress(p)
	w.done(split, p.Attempt, nil)
}

func (w *Watch) progress(p TaskProgress) {
	if w.work.Progress == nil {
		return
	}
	if p.Total == 0 {
		for _, r := range w.work.Plan.Splits[p.Split].Ranges {
			p.Total += r.Len()
		}
	}
	w.work.Progress(p)
}

func (w *Watch) done(split int, attempt string, err error) {
	if w.work.Done != nil {
		w.work.Done(split, attempt, err)
	}
}

// Follow waits until the job is over, and ends it when a split failed for good,
// when every split has its result, or with ctx. It answers nil where the driver
// is to look at the results: that every split has one, or that the manager says
// so.
func (w *Watch) Follow(ctx context.Context, job ClusterJob) error {
	pause := w.Poll
	if pause == 0 {
		pause = firstPoll
	}
	var complete time.Time // since when every split has its result
	reached := time.Now()
	for {
		state, down := job.State(ctx)
		began := time.Now()
		err := w.Look()
		looked := time.Since(began)
		if hard := (*hopeless)(nil); errors.As(err, &hard) {
			w.end(job)
			return hard.error
		}
		down = errors.Join(down, err)
		switch {
		case ctx.Err() != nil:
			w.end(job)
			return ctx.Err()
		case down != nil && time.Since(reached) > outOfReach:
			w.end(job)
			return &Error{Code: ExitUnavailable, Msg: fmt.Sprintf("for %v the job could not be followed", outOfReach), Err: down}
		case down != nil:
			w.Logger.Warn("the job cannot be followed", "job", state.Text, "err", down)
		case len(w.left) == 0 && state.Ended:
			return nil
		case state.Ended:
			return state.Err
		case len(w.left) == 0 && complete.IsZero():
			complete = time.Now()
		case len(w.left) == 0 && time.Since(complete) > afterDone:
			w.end(job)
			return nil
		}
		if down == nil {
			reached = time.Now()
		}
		w.Logger.Debug("job", "state", state.Text, "splits left", len(w.left))
		if !sleep(ctx, max(pause, 10*looked)) {
			w.end(job)
			return ctx.Err()
		}
	}
}

// end kills the job and waits until it is gone. Whatever goes on in spite of it
// is harmless: an attempt whose stage is committed or swept changes nothing.
func (w *Watch) end(job ClusterJob) {
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	err := job.Kill(ctx)
	for err == nil {
		var state JobState
		if state, err = job.State(ctx); err == nil && state.Ended {
			return
		}
		if !sleep(ctx, time.Second) {
			err = ctx.Err()
		}
	}
	w.Logger.Warn("the job may still run: what it makes is not used", "err", err)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
