package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
)

func (a *app) job() *cobra.Command {
	c := &cobra.Command{
		Use: "job", Short: "Apply, look at and steer jobs",
		Example: "  sawlog job apply pageviews.yaml\n  sawlog job list",
	}
	c.AddCommand(a.jobApply(), a.jobList(), a.jobGet(), a.jobValidate(), a.jobExplain(), a.jobNext(), a.jobPause(), a.jobResume(), a.jobDelete())
	return c
}

func (a *app) jobApply() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "apply FILE…", Short: "Give job files to the server", Args: cobra.MinimumNArgs(1),
		Example: "  sawlog job apply pageviews.yaml --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			var done []*jobs.Applied
			for _, path := range args {
				job, err := readJob(path) // a wrong file is said before any is applied
				if err != nil {
					return err
				}
				would, err := a.applyOne(cmd.Context(), job.Text, path, true)
				if err != nil {
					return err
				}
				if dryRun {
					done = append(done, would)
					continue
				}
				if n := would.Catchup.Runs; n > 1 {
					if err := a.confirm(fmt.Sprintf("apply %s: %d runs will start at once to catch up", path, n)); err != nil {
						return err
					}
				}
				applied, err := a.applyOne(cmd.Context(), job.Text, path, false)
				if err != nil {
					return err
				}
				done = append(done, applied)
			}
			return a.print.Print(done, func() *output.Rows {
				rows := &output.Rows{Head: []string{"JOB", "CHANGE", "NEXT", ""}}
				for _, d := range done {
					rows.Add(d.Job, d.Change, timeText(d.Next), d.Say)
				}
				return rows
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check, and say what would happen")
	return c
}

func (a *app) applyOne(ctx context.Context, text []byte, path string, dry bool) (applied *jobs.Applied, err error) {
	err = a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		applied, err = c.Apply(ctx, text, path, dry)
		return err
	})
	return applied, err
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (a *app) jobList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List jobs", Args: cobra.NoArgs, Example: "  sawlog job list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, err := c.Jobs(ctx)
				if err != nil {
					return err
				}
				return a.print.Print(list, func() *output.Rows {
					rows := &output.Rows{Head: []string{"JOB", "STATE", "SCHEDULE", "NEXT", "LAST RUN", "ROWS"}}
					for _, j := range list {
						last, n := "", ""
						if j.Last != nil {
							last, n = j.Last.Status, fmt.Sprint(j.Last.Rows)
						}
						state := j.State
						if j.CatchingUp != nil {
							state += ", catching up"
						}
						rows.Add(j.Name, state, j.Schedule, timeText(j.Next), last, n)
					}
					return rows
				})
			})
		},
	}
}

func (a *app) jobGet() *cobra.Command {
	return &cobra.Command{
		Use: "get JOB", Short: "Show a job; as a table, its file as applied", Args: cobra.ExactArgs(1),
		Example: "  sawlog job get pageviews-hourly > pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				j, err := c.Job(ctx, args[0])
				if err != nil {
					return err
				}
				for _, d := range j.Drift {
					a.print.Note("drift in %s since %s: column %s is %s, seen %s, records %d: %s", d.Dataset, d.Since, d.Column, d.Type, d.Seen, d.Records, d.Hint)
				}
				if a.print.Format == output.Table {
					_, err = fmt.Fprint(a.print.Out, j.Text)
					return err
				}
				return a.print.Print(j, nil)
			})
		},
	}
}

func (a *app) jobValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check job files, with no server", Args: cobra.MinimumNArgs(1),
		Example: "  sawlog job validate jobs/*.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			type checked struct {
				Path     string         `json:"path"`
				OK       bool           `json:"ok"`
				Job      string         `json:"job,omitempty"`
				Problems []jobs.Problem `json:"problems"`
			}
			list := []checked{}
			var failed error
			for _, path := range args {
				c := checked{Path: path, OK: true, Problems: []jobs.Problem{}}
				job, err := readJob(path)
				var problems jobs.Problems
				switch {
				case errors.As(err, &problems):
					c.OK, c.Problems, failed = false, problems, err
				case err != nil:
					return err
				default:
					c.Job = job.Name
				}
				list = append(list, c)
			}
			err := a.print.Print(list, func() *output.Rows {
				rows := &output.Rows{}
				for _, c := range list {
					if c.OK {
						rows.Add(c.Path, "ok", c.Job)
					}
				}
				return rows
			})
			return errors.Join(failed, err)
		},
	}
}

