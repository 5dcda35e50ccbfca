package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"sawlog/formats"
	"sawlog/loader/sink"
)

// CommitOptions says who commits and why.
type CommitOptions struct {
	By  string
	Why string // a reason a person gave
}

// IncompleteError tells which splits have no result that can be committed: they
// are to be carried out (again). The damaged attempts are gone.
type IncompleteError struct {
	Plan   string
	Splits []int
	Why    []string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("plan %s: no good result for splits %v: %s", e.Plan, e.Splits, strings.Join(e.Why, "; "))
}

// Commit seals the results of a plan, makes them durable, commits them as the
// next ledger record, publishes the files and marks the hours.
//
// The record returned is the one that holds the plan's work. One of another run
// (rec.Run != run) had committed the plan before: the run is covered. A nil
// record says that there was nothing to commit: no offsets, and no hour to seal.
// What other records did to the plan's work is exit 4, wrong counts or
// differing attempts are exit 8, missing results are an *IncompleteError.
func (l *Ledger) Commit(ctx context.Context, p *Plan, planID, run string, results []*Result, o CommitOptions) (*Record, error) {
	if PlanID(p) != planID {
		return nil, fail(ExitUsage, "plan %s: its content has id %s", planID, PlanID(p))
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	var work *sealed // made once, when it is first needed
	build := func() (*Record, *Record, error) {
		covered, err := l.standing(p, planID)
		if covered != nil || err != nil {
			return nil, covered, err
		}
		if err := l.keepsBuckets(ctx, &p.Bucket); err != nil {
			return nil, nil, err
		}
		if work == nil {
			if work, err = l.seal(ctx, p, planID, results); err != nil {
				return nil, nil, err
			}
			if err := l.makeDurable(p, work); err != nil {
				return nil, nil, err
			}
		} else if err := l.restat(work); err != nil {
			return nil, nil, err
		}
		rec, err := l.draft(p, planID, run, work)
		if rec != nil && err == nil {
			if _, err := l.putPlan(p); err != nil {
				return nil, nil, err
			}
			rec.By, rec.Why = o.By, o.Why
			if rec.Why == "" {
				rec.Why = p.Gaps
			}
		}
		return rec, nil, err
	}
	rec, err := l.append(ctx, l.settle, build)
	if err != nil || rec == nil {
		return rec, err
	}
	return rec, l.settle(ctx)
}

// standing tells whether the plan may still be committed on the present fold:
// the record that did so already, or the conflict.
func (l *Ledger) standing(p *Plan, planID string) (covered *Record, err error) {
	if err := l.checkOwner(); err != nil {
		return nil, err
	}
	switch mark, named := l.fold.Plans[planID]; {
	case named && mark.State == PlanCommitted:
		rec, _, err := readRecord(l.sink, mark.Number)
		return rec, err
	case named:
		return nil, fail(ExitConflict, "plan %s was abandoned by record %d", planID, mark.Number)
	}
	if err := l.fold.Overlap(p); err != nil {
		if rec, look := l.revised(p, planID); rec != nil || look != nil {
			return rec, look
		}
		e := &Error{Code: ExitConflict, Msg: "plan " + planID + " conflicts with a run that was committed first", Err: err}
		return nil, e.hint("make a new plan: it starts where the ledger ends now")
	}
	if _, err := p.schemaAfter(l.fold.Schema); err != nil && p.Schema != nil {
		e := &Error{Code: ExitConflict, Msg: "the schema of plan " + planID + " conflicts with the data set's", Err: err}
		return nil, e.hint("make a new plan: it starts from the present schema")
	}
	return nil, nil
}

// revised is the record that committed a revision of a plan: the columns that its
// records had are in that one. nil = none.
func (l *Ledger) revised(p *Plan, planID string) (*Record, error) {
	for n := l.fold.Head; n > p.Base; n-- {
		ref := &l.fold.Records[n]
		if ref.Kind == Amend || ref.Kind == Abandon {
			continue
		}
		for id := ref.Plan; id != ""; {
			later, err := readPlan(l.sink, id)
			if err != nil {
				return nil, err
			}
			if later.Replaces == planID {
				rec, _, err := readRecord(l.sink, ref.Number)
				return rec, err
			}
			id = later.Replaces
		}
	}
	return nil, nil
}

// seal chooses one good result per split and reads its files back.
func (l *Ledger) seal(ctx context.Context, p *Plan, planID string, results []*Result) (*sealed, error) {
	b, err := l.bucketer(p)
	if err != nil {
		return nil, err
	}
	var chosen []*Result
	mutable := false
	missing := &IncompleteError{Plan: planID}
	for i := range p.Splits {
		s := &p.Splits[i]
		var good []*Result
		why := "it was not carried out"
		for _, r := range results {
			if r.Split != s.Index {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			err := checkResult(p, planID, s, b, r)
			if r.Unknown != nil {
				err = errors.New("it met paths the schema does not know")
			}
			if err == nil && (len(good) == 0 || !sameFiles(good[0], r)) {
				err = l.readBack(p, r)
			}
			if err != nil && ExitCode(err) != ExitFailed {
				return nil, err
			}
			if err != nil {
				why = err.Error()
				continue
			}
			good = append(good, r)
		}
		if len(good) == 0 {
			missing.Splits, missing.Why = append(missing.Splits, s.Index), append(missing.Why, why)
			continue
		}
		differ, err := agree(p, s, good)
		if err != nil {
			return nil, err
		}
		mutable = mutable || differ
		chosen = append(chosen, good[0])
	}
	if len(missing.Splits) > 0 {
		return nil, missing
	}
	work, err := p.sum(chosen)
	if err != nil {
		return nil, &Error{Code: ExitMismatch, Msg: "plan " + planID, Err: err}
	}
	work.mutable = mutable
	return work, l.fault(AfterSeal)
}

// agree wants all good attempts of a split to have made the same bytes. On a
// topic with compaction the log may have changed in between: the first is kept.
func agree(p *Plan, s *Split, good []*Result) (differ bool, err error) {
	for _, r := range good[1:] {
		if sameFiles(good[0], r) {
			continue
		}
		if !p.compacts(s) {
			e := fail(ExitMismatch, "split %d: attempts %s and %s made different files of the same offsets", s.Index, good[0].Attempt, r.Attempt)
			return false, e.hint("nothing was committed; the staged files of both attempts are kept for comparison")
		}
		differ = true
	}
	return differ, nil
}

// compacts tells whether a split reads a topic whose log may be compacted.
func (p *Plan) compacts(s *Split) bool {
	for _, r := range s.Ranges {
		for _, t := range p.Topics {
			if t.Compact && t.ID == r.TopicID {
				return true
			}
		}
	}
	return false
}

// sameFiles tells whether two results brought the same bytes to the same paths.
func sameFiles(a, b *Result) bool {
	if len(a.Files) != len(b.Files) {
		return false
	}
	hashes := map[string]string{}
	for i := range a.Files {
		hashes[a.Files[i].Path] = a.Files[i].SHA256
	}
	for i := range b.Files {
		if hashes[b.Files[i].Path] != b.Files[i].SHA256 {
			return false
		}
	}
	return true
}

// readBack reads the staged files of a result: size, sha256, rows. A damaged
// attempt loses its result.json, so that it is not met again.
func (l *Ledger) readBack(p *Plan, r *Result) error {
	for i := range r.Files {
		file := &r.Files[i]
		if l.sealed[file.Stage] {
			continue
		}
		problem, err := l.checkFile(file.Stage, file)
		if err != nil && !errors.Is(err, sink.ErrNotExist) {
			return sinkError(fmt.Sprintf("read back split %d", r.Split), err)
		}
		if err != nil {
			problem = "is missing"
		}
		if problem != "" {
			dir := AttemptDir(r.Plan, r.Split, r.Attempt)
			if err := l.sink.Remove(ResultPath(dir)); err != nil && !errors.Is(err, sink.ErrNotExist) {
				l.c.Logger.Warn("damaged attempt stays", "path", dir, "err", err)
			}
			return fmt.Errorf("staged file %s %s", file.Stage, problem)
		}
		l.sealed[file.Stage] = true
	}
	return nil
}

// checkFile reads a file and compares it with its entry; problem says how it
// differs.
func (l *Ledger) checkFile(name string, file *File) (problem string, err error) {
	f, err := l.sink.Open(name)
	if err != nil {
		if there, stat := l.sink.Stat(name); stat == nil && there.Dir {
			return "is a folder", nil
		}
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	if f.Size() != file.Bytes {
		return fmt.Sprintf("has %d bytes, want %d", f.Size(), file.Bytes), nil
	}
	h := sha256.New()
	// No larger a buffer than it takes: there may be tens of thousands of files.
	buf := make([]byte, min(max(f.Size(), 1), 256<<10))
	if _, err := io.CopyBuffer(h, io.NewSectionReader(f, 0, f.Size()), buf); err != nil {
		return "", err
	}
	if have := hex.EncodeToString(h.Sum(nil)); have != file.SHA256 {
		return fmt.Sprintf("has sha256 %s, want %s", have, file.SHA256), nil
	}
	err = l.c.Check(f, f.Size(), file)
	var unread *sink.Error
	switch {
	case errors.As(err, &unread):
		return "", err // says nothing of the content
	case err != nil:
		return err.Error(), nil
	default:
		return "", nil
	}
}

// makeDurable fsyncs what the commit will promise. After an error the kernel may
// have dropped pages and call the next fsync fine, so the attempts are given up.
func (l *Ledger) makeDurable(p *Plan, work *sealed) error {
	var names []string
	for _, r := range work.results {
		for i := range r.Files {
			names = append(names, r.Files[i].Stage)
		}
		names = append(names, ResultPath(AttemptDir(r.Plan, r.Split, r.Attempt)))
	}
	if err := l.sink.Sync(names...); err != nil {
		for _, r := range work.results {
			_ = l.sink.RemoveAll(AttemptDir(r.Plan, r.Split, r.Attempt)) // the disk is in doubt; a resume reads what is left
		}
		return sinkError("staged files could not be made durable, their attempts are dropped", err)
	}
	if err := l.restat(work); err != nil {
		return err
	}
	return l.fault(AfterDurable)
}

// restat wants every staged file still there in full size.
func (l *Ledger) restat(work *sealed) error {
	for _, r := range work.results {
		if err := l.checkSizes(r); err != nil {
			return sinkError(fmt.Sprintf("stage of split %d changed before the commit", r.Split), err)
		}
	}
	return nil
}

// draft is the record of a plan's work on the present fold; nil when there is
// nothing to say.
func (l *Ledger) draft(p *Plan, planID, run string, work *sealed) (*Record, error) {
	b, err := l.bucketer(p)
	if err != nil {
		return nil, err
	}
	rec := &Record{
		Kind: p.Kind, Run: run, Tick: p.Tick, Plan: planID, Base: p.Base,
		Inputs: slices.Clone(work.inputs), Files: slices.Clone(work.files),
		Retires: p.Retires, SourceMutable: work.mutable,
	}
	for i, late := range l.fold.lateRows(rec) {
		rec.Files[i].Late = late
	}
	if p.Kind != Compact {
		rec.Sealed = SealHours(l.fold, p, rec.Inputs, rec.Files, b.End)
	}
	var loaded int64
	for i := range rec.Inputs {
		loaded += rec.Inputs[i].Len()
	}
	if loaded == 0 && len(rec.Retires) == 0 && !l.fold.skips(p) {
		if len(rec.Sealed) == 0 {
			return nil, nil
		}
		rec.Kind = Seal
		return rec, nil
	}
	if err := l.fold.sharesNoFolder(rec); err != nil {
		return nil, err
	}
	rec.Drift = driftOf(work.results)
	rec.Schema, err = p.schemaAfter(l.fold.Schema)
	rec.NewColumns = newColumns(l.fold.Schema, rec.Schema)
	return rec, err
}

// sharesNoFolder wants no hour to come into a folder of others: new data of a zone,
// and nothing that a plan says, may have moved one. Hours that have a folder in
// common already keep it, and a rewrite leaves rows where they are.
func (f *Fold) sharesNoFolder(rec *Record) error {
	if rec.Kind == Compact {
		return nil
	}
	of := map[string][]int64{}
	for _, hour := range slices.Sorted(maps.Keys(f.Hours)) {
		for _, dir := range f.Hours[hour].Dirs {
			of[dir] = append(of[dir], hour)
		}
	}
	for i := range rec.Files {
		file := &rec.Files[i]
		if file.Hour == nil {
			continue
		}
		dir := file.HourDir()
		hours := of[dir]
		if len(hours) > 0 && !slices.Contains(hours, *file.Hour) {
			e := fail(ExitConflict, "folder %s is that of hour %s, and rows of hour %s would go there: nothing was committed", dir, HourText(hours[0]), HourText(*file.Hour))
			return e.hint("the job's partition_by, or the rules of its time zone, have changed since: load into another root")
		}
		if len(hours) == 0 {
			of[dir] = []int64{*file.Hour}
		}
	}
	return nil
}

// schemaAfter is the schema of a data set after the plan.
func (p *Plan) schemaAfter(have *formats.Schema) (*formats.Schema, error) {
	if p.Kind == Compact {
		return widenSchema(have, p.Schema)
	}
	return extendSchema(have, p.Schema)
}

// append adds a record at the next free number. build drafts it on the present
// fold, as often as others win the number; it may instead return the record
// that makes it needless, or neither. settle publishes the head before each try.
func (l *Ledger) append(ctx context.Context, settle func(context.Context) error, build func() (rec, instead *Record, err error)) (*Record, error) {
	for {
		if _, err := l.refresh(ctx); err != nil {
			return nil, err
		}
		if err := settle(ctx); err != nil {
			return nil, err
		}
		rec, instead, err := build()
		if err != nil || rec == nil {
			return instead, err
		}
		if l.fold.Head < 0 {
			if err := l.probe(); err != nil {
				return nil, err
			}
		}
		won, err := l.try(ctx, rec)
		if err != nil {
			return nil, err
		}
		if won {
			return rec, l.fault(AfterCommit)
		}
	}
}

// try puts a drafted record at the next number.
func (l *Ledger) try(ctx context.Context, rec *Record) (won bool, err error) {
	rec.V, rec.Number, rec.Prev = recordVersion, l.fold.Head+1, l.fold.HeadHash
	rec.Published, rec.Nonce, rec.At = l.fold.Head, newNonce(), l.c.Now().UnixMilli()
	rec.Dataset, rec.Job = l.dataset, l.job
	if err := l.fold.check(rec); err != nil {
		return false, &Error{Code: ExitMismatch, Msg: "the record to be written breaks a rule, nothing was committed", Err: err}
	}
	rec.FilesRef = ""
	if len(rec.Files) > maxInlineFiles {
		list, err := encodeFiles(rec.Files)
		if err != nil {
			return false, err
		}
		rec.FilesRef = sum(list)
		if err := l.replace(FilesPath(rec.Plan, rec.FilesRef), list); err != nil {
			return false, err
		}
	}
	data, hash, err := rec.Encode()
	if err != nil {
		return false, err
	}
	if err := l.fault(BeforeCommit); err != nil {
		return false, err
	}
	if won, err = l.put(ctx, rec, data); err != nil || !won {
		return false, err
	}
	if err := l.fold.Apply(rec, hash); err != nil {
		return false, damaged(err)
	}
	l.head, l.wrote = rec, rec.Number
	return true, nil
}

// putTries bounds how often an unanswered put is repeated.
const putTries = 5

// put writes a record if its number is free. After any error it looks: the own
// nonce means won, another lost, absence that the put may be repeated.
func (l *Ledger) put(ctx context.Context, rec *Record, data []byte) (won bool, err error) {
	name := RecordPath(rec.Number)
	unsure := false
	for try := range putTries {
		if err = l.sink.PutIfAbsent(name, data); err == nil {
			return true, nil
		}
		have, look := l.sink.ReadFile(name)
		unsure = !errors.Is(look, sink.ErrNotExist) && (unsure || sink.ClassOf(err) == sink.Ambiguous)
		switch {
		case look == nil:
			other, err := DecodeRecord(rec.Number, have)
			if err != nil {
				return false, damaged(err)
			}
			if other.Nonce != rec.Nonce {
				return false, nil
			}
			if err := l.secure(rec.Number); err != nil {
				return false, fmt.Errorf("%w: %w", errUnsure, err)
			}
			return true, nil
		case !errors.Is(look, sink.ErrNotExist):
			err = look
		case errors.Is(err, sink.ErrExist):
			return false, damaged(&RecordError{Number: rec.Number, Rule: "chain", Err: errors.New("its place is taken by something that is no record")})
		}
		if sink.ClassOf(err) == sink.Permanent || !sleep(ctx, time.Duration(try)*100*time.Millisecond) {
			break
		}
	}
	what := fmt.Sprintf("record %d was not committed", rec.Number)
	if unsure {
		what, err = fmt.Sprintf("record %d may be committed", rec.Number), fmt.Errorf("%w: %w", errUnsure, err)
	}
	if cut := ctx.Err(); cut != nil {
		return false, fmt.Errorf("%s: %w: %w", what, cut, err)
	}
	return false, sinkError(what, err)
}

// errUnsure is of a record that was put and could not be looked for, or was found
// and may not survive a power cut.
var errUnsure = errors.New("whether it stands is not known")

// secure makes a record durable that was found written: with its folder and the
// ledger's.
func (l *Ledger) secure(n int64) error {
	return sinkError(fmt.Sprintf("record %d is written, but may not survive a power cut; run again", n), l.sink.Sync(RecordPath(n)))
}

// probe refuses a store on which two racers can both put a file, before the
// first record of a data set relies on it. A process that stood still in between
// for so long that a sweep may have taken its files away tries again.
func (l *Ledger) probe() error {
	for {
		began := l.c.Now()
		err := l.probeOnce()
		if err == nil || l.c.Now().Sub(began) < tempAge {
			return err
		}
	}
}

func (l *Ledger) probeOnce() error {
	dir := path.Join(TempDir, "probe-"+newNonce())
	name := path.Join(dir, "slot", commitName)
	racers := make(chan error, 2)
	bodies := []string{"one", "two"}
	for _, body := range bodies {
		go func() { racers <- l.sink.PutIfAbsent(name, []byte(body)) }()
	}
	first, second := <-racers, <-racers
	have, readErr := l.sink.ReadFile(name)
	third := l.sink.PutIfAbsent(name, []byte("three"))
	again, againErr := l.sink.ReadFile(name)
	if err := l.sink.RemoveAll(dir); err != nil {
		l.c.Logger.Warn("probe stays", "path", dir, "err", err)
	}
	for _, err := range []error{first, second} {
		if err != nil && !errors.Is(err, sink.ErrExist) {
			return sinkError("probe of "+l.sink.Root(), err)
		}
	}
	if err := errors.Join(readErr, againErr); err != nil {
		return sinkError("probe of "+l.sink.Root(), err)
	}
	oneWon := (first == nil) != (second == nil)
	if !oneWon || !errors.Is(third, sink.ErrExist) || !slices.Contains(bodies, string(have)) || string(again) != string(have) {
		e := fail(ExitUsage, "%s cannot hold a data set: two writers of one name both succeeded", l.sink.Root())
		return e.hint("the ledger needs a file store that refuses to make a file that is there; use another root")
	}
	return nil
}
