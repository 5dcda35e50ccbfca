package log

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// How a segment takes the place of others, N up to the base M of the segment
// after them, so that at each step a power cut leaves either all of the old or
// the new one:
//
//	N.log.cleaned N.index.cleaned N.timeindex.cleaned   written and synced
//	N.log.cleaned → N.log.M.swap                        one rename, and the folder synced: done
//	readers go to the new one; who reads the old files goes on with them
//	.index and .timeindex of all old ones, .log of all but N, removed; folder synced
//	N.index.cleaned → N.index, N.timeindex.cleaned → N.timeindex, N.log.M.swap → N.log; folder synced
//
// A start that finds N.log.M.swap goes on from there, but without the new
// indexes, which recovery makes anew. What else has the suffix .cleaned was
// never in use and is removed.
const (
	stagedSuffix = ".cleaned"
	swapSuffix   = ".swap"
)

// swapName is the name under which a new segment waits for the old ones, from
// its base up to next, to be removed.
func swapName(base, next offsets.Offset) string {
	return offsetName(base, fmt.Sprintf("%s.%d%s", logSuffix, int64(next), swapSuffix))
}

// parseSwapName reads what swapName made.
func parseSwapName(name string) (base, next offsets.Offset, ok bool) {
	rest, ok := strings.CutSuffix(name, swapSuffix)
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(rest[i+1:], 10, 64)
	base, ok = parseOffsetName(rest[:i], logSuffix)
	return base, offsets.Offset(n), ok && err == nil && offsets.Offset(n) > base
}

// isStaged tells whether a name belongs to a segment that takes the place of
// others.
func isStaged(name string) bool {
	return strings.HasSuffix(name, stagedSuffix) || strings.HasSuffix(name, swapSuffix)
}

// slots are the three files of a segment.
func (s *segment) slots() map[string]*slot {
	return map[string]*slot{logSuffix: &s.data, indexSuffix: &s.index.slot, timeSuffix: &s.times.slot}
}

// stage makes the files of a new segment under names of their own and keeps
// them open, so that nobody has to find them by name until settled.
func (s *segment) stage() error {
	for suffix, slot := range s.slots() {
		name := s.name(suffix + stagedSuffix)
		if _, err := s.log.disk.files.take(slot, func() string { return name }, os.O_CREATE); err != nil {
			return err
		}
	}
	for _, x := range []*index{&s.index, &s.times} {
		x.known, x.made, x.written = true, true, 0
		if err := x.slot.file.Truncate(0); err != nil { // a file of that name is left over
			return err
		}
	}
	return nil
}

// settled lets go of the files: they have their names.
func (s *segment) settled() {
	for _, slot := range s.slots() {
		slot.release()
	}
}

// unstage gives the files up.
func (s *segment) unstage() error {
	s.doom()
	var errs []error
	for suffix, slot := range s.slots() {
		if slot.state.Load() > 1 {
			slot.release()
		}
		if err := s.log.disk.fs.Remove(s.name(suffix + stagedSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// swap puts a staged segment in the place of old ones that end at next. It
// changes nothing when they are no longer all there as they were when the view
// had that gen, which then counts the swap; taken tells that readers have it.
func (l *Log) swap(old []*segment, fresh *segment, next offsets.Offset, gen *uint32) (taken bool, err error) {
	l.flushMu.Lock() // nothing is truncated, deleted or synced meanwhile
	defer l.flushMu.Unlock()
	if err := l.swappable(old, *gen); err != nil {
		return false, err
	}
	fs := l.disk.fs
	waiting := l.file(swapName(fresh.base, next))
	if err := fs.Rename(fresh.name(logSuffix+stagedSuffix), waiting); err != nil {
		return false, l.full(err)
	}
	if err := fs.SyncDir(l.path); err != nil {
		return false, l.broken("compact", err)
	}
	fresh.nameSynced, fresh.indexDone = true, true
	*gen = l.exchange(old, fresh)
	for _, s := range old {
		s.doom()
	}
	return true, l.broken("compact", l.rename(old, fresh, next))
}

// rename gives a segment that readers have the names of the old ones.
func (l *Log) rename(old []*segment, fresh *segment, next offsets.Offset) error {
	fs := l.disk.fs
	bases := make([]offsets.Offset, len(old))
	for i, s := range old {
		bases[i] = s.base
	}
	if err := l.removeSwapped(bases, fresh.base); err != nil {
		return err
	}
	for _, suffix := range []string{indexSuffix, timeSuffix} {
		if err := fs.Rename(fresh.name(suffix+stagedSuffix), fresh.name(suffix)); err != nil {
			return err
		}
	}
	err := fs.Rename(l.file(swapName(fresh.base, next)), fresh.name(logSuffix))
	if err == nil {
		_, err = l.dropSnapshots(func(o offsets.Offset) bool { return fresh.base < o && o < next })
	}
	if err == nil {
		err = fs.SyncDir(l.path)
	}
	return err
}

// swappable tells whether the log still is as it was read.
func (l *Log) swappable(old []*segment, gen uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	v := &l.view
	i := slices.Index(v.segments, old[0])
	if v.gen != gen || i < 0 || i+len(old) >= len(v.segments) || !slices.Equal(v.segments[i:i+len(old)], old) || !l.config.Load().Compact {
		return errGone
	}
	for _, d := range v.damaged {
		if slices.Contains(old, d.segment) {
			return errGone
		}
	}
	return nil
}

// exchange has readers use the new segment, and returns the gen after that.
func (l *Log) exchange(old []*segment, fresh *segment) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.view.segments, old[0])
	segments := slices.Concat(l.view.segments[:i], []*segment{fresh}, l.view.segments[i+len(old):])
	l.publish(func(v *view) {
		v.segments = segments
		v.damaged = keepDamage(v.damaged, func(d damage) bool { return !slices.Contains(old, d.segment) })
		v.gen++
		l.hint = [hints]hint{}
	})
	return l.view.gen
}

// removeSwapped removes the files whose place the segment at base has taken,
// but for the one it will be renamed to.
func (l *Log) removeSwapped(old []offsets.Offset, base offsets.Offset) error {
	for _, at := range old {
		for _, suffix := range []string{timeSuffix, indexSuffix, logSuffix} {
			if at == base && suffix == logSuffix {
				continue
			}
			if err := l.disk.fs.Remove(l.file(offsetName(at, suffix))); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return l.disk.fs.SyncDir(l.path)
}

// finishSwaps does at start what a swap that was cut short left to do, and
// removes what never came to be one. names are those for which isStaged holds.
func (l *Log) finishSwaps(f *found) error {
	fs := l.disk.fs
	for _, name := range f.staged {
		base, next, ok := parseSwapName(name)
		if !ok {
			continue
		}
		l.disk.config.Logger.Info("a compacted segment takes its place", "log", l.tp, "from", base, "to", next)
		old := slices.Concat(f.bases, slices.Collect(maps.Keys(f.indexes)), slices.Collect(maps.Keys(f.times)))
		old = slices.DeleteFunc(old, func(at offsets.Offset) bool { return at < base || at >= next })
		if err := l.removeSwapped(old, base); err != nil {
			return err
		}
		if err := fs.Rename(l.file(name), l.file(offsetName(base, logSuffix))); err != nil {
			return err
		}
	}
	for _, name := range f.staged {
		if !strings.HasSuffix(name, stagedSuffix) {
			continue
		}
		if err := fs.Remove(l.file(name)); err != nil {
			return err
		}
	}
	return fs.SyncDir(l.path)
}
