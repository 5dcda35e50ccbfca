package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

func (a *app) topicTrim() *cobra.Command {
	var to, partitions string
	var dryRun bool
	c := &cobra.Command{
		Use: "trim TOPIC --to BOUND", Short: "Delete a topic's oldest records", Args: cobra.ExactArgs(1),
		Long:    "Delete the records before a bound, for good: the log of each partition starts\nthere from then on. BOUND is latest, N, -N (before the end) or @TIME.",
		Example: "  sawlog topic trim orders --to @-7d --dry-run\n  sawlog topic trim orders --partition 0-3 --to 50 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return output.Errorf(output.Usage, "--to is needed").WithHint("%s", cmd.Example)
			}
			text := args[0]
			if partitions != "" {
				text += "/" + partitions
			}
			q, err := offsets.ParseQuery(text+"=earliest.."+to, time.Now())
			if err != nil || q.End.Kind == offsets.PlusOffsets {
				return output.Errorf(output.Usage, "%s --to %s: want TOPIC, partitions as N, N-M or a list of them, and latest, N, -N or @TIME", text, to)
			}
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			return a.trim(cmd.Context(), k, q, dryRun)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the first record to keep: latest, N, -N or @TIME")
	c.Flags().StringVar(&partitions, "partition", "", "only these `PARTITIONS`: N, N-M or a list of them")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted")
	return c
}

// trimmed is what became of one partition.
type trimmed struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // log start before
	To        int64  `json:"to"`   // log start after
	DryRun    bool   `json:"dry_run"`
}

func (a *app) trim(ctx context.Context, k *kafka, q offsets.Query, dryRun bool) error {
	ranges, err := k.resolveQuery(ctx, q.Topic, q)
	if err != nil {
		return err
	}
	done := []trimmed{}
	for _, p := range slices.Sorted(maps.Keys(ranges)) {
		r := ranges[p]
		done = append(done, trimmed{q.Topic, p, int64(r.Start), int64(max(r.Start, r.End)), dryRun})
	}
	if err := a.warnOfHolds(ctx, k, q.Topic, done); err != nil {
		return err
	}
	var failed error
	if !dryRun {
		if err := a.confirm("delete the oldest records of " + q.Topic); err != nil {
			return err
		}
		below := map[int32]int64{}
		for _, d := range done {
			below[d.Partition] = d.To
		}
		starts, err := admin.DeleteRecords(ctx, k, q.Topic, below)
		if errors.Is(err, kerr.PolicyViolation) {
			return &output.Error{Code: output.Usage, Err: err, Hint: "sawlog topic alter " + q.Topic + " --config cleanup.policy=compact,delete allows both"}
		}
		failed = deed(err, "sawlog topic offsets "+q.Topic+" shows where the logs start now")
		done = slices.DeleteFunc(done, func(d trimmed) bool { _, is := starts[d.Partition]; return !is })
		for i := range done {
			done[i].To = starts[done[i].Partition]
		}
	}
	return a.printDone(len(done), failed, done, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TOPIC", "PARTITION", "START", "NEW START", "RECORDS≤"}}
		for _, d := range done {
			rows.Add(d.Topic, d.Partition, d.From, d.To, d.To-d.From)
		}
		return rows
	})
}

// warnOfHolds says which load jobs have not read all that is to be deleted.
func (a *app) warnOfHolds(ctx context.Context, k *kafka, topic string, done []trimmed) error {
	configs, err := k.topicConfigs(ctx, topic, false)
	if err != nil {
		return err
	}
	for _, c := range configs {
		for _, h := range consumer.HeldBy(c.Name, c.Value) {
			i := slices.IndexFunc(done, func(d trimmed) bool { return d.Partition == h.Partition })
			if i >= 0 && done[i].To > int64(h.From) {
				a.print.Note("job %s has not loaded %s/%d beyond offset %d: what is deleted above is lost to it", h.Job, topic, h.Partition, h.From)
			}
		}
	}
	return nil
}
