package main

import (
	"context"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

func (a *app) verify() *cobra.Command {
	ref := datasetRef{}
	c := &cobra.Command{
		Use: "verify [RUN|DATASET]", Short: "Check files against the ledger", Args: cobra.MaximumNArgs(1),
		Long: `Read back the files of a run, or of a whole data set, and compare sizes, hashes
and rows with the ledger; look for files that are missing or should not be
there. Problems end with exit code 8. With --root and no RUN it checks the
whole data set.`,
		Example: "  sawlog verify pageviews-hourly\n  sawlog verify --root file:///warehouse/pageviews -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runVerify(cmd.Context(), ref.root, nameOf(args))
		},
	}
	ref.add(c)
	return c
}

// runVerify checks a run or a data set: here with a root, else on the server.
func (a *app) runVerify(ctx context.Context, root, what string) error {
	var report *loader.VerifyReport
	var err error
	switch {
	case root == "" && what == "":
		return output.Errorf(output.Usage, "verify what?").WithHint("name a run or a data set, or give --root")
	case root == "":
		report, err = a.verifyOnServer(ctx, what)
	default:
		_, ledger, openErr := a.openDataset(ctx, datasetRef{root}, "")
		if openErr != nil {
			return openErr
		}
		report, err = ledger.Verify(ctx, what)
	}
	if printErr := a.printVerify(report); printErr != nil {
		return printErr
	}
	return err
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
		rows.Add("problems", len(report.Problems))
		for _, p := range report.Problems {
			rows.Add(p.Kind, p.Path, p.Detail)
		}
		return rows
	})
}
