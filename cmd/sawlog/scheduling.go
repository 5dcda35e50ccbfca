package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sawlog/broker"
	"sawlog/jobs"
)

// jobsTopic is the internal topic that keeps jobs, ticks and runs.
const jobsTopic = "__sawlog_jobs"

// scheduling runs the scheduler while this broker leads the job history, and
// only then: of all brokers of a cluster one decides on ticks and runs.
//
// Who leads may change at any moment. The journal is bound to one leader epoch,
// so that a scheduler which was left behind can decide nothing more, and its
// successor finds in the journal all that was decided. What was being carried
// out is taken up there; whether it had been committed is for the ledger of the
// data set to say.
type scheduling struct {
	broker *broker.Broker
	runner jobs.Runner
	log    *slog.Logger
	// face makes the HTTP side; its scheduler is nil where none runs.
	face func(*jobs.Scheduler) http.Handler

	mu      sync.Mutex
	current *term        // nil while none runs here
	shown   http.Handler // the face of current
}

// term is one scheduler and the journal it writes.
type term struct {
	journal   *broker.Journal
	scheduler *jobs.Scheduler
}

// openPatience bounds how long the opening of the journal may take before it is
// begun anew.
const openPatience = 30 * time.Second

// open starts a scheduler if this broker leads the history.
func (d *scheduling) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	journal, err := d.broker.Journal(ctx, jobsTopic)
	if err != nil {
		return fmt.Errorf("job history: %w", err)
	}
	s, err := jobs.Open(ctx, jobs.Config{Journal: journal, Runner: d.runner, Logger: d.log})
	if err != nil {
		journal.Close()
		return err
	}
	d.show(&term{journal, s})
	return nil
}

// show makes a term, or none, what requests see.
func (d *scheduling) show(t *term) {
	var s *jobs.Scheduler
	if t != nil {
		s = t.scheduler
	}
	face := d.face(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current, d.shown = t, face
}

// scheduler is the one that runs here, or nil.
func (d *scheduling) scheduler() *jobs.Scheduler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		return nil
	}
	return d.current.scheduler
}

// ServeHTTP serves by the face of the moment.
func (d *scheduling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	face := d.shown
	d.mu.Unlock()
	face.ServeHTTP(w, r)
}

// The pauses before the history is tried again after an error.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// run follows the leadership until ctx ends. The first opening may have been
// done before.
func (d *scheduling) run(ctx context.Context) {
	moved, cancel := d.broker.WatchJournals()
	defer cancel()
	pause := firstRetry
	for ctx.Err() == nil {
		var err error
		if d.scheduler() == nil {
			err = d.open(ctx)
		}
		if err == nil {
			err = d.hold(ctx, moved)
			pause = firstRetry
		}
		if !errors.Is(err, broker.ErrElsewhere) && ctx.Err() == nil {
			d.log.Warn("the scheduler does not run", "err", err, "again_in", pause)
		}
		retry := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-moved:
		case <-retry.C:
			pause = min(2*pause, lastRetry)
		}
		retry.Stop()
	}
}

// closePatience is how long a scheduler that stops may finish a record before
// it is given up.
const closePatience = 2 * time.Second

// hold keeps the scheduler until ctx ends, its history fails or is led elsewhere.
func (d *scheduling) hold(ctx context.Context, moved <-chan struct{}) (err error) {
	d.mu.Lock()
	t := d.current
	d.mu.Unlock()
	d.log.Info("the scheduler runs here", "epoch", t.journal.Epoch())
	patience := time.Duration(0)
	for leads := true; leads; {
		select {
		case <-ctx.Done():
			leads, err, patience = false, ctx.Err(), closePatience
		case err = <-t.scheduler.Failed():
			leads = false
		case <-moved:
			if l := d.broker.JournalLeader(jobsTopic); !l.Here || l.Epoch != t.journal.Epoch() {
				leads, err = false, fmt.Errorf("job history: led by node %d in epoch %d: %w", l.Node, l.Epoch, broker.ErrElsewhere)
			}
		}
	}
	d.show(nil)
	giveUp := time.AfterFunc(patience, t.journal.Close)
	defer giveUp.Stop()
	defer t.journal.Close()
	d.log.Info("the scheduler stops here", "why", err)
	if left := t.scheduler.Close(); left != nil {
		d.log.Warn("the scheduler stopped and leaves work behind", "err", left)
	}
	return err
}
