package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// runAsk begins the preview of an act on a run.
func (k *console) runAsk(r *http.Request) (*jobs.Run, *confirm, error) {
	run, err := k.Jobs.Run(r.PathValue("run"))
	if err != nil {
		return nil, nil, err
	}
	return run, &confirm{Job: run.Job, Back: runPath(run.Run), Name: run.Run}, nil
}

func (k *console) askCancel(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
	run, c, err := k.runAsk(r)
	if err != nil {
		return nil, err
	}
	if err := run.CannotCancel(); err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Danger, c.Line = "Cancel run", "Cancel the run", true, "sawlog runs cancel "+shell(run.Run)+" --yes"
	c.Does = "Stops its tasks and writes its plan off, so that the next run takes the same offsets. Nothing of it becomes visible."
	done := 0
	for _, t := range run.Tasks {
		if t.Phase == "done" {
			done++
		}
	}
	c.Facts = []fact{{"State", run.Status}, {"Attempts at splits", count(len(run.Tasks))}, {"Of them done", count(done)}}
	return c, nil
}

func (k *console) doCancel(ctx context.Context, r *http.Request) (string, error) {
	run, err := k.Jobs.Cancel(ctx, r.PathValue("run"), by)
	if err != nil {
		return "", err
	}
	return runPath(run.Run), nil
}

func (k *console) askRetry(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
	run, c, err := k.runAsk(r)
	if err != nil {
		return nil, err
	}
	if err := run.CannotRetry(); err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Line = "Retry run", "Retry", "sawlog runs retry "+shell(run.Run)
	c.Does = "Queues the run again. It makes a plan of what is left to load."
	if run.Plan != "" {
		c.Does = "Queues the run again with the plan it has: splits that were staged are taken as they are, the others are tried again."
	}
	c.Facts = []fact{{"It ended", run.Status}, {"Because", run.Reason}, {"Quarantined", count(run.Quarantined)}, {"Plan", run.Plan}}
	c.Ranges = runRanges(run)
	if run.Status == jobs.Partial {
		c.Fields = append(c.Fields, field{
			Name: "accept_bad", Label: "Accept bad records", Type: "checkbox", Value: r.FormValue("accept_bad"),
			Hint: "commit although more records are bad than max_bad allows; they stay in quarantine (--accept-bad)",
		})
	}
	gap := gapField(r)
	gap.Hint += " (--accept-gap)"
	c.Fields = append(c.Fields, gap)
	return c, nil
}

// runRanges are the ranges of a run for a preview.
func runRanges(run *jobs.Run) (out []rangeLine) {
	for _, in := range run.Ranges {
		out = append(out, rangeLine{Dataset: run.Dataset, Topic: in.Topic, Partition: in.Partition, Start: int64(in.Start), End: int64(in.End), Gap: in.Gap})
	}
	return out
}

func (k *console) doRetry(ctx context.Context, r *http.Request) (string, error) {
	run, err := k.Jobs.Retry(ctx, r.PathValue("run"), by, r.FormValue("accept_bad") != "", strings.TrimSpace(r.FormValue("accept_gap")))
	if err != nil {
		return "", err
	}
	return runPath(run.Run), nil
}

// committed begins the preview of what can be done to a run that brought rows.
func (k *console) committed(r *http.Request) (*jobs.Run, *confirm, error) {
	run, c, err := k.runAsk(r)
	if err != nil {
		return nil, nil, err
	}
	if err := run.CannotLoadAgain(); err != nil {
		return nil, nil, err
	}
	c.Facts = []fact{{"Files", count(run.Files)}, {"Rows", count(run.Rows)}, {"Bytes", size(run.Bytes)}, {"Hours", count(len(run.Hours))}}
	return run, c, nil
}

func (k *console) askVerify(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
	run, c, err := k.committed(r)
	if err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Line = "Verify run", "Verify", "sawlog verify "+shell(run.Run)
	c.Does = "Reads the files of the run back and compares them with the ledger: sizes, hashes, rows, and that the folders of their hours hold nothing else. Nothing is changed."
	return c, nil
}

func (k *console) doVerify(ctx context.Context, r *http.Request) (string, error) {
	run, err := k.Jobs.Run(r.PathValue("run"))
	if err != nil {
		return "", err
	}
	return k.verify(ctx, run.Job, jobs.Set{Dataset: run.Dataset, Topic: run.Topic}, run.Run)
}

