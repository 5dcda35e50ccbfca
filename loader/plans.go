package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sawlog/loader/sink"
)

// PutPlan freezes a plan: its file is made once and never changed, whoever
// writes it. A plan that is there already is the same plan.
func (l *Ledger) PutPlan(_ context.Context, p *Plan) (planID string, err error) {
	if planID, err = l.putPlan(p); err != nil {
		return "", err
	}
	return planID, l.fault(AfterPlan)
}

func (l *Ledger) putPlan(p *Plan) (planID string, err error) {
	data, err := Canonical(p)
	if err != nil {
		return "", fmt.Errorf("plan of data set %s: %w", p.Dataset, err)
	}
	if p.Dataset != l.dataset || p.Job != l.job {
		return "", fail(ExitConflict, "the plan is of data set %q and job %q, the ledger of %q and %q", p.Dataset, p.Job, l.dataset, l.job)
	}
	planID = sum(data)[:16]
	name := PlanPath(planID)
	put := l.sink.PutIfAbsent(name, append(data, '\n'))
	if errors.Is(put, sink.ErrSwept) {
		put = l.sink.PutIfAbsent(name, append(data, '\n'))
	}
	if put != nil {
		have, err := l.sink.ReadFile(name)
		switch {
		case errors.Is(err, sink.ErrNotExist):
			return "", sinkError("plan "+planID, put)
		case err != nil:
			return "", sinkError("plan "+planID, err)
		case !bytes.Equal(have, append(data, '\n')):
			return "", badPlan(planID, errors.New("holds something else"))
		}
		if err := l.sink.Sync(name); err != nil {
			return "", sinkError("plan "+planID, err)
		}
	}
	return planID, nil
}

// ReadPlan reads a frozen plan back.
func (l *Ledger) ReadPlan(_ context.Context, planID string) (*Plan, error) {
	return readPlan(l.sink, planID)
}

func readPlan(s sink.Sink, planID string) (*Plan, error) {
	if !planPattern.MatchString(planID) {
		return nil, fail(ExitNotFound, "plan id %q: want 16 hex digits", planID)
	}
	data, err := s.ReadFile(PlanPath(planID))
	if errors.Is(err, sink.ErrNotExist) {
		return nil, &Error{Code: ExitNotFound, Msg: "plan " + planID, Err: err}
	}
	if err != nil {
		return nil, sinkError("plan "+planID, err)
	}
	bare := bytes.TrimSuffix(data, []byte{'\n'})
	if have := sum(bare)[:16]; have != planID {
		return nil, badPlan(planID, fmt.Errorf("its content has id %s", have))
	}
	var p Plan
	if err := decodeStrict(bare, &p); err != nil {
		return nil, badPlan(planID, err)
	}
	return &p, nil
}

func badPlan(planID string, err error) error {
	e := &Error{Code: ExitMismatch, Msg: fmt.Sprintf("plan %s (%s)", planID, PlanPath(planID)), Err: err}
	return e.hint("restore the file from a copy of the data set; a plan that no ledger record names may be removed with its folder")
}

// PlanRef is a plan on disk and what may become of it.
type PlanRef struct {
	ID    string
	State PlanState
	Plan  *Plan // nil when it is committed
}

// Plans lists the plans of the data set in order of their ids. Committed ones
// are not read; abandoned ones are, since what they replace stays replaced.
func (l *Ledger) Plans(ctx context.Context) ([]PlanRef, error) {
	entries, err := l.sink.List(PlansDir)
	if errors.Is(err, sink.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, sinkError("", err)
	}
	var refs []PlanRef
	replacedBy := map[string]string{}
	for _, e := range entries {
		if !e.Dir || !planPattern.MatchString(e.Name) {
			continue
		}
		ref := PlanRef{ID: e.Name}
		if l.fold.Plans[e.Name].State != PlanCommitted {
			ref.Plan, err = l.ReadPlan(ctx, e.Name)
			if ExitCode(err) == ExitNotFound {
				continue // its folder was made, its file was not: nobody has the plan
			}
			if err != nil {
				return nil, err
			}
			if r := ref.Plan.Replaces; r != "" {
				replacedBy[r] = e.Name
			}
		}
		refs = append(refs, ref)
	}
	for i := range refs {
		ref := &refs[i]
		ref.State = l.fold.Fate(ref.ID, ref.Plan, replacedBy[ref.ID])
	}
	return refs, nil
}

// sweptFor is the id of the plan that revised one, and for which the stage of
// that one was swept; "" = its stage is there, or was never made.
func (l *Ledger) sweptFor(ctx context.Context, planID string) (string, error) {
	switch _, err := l.sink.Stat(path.Join(StagesDir, planID)); {
	case err == nil:
		return "", nil
	case !errors.Is(err, sink.ErrNotExist):
		return "", sinkError("", err)
	}
	refs, err := l.Plans(ctx)
	for _, ref := range refs {
		if ref.Plan != nil && ref.Plan.Replaces == planID {
			return ref.ID, err
		}
	}
	return "", err
}

// OpenPlans lists the plans that are to be resumed.
func (l *Ledger) OpenPlans(ctx context.Context) ([]PlanRef, error) {
	refs, err := l.Plans(ctx)
	return slices.DeleteFunc(refs, func(r PlanRef) bool { return r.State != PlanOpen }), err
}

