package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

// move is a partition and where its copies are to be.
type move struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
	State     string  `json:"state"` // planned, moving, done, cancelled, or changed by somebody else
}

func (m *move) place() offsets.TopicPartition {
	return offsets.TopicPartition{Topic: m.Topic, Partition: m.Partition}
}

const (
	// movesAtOnce bounds the partitions that are copied at the same time.
	movesAtOnce = 64
	// movePoll is how often the controller is asked how far moves are.
	movePoll = 250 * time.Millisecond
)

func (a *app) clusterMove() *cobra.Command {
	var to []int32
	var cancel, dryRun, wait bool
	var throttle string
	c := &cobra.Command{
		Use: "move TOPIC[/PARTITIONS]… --to ID,…", Short: "Move partitions to other brokers", Args: cobra.MinimumNArgs(1),
		Long: `Move partitions to the brokers named by --to; as many as are named hold a copy
afterwards, so this changes the number of copies too. PARTITIONS are numbers and
ranges: orders/0-3,7. The first broker is the one that leads when all are up; of
several partitions each begins with the next one, so that they share the work.

A partition stays available: its old copies go when the new ones are complete.
Without --wait=false this ends when all have moved; --cancel takes back what is
under way.

With --throttle each broker sends and takes in no more than that in a second for
copies that aren't complete; at the end the throttle is taken away. Where this
command was interrupted the throttle stays, and the same command with --throttle 0
takes it away.`,
		Example: "  sawlog cluster move orders --to 1,2,3\n  sawlog cluster move orders --to 2,3 --throttle 10MiB\n  sawlog cluster move orders/0-3,7 --to 2,3 --dry-run\n  sawlog cluster move orders --cancel",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cancel == (len(to) > 0) {
				return output.Errorf(output.Usage, "one of --to and --cancel is needed").WithHint("sawlog cluster move orders --to 1,2,3")
			}
			rate, err := throttleRate(throttle)
			switch {
			case err != nil:
				return err
			case throttle != "" && (cancel || !wait):
				return output.Errorf(output.Usage, "--throttle needs to wait for the moves, to be taken away").WithHint("leave out --cancel and --wait=false")
			}
			for i, id := range to {
				if slices.Contains(to[:i], id) {
					return output.Errorf(output.Usage, "--to names broker %d twice", id)
				}
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
			for _, id := range to {
				if err := f.mustKnow(id); err != nil {
					return err
				}
				if !f.up(id) {
					return output.Errorf(output.Conflict, "broker %d is out of service: a move to it would not end before it is back", id).WithHint("sawlog cluster brokers")
				}
			}
			chosen, err := f.choose(targets)
			if err != nil {
				return err
			}
			moves := []move{}
			for i, p := range chosen {
				switch {
				case cancel && p.Moving():
					moves = append(moves, move{p.Topic, p.Index, p.Replicas, p.Settled(), "planned"})
				case !cancel:
					at := i % len(to)
					moves = append(moves, move{p.Topic, p.Index, p.Settled(), slices.Concat(to[at:], to[:at]), "planned"})
				}
			}
			if dryRun {
				return a.printMoves(moves)
			}
			if throttle != "" {
				if err := k.throttle(cmd.Context(), moves, rate); err != nil {
					return err
				}
			}
			err = a.carryOut(cmd.Context(), k, moves, cancel, wait)
			if rate > 0 && cmd.Context().Err() == nil {
				err = errors.Join(err, k.throttle(cmd.Context(), moves, 0))
			}
			if err != nil {
				return err
			}
			return a.printMoves(moves)
		},
	}
	c.Flags().StringVar(&throttle, "throttle", "", "copy no more than `BYTES` in a second, such as 10MiB; 0 takes a throttle away")
	c.Flags().Int32SliceVar(&to, "to", nil, "`ID`,… of the brokers that are to hold a copy, the preferred leader first")
	c.Flags().BoolVar(&cancel, "cancel", false, "take back moves that are under way")
	c.Flags().BoolVar(&wait, "wait", true, "end when all partitions have moved")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be moved")
	return c
}

func (a *app) printMoves(moves []move) error {
	return a.print.Print(moves, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TOPIC", "PARTITION", "FROM", "TO", "STATE"}}
		for _, m := range moves {
			rows.Add(m.Topic, m.Partition, m.From, m.To, m.State)
		}
		return rows
	})
}

// topicPart is a topic, or some partitions of it.
type topicPart struct {
	topic      string
	partitions []int32 // nil = all
}

