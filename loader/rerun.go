package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"sawlog/formats/parquet"
	"sawlog/loader/sink"
)

// RerunReport says what a rerun found: the same plan gives the same bytes, or
// nothing is written.
type RerunReport struct {
	Run       string      `json:"run"`
	Plan      string      `json:"plan"`
	Number    int64       `json:"number"` // ledger record of the run
	Identical int64       `json:"identical"`
	Restored  int64       `json:"restored"`
	Changed   int64       `json:"changed"`
	Retired   int64       `json:"retired"`
	Damaged   int64       `json:"damaged"` // 0 unless the rerun failed
	Files     []RerunFile `json:"files"`
}

// RerunFile is what became of one file of the run.
type RerunFile struct {
	Path      string `json:"path"`
	State     string `json:"state"` // identical | restored | changed | retired | damaged
	Want      string `json:"want"`  // sha256 of the ledger
	Got       string `json:"got,omitempty"`
	RetiredBy *int64 `json:"retired_by,omitempty"`
	stage     string
}

// The states of a file after a rerun.
const (
	RerunIdentical = "identical" // made again with the bytes that are there
	RerunRestored  = "restored"  // was missing or damaged and is back
	RerunChanged   = "changed"   // the log gives other bytes now; refused
	RerunRetired   = "retired"   // replaced by a later record, never made again
	RerunDamaged   = "damaged"   // is missing or damaged still: the rerun failed before it was back
)

// Rerun carries out the plan of a committed run again (what is a run id, plan id
// or record number), all of it that is visible still. Files whose bytes come out
// as the ledger has them are put back where they are missing or damaged. If any
// comes out otherwise nothing is written at all, and the error is exit 8; the
// report comes with it.
func (l *Ledger) Rerun(ctx context.Context, what string) (report *RerunReport, err error) {
	absent := map[string]bool{} // in any of the tries
	err = unswept(func() error {
		report, err = l.rerun(ctx, what, absent)
		return err
	})
	state := "nothing was changed"
	if report != nil && report.Restored > 0 {
		state = fmt.Sprintf("%d of %d files are back", report.Restored, report.Restored+report.Damaged)
	}
	return report, stopped(ctx, err, startsOver, "%s", state)
}

func (l *Ledger) rerun(ctx context.Context, what string, absent map[string]bool) (*RerunReport, error) {
	if _, err := l.refresh(ctx); err != nil {
		return nil, err
	}
	ref, err := l.fold.Lookup(what)
	if err != nil {
		return nil, err
	}
	rec, _, err := readRecord(l.sink, ref.Number)
	if err != nil {
		return nil, err
	}
	if err := l.absent(rec, absent); err != nil { // before a publish brings files back
		return nil, err
	}
	if err := l.Publish(ctx); err != nil && (ExitCode(err) != ExitMismatch || isRecordError(err)) {
		return nil, err // a final path that holds other bytes is what a rerun mends
	}
	if len(rec.Files) == 0 {
		return nil, fail(ExitConflict, "record %d (%s) made no file: there is nothing to run again", rec.Number, rec.Kind)
	}
	report := &RerunReport{Run: rec.Run, Plan: rec.Plan, Number: rec.Number, Files: []RerunFile{}}
	splits, profile, err := l.rerunSplits(rec)
	if err != nil {
		return nil, err
	}
	made := map[string]*File{}
	if len(splits) > 0 {
		results, err := l.remake(ctx, rec.Plan, profile, splits, "rerun of "+rec.Run)
		if err != nil {
			return nil, l.cannotRemake(rec, nil, err, "the log no longer has all that run %s read: its files can't be made again", rec.Run)
		}
		defer l.dropAttempts(results)
		for _, r := range results {
			for i := range r.Files {
				made[r.Files[i].Path] = &r.Files[i]
			}
		}
	}
	if err := l.fault(BeforeRestore); err != nil {
		return nil, err
	}
	// The attempts were made first; only what the head shows now counts (L3).
	if _, err := l.refresh(ctx); err != nil {
		return nil, err
	}
	if err := l.stillProfile(rec, profile); err != nil {
		return nil, err
	}
	if err := l.compare(rec, made, absent, report); err != nil {
		return nil, err
	}
	if report.Changed > 0 {
		e := fail(ExitMismatch, "%d of %d files of run %s come out with other bytes: the log has changed since (compaction, retention), or the writer has; nothing was written",
			report.Changed, len(report.Files), report.Run)
		return report, e.hint("`sawlog backfill JOB --only all` loads the present content in place of the old")
	}
	return report, l.restore(ctx, rec, report)
}

