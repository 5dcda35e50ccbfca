package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// client speaks to the server, and shows the token where one is named.
func (a *app) client() (*api.Client, error) {
	c, err := api.NewClient(a.server, whoami())
	if err != nil || a.token == "" {
		return c, err
	}
	token, err := config.ReadToken(a.token)
	if err != nil {
		return nil, output.Errorf(output.Usage, "--token: %w", err).WithHint("--token or %s names the file", config.EnvName("token"))
	}
	c.Token = string(token)
	return c, nil
}

// onServer runs one call of the API within the timeout.
func (a *app) onServer(ctx context.Context, call func(context.Context, *api.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return call(ctx, c)
}

// waiting shows that a call takes the server a while.
func (a *app) waiting(what string, call func() error) error {
	bars := a.newProgress()
	defer bars.done()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	for began := time.Now(); ; {
		select {
		case err := <-ended:
			if cause := context.Cause(a.ctx); err != nil && cause != nil {
				err = output.Errorf(output.Code(cause), "%s: %s; it stops as well, and nothing was changed unless files were just being put in place", cause, what).
					WithHint("the same command again; it starts over")
			}
			return err
		case <-time.After(time.Second):
		}
		text := fmt.Sprintf("%s, for %s now", what, time.Since(began).Round(time.Second))
		bars.show("", text, 0, 0, "", text)
	}
}

// rootOnServer asks the server where a data set is. Who asks reads it as
// himself: the server's keytab is not for him.
func (a *app) rootOnServer(ctx context.Context, dataset string) (root string, access sink.Access, err error) {
	err = a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		d, err := c.Dataset(ctx, dataset)
		root, access.Namenodes = d.Root, d.Namenodes
		return err
	})
	return root, access, err
}

// trigger turns the flags into what the API is asked.
func (f planFlags) trigger() (api.Trigger, error) {
	t := api.Trigger{AcceptGap: f.acceptGap, Scan: f.scan}
	if f.rng != "" {
		return t, output.Errorf(output.Usage, "--range is for a FILE; a JOB takes --window").
			WithHint("sawlog job get JOB > job.yaml, then run job.yaml --range, or replay into another root")
	}
	if f.window != "" {
		from, to, ok := strings.Cut(f.window, "..")
		if !ok {
			return t, output.Errorf(output.Usage, "--window %q: want START..END, such as 2026-11-29T00..2026-11-30T00", f.window)
		}
		t.From, t.To = strings.TrimPrefix(from, "@"), strings.TrimPrefix(to, "@")
	}
	return t, nil
}

func (a *app) planOnServer(ctx context.Context, job string, f planFlags) error {
	t, err := f.trigger()
	if err != nil {
		return err
	}
	return a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		plans, err := c.Plan(ctx, job, t)
		if err != nil {
			return err
		}
		var files []planFile
		for _, p := range plans {
			d, err := c.Dataset(ctx, p.Dataset)
			if err != nil {
				return err
			}
			hdfs := sink.Access{Namenodes: d.Namenodes}
			files = append(files, planFile{Sawlog: planFileKind, ID: p.Preview.Plan, Root: d.Root, HDFS: hdfs, Preview: p.Preview, Plan: p.Plan})
		}
		return a.printPlans(files)
	})
}

func (a *app) runOnServer(ctx context.Context, job string, p planFlags, f runFlags) error {
	if f.dryRun {
		return a.planOnServer(ctx, job, p)
	}
	t, err := p.trigger()
	if err != nil {
		return err
	}
	var runs []*jobs.Run
	err = a.onServer(ctx, func(ctx context.Context, c *api.Client) (err error) {
		runs, err = c.Trigger(ctx, job, t)
		return err
	})
	if err != nil {
		return err
	}
	if f.wait {
		return a.waitRuns(ctx, runs)
	}
	for _, r := range runs {
		a.print.Note("queued %s; sawlog runs watch %s follows it", r.Run, r.Run)
	}
	return a.printRuns(runs)
}

// waitRuns follows runs to their end; Ctrl-C leaves them going on.
func (a *app) waitRuns(ctx context.Context, runs []*jobs.Run) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var failed error
	for i, r := range runs {
		bars := a.newProgress()
		for _, task := range r.Tasks { // it may have begun long ago
			bars.observe(loader.Event{Run: r.Run, Task: &task.TaskProgress})
		}
		bars.run(r.Run, r.Status)
		ended, err := c.Wait(ctx, r.Run, func(ev jobs.Event) {
			if ev.Kind == "run" {
				bars.run(r.Run, ev.Status)
			}
			bars.observe(eventOf(ev))
		})
		bars.done()
		if ctx.Err() != nil {
			return a.goesOn(ctx, "run", r.Run)
		}
		if err != nil {
			return err
		}
		runs[i] = ended
		if !ended.Good() && failed == nil {
			failed = &output.Error{Code: max(ended.Exit, 1), Msg: fmt.Sprintf("run %s ended as %s: %s", ended.Run, ended.Status, ended.Reason), Hint: ended.Hint}
		}
	}
	if err := a.printRuns(runs); err != nil {
		return err
	}
	return failed
}

// goesOn says that what was followed when a person ended the command is still
// under way on the server: a run or a backfill.
func (a *app) goesOn(ctx context.Context, what, id string) error {
	verb := map[string]string{"run": "runs", "backfill": "backfill"}[what]
	a.print.Note("%s %s goes on on the server; sawlog %s watch %s follows it, %s cancel %s ends it", what, id, verb, id, verb, id)
	return context.Cause(ctx)
}

func eventOf(ev jobs.Event) loader.Event {
	out := loader.Event{Run: ev.Run, Kind: ev.Kind, Text: strings.TrimSpace(ev.Status + " " + ev.Reason)}
	if ev.Step != nil {
		out.Task = ev.Step.Task
		if ev.Step.Phase != "" {
			out.Text = ev.Step.Phase
		}
	}
	return out
}

func (a *app) printRuns(runs []*jobs.Run) error {
	var v any = runs
	if len(runs) == 1 {
		v = runs[0]
	}
	return a.print.Print(v, func() *output.Rows { return runRows(runs) })
}

func runRows(runs []*jobs.Run) *output.Rows {
	rows := &output.Rows{Head: []string{"RUN", "STATUS", "TICK", "ROWS", "BAD", "FILES", "REASON"}}
	for _, r := range runs {
		tick := ""
		if !r.Tick.IsZero() {
			tick = r.Tick.UTC().Format("2006-01-02T15:04Z")
		}
		rows.Add(r.Run, r.Status, tick, r.Rows, r.Quarantined, r.Files, r.Reason)
	}
	return rows
}
