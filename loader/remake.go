package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sawlog/loader/sink"
)

// remakeTries bounds how often what is made again may be swept away before it is
// where it belongs.
const remakeTries = 5

// unswept has act make something and put it where it belongs, again while what it
// made is taken away under it: sweeps take the stages of plans that are committed,
// whoever makes files again there, and so does a record that retires or amends
// the files; of temporary files they take those of a process that stood still for
// a day. Each try looks at the ledger anew.
func unswept(act func() error) error {
	for tries := 1; ; tries++ {
		err := act()
		if !errors.Is(err, sink.ErrNotExist) || tries == remakeTries {
			return err
		}
	}
}

// remakeLost makes files again whose stage and final path are both gone, from
// the plan, unless another record came: then the head was published by others
// and may be retired by now. Others may find the same files lost, put them back
// and sweep: a failure counts only while files are lost still. Those that are lost
// and about to be taken back are not made.
func (l *Ledger) remakeLost(ctx context.Context, rec *Record, taken, lost []*File) (overtaken bool, err error) {
	for tries := 0; ; tries++ {
		if overtaken, look := l.passed(ctx, rec); look != nil || overtaken {
			return overtaken, look
		}
		left, look := l.unplaced(ctx, rec, lost)
		if look != nil || len(left) == 0 {
			return false, look
		}
		if err != nil && !errors.Is(err, sink.ErrNotExist) || tries == remakeTries {
			return false, l.lost(rec, taken, left, err)
		}
		if overtaken, err = l.putBack(ctx, rec, left); err == nil {
			return overtaken, nil
		}
		lost = left
	}
}

// lost is the error of files of the head that are not there and couldn't be made
// again: nothing is added to a ledger whose head is unpublished. A record that takes
// files back must take all that are lost, for it comes after one head only: others
// that it would take are named with them.
func (l *Ledger) lost(rec *Record, taken, files []*File, err error) error {
	files = slices.Concat(taken, files)
	if len(taken) > 0 && errors.Is(err, errNobody) {
		e := &Error{Code: ExitMismatch, Msg: fmt.Sprintf("record %d lost more than is to be dropped (%s)", rec.Number, namesOf(files)), Err: err}
		return e.hint("`sawlog rerun %d` makes it again from the log; what the log no longer has is given up by one drop: %s", rec.Number, l.drop(rec, files))
	}
	return l.cannotRemake(rec, files, err, "what record %d brought is lost and can't be made again (%s)", rec.Number, namesOf(files))
}

