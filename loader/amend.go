package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sawlog/formats/parquet"
)

// Abandon ends an uncommitted plan for good (`runs cancel`): no driver can
// commit it any more, and its stage may be swept. A plan that was committed
// meanwhile is exit 4; one abandoned before is fine.
func (l *Ledger) Abandon(ctx context.Context, planID, run string, o CommitOptions) (*Record, error) {
	p, err := l.ReadPlan(ctx, planID)
	if err != nil {
		return nil, err
	}
	build := func() (rec, instead *Record, err error) {
		if err := l.checkOwner(); err != nil {
			return nil, nil, err
		}
		switch mark, named := l.fold.Plans[planID]; {
		case named && mark.State == PlanAbandoned:
			instead, _, err = readRecord(l.sink, mark.Number)
			return nil, instead, err
		case named:
			e := fail(ExitConflict, "plan %s was committed by record %d", planID, mark.Number)
			return nil, nil, e.hint("a committed run is taken back with `sawlog out drop`")
		}
		// Whoever wrote the plan may have died before it was durable.
		if _, err := l.putPlan(p); err != nil {
			return nil, nil, err
		}
		return &Record{Kind: Abandon, Run: run, Tick: p.Tick, Plan: planID, Base: p.Base, By: o.By, Why: o.Why}, nil, nil
	}
	rec, err := l.append(ctx, l.settle, build)
	if err != nil || rec == nil {
		return rec, err
	}
	return rec, l.settle(ctx)
}

// Amend makes the files of a run again under this binary's writer profile and
// swaps their hashes in the ledger (`out amend RUN`), provided that each holds
// the same rows by its logical digest. Nil = the files have that profile.
func (l *Ledger) Amend(ctx context.Context, what, run string, o CommitOptions) (rec *Record, err error) {
	err = unswept(func() error {
		rec, err = l.amend(ctx, what, run, o)
		return err
	})
	switch {
	case errors.Is(err, errUnsure):
		return nil, stopped(ctx, err, looks, "the amend may be committed")
	case err != nil || rec == nil:
		return rec, stopped(ctx, err, startsOver, "nothing was changed")
	}
	return rec, stopped(ctx, l.settle(ctx), goesOn, "the amend is committed as record %d, and whoever comes next publishes what is left of it", rec.Number)
}

// amend makes the files and commits them.
func (l *Ledger) amend(ctx context.Context, what, run string, o CommitOptions) (*Record, error) {
	if err := l.Publish(ctx); err != nil {
		return nil, err
	}
	ref, err := l.fold.Lookup(what)
	if err != nil {
		return nil, err
	}
	source, _, err := readRecord(l.sink, ref.Number)
	if err != nil {
		return nil, err
	}
	splits := map[int]bool{}
	for i := range source.Files {
		if v := l.fold.Files[source.Files[i].Path]; v != nil {
			splits[v.Split] = true
		}
	}
	if len(splits) == 0 {
		return nil, fail(ExitConflict, "record %d (%s) has no visible file", source.Number, source.Kind)
	}
	results, err := l.remake(ctx, source.Plan, parquet.Profile, slices.Sorted(maps.Keys(splits)), "amend of "+source.Run)
	if errors.Is(err, ErrGone) { // the files are whole: nothing need be given up
		return nil, &Error{Code: ExitMismatch, Msg: fmt.Sprintf("the log no longer has all that run %s read: nothing was amended", source.Run), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if err := l.fault(BeforeRestore); err != nil {
		return nil, err
	}
	build := func() (rec, instead *Record, err error) {
		files, err := l.amended(source, results)
		if err != nil || len(files) == 0 {
			return nil, nil, err
		}
		for _, r := range results {
			if err := l.checkSizes(r); err != nil {
				return nil, nil, sinkError("stage changed before the amend", err)
			}
		}
		return &Record{
			Kind: Amend, Run: run, Plan: source.Plan, Base: source.Base, Files: files,
			Profile: parquet.Profile, By: o.By, Why: o.Why,
		}, nil, nil
	}
	return l.append(ctx, l.settle, build)
}

// amended lists the visible files whose bytes change, with their new hashes.
func (l *Ledger) amended(source *Record, results []*Result) ([]File, error) {
	made := map[string]*File{}
	for _, r := range results {
		for i := range r.Files {
			made[r.Files[i].Path] = &r.Files[i]
		}
	}
	var files []File
	for i := range source.Files {
		name := source.Files[i].Path
		v := l.fold.Files[name]
		if v == nil {
			continue // retired meanwhile
		}
		got := made[name]
		if got == nil || got.Rows != v.Rows || got.Digest != v.Digest || v.Digest == "" {
			e := &Error{Code: ExitMismatch, Err: fmt.Errorf("%s comes out with other rows: nothing was amended", name)}
			return nil, e.hint("the log has changed since (compaction, retention); `sawlog backfill JOB --only all` loads its present content")
		}
		if got.SHA256 == v.SHA256 {
			continue
		}
		file := v.File
		file.Stage, file.Bytes, file.SHA256 = got.Stage, got.Bytes, got.SHA256
		files = append(files, file)
	}
	return files, nil
}
