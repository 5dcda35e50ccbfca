package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
)

func (a *app) backfill() *cobra.Command {
	b := api.Backfill{}
	var wait bool
	c := &cobra.Command{
		Use: "backfill JOB --from T --to T", Short: "Carry out the missing or failed ticks of a window, or load its hours again", Args: cobra.ExactArgs(1),
		Long: `Carry out the ticks of a window that were missed, or whose runs failed. With
--only all the hours of the window are loaded again by the job as it is now: each
commit that brought rows into them is replaced by a run of its own, in whole
splits, so rows of other hours are loaded again with them.

A load of what is missing goes on from where the data set ends. So with --order
newest the first run takes the offsets of all, and the others find none left.

The backfill goes on on the server, also after a restart of it: backfill get
shows how far it is, pause, resume and cancel steer it, retry tries again what
failed. --dry-run says the offsets, rows and files of each run and makes nothing.`,
		Example: "  sawlog backfill pageviews-hourly --from 2026-11-28 --to 2026-11-29 --only failed --dry-run\n" +
			"  sawlog backfill pageviews-hourly --from 2026-11-28T14 --to 2026-11-28T15 --only all --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.From == "" || b.To == "" {
				return output.Errorf(output.Usage, "--from and --to are needed").WithHint("%s", cmd.UseLine())
			}
			b.Job = args[0]
			var done *jobs.BackfillView
			err := a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				done, err = c.Backfill(ctx, b)
				return err
			})
			if err != nil {
				return err
			}
			if wait && done.ID != "" {
				return a.waitBackfill(cmd.Context(), done)
			}
			return a.printBackfill(done)
		},
	}
	c.Flags().StringVar(&b.From, "from", "", "first `TIME`")
	c.Flags().StringVar(&b.To, "to", "", "end `TIME`, not included")
	c.Flags().StringVar(&b.Only, "only", "missing", "missing, failed or all")
	c.Flags().StringVar(&b.Order, "order", "oldest", "oldest or newest first")
	c.Flags().StringVar(&b.AcceptGap, "accept-gap", "", "go on although offsets are gone; `REASON` goes into the ledger")
	c.Flags().BoolVar(&b.DryRun, "dry-run", false, "say what each run would load")
	c.Flags().BoolVar(&wait, "wait", false, "wait for its end; the exit code tells how it went")
	c.AddCommand(
		a.backfillList(), a.backfillGet(), a.backfillWatch(),
		a.backfillSteer(jobs.SteerPause, "Begin no more runs of a backfill; what runs goes on"),
		a.backfillSteer(jobs.SteerResume, "Let a paused backfill go on"),
		a.backfillSteer(jobs.SteerCancel, "End a backfill and stop its runs"),
		a.backfillSteer(jobs.SteerRetry, "Try again what failed of a backfill, and nothing else"),
	)
	return c
}

func (a *app) backfillList() *cobra.Command {
	var job string
	c := &cobra.Command{
		Use: "list", Short: "List backfills, newest first", Args: cobra.NoArgs, Example: "  sawlog backfill list --job pageviews-hourly",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, err := c.Backfills(ctx, job)
				if err != nil {
					return err
				}
				return a.print.Print(list, func() *output.Rows {
					rows := &output.Rows{Head: []string{"BACKFILL", "STATUS", "ONLY", "FROM", "TO", "ROWS", "RUNS"}}
					for _, b := range list {
						rows.Add(b.ID, b.Status, b.Only, timeText(b.From), timeText(b.To), b.Rows, b.Say)
					}
					return rows
				})
			})
		},
	}
	c.Flags().StringVar(&job, "job", "", "of this `JOB` only")
	return c
}

func (a *app) backfillGet() *cobra.Command {
	return &cobra.Command{
		Use: "get BACKFILL", Short: "Show a backfill and each of its runs", Args: cobra.ExactArgs(1), Example: "  sawlog backfill get BACKFILL -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				b, err := c.GetBackfill(ctx, args[0])
				if err != nil {
					return err
				}
				return a.printBackfill(b)
			})
		},
	}
}

