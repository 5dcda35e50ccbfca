package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sawlog/loader/sink"
)

// CheckFooter reads the footer of a file, or all of it where the format has none
// that counts, and compares its rows with its entry. Its sha256 has been compared.
func CheckFooter(r io.ReaderAt, size int64, file *File) error {
	rows, err := countRows(r, size, file)
	if err != nil {
		return fmt.Errorf("has no good footer: %w", err)
	}
	if rows != file.Rows {
		return fmt.Errorf("has %d rows in its footer, want %d", rows, file.Rows)
	}
	return nil
}

// VerifyReport says whether a run or a data set is on disk as its ledger says.
type VerifyReport struct {
	Dataset  string    `json:"dataset"`
	Run      string    `json:"run,omitempty"`  // empty = the whole data set
	Plan     string    `json:"plan,omitempty"` // of the run
	Number   int64     `json:"number"`         // ledger record the check is as of
	Records  int64     `json:"records"`        // ledger records read
	Files    int64     `json:"files"`
	Rows     int64     `json:"rows"`
	Bytes    int64     `json:"bytes"`
	Hours    int64     `json:"hours"`
	OK       bool      `json:"ok"`
	Problems []Problem `json:"problems"`

	Log *LogReport `json:"log,omitempty"` // where the log was asked too
}

// Problem is one thing that is not as the ledger says.
type Problem struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // missing | changed | extra | mark | ledger | plan | log
	Detail string `json:"detail"`
}

func (r *VerifyReport) add(name, kind, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{name, kind, fmt.Sprintf(format, args...)})
}

// Verify reads back the files of a run (a run id, plan id or record number), or
// of the whole data set when what is empty: sizes, hashes, rows, and that the
// folders of their hours hold nothing else and are marked as they should be.
// For the data set the ledger itself is read from its first record, without
// checkpoints, with the plans it names. Problems make the error exit 8; the
// report comes with it. Files of the last record that still wait in their stages
// are published before, where that may be; nothing is made again.
func (l *Ledger) Verify(ctx context.Context, what string) (_ *VerifyReport, err error) {
	report := &VerifyReport{Problems: []Problem{}}
	var files []*Visible
	defer func() {
		err = stopped(ctx, err, startsOver, "nothing was changed; %d of %d files were read, with %s", report.Files, len(files), report.soFar())
	}()
	remake := l.c.Remake
	l.c.Remake = nil // what is lost is to be told, not made again
	defer func() { l.c.Remake = remake }()
	if _, err := l.refresh(ctx); err != nil {
		return nil, err
	}
	if err := l.settle(ctx); err != nil && !mayNotWrite(err) { // what still waits is found to be missing
		if ExitCode(err) != ExitMismatch || isRecordError(err) {
			return nil, err
		}
		report.add(LedgerDir, "ledger", "record %d is not published: %v", l.fold.Head, err)
	}
	report.Dataset, report.Number = l.fold.Dataset, l.fold.Head
	hours := map[int64]bool{}
	files = l.fold.All()
	if what != "" {
		ref, err := l.fold.Lookup(what)
		if err != nil {
			return nil, err
		}
		report.Run, report.Plan = ref.Run, ref.Plan
		files, hours = l.fold.VisibleOf(ref.Number), hoursOf(l.fold, ref.Number)
	} else {
		for key := range l.fold.Hours {
			hours[key] = true
		}
		if err := l.verifyLedger(ctx, report); err != nil {
			return nil, err
		}
	}
	report.Hours = int64(len(hours))
	if err := l.verifyFiles(ctx, files, report); err != nil {
		return nil, err
	}
	if err := l.verifyFolders(ctx, what == "", hours, report); err != nil {
		return nil, err
	}
	return report, report.verdict()
}

// mayNotWrite tells of a store that can be read, and takes no change from us.
func mayNotWrite(err error) bool {
	return errors.Is(err, sink.ErrRefused) || errors.Is(err, fs.ErrPermission)
}

func isRecordError(err error) bool {
	var e *RecordError
	return errors.As(err, &e)
}

// soFar tells of the problems found before the end.
func (r *VerifyReport) soFar() string {
	switch n := len(r.Problems); n {
	case 0:
		return "no problem so far"
	case 1:
		return fmt.Sprintf("a problem so far: %s %s", r.Problems[0].Path, r.Problems[0].Detail)
	default:
		return fmt.Sprintf("%d problems so far; the first is %s: %s", n, r.Problems[0].Path, r.Problems[0].Detail)
	}
}

