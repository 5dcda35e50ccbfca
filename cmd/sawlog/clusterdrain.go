package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

func (a *app) clusterDrain() *cobra.Command {
	var leaders, shrink, dryRun bool
	c := &cobra.Command{
		Use: "drain ID", Short: "Move everything off a broker", Args: cobra.ExactArgs(1),
		Long: `Move all copies a broker holds to the brokers that carry least, in other racks
where that is possible, so that it can be removed. --leaders moves only what it
leads, by making another copy the preferred leader: that takes no copying, and
the broker goes on following. Topics made meanwhile may be placed on it again.

Where all other brokers in service hold a copy already there is nowhere to move
to: --shrink lets such partitions have one copy less.`,
		Example: "  sawlog cluster drain 3 --dry-run\n  sawlog cluster drain 3\n  sawlog cluster drain 3 --leaders",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			if leaders && shrink {
				return output.Errorf(output.Usage, "--leaders moves no copies: --shrink means nothing beside it")
			}
			k, f, err := a.fleet(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if err := f.mustKnow(id); err != nil {
				return err
			}
			var moves []move
			if leaders {
				moves, err = f.passOn(id)
			} else {
				moves, err = f.empty(id, shrink)
			}
			if err != nil {
				return err
			}
			if !dryRun {
				if err := a.drainNow(cmd.Context(), k, id, moves, leaders); err != nil {
					return err
				}
			}
			return a.printMoves(moves)
		},
	}
	c.Flags().BoolVar(&leaders, "leaders", false, "move leadership only")
	c.Flags().BoolVar(&shrink, "shrink", false, "let partitions have one copy less where no other broker can take it")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be moved")
	return c
}

func (a *app) drainNow(ctx context.Context, k *kafka, id int32, moves []move, leaders bool) error {
	if err := a.carryOut(ctx, k, moves, false, true); err != nil {
		return err
	}
	if leaders {
		named := make([]offsets.TopicPartition, len(moves))
		for i := range moves {
			named[i] = moves[i].place()
		}
		refused, err := admin.Elect(ctx, k, admin.Preferred, named)
		if err != nil {
			return err
		}
		for _, at := range named {
			if refused[at] != nil {
				return output.Errorf(output.Partial, "%s: %s", at, refused[at])
			}
		}
		a.print.Note("broker %d leads nothing: sawlog cluster brokers", id)
		return nil
	}
	f, err := k.fleet(ctx)
	if err != nil {
		return err
	}
	if b := f.Broker(id); b != nil && b.Holds > 0 {
		return output.Errorf(output.Partial, "broker %d holds %d partitions still: topics were made or moved meanwhile", id, b.Holds).
			WithHint("sawlog cluster drain %d", id)
	}
	a.print.Note("broker %d holds nothing. To remove it: stop its process, then sawlog cluster forget %d", id, id)
	return nil
}

func brokerID(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, output.Errorf(output.Usage, "%q: want the number of a broker", text).WithHint("sawlog cluster brokers")
	}
	return int32(n), nil
}

// empty plans what takes everything off a broker: each of its copies goes to
// the broker in service that carries least among those that hold none, in a
// rack without a copy if there is one.
func (f *fleet) empty(id int32, shrink bool) ([]move, error) {
	moves := []move{}
	holds := map[int32]int{}
	for _, b := range f.Brokers {
		holds[b.ID] = b.Holds
	}
	for i := range f.partitions {
		p := f.partitions[i]
		from := p.Target()
		at := slices.Index(from, id)
		if at < 0 {
			continue
		}
		to := slices.Clone(from)
		heir, ok := f.heir(from, id, holds)
		switch {
		case ok:
			to[at] = heir
			holds[heir]++
		case shrink && len(to) > 1:
			to = slices.Delete(to, at, at+1)
		case len(to) == 1:
			return nil, output.Errorf(output.Conflict, "%s is on broker %d alone and no other broker is in service", p.Place(), id).
				WithHint("start another broker: sawlog serve --join")
		default:
			return nil, output.Errorf(output.Conflict, "%s: every other broker in service holds a copy already", p.Place()).
				WithHint("start another broker, or --shrink to have one copy less")
		}
		moves = append(moves, move{p.Topic, p.Index, from, to, "planned"})
	}
	return moves, nil
}

