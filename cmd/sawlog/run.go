package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
)

// runFlags bound how a run is carried out; none of them changes a byte.
type runFlags struct {
	parallelism int
	memory      string
	fetchBytes  string
	acceptBad   bool
	wait        bool
	dryRun      bool
	planPath    string
	root        string
	job         string
	store       storeFlags
}

func (f *runFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.parallelism, "parallelism", 0, "tasks at a time; 0 = as the job says, or cores")
	c.Flags().StringVar(&f.memory, "memory", "", "memory of all tasks together, such as 512MiB")
	c.Flags().StringVar(&f.fetchBytes, "fetch-bytes", "", "bytes of one fetch, such as 4MiB")
	c.Flags().BoolVar(&f.acceptBad, "accept-bad", false, "commit although more records are bad than max_bad allows")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, as plan does")
}

// ask joins the flags with what the job says.
func (f runFlags) ask(spec *loader.Spec, run string) (loader.RunAsk, error) {
	ask := loader.RunAsk{Run: run, AcceptBad: f.acceptBad}
	if spec != nil {
		ask.Parallelism, ask.Memory, ask.FetchBytes = spec.Parallelism, spec.Memory, spec.FetchBytes
		ask.Retries, ask.Timeout, ask.Rate, ask.Hold = spec.Retries, spec.Timeout, spec.Rate, spec.Hold
	}
	if f.parallelism < 0 {
		return ask, output.Errorf(output.Usage, "--parallelism %d: want 0 or more", f.parallelism)
	}
	if f.parallelism > 0 {
		ask.Parallelism = f.parallelism
	}
	if f.memory != "" {
		n, err := jobs.ParseSize(f.memory)
		if err != nil || n <= 0 {
			return ask, output.Errorf(output.Usage, "--memory %q: want a size such as 512MiB", f.memory)
		}
		ask.Memory = n
	}
	if f.fetchBytes != "" {
		n, err := jobs.ParseSize(f.fetchBytes)
		if err != nil || n <= 0 || n > 1<<30 {
			return ask, output.Errorf(output.Usage, "--fetch-bytes %q: want a size up to 1GiB, such as 4MiB", f.fetchBytes)
		}
		ask.FetchBytes = int(n)
	}
	return ask, nil
}

func (a *app) run() *cobra.Command {
	p, f := planFlags{}, runFlags{}
	c := &cobra.Command{
		Use: "run FILE|JOB", Short: "Load what is due", Args: cobra.MaximumNArgs(1),
		Long: `Load what a job's data set does not hold yet. With a FILE, or --plan, the run is
carried out in this process (for cron, Airflow); with a JOB, on the server. When
nothing is left to load the status is "covered" and the exit code 0.

A plan names its root, brokers and how HDFS is reached; --job FILE adds what is
in no plan: the engine, limits, SASL and TLS of the job it was made for.`,
		Example: "  sawlog run pageviews.yaml -o json\n  sawlog run pageviews-hourly --wait\n  sawlog run --plan plan.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.planPath != "") == (len(args) > 0) {
				return output.Errorf(output.Usage, "run wants a FILE, a JOB or --plan FILE, one of them").WithHint("%s", cmd.UseLine())
			}
			way := runOfFile
			switch {
			case f.planPath != "":
				way = runOfPlan
			case !isFile(args[0]):
				way = runOfJob
			}
			if err := way.takes(cmd.Flags()); err != nil {
				return err
			}
			switch {
			case f.planPath != "":
				return a.runPlan(cmd.Context(), f)
			case !isFile(args[0]):
				return a.runOnServer(cmd.Context(), args[0], p, f)
			}
			return a.runFile(cmd.Context(), args[0], p, f)
		},
	}
	p.add(c)
	f.add(c)
	c.Flags().BoolVar(&f.wait, "wait", false, "with a JOB: wait until the run has ended")
	c.Flags().StringVar(&f.planPath, "plan", "", "carry out this plan `FILE`, as plan -o json printed it")
	c.Flags().StringVar(&f.root, "root", "", "with --plan: load into this root instead")
	c.Flags().StringVar(&f.job, "job", "", "with --plan: engine, brokers, limits and HDFS settings of this job `FILE`")
	f.store.add(c)
	return c
}

// runWay is what run is given to carry out.
type runWay string

const (
	runOfFile runWay = "a FILE"
	runOfJob  runWay = "a JOB"
	runOfPlan runWay = "--plan"
)