// parseTargets reads TOPIC and TOPIC/0-3,7.
func parseTargets(args []string) ([]topicPart, error) {
	list := make([]topicPart, 0, len(args))
	for _, arg := range args {
		topic, parts, some := strings.Cut(arg, "/")
		t := topicPart{topic: topic}
		var err error
		if some {
			t.partitions, err = offsets.ParsePartitions(parts)
		}
		if topic == "" || err != nil {
			return nil, output.Errorf(output.Usage, "%q: want TOPIC or TOPIC/PARTITIONS, as in orders/0-3,7", arg)
		}
		list = append(list, t)
	}
	return list, nil
}

// choose finds the partitions that targets name; without any, all are chosen.
func (f *fleet) choose(targets []topicPart) ([]*admin.Partition, error) {
	taken := map[offsets.TopicPartition]bool{}
	for _, t := range targets {
		of := map[int32]bool{}
		for _, p := range f.partitions {
			if p.Topic == t.topic {
				of[p.Index] = true
			}
		}
		if len(of) == 0 {
			return nil, output.Errorf(output.NotFound, "no topic %s", t.topic).WithHint("sawlog topic list")
		}
		wanted := t.partitions
		if wanted == nil {
			wanted = slices.Sorted(maps.Keys(of))
		}
		for _, p := range wanted {
			if !of[p] {
				return nil, output.Errorf(output.NotFound, "topic %s has no partition %d", t.topic, p).WithHint("sawlog topic describe %s", t.topic)
			}
			taken[offsets.TopicPartition{Topic: t.topic, Partition: p}] = true
		}
	}
	var chosen []*admin.Partition
	for _, p := range f.partitions {
		if len(targets) == 0 || taken[p.Place()] {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// carryOut moves partitions, so many at a time, and marks each with what became
// of it.
func (a *app) carryOut(ctx context.Context, k *kafka, moves []move, cancel, wait bool) error {
	if cancel || !wait {
		return k.reassign(ctx, moves, cancel)
	}
	bars := a.newProgress()
	defer bars.done()
	for begun := 0; begun < len(moves); {
		some := moves[begun:min(begun+movesAtOnce, len(moves))]
		if err := k.reassign(ctx, some, false); err != nil {
			return err
		}
		for {
			left, err := k.underWay(ctx, some)
			if err != nil {
				return err
			}
			if left == 0 {
				break
			}
			moved := fmt.Sprintf("%d of %d partitions have moved", begun+len(some)-left, len(moves))
			bars.show("", "moved", int64(begun+len(some)-left), int64(len(moves)), "partitions", moved)
			select {
			case <-time.After(movePoll):
			case <-ctx.Done():
				bars.done()
				a.print.Note("%s, %d are under way and go on: sawlog cluster move TOPIC --cancel takes them back", moved, left)
				return context.Cause(ctx)
			}
		}
		begun += len(some)
	}
	return k.judge(ctx, moves)
}

// underWay counts the moves that have not ended.
func (k *kafka) underWay(ctx context.Context, moves []move) (left int, err error) {
	ps := make([]*admin.Partition, len(moves))
	for i, m := range moves {
		ps[i] = &admin.Partition{Topic: m.Topic, Index: m.Partition}
	}
	if err := admin.Moves(ctx, k, ps); err != nil {
		return 0, err
	}
	for _, p := range ps {
		if p.Moving() {
			left++
		}
	}
	return left, nil
}

// judge marks moves that are over: done, or changed by somebody else.
func (k *kafka) judge(ctx context.Context, moves []move) error {
	f, err := k.fleet(ctx)
	if err != nil {
		return err
	}
	at := map[offsets.TopicPartition][]int32{}
	for _, p := range f.partitions {
		at[p.Place()] = p.Replicas
	}
	for i := range moves {
		m := &moves[i]
		if m.State = "changed"; slices.Equal(at[m.place()], m.To) {
			m.State = "done"
		}
	}
	return nil
}

// reassign asks the controller to begin moves, or to take them back.
func (k *kafka) reassign(ctx context.Context, moves []move, cancel bool) error {
	if len(moves) == 0 {
		return nil
	}
	list := make([]admin.Placement, len(moves))
	for i := range moves {
		m := &moves[i]
		list[i].TopicPartition, m.State = m.place(), "cancelled"
		if !cancel {
			list[i].Replicas, m.State = m.To, "moving"
		}
	}
	return deed(admin.Move(ctx, k, list), "sawlog cluster status shows the moves under way")
}
