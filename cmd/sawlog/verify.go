package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
)

func (a *app) verify() *cobra.Command {
	ref := datasetRef{}
	var againstLog bool
	c := &cobra.Command{
		Use: "verify [RUN|DATASET]", Short: "Check files against the ledger, and against the log", Args: cobra.MaximumNArgs(1),
		Long: `Read back the files of a run, or of a whole data set, and compare sizes, hashes
and rows with the ledger; look for files that are missing or should not be
there. Problems end with exit code 8. With --root and no RUN it checks the
whole data set.

With --against-log the committed offsets are read again as well, in this process
and from the brokers of the job (with --root from --brokers), decoded and put
into hours by the rules they were loaded by: per hour the rows of the log must
be the rows of the files. Ranges that retention or compaction has removed since
are named as gone, and end with exit code 8 too.`,
		Example: "  sawlog verify pageviews-hourly\n  sawlog verify --root file:///warehouse/pageviews -o json\n  sawlog verify RUN --root file:///warehouse/pageviews --against-log",
		RunE: func(cmd *cobra.Command, args []string) error {
			if againstLog {
				return a.verifyLog(cmd.Context(), ref, nameOf(args))
			}
			return a.runVerify(cmd.Context(), ref, nameOf(args))
		},
	}
	ref.add(c)
	c.Flags().BoolVar(&againstLog, "against-log", false, "read the committed offsets again and compare the rows of each hour")
	return c
}

// verifyLog checks a run or a data set against the log as well, in this process:
// it is too much work for a server that has brokers to run.
func (a *app) verifyLog(ctx context.Context, ref datasetRef, what string) error {
	source := a.source()
	switch {
	case ref.root == "" && what == "":
		return output.Errorf(output.Usage, "verify what?").WithHint("name a run or a data set, or give --root")
	case ref.root == "":
		var err error
		if ref, what, source, err = a.loadedWith(ctx, ref, what); err != nil {
			return err
		}
	}
	_, ledger, err := a.openDataset(ctx, ref, "")
	if err != nil {
		return err
	}
	cluster, err := consumer.Dial(ctx, source)
	if err != nil {
		return err
	}
	defer cluster.Close()
	bars := a.newProgress()
	report, err := ledger.VerifyAgainstLog(ctx, what, cluster, func(p loader.TaskProgress) { bars.observe(loader.Event{Kind: "task", Task: &p}) })
	bars.done()
	if printErr := a.printVerify(report); printErr != nil {
		return printErr
	}
	return err
}

// loadedWith asks the server for the root of a data set, or of a run's, for what
// of it is meant ("" = all) and for the brokers its job reads from.
func (a *app) loadedWith(ctx context.Context, ref datasetRef, name string) (found datasetRef, what string, source consumer.Config, err error) {
	err = a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		d, err := c.Dataset(ctx, name)
		if output.Code(err) == output.NotFound {
			run, runErr := c.Run(ctx, name)
			if runErr != nil {
				return runErr
			}
			what = name
			d, err = c.Dataset(ctx, run.Dataset)
		}
		if err != nil {
			return err
		}
		job, err := c.Job(ctx, d.Job)
		if err != nil {
			return err
		}
		spec, err := jobs.ParseApplied([]byte(job.Text), d.Job)
		if err != nil {
			return err
		}
		ref.root, source = d.Root, sourceOf(spec.Source, a.brokers, a.timeout)
		if len(ref.store.Namenodes) == 0 {
			ref.store.Namenodes = d.Namenodes
		}
		return nil
	})
	return ref, what, source, err
}

// runVerify checks a run or a data set: here with a root, else on the server.
func (a *app) runVerify(ctx context.Context, ref datasetRef, what string) error {
	var report *loader.VerifyReport
	var err error
	switch {
	case ref.root == "" && what == "":
		return output.Errorf(output.Usage, "verify what?").WithHint("name a run or a data set, or give --root")
	case ref.root == "":
		report, err = a.verifyOnServer(ctx, what)
	default:
		report, err = a.verifyHere(ctx, ref, what)
	}
	if printErr := a.printVerify(report); printErr != nil {
		return printErr
	}
	return err
}

// verifyHere checks a run or a data set in this process.
func (a *app) verifyHere(ctx context.Context, ref datasetRef, what string) (*loader.VerifyReport, error) {
	bars := a.newProgress()
	defer bars.done()
	var read, total int64
	check := func(r io.ReaderAt, size int64, file *loader.File) error {
		read++
		bars.show("", "files", read, max(read, total), "files", fmt.Sprintf("%d of %d files read", read, total))
		return loader.CheckFooter(r, size, file)
	}
	_, ledger, err := a.openChecked(ctx, ref, "", check)
	if err != nil {
		return nil, err
	}
	files := ledger.Fold().All()
	if what != "" {
		ref, err := ledger.Fold().Lookup(what)
		if err != nil {
			return nil, err
		}
		files = ledger.Fold().VisibleOf(ref.Number)
	}
	read, total = 0, int64(len(files))
	return ledger.Verify(ctx, what)
}

func (a *app) printVerify(report *loader.VerifyReport) error {
	if report == nil {
		return nil
	}
	return a.print.Print(report, func() *output.Rows {
		rows := &output.Rows{}
		rows.Add("data set", report.Dataset)
		if report.Run != "" {
			rows.Add("run", report.Run)
		}
		rows.Add("files", report.Files)
		rows.Add("rows", report.Rows)
		rows.Add("bytes", report.Bytes)
		if report.Log != nil {
			logRows(rows, report.Log)
		}
		rows.Add("problems", len(report.Problems))
		for _, p := range report.Problems {
			rows.Add(p.Kind, p.Path, p.Detail)
		}
		return rows
	})
}

// logRows tells of the log: the sums, and the hours that are not equal.
func logRows(rows *output.Rows, l *loader.LogReport) {
	rows.Add("rows of the log", l.Rows)
	rows.Add("files by value", l.Digested)
	rows.Add("files by count", l.Counted)
	for _, h := range l.Hours {
		if h.State != loader.HourEqual {
			rows.Add(h.State, h.Hour, fmt.Sprintf("%d rows in the log, %d in the files", h.Log, h.Files))
		}
	}
	for _, g := range l.Gone {
		rows.Add("gone", fmt.Sprintf("%s/%d=%s", g.Topic, g.Partition, g.Range), g.Why)
	}
}