// runFlagUse says where flags of run have no place, and what has instead.
var runFlagUse = []struct {
	flags []string
	not   []runWay
	say   string
}{
	{[]string{"root", "job"}, []runWay{runOfFile, runOfJob}, "it says how a plan is carried out and needs --plan"},
	{[]string{"range", "window", "accept-gap"}, []runWay{runOfPlan}, "a plan says what is loaded; give it to sawlog plan"},
	{[]string{"parallelism", "memory", "fetch-bytes"}, []runWay{runOfJob}, "a JOB's are under run: of its file; sawlog job get JOB shows it, job apply FILE changes it"},
	{[]string{"accept-bad"}, []runWay{runOfJob}, "sawlog runs retry RUN --accept-bad commits a run that has ended with too many bad records"},
	{[]string{"hdfs-namenodes", "hdfs-user", "hdfs-keytab", "hdfs-principal"}, []runWay{runOfJob}, "a JOB's are under output.hdfs of its file"},
}

// takes refuses flags that would not be looked at.
func (w runWay) takes(flags *pflag.FlagSet) error {
	for _, use := range runFlagUse {
		for _, name := range use.flags {
			if flags.Changed(name) && slices.Contains(use.not, w) {
				return output.Errorf(output.Usage, "--%s is not for %s: %s", name, w, use.say)
			}
		}
	}
	if flags.Changed("range") && flags.Changed("window") {
		return output.Errorf(output.Usage, "--range and --window: want one of the two")
	}
	return nil
}

func (a *app) runFile(ctx context.Context, path string, p planFlags, f runFlags) error {
	job, err := readJob(path)
	if err != nil {
		return err
	}
	targets, err := a.targets(ctx, job)
	if err != nil {
		return err
	}
	for i := range targets {
		if targets[i].access, err = f.store.over(targets[i].access); err != nil {
			return err
		}
	}
	if p.window != "" {
		return a.runWindow(ctx, job, targets, p, f)
	}
	if f.dryRun {
		var files []planFile
		for _, t := range targets {
			pf, err := a.planTarget(ctx, t, p, loader.PlanAsk{})
			if err != nil {
				return err
			}
			files = append(files, *pf)
		}
		return a.printPlans(files)
	}
	var outcomes []*loader.Outcome
	var failed error
	for _, t := range targets {
		ask, err := p.ask(loader.PlanAsk{})
		if err != nil {
			return err
		}
		outcome, err := a.runTarget(ctx, t, ask, f)
		if outcome != nil {
			outcomes = append(outcomes, outcome)
		}
		if err != nil {
			failed = err
			break
		}
	}
	if err := a.printOutcomes(outcomes); err != nil {
		return err
	}
	return failed
}

// runWindow carries out the ticks due in a window one after the other, each
// with the offsets it would have taken.
func (a *app) runWindow(ctx context.Context, job *jobs.Spec, targets []target, p planFlags, f runFlags) error {
	if job.Schedule == nil {
		return output.Errorf(output.Usage, "job %s has no schedule: --window names its ticks", job.Name).WithHint("--range START..END")
	}
	from, to, err := parseWindow(p.window)
	if err != nil {
		return err
	}
	ticks := job.Schedule.Ticks(from, to, 10_000)
	if len(ticks) == 0 {
		a.print.Note("no tick of %s is due in [%s, %s)", job.Name, from.Format(time.RFC3339), to.Format(time.RFC3339))
		return a.print.Print([]loader.Outcome{}, func() *output.Rows { return &output.Rows{} })
	}
	if f.dryRun {
		return a.previewTicks(ctx, targets, ticks, p.acceptGap)
	}
	var outcomes []*loader.Outcome
	for _, tick := range ticks {
		for _, t := range targets {
			outcome, err := a.runTarget(ctx, t, loader.PlanAsk{Tick: tick, AcceptGap: p.acceptGap, By: whoami()}, f)
			if outcome != nil {
				outcomes = append(outcomes, outcome)
			}
			if err != nil {
				if printErr := a.printOutcomes(outcomes); printErr != nil {
					return printErr
				}
				return err
			}
		}
	}
	return a.printOutcomes(outcomes)
}

func (a *app) runTarget(ctx context.Context, t target, ask loader.PlanAsk, f runFlags) (*loader.Outcome, error) {
	run, err := f.ask(t.spec, newRunID(t.spec.Name, time.Now()))
	if err != nil {
		return nil, err
	}
	d, closeDriver, err := a.openTarget(ctx, t)
	if err != nil {
		return nil, err
	}
	defer closeDriver()
	bars := a.newProgress()
	defer bars.done()
	d.Observe = bars.observe
	if !ask.Tick.IsZero() {
		if ask.UpTo, err = boundOf(ctx, d.Cluster, t.spec, ask.Tick); err != nil {
			return nil, err
		}
	}
	plan, preview, err := d.Plan(ctx, t.spec, ask)
	if err != nil {
		return nil, err
	}
	for _, w := range preview.Warnings {
		bars.note("warning: %s", w)
	}
	outcome, err := d.Run(ctx, plan, run)
	bars.noteBad(outcome, t.root)
	return outcome, err
}

