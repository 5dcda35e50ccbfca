package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

type electedPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int32  `json:"from"` // -1 = none
	Leader    int32  `json:"leader"`
	Error     string `json:"error,omitempty"`
}

func (a *app) clusterElect() *cobra.Command {
	var preferred, unclean, dryRun bool
	c := &cobra.Command{
		Use: "elect [TOPIC[/PARTITIONS]…]", Short: "Elect the preferred leaders, or any where none is left", Args: cobra.ArbitraryArgs,
		Long: `Give leadership back to the first copy of each partition that is led by another
(--preferred, which is what happens without a flag). --unclean lets a copy lead
that may lack acknowledged records, where a partition has no leader and the
complete copies are lost: those records are gone then.`,
		Example: "  sawlog cluster elect\n  sawlog cluster elect orders/0-3 --dry-run\n  sawlog cluster elect --unclean orders/2 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if preferred && unclean {
				return output.Errorf(output.Usage, "--preferred and --unclean exclude each other")
			}
			targets, err := parseTargets(args)
			if err != nil {
				return err
			}
			k, f, err := a.fleet(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			chosen, err := f.choose(targets)
			if err != nil {
				return err
			}
			kind := admin.Preferred
			if unclean {
				kind = admin.Unclean
			}
			var named []*admin.Partition
			for _, p := range chosen {
				if unclean && p.Offline() || !unclean && p.Leader != p.Target()[0] {
					named = append(named, p)
				}
			}
			if unclean && !dryRun && len(named) > 0 {
				if err := a.confirm(fmt.Sprintf("elect leaders of %d partitions that may have lost records", len(named))); err != nil {
					return err
				}
			}
			return a.electNow(cmd.Context(), k, kind, named, dryRun)
		},
	}
	c.Flags().BoolVar(&preferred, "preferred", false, "let the first copy of each partition lead")
	c.Flags().BoolVar(&unclean, "unclean", false, "let an incomplete copy lead where no other is left; loses records")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say which partitions need an election")
	return c
}

// electNow holds the elections and prints what came of them.
func (a *app) electNow(ctx context.Context, k *kafka, kind admin.Election, named []*admin.Partition, dryRun bool) error {
	refused, now := map[offsets.TopicPartition]error{}, map[offsets.TopicPartition]int32{}
	if !dryRun && len(named) > 0 {
		places := make([]offsets.TopicPartition, len(named))
		for i, p := range named {
			places[i] = p.Place()
		}
		var err error
		if refused, err = admin.Elect(ctx, k, kind, places); err != nil {
			return deed(err, "sawlog cluster status")
		}
		f, err := k.fleet(ctx)
		if err != nil {
			return err
		}
		for _, p := range f.partitions {
			now[p.Place()] = p.Leader
		}
	}
	list := []electedPartition{}
	for _, p := range named {
		e := electedPartition{Topic: p.Topic, Partition: p.Index, From: p.Leader, Leader: p.Leader}
		if leader, ok := now[p.Place()]; ok {
			e.Leader = leader
		}
		if err := refused[p.Place()]; err != nil {
			e.Error = err.Error()
		}
		list = append(list, e)
	}
	err := a.print.Print(list, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TOPIC", "PARTITION", "FROM", "LEADER", ""}}
		for _, e := range list {
			rows.Add(e.Topic, e.Partition, idOrDash(e.From), idOrDash(e.Leader), e.Error)
		}
		return rows
	})
	if err == nil && len(refused) > 0 {
		err = output.Errorf(output.Partial, "%d of %d partitions got no such leader", len(refused), len(named)).WithHint("sawlog cluster status")
	}
	return err
}
