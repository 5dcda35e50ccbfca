package main

import (
	"context"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

func (a *app) rerun() *cobra.Command {
	ref := datasetRef{}
	again := againFlags{}
	var dryRun, current bool
	c := &cobra.Command{
		Use: "rerun RUN", Short: "Replay the offsets of a run into the same bytes", Args: cobra.ExactArgs(1),
		Long: `Carry out the plan of a committed run again: the same offsets, read from the log
(--brokers), make the same bytes. A file that is there is identical, one that is
missing or damaged is restored. If the log gives other bytes now, nothing is
written and the exit code is 8. RUN is a run id, a plan id or a ledger number.
With --root or --job FILE it is carried out in this process, else on the server;
the job gives the engine, brokers, SASL, TLS and HDFS settings, and no rule.

With --with-current-job the offsets of the run are loaded again by the job as it
is now, new columns, types and rules included, and take the place of the old
files in one step of the ledger; --job FILE does that in this process.`,
		Example: "  sawlog rerun RUN\n  sawlog rerun RUN --with-current-job --job pageviews.yaml\n  sawlog rerun RUN --root file:///warehouse/pageviews\n  sawlog rerun RUN --job pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if current && ref.root != "" {
				return output.Errorf(output.Usage, "--with-current-job takes the root from the job").WithHint("name the job file with --job FILE")
			}
			if current {
				again.dryRun = dryRun
				return a.loadAgain(cmd.Context(), args[0], again)
			}
			if dryRun {
				return a.verifyAs(cmd.Context(), ref, again.job, args[0])
			}
			report, err := a.rerunOf(cmd.Context(), ref, again.job, args[0])
			if report == nil {
				return err
			}
			printed := a.print.Print(report, func() *output.Rows {
				rows := &output.Rows{}
				rows.Add("run", report.Run)
				rows.Add("identical", report.Identical)
				rows.Add("restored", report.Restored)
				rows.Add("changed", report.Changed)
				rows.Add("retired", report.Retired)
				if report.Damaged > 0 {
					rows.Add("damaged", report.Damaged)
				}
				for _, f := range report.Files {
					if f.State != "identical" {
						rows.Add(f.State, f.Path)
					}
				}
				return rows
			})
			if err != nil {
				return err
			}
			return printed
		},
	}
	ref.add(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say what is missing or damaged, as verify does, or what would be loaded")
	c.Flags().BoolVar(&current, "with-current-job", false, "load the offsets again by the job as it is now")
	c.Flags().StringVar(&again.job, "job", "", "the job `FILE`: carry it out in this process")
	return c
}

// rerunOf carries a rerun out: here with a root or a job file, else on the server.
func (a *app) rerunOf(ctx context.Context, ref datasetRef, job, run string) (*loader.RerunReport, error) {
	if ref.root == "" && job == "" {
		return a.rerunOnServer(ctx, run)
	}
	list, err := a.holders(ctx, ref, job)
	if err != nil {
		return nil, err
	}
	var report *loader.RerunReport
	for _, t := range list {
		report, err = a.rerunHere(ctx, t, run)
		if output.Code(err) != output.NotFound {
			break // else it may be a run of another data set of the job
		}
	}
	return report, err
}

func (a *app) rerunHere(ctx context.Context, t target, run string) (*loader.RerunReport, error) {
	d, closeDriver, err := a.openTarget(ctx, t)
	if err != nil {
		return nil, err
	}
	defer closeDriver()
	bars := a.newProgress()
	defer bars.done()
	d.Observe = bars.observe
	return d.Rerun(ctx, run)
}

// verifyAs checks a run of the data set, or of one of a job file's.
func (a *app) verifyAs(ctx context.Context, ref datasetRef, job, run string) error {
	if job == "" {
		return a.runVerify(ctx, ref, run)
	}
	list, err := a.holders(ctx, ref, job)
	if err != nil {
		return err
	}
	for _, t := range list {
		err = a.runVerify(ctx, datasetRef{root: t.root, store: storeFlags{t.access}}, run)
		if output.Code(err) != output.NotFound {
			break
		}
	}
	return err
}