func (a *app) jobExplain() *cobra.Command {
	return &cobra.Command{
		Use: "explain FILE|JOB", Short: "Print the whole job file, with every default", Args: cobra.ExactArgs(1),
		Example: "  sawlog job explain pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			var text []byte
			if isFile(args[0]) {
				job, err := readJob(args[0])
				if err != nil {
					return err
				}
				if text, err = job.Explain(); err != nil {
					return err
				}
			} else if err := a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				text, err = c.Explain(ctx, args[0])
				return err
			}); err != nil {
				return err
			}
			if a.print.Format != output.Table {
				return a.print.Print(map[string]string{"job": args[0], "text": string(text)}, nil)
			}
			_, err := a.print.Out.Write(text)
			return err
		},
	}
}

func (a *app) jobNext() *cobra.Command {
	var n int
	c := &cobra.Command{
		Use: "next FILE|JOB", Short: "List the ticks to come", Args: cobra.ExactArgs(1),
		Example: "  sawlog job next pageviews-hourly -n 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > 1000 {
				return output.Errorf(output.Usage, "-n %d: want 1 to 1000", n)
			}
			var ticks []jobs.NextTick
			if isFile(args[0]) {
				job, err := readJob(args[0])
				if err != nil {
					return err
				}
				if job.Schedule == nil {
					return output.Errorf(output.Usage, "job %s has no schedule", job.Name).WithHint("schedule: {every: 1h} in the job file gives it one")
				}
				ticks = job.Schedule.NextTicks(time.Now(), n)
			} else if err := a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				ticks, err = c.Next(ctx, args[0], n)
				return err
			}); err != nil {
				return err
			}
			return a.print.Print(ticks, func() *output.Rows {
				rows := &output.Rows{Head: []string{"TICK", "DUE"}}
				for _, t := range ticks {
					rows.Add(timeText(t.Tick), timeText(t.Due))
				}
				return rows
			})
		},
	}
	c.Flags().IntVarP(&n, "number", "n", 5, "how many")
	return c
}

// oneJob prints what the server says of a job after it was steered.
func (a *app) oneJob(ctx context.Context, name string, act func(context.Context, *api.Client) (any, string, error)) error {
	return a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		v, say, err := act(ctx, c)
		if err != nil {
			return err
		}
		return a.print.Print(v, func() *output.Rows { return &output.Rows{Body: [][]string{{name, say}}} })
	})
}

func (a *app) jobPause() *cobra.Command {
	var reason string
	var dryRun bool
	c := &cobra.Command{
		Use: "pause JOB", Short: "Let a job's ticks make no runs", Args: cobra.ExactArgs(1),
		Example: "  sawlog job pause pageviews-hourly --reason 'source is being repaired'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.oneJob(cmd.Context(), args[0], func(ctx context.Context, c *api.Client) (any, string, error) {
				if dryRun {
					j, err := c.Job(ctx, args[0])
					return j, "would be paused", err
				}
				j, err := c.Pause(ctx, args[0], reason)
				return j, "paused", err
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for those who look")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	return c
}

func (a *app) jobResume() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "resume JOB", Short: "Let a job's ticks make runs again", Args: cobra.ExactArgs(1), Example: "  sawlog job resume pageviews-hourly",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.oneJob(cmd.Context(), args[0], func(ctx context.Context, c *api.Client) (any, string, error) {
				r, err := c.Resume(ctx, args[0], true)
				if err != nil || dryRun {
					return r, "would be resumed: " + r.Say, err
				}
				a.print.Note("%s", r.Say)
				r, err = c.Resume(ctx, args[0], false)
				return r, "resumed: " + r.Say, err
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say which runs the missed ticks would make")
	return c
}

func (a *app) jobDelete() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete JOB", Short: "Forget a job and its history; its data set stays", Args: cobra.ExactArgs(1), Example: "  sawlog job delete pageviews-hourly --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.oneJob(cmd.Context(), args[0], func(ctx context.Context, c *api.Client) (any, string, error) {
				j, err := c.Job(ctx, args[0])
				if err != nil || dryRun {
					return j, "would be deleted", err
				}
				if err := a.confirm("delete job " + args[0] + " and its history"); err != nil {
					return nil, "", err
				}
				return map[string]string{"deleted": args[0]}, "deleted", c.Delete(ctx, args[0])
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	return c
}
