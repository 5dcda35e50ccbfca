package jobs

import (
	"context"
	"strconv"

	"sawlog/loader"
)

// againOf says which load a run replaces; nil for one that loads what is new.
func againOf(r *Run) *loader.Again {
	if r.Again == nil {
		return nil
	}
	return &loader.Again{Of: []string{strconv.FormatInt(*r.Again, 10)}, Bad: r.AgainBad}
}

// Again queues a run that loads again, by the job as it is now, what a run has
// committed; with bad only the splits that have quarantined records. It takes
// the place of the old files in whole splits.
func (s *Scheduler) Again(ctx context.Context, id, by string, bad bool) (*Run, error) {
	s.act.Lock()
	defer s.act.Unlock()
	old, j, err := s.committed(id)
	if err != nil {
		return nil, err
	}
	r := s.newRun(j, Set{Dataset: old.Dataset, Topic: old.Topic}, s.freshID(old.Dataset), ByBackfill, by)
	r.Again, r.AgainBad = old.Ledger, bad
	defer s.kick()
	return r, s.save(ctx, r)
}

// PlanAgain says what Again would do, and under which root.
func (s *Scheduler) PlanAgain(ctx context.Context, id string, bad bool) (*Planned, string, error) {
	s.act.Lock()
	old, j, err := s.committed(id)
	s.act.Unlock()
	if err != nil {
		return nil, "", err
	}
	spec, err := j.spec.Load(old.Topic, s.now())
	if err != nil {
		return nil, "", err
	}
	r := &Run{Again: old.Ledger, AgainBad: bad}
	planned, err := s.c.Runner.Plan(ctx, j.spec, Set{Dataset: old.Dataset, Topic: old.Topic}, Ask{Kind: kindOf(r), Again: againOf(r)})
	return planned, spec.Root, err
}

// committed gives a run that brought something into its data set, and its job.
func (s *Scheduler) committed(id string) (*Run, *jobState, error) {
	r, err := s.run(id)
	if err != nil {
		return nil, nil, err
	}
	if err := r.CannotLoadAgain(); err != nil {
		return nil, nil, err
	}
	j, err := s.job(r.Job)
	if err == nil && j.spec == nil {
		err = refuse(ErrInvalid, "job %s no longer reads: %v", r.Job, j.broken)
	}
	return r, j, err
}
