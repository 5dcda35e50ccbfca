package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
)

// Kinds of election, as Kafka numbers them.
const (
	preferredElection = 0
	uncleanElection   = 1
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
			kind := int8(preferredElection)
			if unclean {
				kind = uncleanElection
			}
			var named []fleetPartition
			for _, p := range chosen {
				if unclean && p.Leader < 0 || !unclean && p.Leader != p.target()[0] {
					named = append(named, *p)
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
func (a *app) electNow(ctx context.Context, k *kafka, kind int8, named []fleetPartition, dryRun bool) error {
	refused, now := map[string]error{}, map[string]int32{}
	if !dryRun && len(named) > 0 {
		var err error
		if refused, err = k.elect(ctx, kind, named); err != nil {
			return err
		}
		f, err := k.fleet(ctx)
		if err != nil {
			return err
		}
		for i := range f.partitions {
			now[f.partitions[i].name()] = f.partitions[i].Leader
		}
	}
	list := []electedPartition{}
	for i := range named {
		p := &named[i]
		e := electedPartition{Topic: p.Topic, Partition: p.Partition, From: p.Leader, Leader: p.Leader}
		if leader, ok := now[p.name()]; ok {
			e.Leader = leader
		}
		if err := refused[p.name()]; err != nil {
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

// elect asks for elections, and returns those that were refused.
func (k *kafka) elect(ctx context.Context, kind int8, named []fleetPartition) (map[string]error, error) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType = kind
	req.TimeoutMillis = int32(k.timeout.Milliseconds())
	req.Topics = []kmsg.ElectLeadersRequestTopic{}
	for i := range named {
		if i == 0 || named[i-1].Topic != named[i].Topic {
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic = named[i].Topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, named[i].Partition)
	}
	resp, err := ask[*kmsg.ElectLeadersResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	if err := kafkaCode("election", resp.ErrorCode, nil); err != nil {
		return nil, err
	}
	refused := map[string]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == kerr.ElectionNotNeeded.Code {
				continue
			}
			if err := kafkaCode("", p.ErrorCode, p.ErrorMessage); err != nil {
				refused[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = err
			}
		}
	}
	return refused, nil
}