// verify checks a run, or with run empty a whole data set, and keeps the report.
func (k *console) verify(ctx context.Context, job string, set jobs.Set, run string) (string, error) {
	spec, err := k.Jobs.Spec(job)
	if err != nil {
		return "", err
	}
	if k.Verify == nil {
		return "", &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "this server cannot verify files"}
	}
	began := time.Now()
	report, err := k.Verify(ctx, spec, set, run)
	if report == nil && err != nil {
		return "", err
	}
	kept := &kept{Job: job, Run: run, Dataset: set.Dataset, Verify: report, At: k.Now(), Took: time.Since(began)}
	if err != nil {
		kept.Err = err.Error()
	}
	return k.keep(kept), nil
}

func (k *console) askVerifySet(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	set, err := setOf(st, r.FormValue("set"))
	if err != nil {
		return nil, err
	}
	return &confirm{
		Title: "Verify " + set.Dataset, Job: st.Name, Back: jobPath(st.Name), Name: st.Name, Button: "Verify", Line: "sawlog verify " + shell(set.Dataset),
		Does:   "Reads the whole ledger of the data set and all its files, and compares them. Nothing is changed. A large data set takes minutes.",
		Hidden: []fact{{"set", set.Dataset}},
	}, nil
}

// setOf is the data set of a job by its name; without a name, the first.
func setOf(st jobs.Status, name string) (jobs.Set, error) {
	for _, set := range st.Datasets {
		if name == "" || set.Dataset == name {
			return set, nil
		}
	}
	return jobs.Set{}, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: fmt.Sprintf("job %s has no data set %q", st.Name, name)}
}

func (k *console) doVerifySet(ctx context.Context, r *http.Request) (string, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return "", err
	}
	set, err := setOf(st, r.FormValue("set"))
	if err != nil {
		return "", err
	}
	return k.verify(ctx, st.Name, set, "")
}

func (k *console) askRerun(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
	run, c, err := k.committed(r)
	if err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Line = "Rerun", "Rerun", "sawlog rerun "+shell(run.Run)
	c.Does = "Reads the same offsets again and makes the same bytes. Files that are missing or damaged come back; if the log gives other bytes now, nothing is written."
	c.Ranges = runRanges(run)
	return c, nil
}

func (k *console) doRerun(ctx context.Context, r *http.Request) (string, error) {
	run, err := k.Jobs.Run(r.PathValue("run"))
	if err != nil {
		return "", err
	}
	spec, err := k.Jobs.Spec(run.Job)
	if err != nil {
		return "", err
	}
	if k.Rerun == nil {
		return "", &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "this server cannot rerun"}
	}
	began := time.Now()
	report, err := k.Rerun(ctx, spec, jobs.Set{Dataset: run.Dataset, Topic: run.Topic}, run.Run)
	if report == nil && err != nil {
		return "", err
	}
	kept := &kept{Job: run.Job, Run: run.Run, Dataset: run.Dataset, Rerun: report, At: k.Now(), Took: time.Since(began)}
	if err != nil {
		kept.Err = err.Error()
	}
	return k.keep(kept), nil
}

func (k *console) askAgain(ctx context.Context, r *http.Request, _ zone) (*confirm, error) {
	run, c, err := k.committed(r)
	if err != nil {
		return nil, err
	}
	bad := r.FormValue("bad") != ""
	planned, root, err := k.Jobs.PlanAgain(ctx, run.Run, bad)
	if err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Danger, c.Line = "Replay", "Replay", true, "sawlog rerun "+shell(run.Run)+" --with-current-job"
	c.Does = "Loads the offsets of the run again by the job as it is now: new columns, types and rules. The new files take the place of the old ones in one step of the ledger; readers see the old ones until then."
	if bad {
		c.Line, c.Hidden = "sawlog out requeue "+shell(run.Run), []fact{{"bad", "1"}}
		c.Does = "Loads those splits again that have records in quarantine, by the job as it is now. Their new files take the place of the old ones in one step of the ledger."
	}
	var total loader.Preview
	c.take(run.Dataset, planned.Preview, &total)
	c.Facts = append(previewFacts(&total), fact{"Root", root})
	return c, nil
}

func (k *console) doAgain(ctx context.Context, r *http.Request) (string, error) {
	run, err := k.Jobs.Again(ctx, r.PathValue("run"), by, r.FormValue("bad") != "")
	if err != nil {
		return "", err
	}
	return runPath(run.Run), nil
}
