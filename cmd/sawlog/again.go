package main

import (
	"context"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
	"sawlog/loader"
)

// againFlags say how a committed run is loaded again by the job as it is now.
type againFlags struct {
	job    string
	bad    bool // only splits with quarantined records
	dryRun bool
	run    runFlags
}

func (a *app) outRequeue() *cobra.Command {
	f := againFlags{bad: true}
	c := &cobra.Command{
		Use: "requeue RUN [--job FILE]", Short: "Load the quarantined records of a run again", Args: cobra.ExactArgs(1),
		Long: `Load again, by the job as it is now, the splits of a run that have quarantined
records: rows that can be made now are, what is still bad is quarantined anew.
The splits are replaced as a whole, in one step of the ledger. With --job FILE it
is carried out in this process, else on the server, and waited for.`,
		Example: "  sawlog out requeue RUN\n  sawlog out requeue RUN --job pageviews.yaml --dry-run",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.loadAgain(cmd.Context(), args[0], f) },
	}
	f.add(c)
	return c
}

func (f *againFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.job, "job", "", "the job `FILE`: carry it out in this process")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be loaded and which files would go")
}

// loadAgain replaces what a run loaded: here with a job file, else on the server.
func (a *app) loadAgain(ctx context.Context, run string, f againFlags) error {
	if f.job == "" {
		return a.againOnServer(ctx, run, f)
	}
	job, err := readJob(f.job)
	if err != nil {
		return err
	}
	targets, err := a.targets(ctx, job)
	if err != nil {
		return err
	}
	ask := loader.PlanAsk{Kind: loader.Supersede, By: whoami(), Again: &loader.Again{Of: []string{run}, Bad: f.bad}}
	for i, t := range targets {
		if f.dryRun {
			var file *planFile
			if file, err = a.planTarget(ctx, t, planFlags{}, ask); err == nil {
				return a.printPlans([]planFile{*file})
			}
		} else {
			if err = a.ran(a.runTarget(ctx, t, ask, f.run)); err == nil {
				return nil
			}
		}
		if output.Code(err) != output.NotFound || i == len(targets)-1 {
			break // the run may be one of another data set of the job
		}
	}
	return err
}

func (a *app) againOnServer(ctx context.Context, run string, f againFlags) error {
	var done *api.Again
	err := a.onServer(ctx, func(ctx context.Context, c *api.Client) (err error) {
		done, err = c.Again(ctx, run, api.AgainAsk{Bad: f.bad, DryRun: f.dryRun})
		return err
	})
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.printPlans([]planFile{{Sawlog: planFileKind, ID: done.Preview.Plan, Root: done.Root, Preview: done.Preview, Plan: done.Plan}})
	}
	return a.waitRuns(ctx, []*jobs.Run{done.Run})
}
