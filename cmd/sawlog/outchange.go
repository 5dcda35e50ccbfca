package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

// hourWindow reads --window of a data set's hours; without it all are meant.
func hourWindow(text string) (*loader.HourSpan, error) {
	if text == "" {
		return nil, nil
	}
	start, end, err := parseWindow(text)
	if err == nil && !start.Before(end) {
		err = output.Errorf(output.Usage, "--window %q holds no hour", text)
	}
	return &loader.HourSpan{From: start.Unix(), To: end.Unix()}, err
}

// changeOptions says who changes a data set.
func changeOptions(why string) loader.CommitOptions {
	return loader.CommitOptions{By: whoami(), Why: why}
}

func (a *app) outDrop() *cobra.Command {
	ref := datasetRef{}
	var window, run, why string
	var dryRun bool
	c := &cobra.Command{
		Use: "drop [DATASET] --window START..END | --run RUN [--window START..END]", Short: "Take files back: no reader sees them again", Args: cobra.MaximumNArgs(1),
		Long: `Take back the files of the hours in a window, or all that a run brought, or what
it brought to the hours of a window. Files that are lost, and that the log no
longer gives, are given up so, too. The ledger keeps what was dropped and why; the
bytes wait under _sawlog/retired for a week, then a run sweeps them; they may be
deleted there before. The offsets stay loaded, so no run brings the rows back by
itself: backfill --only all, or rerun --with-current-job, does.`,
		Example: "  sawlog out drop pageviews-hourly --window 2026-11-29T14..2026-11-29T15 --why 'test data' --dry-run\n  sawlog out drop --root /warehouse/pageviews --run RUN --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if window == "" && run == "" {
				return output.Errorf(output.Usage, "--window, --run, or both say what to drop").WithHint("%s", cmd.UseLine())
			}
			ask := loader.DropAsk{Of: run, DryRun: dryRun}
			var err error
			if ask.Hours, err = hourWindow(window); err != nil {
				return err
			}
			_, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args))
			if err != nil {
				return err
			}
			return a.drop(cmd.Context(), ledger, ask, why)
		},
	}
	ref.add(c)
	c.Flags().StringVar(&window, "window", "", "the hours `START..END`, such as 2026-11-29T14..2026-11-29T15")
	c.Flags().StringVar(&run, "run", "", "files of this `RUN`; without --window its quarantined records, too")
	c.Flags().StringVar(&why, "why", "", "a `REASON` for the ledger")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list the files")
	return c
}

func (a *app) drop(ctx context.Context, ledger *loader.Ledger, ask loader.DropAsk, why string) error {
	id := newRunID(ledger.Fold().Job, time.Now())
	shown := ask
	shown.DryRun = true
	_, files, err := ledger.Drop(ctx, id, shown, changeOptions(why))
	if err == nil && !ask.DryRun {
		var rowCount int64
		for _, f := range files {
			rowCount += f.Rows
		}
		if err = a.confirm("drop " + strconv.Itoa(len(files)) + " files of " + strconv.FormatInt(rowCount, 10) + " rows from data set " + ledger.Fold().Dataset); err != nil {
			return err
		}
		var rec *loader.Record
		if rec, files, err = ledger.Drop(ctx, id, ask, changeOptions(why)); err == nil {
			a.print.Note("record %d dropped them", rec.Number)
		}
	}
	if err != nil {
		return err
	}
	return a.printFiles(files)
}

func (a *app) outChanges() *cobra.Command {
	ref := datasetRef{}
	var since int64
	c := &cobra.Command{
		Use: "changes [DATASET] [--since N]", Short: "Tell what each ledger record changed", Args: cobra.MaximumNArgs(1),
		Long: `Tell, a line a ledger record, which files came, went or got other bytes, which
hours that touched or sealed, and the offsets loaded. A reader keeps the last
number it took in and asks --since it: what comes is each later record, in
order, once.`,
		Example: "  sawlog out changes pageviews-hourly --since 2 -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args))
			if err != nil {
				return err
			}
			if a.print.Format != output.Table {
				a.print.Stream()
				return ledger.Changes(cmd.Context(), since, func(ch *loader.Change) error { return a.print.Line(ch, "") })
			}
			var list []*loader.Change
			err = ledger.Changes(cmd.Context(), since, func(ch *loader.Change) error {
				list = append(list, ch)
				return nil
			})
			if err != nil {
				return err
			}
			return a.print.Print(nil, func() *output.Rows { return changeRows(list) })
		},
	}
	ref.add(c)
	c.Flags().Int64Var(&since, "since", -1, "records after this `NUMBER` only")
	return c
}

func changeRows(list []*loader.Change) *output.Rows {
	rows := &output.Rows{Head: []string{"NUMBER", "KIND", "AT", "RUN", "ADDED", "RETIRED", "AMENDED", "HOURS", "SEALED"}}
	for _, ch := range list {
		hours := strings.Join(ch.Hours[:min(len(ch.Hours), 3)], " ")
		if n := len(ch.Hours) - 3; n > 0 {
			hours += " and " + strconv.Itoa(n) + " more"
		}
		rows.Add(ch.Number, ch.Kind, ch.At, ch.Run, len(ch.Added), len(ch.Retired), len(ch.Amended), hours, len(ch.Sealed))
	}
	return rows
}