// verdict is the error of all that is not as it should be.
func (r *VerifyReport) verdict() error {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	gone := 0
	if r.Log != nil {
		gone = len(r.Log.Gone)
	}
	if r.OK = len(r.Problems) == 0 && gone == 0; r.OK {
		return nil
	}
	if len(r.Problems) == 0 {
		first := r.Log.Gone[0]
		e := fail(ExitMismatch, "%d ranges are gone from the log and cannot be compared; the first is %s/%d=%s: %s",
			gone, first.Topic, first.Partition, first.Range, first.Why)
		return e.hint("everything else is as the ledger says; to compare what the log still has, name a later RUN")
	}
	first := r.Problems[0]
	e := fail(ExitMismatch, "%s: %s", first.Path, first.Detail)
	if n := len(r.Problems); n > 1 {
		e = fail(ExitMismatch, "%d problems; the first is %s: %s", n, first.Path, first.Detail)
	}
	return e.hint("`sawlog rerun` brings missing and changed files of a run back; files that are extra are swept or moved away by hand")
}

// verifyLedger folds the ledger anew and reads the plans it names.
func (l *Ledger) verifyLedger(ctx context.Context, report *VerifyReport) error {
	f := NewFold()
	for f.Head < l.fold.Head {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, hash, err := readRecord(l.sink, f.Head+1)
		if errors.Is(err, sink.ErrNotExist) {
			err = &RecordError{Number: f.Head + 1, Rule: "chain", Err: errors.New("is missing")}
		}
		if err == nil {
			err = f.Apply(rec, hash)
		}
		if err != nil && !isRecordError(err) {
			return err
		}
		if err != nil {
			report.add(RecordPath(f.Head+1), "ledger", "%v", err)
			return nil // what follows hangs on this record
		}
		report.Records++
		if rec.Plan == "" {
			continue
		}
		switch _, err := l.ReadPlan(ctx, rec.Plan); {
		case ExitCode(err) == ExitUnavailable:
			return err
		case err != nil:
			report.add(PlanPath(rec.Plan), "plan", "%v", err)
		}
	}
	return nil
}

func (l *Ledger) verifyFiles(ctx context.Context, files []*Visible, report *VerifyReport) error {
	for _, v := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		report.Files++
		report.Bytes += v.Bytes
		if v.Hour != nil {
			report.Rows += v.Rows
		}
		problem, err := l.checkFile(v.Path, &v.File)
		switch {
		case errors.Is(err, sink.ErrNotExist):
			report.add(v.Path, "missing", "is missing, record %d made it visible", v.Number)
		case err != nil && sink.ClassOf(err) != sink.Permanent:
			return sinkError("verify", err)
		case err != nil:
			report.add(v.Path, "changed", "cannot be read: %v", err)
		case problem != "":
			report.add(v.Path, "changed", "%s", problem)
		}
	}
	return nil
}

// verifyFolders looks for files the ledger does not know: in the whole tree, or
// in the folders of some hours; and compares the marks of the hours.
func (l *Ledger) verifyFolders(ctx context.Context, whole bool, hours map[int64]bool, report *VerifyReport) error {
	marked := map[string]bool{}
	for hour := range hours {
		for _, dir := range l.fold.Hours[hour].Dirs {
			marked[dir] = true
		}
	}
	extra := func(name string) {
		base, dir := path.Base(name), path.Dir(name)
		known := l.fold.Files[name] != nil || marked[dir] && (base == manifestName || base == successName)
		if !known {
			report.add(name, "extra", "is not in the ledger")
		}
	}
	if whole {
		if err := l.walk(ctx, "", extra); err != nil {
			return err
		}
		if err := l.walk(ctx, QuarantineDir, extra); err != nil {
			return err
		}
	} else {
		for _, dir := range slices.Sorted(maps.Keys(marked)) {
			if err := l.walk(ctx, dir, extra); err != nil {
				return err
			}
		}
	}
	problems, err := l.checkMarks(hours)
	if err != nil {
		return err
	}
	for dir, problem := range problems {
		report.add(ManifestPath(dir), "mark", "%s", problem)
	}
	return nil
}

// walk visits every file below a folder, but for the ledger's own folder; a
// folder that is not there holds nothing.
func (l *Ledger) walk(ctx context.Context, dir string, visit func(name string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := l.sink.List(dir)
	if errors.Is(err, sink.ErrNotExist) {
		return nil
	}
	if err != nil {
		return sinkError("list", err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case name == SystemDir:
		case e.Dir:
			if err := l.walk(ctx, name, visit); err != nil {
				return err
			}
		default:
			visit(name)
		}
	}
	return nil
}
