package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

// planFlags are what plan, run and replay share.
type planFlags struct {
	rng       string
	window    string
	scan      bool
	acceptGap string
}

func (f *planFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.rng, "range", "", "load this `RANGE` only, such as orders/3=1200..9800")
	c.Flags().StringVar(&f.window, "window", "", "the ticks due in `START..END` with the offsets they would take")
	c.Flags().StringVar(&f.acceptGap, "accept-gap", "", "go on although offsets are gone or left out; `REASON` goes into the ledger")
}

// planFile is what `plan -o json` prints and `run --plan` reads.
type planFile struct {
	Sawlog  string          `json:"sawlog"` // "plan/1"
	ID      string          `json:"id"`
	Root    string          `json:"root"`
	Brokers []string        `json:"brokers"`
	HDFS    sink.Access     `json:"hdfs,omitzero"`    // how a root there is reached
	Engine  string          `json:"engine,omitempty"` // of the job, where that is not local
	Preview *loader.Preview `json:"preview"`
	Plan    *loader.Plan    `json:"plan"`
}

const planFileKind = "plan/1"

func (a *app) plan() *cobra.Command {
	f := planFlags{}
	c := &cobra.Command{
		Use: "plan FILE|JOB", Short: "Say what a run would do", Args: cobra.ExactArgs(1),
		Long: `Say what a run of a job file, or of a job on the server, would do: exact ranges
and splits, rows as an upper bound, hours and sizes estimated; --scan reads the
log and is exact: it adds the rows of each hour, bad records and new columns.
Fields that the job names and no record looked at has are warned of. Nothing is
written. -o json prints a plan that run --plan carries out.`,
		Example: "  sawlog plan pageviews.yaml\n  sawlog plan pageviews.yaml --range 'pageviews/0=0..40' -o json > plan.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := args[0]
			if !isFile(ref) {
				return a.planOnServer(cmd.Context(), ref, f)
			}
			job, err := readJob(ref)
			if err != nil {
				return err
			}
			targets, err := a.targets(cmd.Context(), job)
			if err != nil {
				return err
			}
			if f.window != "" {
				return output.Errorf(output.Usage, "--window needs a job on the server, or run FILE --window")
			}
			var files []planFile
			for _, t := range targets {
				pf, err := a.planTarget(cmd.Context(), t, f, loader.PlanAsk{})
				if err != nil {
					return err
				}
				files = append(files, *pf)
			}
			return a.printPlans(files)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.scan, "scan", false, "read the log, so that rows, hours and columns are exact")
	return c
}

func (a *app) printPlans(files []planFile) error {
	var v any = files
	if len(files) == 1 {
		v = files[0]
	}
	a.notePlans(files)
	return a.print.Print(v, func() *output.Rows {
		rows := &output.Rows{}
		for _, f := range files {
			p := f.Preview
			rows.Add("plan", p.Plan)
			rows.Add("status", p.Status)
			rows.Add("root", f.Root)
			rows.Add("rows", p.Rows, strings.ReplaceAll(p.RowsAre, "_", " "))
			if p.Exact {
				rows.Add("quarantined", p.Bad)
				rows.Add("skipped", p.Skipped)
			}
			rows.Add("bytes", p.Bytes, p.BytesAre)
			rows.Add("splits", len(p.Splits))
			for _, c := range p.Columns {
				rows.Add("new column", c)
			}
			rows.Add("PARTITION", "START", "END", "GAP")
			for _, r := range p.Ranges {
				rows.Add(fmt.Sprintf("%s/%d", r.Topic, r.Partition), r.Start, r.End, r.Gap)
			}
			if len(p.Hours) > 0 {
				rows.Add("HOUR", "ROWS", p.HoursAre)
			}
			for i, h := range p.Hours {
				if i == 48 && len(p.Hours) > 60 {
					rows.Add(fmt.Sprintf("… and %d hours more (-o json shows all)", len(p.Hours)-i))
					break
				}
				if h.Rows == nil {
					rows.Add(h.Hour, "—")
					continue
				}
				rows.Add(h.Hour, *h.Rows)
			}
		}
		return rows
	})
}

// notePlans says what of plans is to be looked at, and what of them isn't known.
func (a *app) notePlans(files []planFile) {
	guessed := false
	for _, f := range files {
		for _, w := range f.Preview.Warnings {
			a.print.Note("warning: %s", w)
		}
		guessed = guessed || !f.Preview.Exact && len(f.Preview.Hours) > 0
	}
	if guessed && a.print.Format == output.Table {
		a.print.Note("hours are estimated from a few records of each partition; plan --scan reads them all: rows of each hour, bad records, new columns")
	}
}

// ask turns the flags into what the loader is asked.
func (f planFlags) ask(ask loader.PlanAsk) (loader.PlanAsk, error) {
	ask.Scan, ask.AcceptGap, ask.By = f.scan, f.acceptGap, whoami()
	if f.rng != "" {
		q, err := offsets.ParseQuery(f.rng, time.Now())
		if err != nil {
			return ask, output.Errorf(output.Usage, "--range %s", strings.TrimPrefix(err.Error(), "range "))
		}
		ask.Bounds = &q
	}
	return ask, nil
}

func (a *app) planTarget(ctx context.Context, t target, f planFlags, ask loader.PlanAsk) (*planFile, error) {
	ask, err := f.ask(ask)
	if err != nil {
		return nil, err
	}
	d, closeDriver, err := openDriver(ctx, t.root, t.access, t.source, a.logger())
	if err != nil {
		return nil, err
	}
	defer closeDriver()
	plan, preview, err := d.Plan(ctx, t.spec, ask)
	if err != nil {
		return nil, err
	}
	file := &planFile{Sawlog: planFileKind, ID: preview.Plan, Root: t.root, Brokers: t.source.Brokers, HDFS: t.access, Preview: preview, Plan: plan}
	if file.HDFS.Patience = 0; t.run != nil && t.run.Engine != jobs.EngineLocal {
		file.Engine = t.run.Engine
	}
	return file, nil
}

// readPlanFile reads what `plan -o json` printed.
func readPlanFile(path string) (*planFile, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notThere(err)
	}
	if err != nil {
		return nil, err
	}
	var f planFile
	if json.Unmarshal(raw, &f) != nil || f.Sawlog != planFileKind || f.Plan == nil {
		return nil, output.Errorf(output.Usage, "%s is no plan file, or is not whole", path).WithHint("sawlog plan JOB.yaml -o json > plan.json")
	}
	if id := loader.PlanID(f.Plan); id != f.ID {
		return nil, output.Errorf(output.Mismatch, "%s: the plan in it hashes to %s, but it says %s: it was changed or cut off", path, id, f.ID).WithHint("make it again: sawlog plan JOB.yaml -o json > plan.json")
	}
	return &f, nil
}