// Results reads what attempts of a plan have left, per split in the order they
// ended. Only whole results whose files are there in full size count; their
// hashes are verified by Commit.
func (l *Ledger) Results(ctx context.Context, p *Plan, planID string) ([]*Result, error) {
	b, err := l.bucketer(p)
	if err != nil {
		return nil, err
	}
	var found []*Result
	for i := range p.Splits {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		of, err := l.splitResults(p, planID, &p.Splits[i], b)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	return found, nil
}

func (l *Ledger) splitResults(p *Plan, planID string, s *Split, b *bucketer) ([]*Result, error) {
	dir := StageDir(s.StagePlan(planID), s.Index)
	attempts, err := l.sink.List(dir)
	if errors.Is(err, sink.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, sinkError("", err)
	}
	type ended struct {
		result *Result
		entry  sink.Entry
	}
	var all []ended
	for _, a := range attempts {
		name := ResultPath(path.Join(dir, a.Name))
		entry, err := l.sink.Stat(name)
		if errors.Is(err, sink.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, sinkError("", err)
		}
		r, err := l.readResult(name)
		if err == nil {
			err = checkResult(p, planID, s, b, r)
		}
		if err == nil {
			err = l.checkSizes(r)
		}
		if err != nil {
			l.c.Logger.Warn("attempt passed over", "path", name, "err", err)
			continue
		}
		all = append(all, ended{r, entry})
	}
	slices.SortStableFunc(all, func(a, b ended) int { return a.entry.ModTime.Compare(b.entry.ModTime) })
	results := make([]*Result, len(all))
	for i := range all {
		results[i] = all[i].result
	}
	return results, nil
}

func (l *Ledger) readResult(name string) (*Result, error) {
	data, err := l.sink.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r Result
	return &r, decodeStrict(data, &r)
}

// ReadResult reads the report of one attempt under a plan's own stage.
func (l *Ledger) ReadResult(planID string, split int, attempt string) (*Result, error) {
	name := ResultPath(AttemptDir(planID, split, attempt))
	r, err := l.readResult(name)
	if err != nil && ExitCode(err) == ExitFailed {
		return nil, sinkError("result "+name, err)
	}
	return r, err
}

// checkSizes wants every staged file there in full size.
func (l *Ledger) checkSizes(r *Result) error {
	for i := range r.Files {
		file := &r.Files[i]
		entry, err := l.sink.Stat(file.Stage)
		if err != nil {
			return err
		}
		if entry.Dir || entry.Size != file.Bytes {
			return fmt.Errorf("%s has %d bytes, want %d", file.Stage, entry.Size, file.Bytes)
		}
	}
	return nil
}

// checkResult holds a result against its split: the ranges it counts, the names
// of its files, and that all adds up. Files are not opened.
func checkResult(p *Plan, planID string, s *Split, b *bucketer, r *Result) error {
	stagePlan := s.StagePlan(planID)
	if r.V != 1 || r.Plan != stagePlan || r.Split != s.Index {
		return fmt.Errorf("is version %d of split %d of plan %s, want split %d of plan %s", r.V, r.Split, r.Plan, s.Index, stagePlan)
	}
	return checkContent(p, stagePlan, s, b, r)
}

// checkContent is checkResult for a result of any plan folder: a rerun stages a
// split that was carried over under the newer plan.
func checkContent(p *Plan, stagePlan string, s *Split, b *bucketer, r *Result) error {
	if r.Unknown != nil {
		if len(r.Files) > 0 {
			return errors.New("reports unknown paths and brings files")
		}
		return nil
	}
	if p.Kind == Compact {
		return checkCompacted(p, stagePlan, s, r)
	}
	if len(r.Inputs) != len(s.Ranges) {
		return fmt.Errorf("counts %d ranges, the split has %d", len(r.Inputs), len(s.Ranges))
	}
	var data, bad int64
	for i := range r.Inputs {
		if err := checkInput(p, &r.Inputs[i], &s.Ranges[i]); err != nil {
			return err
		}
		data += r.Inputs[i].Data
		bad += r.Inputs[i].Quarantined
	}
	var rows, badRows int64
	seen := map[string]bool{}
	for i := range r.Files {
		file := &r.Files[i]
		if err := file.form(); err != nil {
			return err
		}
		want := QuarantinePath(stagePlan, s.Index)
		if file.Hour != nil {
			var err error
			if want, err = p.placeOf(b, stagePlan, s, file); err != nil {
				return err
			}
			rows += file.Rows
		} else {
			badRows += file.Rows
		}
		if file.Path != want || seen[want] {
			return fmt.Errorf("file %s: want %s, once", file.Path, want)
		}
		if dir := AttemptDir(r.Plan, r.Split, r.Attempt); path.Dir(file.Stage) != dir || !strings.HasSuffix(file.Stage, StageSuffix) {
			return fmt.Errorf("file %s is staged at %s, want %s/….part", file.Path, file.Stage, dir)
		}
		seen[want] = true
	}
	if rows != data || badRows != bad {
		return fmt.Errorf("files hold %d rows and %d bad records, the ranges %d and %d", rows, badRows, data, bad)
	}
	return nil
}

// checkInput holds the count of one range against the plan.
func checkInput(p *Plan, in *Input, r *SplitRange) error {
	at := fmt.Sprintf("%s/%d=%s", r.Topic, r.Partition, r.Range)
	switch {
	case in.Cluster != p.Cluster || in.Topic != r.Topic || in.TopicID != r.TopicID || in.Partition != r.Partition || in.Range != r.Range:
		return fmt.Errorf("counts %s/%d=%s where %s is due", in.Topic, in.Partition, in.Range, at)
	case in.Accounted() != in.Len() || in.negative():
		return fmt.Errorf("%s: accounts for %d of %d offsets", at, in.Accounted(), in.Len())
	case in.Gap > 0 && p.Gaps == "":
		e := fail(ExitMismatch, "%s: %d offsets are gone from the log", at, in.Gap)
		e.Gone = true
		return e.hint("accept the gap with --accept-gap REASON")
	}
	return nil
}
