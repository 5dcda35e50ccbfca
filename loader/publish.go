package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"sawlog/loader/sink"
)

// Publish looks for new records and finishes what the last one began: its files
// are moved to their final paths and its hours marked. Anyone may do it, at any
// time, more than once.
func (l *Ledger) Publish(ctx context.Context) error {
	if _, err := l.refresh(ctx); err != nil {
		return err
	}
	return l.settle(ctx)
}

// settle publishes and marks the head, unless that is known to be done. Only
// the head can be unfinished, since a record is written after the one before it
// was published (L2).
func (l *Ledger) settle(ctx context.Context) error { return l.settleBut(ctx, nil) }

// settleBut does the same for a record that is to take files back: those of them
// that are lost need not be made again, which a log that has moved on may no
// longer allow. Their hours are marked once that record is there.
func (l *Ledger) settleBut(ctx context.Context, taken map[string]bool) error {
	if l.head == nil || l.settled == l.fold.Head {
		return nil
	}
	done := false
	if l.wrote != l.fold.Head {
		if err := l.secure(l.fold.Head); err != nil {
			return err
		}
		var err error
		if done, err = l.marked(l.head); err != nil {
			return err
		}
	}
	if !done {
		left, err := l.publishHead(ctx, taken)
		if err != nil {
			return err
		}
		hours := hoursOf(l.fold, l.fold.Head)
		for _, file := range left {
			if file.Hour != nil {
				delete(hours, *file.Hour)
			}
		}
		if err := l.mark(ctx, hours); err != nil || len(left) > 0 {
			return err
		}
	}
	l.settled = l.fold.Head
	l.writeCheckpoint()
	return nil
}

// publishHead publishes the head. A head that was overtaken meanwhile was
// published by whoever did so; then it is the turn of the new one. Lost files that
// are about to be taken back are left.
func (l *Ledger) publishHead(ctx context.Context, taken map[string]bool) (left []*File, err error) {
	for {
		n := l.fold.Head
		if left, err = l.publish(ctx, taken); err != nil {
			return nil, err
		}
		if l.fold.Head == n {
			return left, nil
		}
		if err := l.secure(l.fold.Head); err != nil {
			return nil, err
		}
	}
}

// hoursOf lists the hours a record touched.
func hoursOf(f *Fold, number int64) map[int64]bool {
	hours := map[int64]bool{}
	for key, h := range f.Hours {
		if _, touched := slices.BinarySearch(h.Touched, number); touched {
			hours[key] = true
		}
	}
	return hours
}

// publish moves the head's files to where they belong.
func (l *Ledger) publish(ctx context.Context, taken map[string]bool) (left []*File, err error) {
	rec := l.head
	if err := l.retire(rec); err != nil {
		return nil, err
	}
	if err := l.dropOldAttempts(rec); err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	var lost []*File
	for i := range rec.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file := &rec.Files[i]
		switch placed, err := l.place(ctx, rec, file); {
		case err != nil:
			return nil, err
		case !placed && taken[file.Path]:
			left = append(left, file)
			continue
		case !placed:
			lost = append(lost, file)
			continue
		}
		folders[path.Dir(file.Path)] = true
		if err := l.fault(AfterFile + FaultPoint(file.Path)); err != nil {
			return nil, err
		}
	}
	if len(lost) > 0 {
		overtaken, err := l.remakeLost(ctx, rec, left, lost)
		if err != nil || overtaken {
			return nil, err
		}
		for _, file := range lost {
			folders[path.Dir(file.Path)] = true
		}
	}
	// Folders of files found in place are synced as well: whoever moved them may
	// have died before it did so.
	if err := l.sink.Sync(slices.Sorted(maps.Keys(folders))...); err != nil {
		return nil, sinkError(fmt.Sprintf("record %d is committed, its files could not be made durable", rec.Number), err)
	}
	return left, l.fault(AfterPublish)
}

// place moves one staged file to its final path; false = neither is there.
func (l *Ledger) place(ctx context.Context, rec *Record, file *File) (placed bool, err error) {
	switch _, err := l.sink.Stat(file.Path); {
	case err == nil:
		return l.settlePlace(ctx, rec, file)
	case !errors.Is(err, sink.ErrNotExist):
		return false, sinkError("publish "+file.Path, err)
	}
	if err := l.sink.MkdirAll(path.Dir(file.Path)); err != nil {
		return false, sinkError("publish "+file.Path, err)
	}
	switch err := l.sink.Rename(file.Stage, file.Path); {
	case err == nil:
		return true, nil
	case !errors.Is(err, sink.ErrNotExist):
		return false, sinkError("publish "+file.Path, err)
	}
	// Another publisher may have moved it between the two calls.
	switch _, err := l.sink.Stat(file.Path); {
	case err == nil:
		return l.settlePlace(ctx, rec, file)
	case errors.Is(err, sink.ErrNotExist):
		return false, nil
	default:
		return false, sinkError("publish "+file.Path, err)
	}
}

