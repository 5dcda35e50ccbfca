package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

type configLine struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

type topicDescription struct {
	topicLine
	List    []partitionLine `json:"partition_list"`
	Configs []configLine    `json:"configs"`
}

func (a *app) topicDescribe() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "describe NAME", Short: "Show a topic's partitions and configs", Args: cobra.ExactArgs(1),
		Example: "  sawlog topic describe orders -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			topics, err := admin.Topics(cmd.Context(), k, args[0])
			if err != nil {
				return err
			}
			d := topicDescription{topicLine: describeLine(&topics[0])}
			if d.List, err = a.partitions(cmd, k, args[0]); err != nil {
				return err
			}
			if d.Configs, err = k.topicConfigs(cmd.Context(), args[0], all); err != nil {
				return err
			}
			return a.print.Print(d, d.rows)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show configs left at their default too")
	return c
}

func (d topicDescription) rows() *output.Rows {
	rows := &output.Rows{}
	rows.Add("topic", d.Name)
	rows.Add("id", d.ID)
	rows.Add("partitions", d.Partitions)
	rows.Add("replicas", d.Replicas)
	for _, c := range d.Configs {
		rows.Add(c.Name, c.Value, c.Source)
	}
	rows.Add("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END")
	for _, p := range d.List {
		rows.Add(p.Partition, p.Leader, p.Epoch, p.Replicas, p.ISR, p.Start, p.End)
	}
	return rows
}

// topicConfigs lists a topic's configs by name: those that were set, or all.
func (k *kafka) topicConfigs(ctx context.Context, topic string, all bool) ([]configLine, error) {
	configs, err := admin.Configs(ctx, k, kmsg.ConfigResourceTypeTopic, []string{topic}, nil)
	if err != nil {
		return nil, err
	}
	lines := []configLine{}
	for _, c := range configs[topic] {
		if all || c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			lines = append(lines, configLine{c.Name, c.Value, c.Source.String()})
		}
	}
	return lines, nil
}

func (a *app) topicAlter() *cobra.Command {
	var partitions int32
	var set, unset []string
	var dryRun bool
	c := &cobra.Command{
		Use: "alter NAME", Short: "Change a topic's configs, or add partitions", Args: cobra.ExactArgs(1),
		Example: "  sawlog topic alter orders --config retention.ms=-1\n  sawlog topic alter orders --partitions 12",
		RunE: func(cmd *cobra.Command, args []string) error {
			pairs, err := keyValues("--config", set)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("partitions") && partitions < 1 {
				return output.Errorf(output.Usage, "--partitions %d: want 1 or more", partitions)
			}
			if partitions == 0 && len(pairs) == 0 && len(unset) == 0 {
				return output.Errorf(output.Usage, "nothing to change").WithHint("--config KEY=VALUE, --unset KEY or --partitions N")
			}
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if _, err := admin.Topics(cmd.Context(), k, args[0]); err != nil {
				return err
			}
			look := "sawlog topic describe " + args[0]
			if partitions != 0 { // before anything is changed
				if err := admin.CreatePartitions(cmd.Context(), k, args[0], partitions, true); err != nil {
					return err
				}
			}
			if len(pairs)+len(unset) > 0 {
				change := admin.Change{Kind: kmsg.ConfigResourceTypeTopic, Name: args[0], Set: pairs, Unset: unset}
				err := admin.AlterConfigs(cmd.Context(), k, []admin.Change{change}, dryRun)
				if !dryRun {
					err = deed(err, look)
				}
				if err != nil {
					return err
				}
			}
			if partitions != 0 && !dryRun {
				err := admin.CreatePartitions(cmd.Context(), k, args[0], partitions, false)
				if err != nil && len(pairs)+len(unset) > 0 {
					err = &admin.Partly{Done: 1, Of: 2, Err: err}
				}
				if err != nil {
					return deed(err, look)
				}
			}
			configs, err := k.topicConfigs(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			return a.print.Print(map[string]any{"name": args[0], "dry_run": dryRun, "configs": configs}, func() *output.Rows {
				rows := &output.Rows{Head: []string{"CONFIG", "VALUE"}}
				for _, c := range configs {
					rows.Add(c.Name, c.Value)
				}
				return rows
			})
		},
	}
	c.Flags().Int32Var(&partitions, "partitions", 0, "grow the topic to `N` partitions")
	c.Flags().StringArrayVar(&set, "config", nil, "set a topic config `KEY=VALUE`; may repeat")
	c.Flags().StringArrayVar(&unset, "unset", nil, "bring a config `KEY` back to its default; may repeat")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check only")
	return c
}

func (a *app) offsetsAtTime(cmd *cobra.Command, k *kafka, topic string, lines []partitionLine, at string) error {
	when, err := offsets.ParseTime(at, time.Now())
	if err != nil {
		return output.Errorf(output.Usage, "--at %s", err)
	}
	ps := make([]*admin.Partition, len(lines))
	for i, p := range lines {
		ps[i] = &admin.Partition{Topic: topic, Index: p.Partition}
	}
	if err := admin.OffsetsAt(cmd.Context(), k, ps, when.UnixMilli()); err != nil {
		return err
	}
	type line struct {
		Partition int32     `json:"partition"`
		At        time.Time `json:"at"`
		Offset    int64     `json:"offset"` // the log end when no record is that young
	}
	list := []line{}
	for i, p := range lines {
		o := ps[i].Found
		if o < 0 {
			o = p.End
		}
		list = append(list, line{p.Partition, when, o})
	}
	return a.print.Print(list, func() *output.Rows {
		rows := &output.Rows{Head: []string{"PARTITION", "OFFSET"}}
		for _, l := range list {
			rows.Add(l.Partition, l.Offset)
		}
		return rows
	})
}