// rerunSplits lists the splits of a record that have a visible file, and the
// writer profile to make them with; 0 = the plan's.
func (l *Ledger) rerunSplits(rec *Record) (splits []int, profile int, err error) {
	due := map[int]bool{}
	profiles := map[int]bool{}
	for i := range rec.Files {
		v := l.fold.Files[rec.Files[i].Path]
		if v == nil || v.Number != rec.Number && v.Amended != rec.Number {
			continue
		}
		due[v.Split] = true
		profiles[v.Profile] = true
	}
	if len(profiles) > 1 {
		return nil, 0, fail(ExitConflict, "files of run %s have different writer profiles: amend the rest first", rec.Run)
	}
	for p := range profiles {
		profile = p
	}
	if profile > parquet.Profile {
		return nil, 0, fail(ExitConflict, "run %s was amended to writer profile %d, this binary knows %d", rec.Run, profile, parquet.Profile)
	}
	return slices.Sorted(maps.Keys(due)), profile, nil
}

// stillProfile wants no other to have amended files of a record while they were
// made again under a writer profile.
func (l *Ledger) stillProfile(rec *Record, profile int) error {
	left, now, err := l.rerunSplits(rec)
	if err != nil || len(left) == 0 || now == profile {
		return err
	}
	e := fail(ExitConflict, "run %s was amended to writer profile %d while its files were made again", rec.Run, now)
	return e.hint("run `sawlog rerun` again")
}

// absent notes which files of a record are not where they belong.
func (l *Ledger) absent(rec *Record, absent map[string]bool) error {
	for i := range rec.Files {
		name := rec.Files[i].Path
		switch _, err := l.sink.Stat(name); {
		case errors.Is(err, sink.ErrNotExist):
			absent[name] = true
		case err != nil:
			return sinkError("rerun", err)
		}
	}
	return nil
}

// compare holds the files made against the ledger's and those on disk.
func (l *Ledger) compare(rec *Record, made map[string]*File, absent map[string]bool, report *RerunReport) error {
	for i := range rec.Files {
		name := rec.Files[i].Path
		file := RerunFile{Path: name, Want: rec.Files[i].SHA256}
		v := l.fold.Files[name]
		got := made[name]
		delete(made, name)
		switch {
		case v == nil:
			gone := l.fold.Retired[name].Number
			file.State, file.RetiredBy = RerunRetired, &gone
			report.Retired++
		case got == nil:
			file.State, file.Want = RerunChanged, v.SHA256
			report.Changed++
		case got.SHA256 != v.SHA256:
			file.State, file.Want, file.Got = RerunChanged, v.SHA256, got.SHA256
			report.Changed++
		default:
			file.State, file.Want, file.Got, file.stage = RerunIdentical, v.SHA256, got.SHA256, got.Stage
			problem, err := l.checkFile(name, &v.File)
			if err != nil && sink.ClassOf(err) != sink.Permanent {
				return sinkError("rerun", err)
			}
			switch {
			case err != nil || problem != "":
				file.State = RerunDamaged
				report.Damaged++
			case absent[name]:
				file.State = RerunRestored // back already
				report.Restored++
			default:
				report.Identical++
			}
		}
		report.Files = append(report.Files, file)
	}
	for _, name := range slices.Sorted(maps.Keys(made)) { // a file the run did not have
		if l.others(rec, name, made[name]) {
			continue
		}
		report.Files = append(report.Files, RerunFile{Path: name, State: RerunChanged, Got: made[name].SHA256})
		report.Changed++
	}
	return nil
}

// others tells whether a file that a rerun of a record made, and the record does
// not list, is another record's: an amend lists only the files whose bytes it
// changed, and its splits make the rest too.
func (l *Ledger) others(rec *Record, name string, made *File) bool {
	if _, gone := l.fold.Retired[name]; gone {
		return true
	}
	v := l.fold.Files[name]
	return v != nil && (v.SHA256 == made.SHA256 || max(v.Number, v.Amended) > rec.Number)
}