// namesOf names files, of very many the first.
func namesOf(files []*File) string {
	const most = 20
	var names []string
	for _, file := range files[:min(most, len(files))] {
		names = append(names, file.Path)
	}
	if more := len(files) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// cannotRemake is the error of a record's files that couldn't be made again. Where
// the log no longer gives them it says how to go on without those that are lost, if
// they are known; what else may be the matter can be mended, and says how itself.
func (l *Ledger) cannotRemake(rec *Record, lost []*File, err error, format string, args ...any) error {
	if !errors.Is(err, ErrGone) {
		return err
	}
	e := &Error{Code: ExitMismatch, Msg: fmt.Sprintf(format, args...), Err: err}
	return e.hint("if the brokers asked are those it was loaded from, `sawlog verify %d` tells what is lost, if anything: restore that from a copy of the data set, or give it up, all by one drop: %s", l.sourceOf(rec), l.drop(rec, lost))
}

// drop is the command that gives up files of a record; none = whichever are lost.
func (l *Ledger) drop(rec *Record, files []*File) string {
	window := "START..END"
	if len(files) > 0 {
		var hours []int64
		for _, file := range files {
			if file.Hour == nil { // of all hours
				return fmt.Sprintf("sawlog out drop --run %d", l.sourceOf(rec))
			}
			hours = append(hours, *file.Hour)
		}
		window = HourText(slices.Min(hours)) + ".." + HourText(slices.Max(hours)+3600)
	}
	return fmt.Sprintf("sawlog out drop --run %d, with --window %s for what it brought to those hours only", l.sourceOf(rec), window)
}

// sourceOf is the record that a record's visible files are known by: an amend brings
// none of its own.
func (l *Ledger) sourceOf(rec *Record) int64 {
	for i := range rec.Files {
		if v := l.fold.Files[rec.Files[i].Path]; v != nil {
			return v.Number
		}
	}
	return rec.Number
}

// passed looks for new records, and tells whether one came after rec, now or at any
// look since.
func (l *Ledger) passed(ctx context.Context, rec *Record) (bool, error) {
	_, err := l.refresh(ctx)
	return l.fold.Head != rec.Number, err
}

// unplaced are those of lost files that nobody has put back.
func (l *Ledger) unplaced(ctx context.Context, rec *Record, lost []*File) (left []*File, err error) {
	for _, file := range lost {
		placed, err := l.place(ctx, rec, file)
		if err != nil {
			return nil, err
		}
		if !placed {
			left = append(left, file)
		}
	}
	return left, nil
}

// putBack makes lost files again and moves them to where they belong. Attempt
// folders are made first, then the head is read, and the files are placed only
// while they are visible in that fold (L3).
func (l *Ledger) putBack(ctx context.Context, rec *Record, lost []*File) (overtaken bool, err error) {
	results, err := l.remakeFiles(ctx, rec, lost)
	if err != nil {
		return false, err
	}
	if err := l.fault(BeforeRestore); err != nil {
		return false, err
	}
	if overtaken, err = l.passed(ctx, rec); err != nil || overtaken {
		return overtaken, err
	}
	for _, file := range lost {
		made := results[file.Path]
		if made == nil || made.SHA256 != file.SHA256 {
			return false, &Error{Code: ExitMismatch, Msg: "the log no longer gives its bytes", Gone: true}
		}
		if err := l.sink.Rename(made.Stage, file.Path); err != nil {
			return false, sinkError("publish "+file.Path, err)
		}
	}
	return false, nil
}

// remakeFiles carries out again the splits of files of one record, and makes
// what they bring durable. The answer is by final path.
func (l *Ledger) remakeFiles(ctx context.Context, rec *Record, files []*File) (map[string]*File, error) {
	splits := map[int]bool{}
	for _, file := range files {
		_, split, _ := stageOf(file.Stage)
		splits[split] = true
	}
	results, err := l.remake(ctx, rec.Plan, rec.Profile, slices.Sorted(maps.Keys(splits)), fmt.Sprintf("files of record %d are lost", rec.Number))
	if err != nil {
		return nil, err
	}
	made := map[string]*File{}
	for _, r := range results {
		for i := range r.Files {
			made[r.Files[i].Path] = &r.Files[i]
		}
	}
	return made, nil
}

// errNobody is in the chain of errors of files that nobody tried to make again.
var errNobody = errors.New("there is nothing here to do it")

// nobody is the error of splits that whoever has the log must make again.
func (ask *RemakeAsk) nobody() error {
	e := &Error{
		Code: ExitMismatch, Err: errNobody,
		Msg: fmt.Sprintf("splits %v of plan %s must be made again (%s)", ask.Splits, ask.PlanID, ask.Because),
	}
	return e.hint("the job's next run makes them again from the log, and so does `sawlog rerun`")
}

// remake runs splits of a plan again and makes what they staged durable.
func (l *Ledger) remake(ctx context.Context, planID string, profile int, splits []int, because string) ([]*Result, error) {
	p, err := l.ReadPlan(ctx, planID)
	if errors.Is(err, sink.ErrNotExist) {
		e := &Error{Code: ExitMismatch, Msg: fmt.Sprintf("splits %v of plan %s must be made again (%s), and the plan is missing", splits, planID, because), Err: err}
		return nil, e.hint("restore %s from a copy of the data set; where there is none, `sawlog out drop` gives up the files", PlanPath(planID))
	}
	if err != nil {
		return nil, err
	}
	if profile != 0 {
		p.Writer.upgrade(profile)
	}
	ask := RemakeAsk{PlanID: planID, Plan: p, Splits: splits, Number: -1, Because: because}
	if l.c.Remake == nil {
		return nil, ask.nobody()
	}
	l.c.Logger.Info("splits are made again", "plan", planID, "splits", splits, "because", because)
	if mark, named := l.fold.Plans[planID]; named {
		ask.Number = mark.Number
	}
	results, err := l.c.Remake(ctx, ask)
	if err != nil {
		return nil, err
	}
	b, err := l.bucketer(p)
	if err != nil {
		return nil, err
	}
	due := map[int]bool{}
	for _, n := range splits {
		due[n] = true
	}
	var names []string
	for _, r := range results {
		if !due[r.Split] || r.Split >= len(p.Splits) {
			return nil, fail(ExitMismatch, "split %d of plan %s was made, nobody asked for it or it came twice", r.Split, planID)
		}
		delete(due, r.Split)
		s := &p.Splits[r.Split]
		if err := checkContent(p, s.StagePlan(planID), s, b, r); err != nil {
			return nil, &Error{Code: ExitMismatch, Msg: fmt.Sprintf("split %d of plan %s, made again", r.Split, planID), Err: err}
		}
		for i := range r.Files {
			file := &r.Files[i]
			problem, err := l.checkFile(file.Stage, file)
			if err == nil && problem != "" {
				err = errors.New(problem)
			}
			if err != nil {
				return nil, sinkError("staged file "+file.Stage, err)
			}
			names = append(names, file.Stage)
		}
	}
	if len(due) > 0 {
		return nil, fail(ExitFailed, "splits %v of plan %s were asked for and not made", slices.Sorted(maps.Keys(due)), planID)
	}
	return results, sinkError("staged files could not be made durable", l.sink.Sync(names...))
}
