package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

func (a *app) runs() *cobra.Command {
	c := &cobra.Command{
		Use: "runs", Short: "Look at and steer runs on the server",
		Example: "  sawlog runs list --job pageviews-hourly\n  sawlog runs watch RUN",
	}
	c.AddCommand(a.runsList(), a.runsGet(), a.runsWatch(), a.runsCancel(), a.runsRetry())
	return c
}

func (a *app) runsList() *cobra.Command {
	f := jobs.RunFilter{}
	var since, until string
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs,
		Example: "  sawlog runs list --status failed -o json\n  sawlog runs list --job pageviews-hourly --since -24h --limit 1000",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.Limit < 1 {
				return output.Errorf(output.Usage, "--limit %d: want 1 or more", f.Limit)
			}
			if f.Status != "" && !slices.Contains(jobs.RunStates, f.Status) {
				return output.Errorf(output.Usage, "--status %q: want one of %s", f.Status, strings.Join(jobs.RunStates, ", "))
			}
			if f.Kind != "" && !slices.Contains(jobs.RunKinds, f.Kind) {
				return output.Errorf(output.Usage, "--kind %q: want one of %s", f.Kind, strings.Join(jobs.RunKinds, ", "))
			}
			if since != "" {
				if f.Since, err = offsets.ParseTime(since, time.Now()); err != nil {
					return output.Errorf(output.Usage, "--since: %w", err)
				}
			}
			if until != "" {
				if f.Until, err = offsets.ParseTime(until, time.Now()); err != nil {
					return output.Errorf(output.Usage, "--until: %w", err)
				}
			}
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				runs, err := c.Runs(ctx, f)
				if err != nil {
					return err
				}
				return a.print.Print(runs, func() *output.Rows { return runRows(runs) })
			})
		},
	}
	c.Flags().StringVar(&f.Job, "job", "", "of this `JOB` only")
	c.Flags().StringVar(&f.Status, "status", "", "queued, running, committed, covered, failed, partial or cancelled")
	c.Flags().StringVar(&f.Kind, "kind", "", "made by a tick, manual (asked for) or backfill")
	c.Flags().StringVar(&f.Backfill, "backfill", "", "of this `BACKFILL` only")
	c.Flags().StringVar(&since, "since", "", "that ended, or else were queued, at this `TIME` or later, such as -24h")
	c.Flags().StringVar(&until, "until", "", "and before this `TIME`")
	c.Flags().IntVar(&f.Limit, "limit", 50, "how many")
	return c
}

func (a *app) runsGet() *cobra.Command {
	return &cobra.Command{
		Use: "get RUN", Short: "Show one run whole", Args: cobra.ExactArgs(1), Example: "  sawlog runs get RUN -o json",
		Long: "Show a run: what it loaded, who or what started it, each attempt with its phases.\n" +
			"With -o json also its plan and splits, the attempts at each, every file of its\ncommit, and who was told of its end.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if a.print.Format != output.Table {
					r, err := c.RunDetail(ctx, args[0])
					if err != nil {
						return err
					}
					return a.print.Print(r, nil)
				}
				r, err := c.Run(ctx, args[0])
				if err != nil {
					return err
				}
				if err := a.printOutcomes([]*loader.Outcome{&r.Outcome}); err != nil {
					return err
				}
				return a.printAttempts(r)
			})
		},
	}
}

// printAttempts shows who started a run, and how each attempt at it went.
func (a *app) printAttempts(r *jobs.Run) error {
	return a.print.Print(r, func() *output.Rows {
		rows := &output.Rows{Head: []string{"ATTEMPT", "STARTED", "ENDED", "STATUS", "PHASES", "REASON"}}
		for _, at := range r.Attempts {
			var phases []string
			for _, p := range at.Phases {
				phases = append(phases, p.Name+" "+(time.Duration(p.MS)*time.Millisecond).String())
			}
			rows.Add(at.Number, timeText(at.Started), timeText(at.Ended), at.Status, strings.Join(phases, ", "), at.Reason)
		}
		rows.Add(r.Kind, timeText(r.Queued), "", "by "+r.By, "", "")
		return rows
	})
}

func (a *app) runsWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch RUN", Short: "Follow a run to its end", Args: cobra.ExactArgs(1),
		Long:    "Follow a run, with a bar for each task on a terminal, else with a line every ten\nseconds. Ctrl-C leaves the run going on. The exit code is that of the run.",
		Example: "  sawlog runs watch RUN",
		RunE: func(cmd *cobra.Command, args []string) error {
			var run *jobs.Run
			err := a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				run, err = c.Run(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			return a.waitRuns(cmd.Context(), []*jobs.Run{run})
		},
	}
}

func (a *app) steerRun(ctx context.Context, act func(context.Context, *api.Client) (*jobs.Run, error)) error {
	return a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		r, err := act(ctx, c)
		if err != nil {
			return err
		}
		return a.printRuns([]*jobs.Run{r})
	})
}

func (a *app) runsCancel() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "cancel RUN", Short: "Stop a run that has not committed", Args: cobra.ExactArgs(1), Example: "  sawlog runs cancel RUN --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steerRun(cmd.Context(), func(ctx context.Context, c *api.Client) (*jobs.Run, error) {
				r, err := c.Run(ctx, args[0])
				if err == nil {
					err = r.CannotCancel()
				}
				if err != nil || dryRun {
					return r, err
				}
				if err := a.confirm("cancel run " + args[0]); err != nil {
					return nil, err
				}
				return c.Cancel(ctx, args[0])
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	return c
}

func (a *app) runsRetry() *cobra.Command {
	ask := api.Retry{}
	var dryRun bool
	c := &cobra.Command{
		Use: "retry RUN", Short: "Queue an ended run again", Args: cobra.ExactArgs(1), Example: "  sawlog runs retry RUN --accept-bad",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steerRun(cmd.Context(), func(ctx context.Context, c *api.Client) (*jobs.Run, error) {
				if dryRun {
					r, err := c.Run(ctx, args[0])
					if err == nil {
						err = r.CannotRetry()
					}
					return r, err
				}
				return c.Retry(ctx, args[0], ask)
			})
		},
	}
	c.Flags().BoolVar(&ask.AcceptBad, "accept-bad", false, "commit although more records are bad than max_bad allows")
	c.Flags().StringVar(&ask.AcceptGap, "accept-gap", "", "go on although offsets are gone; `REASON` goes into the ledger")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	return c
}

// rerunOnServer has the server remake the files of a run it knows.
func (a *app) rerunOnServer(ctx context.Context, run string) (*loader.RerunReport, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	report := &loader.RerunReport{}
	err = a.waiting("the server reruns "+run, func() error { return c.Rerun(ctx, run, report) })
	if report.Files == nil { // there is none
		return nil, err
	}
	return report, err
}

// verifyOnServer checks a data set, or a run, the server knows.
func (a *app) verifyOnServer(ctx context.Context, what string) (*loader.VerifyReport, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	err = a.waiting("the server verifies "+what, func() error {
		err := c.VerifyDataset(ctx, what, &raw)
		if output.Code(err) == output.NotFound {
			err = c.VerifyRun(ctx, what, &raw)
		}
		return err
	})
	report := &loader.VerifyReport{}
	if len(raw) > 0 {
		if parseErr := json.Unmarshal(raw, report); parseErr != nil {
			return nil, parseErr
		}
		return report, err
	}
	return nil, err
}
