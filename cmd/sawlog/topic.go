package main

import (
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

func (a *app) topic() *cobra.Command {
	c := &cobra.Command{
		Use: "topic", Short: "List, make, change, trim and delete topics",
		Example: "  sawlog topic create invoices --partitions 6\n  sawlog topic describe invoices",
	}
	c.AddCommand(a.topicList(), a.topicCreate(), a.topicDescribe(), a.topicAlter(), a.topicDelete(), a.topicTrim(), a.topicOffsets())
	return c
}

type topicLine struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Internal   bool   `json:"internal"`
}

func (a *app) topicList() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use: "list", Short: "List topics", Args: cobra.NoArgs,
		Example: "  sawlog topic list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			topics, err := admin.Topics(cmd.Context(), k)
			if err != nil {
				return err
			}
			list := []topicLine{}
			for i := range topics {
				if t := &topics[i]; !t.Internal || internal {
					list = append(list, describeLine(t))
				}
			}
			return a.print.Print(list, func() *output.Rows {
				rows := &output.Rows{Head: []string{"TOPIC", "PARTITIONS", "REPLICAS", "ID"}}
				for _, t := range list {
					rows.Add(t.Name, t.Partitions, t.Replicas, t.ID)
				}
				return rows
			})
		},
	}
	c.Flags().BoolVar(&internal, "internal", false, "show internal topics too")
	return c
}

func describeLine(t *admin.Topic) topicLine {
	return topicLine{Name: t.Name, ID: topicID(t.ID), Partitions: len(t.Partitions), Replicas: t.Replicas(), Internal: t.Internal}
}

func (a *app) topicCreate() *cobra.Command {
	var partitions int32
	var replication int16
	var configs []string
	var dryRun bool
	c := &cobra.Command{
		Use: "create NAME", Short: "Make a topic", Args: cobra.ExactArgs(1),
		Example: "  sawlog topic create invoices --partitions 6 --config retention.ms=604800000",
		RunE: func(cmd *cobra.Command, args []string) error {
			pairs, err := keyValues("--config", configs)
			if err != nil {
				return err
			}
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			made, err := admin.CreateTopic(cmd.Context(), k, admin.NewTopic{Name: args[0], Partitions: partitions, Replicas: replication, Configs: pairs}, dryRun)
			if err != nil && !dryRun {
				err = deed(err, "sawlog topic describe "+args[0]+" shows whether it is there")
			}
			if err != nil {
				return err
			}
			line := topicLine{
				Name: args[0], ID: topicID(made.ID),
				Partitions: int(made.Partitions), Replicas: int(made.Replicas),
			}
			return a.print.Print(line, func() *output.Rows {
				rows := &output.Rows{Head: []string{"TOPIC", "PARTITIONS", "REPLICAS", "ID"}}
				rows.Add(line.Name, line.Partitions, line.Replicas, line.ID)
				return rows
			})
		},
	}
	c.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1 takes the server's default")
	c.Flags().Int16Var(&replication, "replication-factor", -1, "copies of each partition; -1 takes the server's default")
	c.Flags().StringArrayVar(&configs, "config", nil, "a topic config `KEY=VALUE`, by Kafka's name; may repeat")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check only")
	return c
}

func keyValues(flag string, pairs []string) ([][2]string, error) {
	var out [][2]string
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, output.Errorf(output.Usage, "%s %q: want KEY=VALUE", flag, pair)
		}
		out = append(out, [2]string{k, v})
	}
	return out, nil
}

func (a *app) topicDelete() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete NAME…", Short: "Delete topics and their records", Args: cobra.MinimumNArgs(1),
		Example: "  sawlog topic delete orders --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if _, err := admin.Topics(cmd.Context(), k, args...); err != nil {
				return err
			}
			gone := args
			if !dryRun {
				if err := a.confirm("delete " + strings.Join(args, ", ")); err != nil {
					return err
				}
				gone, err = admin.DeleteTopics(cmd.Context(), k, args)
			}
			type deleted struct {
				Name   string `json:"name"`
				DryRun bool   `json:"dry_run"`
			}
			list := []deleted{}
			for _, name := range gone {
				list = append(list, deleted{name, dryRun})
			}
			return a.printDone(len(list), deed(err, "sawlog topic list shows those that are there still"), list, func() *output.Rows {
				rows := &output.Rows{Head: []string{"DELETED"}}
				for _, d := range list {
					rows.Add(d.Name)
				}
				return rows
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted")
	return c
}

type partitionLine struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"epoch"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Start     int64   `json:"start"`
	End       int64   `json:"end"`
}

func (a *app) topicOffsets() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "offsets NAME", Short: "Show where each partition starts and ends", Args: cobra.ExactArgs(1),
		Example: "  sawlog topic offsets orders\n  sawlog topic offsets orders --at 2026-11-29T14",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			lines, err := a.partitions(cmd, k, args[0])
			if err != nil {
				return err
			}
			if at != "" {
				return a.offsetsAtTime(cmd, k, args[0], lines, at)
			}
			return a.print.Print(lines, func() *output.Rows {
				rows := &output.Rows{Head: []string{"PARTITION", "START", "END", "RECORDS≤"}}
				for _, p := range lines {
					rows.Add(p.Partition, p.Start, p.End, p.End-p.Start)
				}
				return rows
			})
		},
	}
	c.Flags().StringVar(&at, "at", "", "show the first offset with a timestamp at or after `TIME`")
	return c
}

func (a *app) partitions(cmd *cobra.Command, k *kafka, topic string) ([]partitionLine, error) {
	topics, err := admin.Topics(cmd.Context(), k, topic)
	if err != nil {
		return nil, err
	}
	ps := admin.PartitionsOf(topics)
	if err := admin.Bounds(cmd.Context(), k, ps); err != nil {
		return nil, err
	}
	lines := make([]partitionLine, len(ps))
	for i, p := range ps {
		lines[i] = partitionLine{p.Index, p.Leader, p.Epoch, p.Replicas, p.ISR, p.Start, p.End}
	}
	return lines, nil
}

func topicID(id offsets.TopicID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
