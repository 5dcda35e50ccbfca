package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
	"sawlog/loader"
)

// rewritePreview is what `out rewrite --dry-run` says.
type rewritePreview struct {
	Plan   string   `json:"plan"`   // "" = nothing to do
	Status string   `json:"status"` // ready | covered
	Files  int      `json:"files"`  // to be written anew
	Into   int      `json:"into"`   // files
	Rows   int64    `json:"rows"`
	Bytes  int64    `json:"bytes"` // of the old files
	Hours  []string `json:"hours"`
}

func (a *app) outRewrite() *cobra.Command {
	ref := datasetRef{}
	var window, job, size string
	var dryRun bool
	c := &cobra.Command{
		Use: "rewrite [DATASET] [--window START..END] [--job FILE]", Short: "Merge small files, or give columns wider types", Args: cobra.MaximumNArgs(1),
		Long: `Write the small files of each hour anew as one, with the same rows in order of
topic, partition and offset. With --job, whose schema: declares wider types than
the data set has (int32, int64, double or decimal, string or json), all files
are written with those. The ledger swaps the files in one step; the old ones
wait under _sawlog/retired for a week. No broker is asked. Carried out in this
process.`,
		Example: "  sawlog out rewrite pageviews-hourly --window 2026-11-28..2026-11-29 --dry-run\n  sawlog out rewrite --root /warehouse/pageviews --job pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := loader.RewriteAsk{}
			var err error
			if ask.Hours, err = hourWindow(window); err != nil {
				return err
			}
			if size != "" {
				if ask.TargetBytes, err = jobs.ParseSize(size); err != nil || ask.TargetBytes <= 0 {
					return output.Errorf(output.Usage, "--target-size %q: want a size such as 256MiB", size)
				}
			}
			if job != "" {
				of, err := readJob(job)
				if err != nil {
					return err
				}
				if ref.store.Access, err = ref.store.over(of.Output.Access); err != nil {
					return err
				}
			}
			store, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args))
			if err != nil {
				return err
			}
			if job != "" {
				t, err := a.targetOf(job, ledger.Fold().Dataset)
				if err != nil {
					return err
				}
				ask.Spec = t.spec
			}
			d := &loader.Driver{Sink: store, Logger: a.logger(), Now: time.Now, By: whoami()}
			return a.rewrite(cmd.Context(), d, ask, dryRun)
		},
	}
	ref.add(c)
	c.Flags().StringVar(&window, "window", "", "the hours `START..END` only")
	c.Flags().StringVar(&job, "job", "", "take schema, format, codec, target size and HDFS settings of this job `FILE`")
	c.Flags().StringVar(&size, "target-size", "", "merge files of less than half this `SIZE` (default 256MiB)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say which files would be written anew")
	return c
}

func (a *app) rewrite(ctx context.Context, d *loader.Driver, ask loader.RewriteAsk, dryRun bool) error {
	plan, err := d.PlanRewrite(ctx, ask)
	if err != nil {
		return err
	}
	if dryRun || plan == nil {
		return a.printRewrite(plan)
	}
	bars := a.newProgress()
	d.Observe = bars.observe
	outcome, err := d.Run(ctx, plan, loader.RunAsk{Run: newRunID(plan.Job, time.Now())})
	bars.done()
	return a.ran(outcome, err)
}

func (a *app) printRewrite(plan *loader.Plan) error {
	v := rewritePreview{Status: loader.PreviewCovered, Hours: []string{}}
	if plan != nil {
		v.Plan, v.Status, v.Into = loader.PlanID(plan), loader.PreviewReady, len(plan.Splits)
		for _, s := range plan.Splits {
			if hour := loader.HourText(*s.Hour); len(v.Hours) == 0 || v.Hours[len(v.Hours)-1] != hour {
				v.Hours = append(v.Hours, hour)
			}
			for _, f := range s.Files {
				v.Files++
				v.Rows += f.Rows
				v.Bytes += f.Bytes
			}
		}
	}
	return a.print.Print(v, func() *output.Rows {
		rows := &output.Rows{}
		rows.Add("status", v.Status)
		rows.Add("files", v.Files)
		rows.Add("into", v.Into)
		rows.Add("rows", v.Rows)
		rows.Add("bytes", v.Bytes)
		rows.Add("hours", len(v.Hours))
		return rows
	})
}

func (a *app) outAmend() *cobra.Command {
	ref := datasetRef{}
	var why, job string
	var dryRun bool
	c := &cobra.Command{
		Use: "amend RUN", Short: "Make a run's files again with this version's writer", Args: cobra.ExactArgs(1),
		Long: `Make the files of a run again from the log (--brokers) under the writer profile of
this binary, and swap their hashes in the ledger, provided that each file holds
the same rows. Where the files have that profile nothing is done. Needed only
before a version that no longer knows the old profile. RUN is a run id, a plan
id or a ledger number.`,
		Example: "  sawlog out amend RUN --root file:///warehouse/pageviews",
		RunE: func(cmd *cobra.Command, args []string) error {
			if ref.root == "" && job == "" {
				return output.Errorf(output.Usage, "--root or --job is needed: amend works on a data set without a server")
			}
			list, err := a.holders(cmd.Context(), ref, job)
			if err != nil {
				return err
			}
			if len(list) != 1 {
				return output.Errorf(output.Usage, "--root is needed: job %s has several data sets", job)
			}
			d, closeDriver, err := a.openTarget(cmd.Context(), list[0])
			if err != nil {
				return err
			}
			defer closeDriver()
			ledger, err := d.Ledger(cmd.Context(), "", "")
			if err != nil {
				return err
			}
			if dryRun {
				found, err := ledger.Fold().Lookup(args[0])
				if err != nil {
					return err
				}
				return a.printFiles(ledger.Fold().VisibleOf(found.Number))
			}
			rec, err := ledger.Amend(cmd.Context(), args[0], newRunID(ledger.Fold().Job, time.Now()), changeOptions(why))
			if err != nil {
				return err
			}
			status := map[string]any{"run": args[0], "status": loader.StatusCovered, "files": 0, "record": nil}
			if rec != nil {
				status["status"], status["files"], status["record"] = loader.StatusCommitted, len(rec.Files), rec.Number
			}
			return a.print.Print(status, func() *output.Rows {
				rows := &output.Rows{}
				rows.Add("status", status["status"])
				rows.Add("files", status["files"])
				return rows
			})
		},
	}
	ref.add(c)
	c.Flags().StringVar(&job, "job", "", "engine, brokers and HDFS settings of this job `FILE`")
	c.Flags().StringVar(&why, "why", "", "a `REASON` for the ledger")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list the run's files")
	return c
}
