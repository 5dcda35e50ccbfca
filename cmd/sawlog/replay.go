package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sawlog/cmd/sawlog/output"
	"sawlog/formats"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// replayFlags say how the records of an ad-hoc range become rows.
type replayFlags struct {
	to         string
	value      string
	pattern    string
	columns    []string
	delimiter  string
	skipHeader bool
	time       string
	timeFormat string
	zone       string
	unit       string
	codec      string
	metadata   []string
}

func (a *app) replay() *cobra.Command {
	p, f, r := planFlags{}, runFlags{}, replayFlags{}
	rules := pflag.NewFlagSet("rules", pflag.ContinueOnError) // how records become rows
	c := &cobra.Command{
		Use: "replay TOPIC --range RANGE --to URI", Short: "Load a range into a data set of its own", Args: cobra.ExactArgs(1),
		Long: `Load a range of a topic into a data set of its own, whatever was loaded of it
elsewhere. The same range may be replayed into the same root again: it is then
"covered". Carried out in this process, by the engine of --job where that names
one. With --decode job records become rows as that job has it, and its columns,
time, folders and format are those of the data set, too: so Avro and Protobuf are
replayed.`,
		Example: "  sawlog replay orders --range 'orders/3=1200..9800' --to file:///tmp/replay\n  sawlog replay rides --range earliest..latest --to /tmp/rides --decode csv --columns pickup,fare --time pickup --time-format '%Y-%m-%d %H:%M:%S'\n  sawlog replay pageviews --range earliest..latest --to /tmp/again --decode job --job pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.rng == "" || r.to == "" {
				return output.Errorf(output.Usage, "--range and --to are needed").WithHint("%s", cmd.UseLine())
			}
			var job *jobs.Spec
			var err error
			if f.job != "" {
				if job, err = readJob(f.job); err != nil {
					return err
				}
			}
			var spec *loader.Spec
			if r.value == asJob {
				spec, err = r.specOfJob(rules, args[0], job)
			} else {
				spec, err = r.spec(args[0])
			}
			if err != nil {
				return err
			}
			t, err := a.replayTarget(spec, job, f)
			if err != nil {
				return err
			}
			return a.runReplay(cmd.Context(), t, p, f)
		},
	}
	c.Flags().StringVar(&p.rng, "range", "", "the `RANGE`, such as orders/3=1200..9800 or @-2h..+1h")
	c.Flags().StringVar(&p.acceptGap, "accept-gap", "", "go on although offsets are gone; `REASON` goes into the ledger")
	c.Flags().StringVar(&r.to, "to", "", "root `URI` or path of the new data set")
	c.Flags().StringVar(&r.value, "decode", "json", "json, csv, text or raw; job = as the job of --job does")
	rules.StringVar(&r.pattern, "pattern", "", "text: an `EXPRESSION` whose named groups are the columns, or common, combined or syslog")
	rules.StringSliceVar(&r.columns, "columns", nil, "csv: the columns in order")
	rules.StringVar(&r.delimiter, "delimiter", "", "csv: what separates fields")
	rules.BoolVar(&r.skipHeader, "skip-header", false, "csv: skip records equal to the column list")
	rules.StringVar(&r.time, "time", "_timestamp", "the `FIELD` that holds the event time")
	rules.StringVar(&r.timeFormat, "time-format", "rfc3339", "rfc3339, epoch_s, epoch_ms, epoch_us, epoch_ns or strptime letters")
	rules.StringVar(&r.zone, "zone", "UTC", "zone of times without one")
	rules.StringVar(&r.unit, "unit", "hour", "folders by hour or by day")
	rules.StringVar(&r.codec, "codec", "zstd", "zstd, snappy, gzip or none")
	rules.StringSliceVar(&r.metadata, "metadata", []string{"_partition", "_offset"}, "metadata columns")
	c.Flags().AddFlagSet(rules)
	f.add(c)
	c.Flags().StringVar(&f.job, "job", "", "engine, brokers, limits and HDFS settings of this job `FILE`; with --decode job all but its root")
	f.store.add(c)
	return c
}

// asJob is the --decode of records that become rows as a job file says.
const asJob = "job"

// specOfJob is the work of a job on one topic, with a data set of its own; no flag
// may say what the job does.
func (r replayFlags) specOfJob(rules *pflag.FlagSet, topic string, job *jobs.Spec) (_ *loader.Spec, err error) {
	rules.VisitAll(func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = output.Errorf(output.Usage, "--decode job excludes --%s: the job file says it", f.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	if job == nil {
		return nil, output.Errorf(output.Usage, "--decode job is for --job FILE: none is given")
	}
	root, err := rootURI(r.to)
	if err != nil {
		return nil, err
	}
	spec, err := job.Load(topic, time.Now())
	if err != nil {
		return nil, err
	}
	spec.Name, spec.Root, spec.MergeTopics, spec.Hold = "replay."+topic, root, false, 0
	spec.Dataset = spec.Name
	return spec, cmp.Or(spec.Validate(), spec.CheckNames())
}

// replayTarget is how a replay is carried out: as the job says, if there is one.
func (a *app) replayTarget(spec *loader.Spec, job *jobs.Spec, f runFlags) (target, error) {
	t := target{spec: spec, root: spec.Root, access: a.reach(sink.Access{}), source: a.source()}
	if job != nil {
		t.access, t.source, t.run = a.reach(job.Output.Access), sourceOf(job.Source, a.brokers, a.timeout), &job.Run
		spec.Parallelism, spec.Memory, spec.Rate = job.Run.Parallelism, job.Run.Memory, job.Run.Rate
		spec.Retries, spec.Timeout = job.Run.Retries, job.Run.Timeout
	}
	var err error
	t.access, err = f.store.over(t.access)
	return t, err
}

func (r replayFlags) spec(topic string) (*loader.Spec, error) {
	root, err := rootURI(r.to)
	if err != nil {
		return nil, err
	}
	name := "replay." + topic
	spec := &loader.Spec{
		Name: name, Dataset: name, Topics: []string{topic}, Root: root, Unit: r.unit, Codec: r.codec,
		Decode: formats.Options{
			Value: r.value, Pattern: formats.PatternText(r.pattern), Columns: r.columns, Delimiter: r.delimiter, SkipHeader: r.skipHeader, OnBad: "quarantine",
			Time: formats.TimeOptions{
				Field: []string{r.time}, Format: r.timeFormat, Zone: r.zone,
				PlausibleFrom: new(formats.Instant(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())),
				PlausibleTo:   new(formats.Instant(time.Now().Add(24 * time.Hour).UnixMicro())),
			},
			Metadata: r.metadata,
		},
	}
	if r.value == "avro" || r.value == "protobuf" {
		return nil, output.Errorf(output.Usage, "--decode %s: its schema stands in a job file", r.value).WithHint("--decode job --job FILE, with decode: {value: %s, schema: FILE} or registry: URL in it", r.value)
	}
	if err := spec.Decode.Validate(); err != nil {
		return nil, &output.Error{Code: output.Usage, Err: err}
	}
	return spec, cmp.Or(spec.Validate(), spec.CheckNames())
}

func (a *app) runReplay(ctx context.Context, t target, p planFlags, f runFlags) error {
	if f.dryRun {
		file, err := a.planTarget(ctx, t, p, loader.PlanAsk{Replay: true})
		if err != nil {
			return err
		}
		return a.printPlans([]planFile{*file})
	}
	ask, err := p.ask(loader.PlanAsk{Replay: true})
	if err != nil {
		return err
	}
	return a.ran(a.runTarget(ctx, t, ask, f))
}