func (a *app) backfillWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch BACKFILL", Short: "Follow a backfill to its end", Args: cobra.ExactArgs(1), Example: "  sawlog backfill watch BACKFILL",
		Long: "Follow a backfill to its end. Ctrl-C leaves it going on. The exit code is 7 when\nsome of its runs did not end well.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var b *jobs.BackfillView
			err := a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				b, err = c.GetBackfill(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			return a.waitBackfill(cmd.Context(), b)
		},
	}
}

func (a *app) backfillSteer(how, short string) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: how + " BACKFILL", Short: short, Args: cobra.ExactArgs(1), Example: "  sawlog backfill " + how + " BACKFILL" + map[bool]string{true: " --yes"}[how == jobs.SteerCancel],
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				b, err := c.GetBackfill(ctx, args[0])
				if err == nil {
					err = b.CannotSteer(how)
				}
				if err != nil {
					return err
				}
				if dryRun {
					a.print.Note("backfill %s is %s; %s was not done", b.ID, b.Status, how)
					return a.printBackfill(b)
				}
				if how == jobs.SteerCancel {
					if err := a.confirm("cancel backfill " + args[0]); err != nil {
						return err
					}
				}
				if b, err = c.SteerBackfill(ctx, args[0], how); err != nil {
					return err
				}
				return a.print.Print(b, func() *output.Rows { return &output.Rows{Body: [][]string{{b.ID, b.Status, b.Say}}} })
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	return c
}

// watchPause is how often a backfill that is waited for is looked at.
const watchPause = time.Second

// waitBackfill follows a backfill to its end; Ctrl-C leaves it going on.
func (a *app) waitBackfill(ctx context.Context, b *jobs.BackfillView) error {
	if err := a.followBackfill(ctx, b); err != nil {
		return err
	}
	if err := a.printBackfill(b); err != nil {
		return err
	}
	if b.Status == jobs.BackfillCompleted {
		return nil
	}
	return output.Errorf(output.Partial, "backfill %s ended as %s: %s", b.ID, b.Status, b.Say).WithHint("sawlog backfill retry %s tries again what failed", b.ID)
}

// followBackfill shows how far a backfill is until it has ended.
func (a *app) followBackfill(ctx context.Context, b *jobs.BackfillView) error {
	bars := a.newProgress()
	defer bars.done()
	for b.Open() {
		ended := b.Total - b.Counts[jobs.ItemWaiting] - b.Counts[jobs.Queued] - b.Counts[jobs.Running]
		bars.show("", b.ID, int64(ended), int64(max(b.Total, 1)), "runs", b.ID+": "+b.Say)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
		err := a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
			now, err := c.BackfillState(ctx, b.ID)
			if err == nil && !now.Open() {
				now, err = c.GetBackfill(ctx, b.ID) // with how each run of it ended
			}
			if err == nil {
				*b = *now
			}
			return err
		})
		if ctx.Err() != nil {
			bars.done()
			return a.goesOn(ctx, "backfill", b.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printBackfill(b *jobs.BackfillView) error {
	return a.print.Print(b, func() *output.Rows {
		rows := &output.Rows{Head: []string{"LOAD", "DATA SET", "WAS", "STATE", "OFFSETS", "ROWS", "FILES", "RUN"}}
		for _, it := range b.Items {
			what := fmt.Sprintf("%s..%s", it.From.UTC().Format("2006-01-02T15:04Z"), it.Tick.UTC().Format("2006-01-02T15:04Z"))
			if it.Record != nil {
				what = fmt.Sprintf("record %d", *it.Record)
			}
			offsets, n, files := "", fmt.Sprint(it.Rows), ""
			if w := it.Window; w != nil {
				offsets, n, files = rangesText(w), fmt.Sprintf("≤ %d", w.Rows), fmt.Sprintf("~ %d", w.Files)
			}
			rows.Add(what, it.Dataset, it.Was, it.State, offsets, n, files, it.Run)
		}
		rows.Add("", "", "", b.Say, "", b.Rows, "", b.ID)
		return rows
	})
}

// rangesText lists the first ranges of a window.
func rangesText(w *jobs.Window) string {
	const shown = 3
	var out []string
	for _, r := range w.Ranges[:min(len(w.Ranges), shown)] {
		out = append(out, fmt.Sprintf("%s/%d=%d..%d", r.Topic, r.Partition, r.Start, r.End))
	}
	if more := len(w.Ranges) - shown; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	if len(out) == 0 {
		return "none left"
	}
	return strings.Join(out, ", ")
}
