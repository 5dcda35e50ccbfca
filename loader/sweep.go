package loader

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/loader/sink"
)

const (
	// tempAge is how old a file on its way to another name must be before a
	// sweep takes it for left over.
	tempAge = 24 * time.Hour

	// retiredGrace is how long retired files stay, from the time of the record
	// that retired them: readers that opened or listed them before go on with
	// them, and lost files of a compact record are made again from them. A week
	// is what Delta Lake's VACUUM keeps, for the first of these reasons.
	retiredGrace = 7 * 24 * time.Hour
)

// firstOfDay tells whether no run added a record before this one on its day (UTC):
// amends and what takes files back come from no run, and nobody sweeps after them.
func (f *Fold) firstOfDay(number int64) bool {
	const day = 24 * 3600 * 1000
	today := f.Records[number].At / day
	for _, ref := range slices.Backward(f.Records[:number]) {
		if ref.At/day < today {
			return true
		}
		switch ref.Kind {
		case Load, Backfill, Supersede, Compact, Seal:
			return false
		}
	}
	return true
}

// SweepReport lists what a sweep took away, or would, and what it repaired.
type SweepReport struct {
	Removed []string `json:"removed"`
	Marked  []string `json:"marked"` // folders whose marks were stale
	Kept    []string `json:"kept"`   // stages of plans nobody can read
}

// Sweep takes away what crashes left: stages of plans that are done with, data
// files the ledger does not show, old temporary files and checkpoints; and files
// that were retired longer than retiredGrace ago. It lists
// first and reads the head after: what was listed cannot become visible by a
// record that is in that fold or before it, and files come to final names only
// through such records (L5). It also writes stale marks anew.
func (l *Ledger) Sweep(ctx context.Context, dryRun bool) (*SweepReport, error) {
	report := &SweepReport{Removed: []string{}, Marked: []string{}, Kept: []string{}}
	stages, err := l.listNames(StagesDir)
	if err != nil {
		return nil, err
	}
	var data []string
	for _, dir := range []string{"", QuarantineDir} {
		if err := l.walk(ctx, dir, func(name string) { data = append(data, name) }); err != nil {
			return nil, err
		}
	}
	if err := l.Publish(ctx); err != nil {
		return nil, err
	}
	remove := func(name string) error {
		report.Removed = append(report.Removed, name)
		if dryRun {
			return nil
		}
		return sinkError("sweep", l.sink.RemoveAll(name))
	}
	done, err := l.doneStages(ctx, stages, report)
	if err != nil {
		return nil, err
	}
	for _, name := range done {
		if err := remove(name); err != nil {
			return report, err
		}
	}
	for _, name := range data {
		if l.ours(name) && l.fold.Files[name] == nil {
			if err := remove(name); err != nil {
				return report, err
			}
		}
	}
	if err := l.sweepRetired(ctx, remove); err != nil {
		return report, err
	}
	if err := l.sweepTemps(remove); err != nil {
		return report, err
	}
	return report, l.remark(ctx, dryRun, report)
}

// listNames lists the folders in a folder; one that is not there holds none.
func (l *Ledger) listNames(dir string) ([]string, error) {
	entries, err := l.sink.List(dir)
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		return nil, sinkError("sweep", err)
	}
	names := make([]string, len(entries))
	for i := range entries {
		names[i] = entries[i].Name
	}
	return names, nil
}

// ours tells whether a path has the form of the data files a plan makes.
func (l *Ledger) ours(name string) bool {
	base := path.Base(name)
	if path.Dir(name) == QuarantineDir {
		return strings.HasSuffix(base, quarantineSuffix)
	}
	_, ok := ParseFileName(base)
	return ok
}