// settlePlace deals with a final path that is taken: by the right bytes, which
// is done; by the bytes an amend record replaces; or by something else, which
// nobody but a rerun may touch.
func (l *Ledger) settlePlace(ctx context.Context, rec *Record, file *File) (bool, error) {
	problem, err := l.checkFile(file.Path, file)
	if errors.Is(err, sink.ErrNotExist) {
		return false, nil // a later record has retired it since
	}
	if err != nil {
		return false, sinkError("publish "+file.Path, err)
	}
	if problem == "" {
		return true, nil
	}
	if rec.Kind == Amend {
		switch err := l.sink.Rename(file.Stage, file.Path); {
		case err == nil:
			return true, nil
		case errors.Is(err, sink.ErrNotExist):
			return false, nil
		default:
			return false, sinkError("publish "+file.Path, err)
		}
	}
	// A record that amends the file may have come: then it is its turn.
	if overtaken, err := l.passed(ctx, rec); err != nil || overtaken {
		return overtaken, err
	}
	e := fail(ExitMismatch, "%s: the final path is taken by other bytes than record %d committed: it %s", file.Path, rec.Number, problem)
	return false, e.hint("see what put the file there and move it away, or let `sawlog rerun %s` replace exactly this path", rec.Run)
}

// retire moves the files a record retires out of the way, in the order that
// makes each step repeatable: no reader trusts the hour, no late publisher can
// bring a file back, then the files go (L4).
func (l *Ledger) retire(rec *Record) error {
	if len(rec.Retires) == 0 {
		return nil
	}
	folders, marked := map[string]bool{}, map[string]bool{}
	for _, name := range rec.Retires {
		folders[path.Dir(name)] = true
		marked[cmp.Or(l.fold.Retired[name].Dir, path.Dir(name))] = true
	}
	if err := l.unmark(slices.Sorted(maps.Keys(marked))); err != nil {
		return err
	}
	if err := l.dropRetiredStages(rec); err != nil {
		return err
	}
	if err := l.makeRetired(rec, folders); err != nil {
		return err
	}
	for _, name := range rec.Retires {
		if err := l.sink.Rename(name, RetiredPath(rec.Number, name)); err != nil && !errors.Is(err, sink.ErrNotExist) {
			return sinkError("retire "+name, err)
		}
		if err := l.fault(AfterRetireOne + FaultPoint(name)); err != nil {
			return err
		}
	}
	return l.syncPresent(slices.Sorted(maps.Keys(folders)))
}

// makeRetired makes the folders that retired files move to, and makes them
// durable before a file is known by its new name alone.
func (l *Ledger) makeRetired(rec *Record, folders map[string]bool) error {
	made := map[string]bool{}
	for _, name := range rec.Retires {
		dir := path.Dir(RetiredPath(rec.Number, name))
		if made[dir] {
			continue
		}
		if err := l.sink.MkdirAll(dir); err != nil {
			return sinkError("retire "+name, err)
		}
		made[dir], folders[dir] = true, true
	}
	return l.syncPresent(slices.Sorted(maps.Keys(made)))
}

// dropOldAttempts deletes, before an amend record's files come over the old ones,
// all other attempts of their splits: a publisher or rerun that stands still
// would bring the old bytes back.
func (l *Ledger) dropOldAttempts(rec *Record) error {
	if rec.Kind != Amend {
		return nil
	}
	own, stages := map[string]bool{}, map[string]bool{}
	for i := range rec.Files {
		own[path.Dir(rec.Files[i].Stage)] = true
		stages[path.Dir(path.Dir(rec.Files[i].Stage))] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(stages)) {
		attempts, err := l.listNames(dir)
		if err != nil {
			return err
		}
		for _, name := range attempts {
			if attempt := path.Join(dir, name); !own[attempt] {
				if err := l.sink.RemoveAll(attempt); err != nil {
					return sinkError("amend", err)
				}
			}
		}
	}
	return nil
}

// dropRetiredStages deletes the stage folders of the splits whose files a
// record retires: those they were staged in, and those a rerun makes.
func (l *Ledger) dropRetiredStages(rec *Record) error {
	stages := map[string]bool{}
	for _, name := range rec.Retires {
		gone := l.fold.Retired[name]
		if planID, split, ok := stageOf(gone.Stage); ok {
			stages[StageDir(planID, split)], stages[StageDir(gone.Plan, split)] = true, true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(stages)) {
		if err := l.sink.RemoveAll(dir); err != nil {
			return sinkError("retire", err)
		}
	}
	return nil
}