// restore puts back what compare found missing or damaged.
func (l *Ledger) restore(ctx context.Context, rec *Record, report *RerunReport) error {
	folders := map[string]bool{}
	for i := range report.Files {
		file := &report.Files[i]
		if file.State != RerunDamaged {
			continue
		}
		dir := path.Dir(file.Path)
		if err := l.sink.MkdirAll(dir); err != nil {
			return sinkError("rerun", err)
		}
		// Fails when a later record has retired the split and taken the stage
		// away: then the file must not come back, as the next try finds.
		if err := l.sink.Rename(file.stage, file.Path); err != nil {
			return l.notBack(file.Path, err)
		}
		file.State = RerunRestored
		report.Damaged--
		report.Restored++
		folders[dir] = true
	}
	if len(folders) == 0 {
		return nil
	}
	if err := l.sink.Sync(slices.Sorted(maps.Keys(folders))...); err != nil {
		return sinkError("rerun: files are back, but may not survive a power cut; run again", err)
	}
	if err := l.Publish(ctx); err != nil {
		return err
	}
	hours := hoursOf(l.fold, rec.Number)
	problems, err := l.checkMarks(hours)
	if err != nil || len(problems) == 0 {
		return err
	}
	return l.mark(ctx, hours)
}

// notBack is the error of a file that could not be put in its place.
func (l *Ledger) notBack(name string, err error) error {
	if there, stat := l.sink.Stat(name); stat == nil && there.Dir {
		e := fail(ExitMismatch, "rerun: %s could not be put back: a folder is in its place", name)
		return e.hint("move the folder away, then run `sawlog rerun` again")
	}
	return sinkError("rerun: "+name+" could not be put back", err)
}

// dropAttempts removes what a rerun staged; what stays is swept later.
func (l *Ledger) dropAttempts(results []*Result) {
	for _, r := range results {
		dir := AttemptDir(r.Plan, r.Split, r.Attempt)
		if err := l.sink.RemoveAll(dir); err != nil {
			l.c.Logger.Warn("attempt of a rerun stays", "path", dir, "err", err)
		}
	}
}

// Ledger opens the ledger of the driver's data set; names may be empty to take
// those of the ledger.
func (d *Driver) Ledger(ctx context.Context, dataset, job string) (*Ledger, error) {
	return OpenLedger(ctx, d.Sink, dataset, job, LedgerConfig{Logger: d.Logger, Now: d.Now, Remake: d.remake})
}

// Rerun carries out a committed run of the data set again.
func (d *Driver) Rerun(ctx context.Context, what string) (*RerunReport, error) {
	l, err := d.Ledger(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return l.Rerun(ctx, what)
}

// Verify reads back a run, or the whole data set when what is empty.
func (d *Driver) Verify(ctx context.Context, what string) (*VerifyReport, error) {
	l, err := d.Ledger(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return l.Verify(ctx, what)
}

// remakeRetries is how often a split that is made again may fail: as a job's
// run.retries where nothing else is said.
const remakeRetries = 3

// remake has the engine make splits of a committed plan again.
func (d *Driver) remake(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
	if ask.Plan.Kind == Compact {
		return d.rewrite(ctx, ask)
	}
	if d.Engine == nil {
		return nil, ask.nobody()
	}
	l := &Ledger{sink: d.Sink}
	var mu sync.Mutex
	ended := map[int]string{} // split → attempt
	failed := map[int]error{}
	err := d.engine(ctx, Work{
		PlanID: ask.PlanID, Plan: ask.Plan, Splits: ask.Splits, Retries: remakeRetries,
		Progress: func(p TaskProgress) { d.event(Event{Kind: "task", Task: &p}) },
		Done: func(split int, attempt string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[split] = err
			} else if ended[split] == "" {
				ended[split] = attempt
			}
		},
	})
	if err != nil {
		return nil, stopped(ctx, d.swept(ask, err), startsOver,
			"nothing was changed, for files are put in place once all are made again, and %d of %d splits were", len(ended), len(ask.Splits))
	}
	var results []*Result
	for _, split := range ask.Splits {
		if ended[split] == "" {
			err := errors.Join(fmt.Errorf("split %d of plan %s was not made again", split, ask.PlanID), failed[split])
			return nil, d.swept(ask, err)
		}
		r, err := l.ReadResult(ask.PlanID, split, ended[split])
		if err != nil {
			return nil, err
		}
		if r.Unknown != nil {
			msg := fmt.Sprintf("split %d of plan %s meets paths its schema does not know: the log has changed since", split, ask.PlanID)
			return nil, &Error{Code: ExitMismatch, Msg: msg, Gone: true}
		}
		results = append(results, r)
	}
	return results, nil
}

// swept adds to a failure that the stage it befell is gone: tasks elsewhere can
// only say it in words.
func (d *Driver) swept(ask RemakeAsk, failed error) error {
	for _, split := range ask.Splits {
		if _, err := d.Sink.Stat(StageDir(ask.PlanID, split)); errors.Is(err, sink.ErrNotExist) {
			return fmt.Errorf("%w: %w", failed, err)
		}
	}
	return failed
}