// doneStages picks the stages no one needs: their plan is committed, and so
// published by now, or can never be; and no open plan carries splits of it over.
func (l *Ledger) doneStages(ctx context.Context, stages []string, report *SweepReport) ([]string, error) {
	refs, err := l.Plans(ctx)
	if err != nil {
		return nil, err
	}
	state := map[string]PlanState{}
	needed := map[string]bool{}
	for _, ref := range refs {
		state[ref.ID] = ref.State
		if ref.State != PlanOpen {
			continue
		}
		for i := range ref.Plan.Splits {
			needed[ref.Plan.Splits[i].StagePlan(ref.ID)] = true
		}
	}
	var done []string
	for _, planID := range stages {
		switch s, known := state[planID]; {
		case !known:
			report.Kept = append(report.Kept, path.Join(StagesDir, planID))
		case s != PlanOpen && !needed[planID]:
			done = append(done, path.Join(StagesDir, planID))
		}
	}
	return done, nil
}

// sweepRetired takes away what records of this fold retired long ago. The head is
// published, so nobody has a file to move there any more: a publisher that stood
// still finds none.
func (l *Ledger) sweepRetired(ctx context.Context, remove func(string) error) error {
	folders, err := l.listNames(RetiredDir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		n, err := strconv.ParseInt(folder, 10, 64)
		if err != nil || n < 0 || n > l.fold.Head || l.c.Now().Sub(time.UnixMilli(l.fold.Records[n].At)) <= retiredGrace {
			continue
		}
		if err := l.sweepRetiredBy(ctx, n, path.Join(RetiredDir, folder), remove); err != nil {
			return err
		}
	}
	return nil
}

// sweepRetiredBy takes the folder of one record away, or what of its files is the
// record's where somebody put others beside them.
func (l *Ledger) sweepRetiredBy(ctx context.Context, n int64, dir string, remove func(string) error) error {
	var due []string
	others := false
	err := l.walk(ctx, dir, func(name string) {
		if gone, retired := l.fold.Retired[strings.TrimPrefix(name, dir+"/")]; retired && gone.Number == n {
			due = append(due, name)
		} else {
			others = true
		}
	})
	if err != nil {
		return err
	}
	if !others {
		due = []string{dir}
	}
	for _, name := range due {
		if err := remove(name); err != nil {
			return err
		}
	}
	return nil
}

// sweepTemps takes away old files on their way to another name, and all
// checkpoints but the last two.
func (l *Ledger) sweepTemps(remove func(string) error) error {
	for _, dir := range []string{TempDir, LedgerDir, PlansDir} {
		prefix := sink.PutPrefix
		if dir == TempDir {
			prefix = "" // it holds nothing else
		}
		entries, err := l.sink.List(dir)
		if err != nil && !errors.Is(err, sink.ErrNotExist) {
			return sinkError("sweep", err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name, prefix) && l.c.Now().Sub(e.ModTime) > tempAge {
				if err := remove(path.Join(dir, e.Name)); err != nil {
					return err
				}
			}
		}
	}
	old := l.checkpoints()
	for _, n := range old[:max(0, len(old)-2)] {
		if err := remove(CheckpointPath(n)); err != nil {
			return err
		}
	}
	return nil
}

// remark writes the marks of every hour anew whose marks differ from the fold:
// a marker that died between two others can leave an older manifest behind.
func (l *Ledger) remark(ctx context.Context, dryRun bool, report *SweepReport) error {
	hours := map[int64]bool{}
	for key := range l.fold.Hours {
		hours[key] = true
	}
	problems, err := l.checkMarks(hours)
	if err != nil || len(problems) == 0 {
		return err
	}
	report.Marked = slices.Sorted(maps.Keys(problems))
	if dryRun {
		return nil
	}
	stale := map[int64]bool{}
	for key, h := range l.fold.Hours {
		for _, dir := range h.Dirs {
			if problems[dir] == "" {
				continue
			}
			stale[key] = true
			if h.Sealed != NotSealed {
				continue
			}
			// Should the hour be sealed just now, mark sees the record and puts
			// its success mark back.
			if err := l.sink.Remove(SuccessPath(dir)); err != nil && !errors.Is(err, sink.ErrNotExist) {
				return sinkError("sweep", err)
			}
		}
	}
	return l.mark(ctx, stale)
}