// heir is the broker that takes over a copy.
func (f *fleet) heir(replicas []int32, gone int32, holds map[int32]int) (int32, bool) {
	racks := map[string]bool{}
	for _, id := range admin.Without(replicas, gone) {
		if b := f.Broker(id); b != nil && b.Rack != "" {
			racks[b.Rack] = true
		}
	}
	var can []admin.Broker
	for _, b := range f.Brokers {
		if !b.Fenced && b.ID != gone && !slices.Contains(replicas, b.ID) {
			can = append(can, b)
		}
	}
	if len(can) == 0 {
		return 0, false
	}
	crowd := func(b admin.Broker) int {
		if racks[b.Rack] {
			return 1
		}
		return 0
	}
	best := slices.MinFunc(can, func(a, b admin.Broker) int {
		return cmp.Or(cmp.Compare(crowd(a), crowd(b)), cmp.Compare(holds[a.ID], holds[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	return best.ID, true
}

// passOn plans what makes others lead what a broker leads: the complete copy on
// the broker that leads least comes first.
func (f *fleet) passOn(id int32) ([]move, error) {
	moves := []move{}
	leads := map[int32]int{}
	for _, b := range f.Brokers {
		leads[b.ID] = b.Leads
	}
	for i := range f.partitions {
		p := f.partitions[i]
		if p.Leader != id {
			continue
		}
		if p.Moving() {
			return nil, output.Errorf(output.Conflict, "%s is being moved", p.Place()).WithHint("wait for it: sawlog cluster status")
		}
		can := slices.DeleteFunc(slices.Clone(p.Replicas), func(r int32) bool {
			return r == id || !f.up(r) || !slices.Contains(p.ISR, r)
		})
		if len(can) == 0 {
			return nil, output.Errorf(output.Conflict, "%s: no other broker in service holds a complete copy", p.Place()).WithHint("sawlog cluster status")
		}
		heir := slices.MinFunc(can, func(a, b int32) int { return cmp.Compare(leads[a], leads[b]) })
		leads[heir]++
		to := append([]int32{heir}, admin.Without(p.Replicas, heir, id)...)
		moves = append(moves, move{p.Topic, p.Index, p.Replicas, append(to, id), "planned"})
	}
	return moves, nil
}

func (a *app) clusterForget() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "forget ID", Short: "Forget a broker that is gone for good", Args: cobra.ExactArgs(1),
		Long: `Take a broker out of the cluster's memory. It must be stopped and hold nothing:
see cluster drain.`,
		Example: "  sawlog cluster forget 3 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			k, f, err := a.fleet(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if err := f.mustKnow(id); err != nil {
				return err
			}
			b := f.Broker(id)
			if !b.Fenced {
				return output.Errorf(output.Conflict, "broker %d is in service", id).WithHint("stop its process first")
			}
			if b.Holds > 0 {
				return output.Errorf(output.Conflict, "broker %d holds %d partitions", id, b.Holds).WithHint("sawlog cluster drain %d", id)
			}
			if !dryRun {
				if err := a.forget(cmd.Context(), k, id); err != nil {
					return err
				}
			}
			return a.print.Print(map[string]any{"forgotten": id, "dry_run": dryRun}, func() *output.Rows {
				rows := &output.Rows{Head: []string{"FORGOTTEN"}}
				rows.Add(id)
				return rows
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only tell whether it could be done")
	return c
}

func (a *app) forget(ctx context.Context, k *kafka, id int32) error {
	if err := a.confirm(fmt.Sprintf("forget broker %d", id)); err != nil {
		return err
	}
	return deed(admin.Forget(ctx, k, id), "sawlog cluster brokers shows whether it is there still")
}
