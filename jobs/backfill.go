package jobs

import (
	"context"
	"time"
)

// Backfill says which ticks to carry out again.
type Backfill struct {
	Job       string
	From, To  time.Time
	Only      string // missing | failed | all
	By        string
	AcceptGap string
	DryRun    bool
}

// BackfillTick is one tick of a backfill's preview and its fate.
type BackfillTick struct {
	Tick    time.Time `json:"tick,omitzero"`
	Record  *int64    `json:"record,omitempty"` // with all: the ledger record that is replaced
	Dataset string    `json:"dataset"`
	State   string    `json:"state"` // what it was: missing, or the status of its last run
	Run     string    `json:"run,omitempty"`
	Action  string    `json:"action"` // run | retry | supersede | none
}

// Backfilled is what a backfill makes, or would make.
type Backfilled struct {
	Job    string         `json:"job"`
	DryRun bool           `json:"dry_run,omitempty"`
	Runs   int            `json:"runs"`
	Ticks  []BackfillTick `json:"ticks"`
}

// The choices of a backfill.
const (
	OnlyMissing = "missing"
	OnlyFailed  = "failed"
	OnlyAll     = "all"
)

// Backfill carries out the missing or the failed ticks of a window. Missing
// ticks get a run of their own, bounded by the tick; failed ones are retried.
// With all, the commits that brought rows into the hours of the window are
// replaced, each by a run of its own.
func (s *Scheduler) Backfill(ctx context.Context, b Backfill) (*Backfilled, error) {
	switch b.Only {
	case "":
		b.Only = OnlyMissing
	case OnlyMissing, OnlyFailed, OnlyAll:
	default:
		return nil, refuse(ErrInvalid, "only %q is not allowed: want missing, failed or all", b.Only)
	}
	sets, err := s.Sets(ctx, b.Job)
	if err != nil {
		return nil, err
	}
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(b.Job)
	if err != nil {
		return nil, err
	}
	if j.spec == nil {
		return nil, refuse(ErrInvalid, "job %s no longer reads: %v", b.Job, j.broken)
	}
	out := &Backfilled{Job: b.Job, DryRun: b.DryRun, Ticks: []BackfillTick{}}
	if b.Only == OnlyAll {
		if err := checkWindow(b.From, b.To); err != nil {
			return nil, err
		}
		defer s.kick()
		return out, s.backfillAll(ctx, j, b, sets, out)
	}
	ticks, err := window(j.spec, b.From, b.To, s.now())
	if err != nil {
		return nil, err
	}
	for _, tick := range ticks {
		for _, set := range sets {
			line, err := s.backfillTick(ctx, j, b, tick, set)
			if err != nil {
				return out, err
			}
			if line.Action != "none" {
				out.Runs++
			}
			out.Ticks = append(out.Ticks, line)
		}
	}
	s.kick()
	return out, nil
}

func (s *Scheduler) backfillTick(ctx context.Context, j *jobState, b Backfill, tick time.Time, set Set) (BackfillTick, error) {
	line := BackfillTick{Tick: tick, Dataset: set.Dataset, State: "missing", Action: "none"}
	var last *Run
	s.mu.Lock()
	for _, r := range s.f.tickRuns(j.Name, tick) {
		if r.Dataset == set.Dataset {
			last = r.clone()
		}
	}
	s.mu.Unlock()
	if last != nil {
		line.State, line.Run = last.Status, last.Run
	}
	switch {
	case last == nil && b.Only == OnlyMissing:
		line.Action = "run"
		if b.DryRun {
			return line, nil
		}
		r := s.newRun(j, set, s.freshID(set.Dataset), ByBackfill, b.By)
		r.Tick, r.UpTo, r.AcceptGap = tick, tick, b.AcceptGap
		line.Run = r.Run
		return line, s.save(ctx, r)
	case last != nil && b.Only == OnlyFailed && !last.Open() && !last.Good():
		line.Action = "retry"
		if b.DryRun {
			return line, nil
		}
		return line, s.again(ctx, last, b.By, false, b.AcceptGap)
	}
	return line, nil
}