func (a *app) runPlan(ctx context.Context, f runFlags) error {
	file, err := readPlanFile(f.planPath)
	if err != nil {
		return err
	}
	if f.root != "" {
		if file.Root, err = rootURI(f.root); err != nil {
			return err
		}
	}
	t, err := a.planned(file, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.previewPlan(ctx, file, t)
	}
	ask, err := f.ask(t.spec, newRunID(file.Plan.Job, time.Now()))
	if err != nil {
		return err
	}
	d, closeDriver, err := a.openTarget(ctx, t)
	if err != nil {
		return err
	}
	defer closeDriver()
	bars := a.newProgress()
	d.Observe = bars.observe
	outcome, err := d.Run(ctx, file.Plan, ask)
	bars.noteBad(outcome, t.root)
	bars.done()
	return a.ran(outcome, err)
}

// previewPlan says what is left to do of a plan under the root it is for.
func (a *app) previewPlan(ctx context.Context, file *planFile, t target) error {
	store, err := openSink(ctx, t.root, t.access)
	if err != nil {
		return err
	}
	ledger, err := loader.OpenLedger(ctx, store, file.Plan.Dataset, file.Plan.Job, loader.LedgerConfig{Logger: a.logger()})
	if err != nil {
		return err
	}
	done, err := ledger.Accepts(ctx, file.Plan)
	if err != nil {
		return err
	}
	if done {
		file.Preview.Status = loader.PreviewCovered
	}
	return a.printPlans([]planFile{*file})
}

// planned is how a plan file is carried out: as its job says, where that is known,
// else as the file does.
func (a *app) planned(file *planFile, f runFlags) (target, error) {
	t := target{access: a.reach(file.HDFS), source: consumer.Config{Brokers: a.brokersOr(file.Brokers), Timeout: a.timeout}}
	var err error
	if f.job != "" {
		if t, err = a.targetOf(f.job, file.Plan.Dataset); err != nil {
			return t, err
		}
		if len(file.Brokers) > 0 {
			t.source.Brokers = file.Brokers
		}
	} else if file.Engine != "" {
		a.print.Note("tasks run on this machine; the job has them run on %s: --job FILE does that", file.Engine)
	}
	t.root = file.Root
	t.access, err = f.store.over(t.access)
	return t, err
}

// ran prints how a run ended, also one that failed, and gives its error back.
func (a *app) ran(outcome *loader.Outcome, err error) error {
	if outcome == nil {
		return err
	}
	return cmp.Or(a.printOutcomes([]*loader.Outcome{outcome}), err)
}

// printOutcomes prints one run as an object, several as a list.
func (a *app) printOutcomes(list []*loader.Outcome) error {
	var v any = list
	switch len(list) {
	case 0:
		return nil
	case 1:
		v = list[0]
	}
	for _, o := range list {
		if len(o.Drift) > 0 {
			a.print.Note("%s: records in quarantine do not fit their columns: %s", o.Run, o.Drift[0].WayOut(o.Job, o.Run))
		}
	}
	return a.print.Print(v, func() *output.Rows {
		rows := &output.Rows{}
		for _, o := range list {
			rows.Add("run", o.Run)
			rows.Add("status", o.Status)
			rows.Add("rows", o.Rows)
			rows.Add("quarantined", o.Quarantined)
			rows.Add("skipped", o.Skipped)
			rows.Add("files", o.Files)
			rows.Add("bytes", o.Bytes)
			for _, r := range o.Ranges {
				rows.Add(fmt.Sprintf("%s/%d", r.Topic, r.Partition), fmt.Sprintf("%d..%d", r.Start, r.End))
			}
			for _, d := range o.Drift {
				rows.Add("drift", fmt.Sprintf("column %s is %s", d.Column, d.Type), "seen "+d.Seen, d.Records)
			}
			for _, c := range o.NewColumns {
				rows.Add("new column", c.Name, c.Type)
			}
			for i, h := range o.Hours {
				if i == 48 && len(o.Hours) > 60 {
					rows.Add(fmt.Sprintf("… and %d hours more (-o json shows all)", len(o.Hours)-i))
					break
				}
				line := []any{h.Hour, h.Rows}
				if h.Late > 0 {
					line = append(line, fmt.Sprintf("%d late", h.Late))
				}
				rows.Add(line...)
			}
		}
		return rows
	})
}
