package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

func (a *app) group() *cobra.Command {
	c := &cobra.Command{
		Use: "group", Short: "List, show, reset and delete consumer groups",
		Example: "  sawlog group describe checkers\n  sawlog group reset checkers --topic orders --to @-2h --yes",
	}
	c.AddCommand(a.groupList(), a.groupDescribe(), a.groupReset(), a.groupDelete())
	return c
}

type groupLine struct {
	Group    string `json:"group"`
	State    string `json:"state"`
	Protocol string `json:"protocol"`
	Type     string `json:"type"`
}

func (a *app) groupList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List groups", Args: cobra.NoArgs, Example: "  sawlog group list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			groups, untold := admin.Groups(cmd.Context(), k)
			list := make([]groupLine, len(groups))
			for i, g := range groups {
				list[i] = groupLine{g.Name, g.State, g.Protocol, g.Type}
			}
			return a.printDone(len(list), untold, list, func() *output.Rows {
				rows := &output.Rows{Head: []string{"GROUP", "STATE", "TYPE", "PROTOCOL"}}
				for _, g := range list {
					rows.Add(g.Group, g.State, g.Type, g.Protocol)
				}
				return rows
			})
		},
	}
}

type groupMember struct {
	ID         string            `json:"id"`
	Instance   string            `json:"instance,omitempty"`
	Client     string            `json:"client"`
	Host       string            `json:"host"`
	Assignment []memberPartition `json:"assignment"`
}

// memberPartition is one partition a member was given.
type memberPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type groupPosition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1 = nothing
	End       int64  `json:"end"`       // -1 = the partition is gone, or nobody told
	Gone      bool   `json:"gone"`      // there is no such partition
	Lag       *int64 `json:"lag"`       // null = nothing committed, or no end
	Member    string `json:"member"`    // "" = nobody reads it
	Host      string `json:"host"`
	Client    string `json:"client"`
}

type groupDescription struct {
	groupLine
	Assignor    string          `json:"assignor"`
	Coordinator int32           `json:"coordinator"`
	Members     []groupMember   `json:"members"`
	Positions   []groupPosition `json:"positions"`

	untold error // why ends are not told
}

func (a *app) groupDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe GROUP", Short: "Show a group's members, offsets and lag", Args: cobra.ExactArgs(1),
		Example: "  sawlog group describe checkers -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			d, err := k.describeGroup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printDone(1, d.untold, d, d.rows)
		},
	}
}

func (d *groupDescription) rows() *output.Rows {
	rows := &output.Rows{}
	rows.Add("group", d.Group)
	rows.Add("state", d.State)
	rows.Add("coordinator", d.Coordinator)
	rows.Add("assignor", orDash(d.Assignor))
	rows.Add("members", len(d.Members))
	for _, m := range d.Members {
		rows.Add("member", m.ID, orDash(m.Instance), m.Client, m.Host, fmt.Sprintf("%d partitions", len(m.Assignment)))
	}
	rows.Add("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST", "CLIENT")
	for _, p := range d.Positions {
		committed, end, lag := "-", "-", "-"
		if p.Committed >= 0 {
			committed = fmt.Sprint(p.Committed)
		}
		switch {
		case p.Gone:
			end = "gone"
		case p.End >= 0:
			end = fmt.Sprint(p.End)
		}
		if p.Lag != nil {
			lag = fmt.Sprint(*p.Lag)
		}
		rows.Add(p.Topic, p.Partition, committed, end, lag, orDash(p.Member), orDash(p.Host), orDash(p.Client))
	}
	return rows
}

// idle refuses what can't be done to a group while it has members.
func (d *groupDescription) idle() error {
	if len(d.Members) == 0 {
		return nil
	}
	return output.Errorf(output.Conflict, "group %s has members: %d", d.Group, len(d.Members)).
		WithHint("stop them first: sawlog group describe %s names them", d.Group)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (k *kafka) describeGroup(ctx context.Context, name string) (*groupDescription, error) {
	described, err := admin.DescribeGroups(ctx, k, []string{name})
	if err != nil {
		return nil, err
	}
	committed, err := admin.Committed(ctx, k, []string{name})
	if err != nil {
		return nil, err
	}
	g := described[name]
	if (g == nil || g.State == "Dead") && len(committed[name]) == 0 {
		return nil, output.Errorf(output.NotFound, "group %s does not exist", name).WithHint("sawlog group list")
	}
	if g == nil {
		g = &admin.Group{Name: name, State: "Empty", Type: "classic"} // it has offsets only
	}
	d := &groupDescription{groupLine: groupLine{name, g.State, g.Protocol, g.Type}, Assignor: g.Assignor, Members: []groupMember{}}
	if d.Coordinator, err = admin.Coordinator(ctx, k, name); err != nil {
		return nil, err
	}
	readers := map[offsets.TopicPartition]groupMember{}
	for _, m := range g.Members {
		member := groupMember{m.ID, m.Instance, m.Client, m.Host, []memberPartition{}}
		for _, at := range m.Given {
			member.Assignment = append(member.Assignment, memberPartition(at))
		}
		d.Members = append(d.Members, member)
		for _, at := range m.Given {
			readers[at] = member
		}
	}
	d.Positions, d.untold = k.positions(ctx, committed[name], readers)
	return d, nil
}

// positions are the partitions a group has committed or reads, with their lag. The
// error says why some ends are not told.
func (k *kafka) positions(ctx context.Context, committed map[offsets.TopicPartition]int64, readers map[offsets.TopicPartition]groupMember) ([]groupPosition, error) {
	wanted := map[offsets.TopicPartition]bool{}
	for at := range committed {
		wanted[at] = true
	}
	for at := range readers {
		wanted[at] = true
	}
	ps, err := admin.PartitionsAt(ctx, k, wanted)
	there := admin.ByPlace(ps)
	led := slices.DeleteFunc(ps, (*admin.Partition).Offline) // the others would fail the request for all
	err = errors.Join(err, admin.Ends(ctx, k, led))
	if err == nil && len(led) < len(there) {
		err = fmt.Errorf("%w: %d partitions have no leader", consumer.ErrUnavailable, len(there)-len(led))
	}
	list := []groupPosition{}
	for at := range wanted {
		reader := readers[at]
		row := groupPosition{Topic: at.Topic, Partition: at.Partition, Committed: -1, End: -1, Member: reader.ID, Host: reader.Host, Client: reader.Client}
		p := there[at]
		if row.Gone = p == nil; !row.Gone {
			row.End = p.End
		}
		if offset, ok := committed[at]; ok {
			row.Committed = offset
			if row.End >= 0 {
				row.Lag = new(max(0, row.End-offset))
			}
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b groupPosition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list, err
}

func (a *app) groupReset() *cobra.Command {
	var topic, to string
	var dryRun bool
	c := &cobra.Command{
		Use: "reset GROUP --topic TOPIC --to BOUND", Short: "Move a group's committed offsets", Args: cobra.ExactArgs(1),
		Long:    "Move the committed offsets of a group that has no members. BOUND is earliest,\nlatest, N, -N (before the end) or @TIME.",
		Example: "  sawlog group reset checkers --topic orders --to @-2h --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if topic == "" || to == "" {
				return output.Errorf(output.Usage, "--topic and --to are needed").WithHint("%s", cmd.Example)
			}
			topicName, parts, named := strings.Cut(topic, "/")
			text := topicName + "=" + to + ".." + to
			if named {
				text = topicName + "/" + parts + "=" + to + ".." + to
			}
			q, err := offsets.ParseQuery(text, time.Now())
			if err != nil {
				return output.Errorf(output.Usage, "--to %q: want earliest, latest, N, -N or @TIME", to)
			}
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			return a.resetGroup(cmd.Context(), k, args[0], q, dryRun)
		},
	}
	c.Flags().StringVar(&topic, "topic", "", "the `TOPIC`, or TOPIC/PARTITIONS")
	c.Flags().StringVar(&to, "to", "", "where to: earliest, latest, N, -N or @TIME")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be set")
	return c
}

type movedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1 = none was committed
	To        int64  `json:"to"`
}

func (a *app) resetGroup(ctx context.Context, k *kafka, group string, q offsets.Query, dryRun bool) error {
	targets, err := k.resolveQuery(ctx, q.Topic, q)
	if err != nil {
		return err
	}
	d, err := k.describeGroup(ctx, group)
	if err == nil {
		err = d.idle()
	}
	if err != nil && output.Code(err) != output.NotFound { // a new group may be given offsets, too
		return err
	}
	before, err := admin.Committed(ctx, k, []string{group})
	if err != nil {
		return err
	}
	topics, err := admin.Topics(ctx, k, q.Topic)
	if err != nil {
		return err
	}
	moved := []movedOffset{}
	for _, p := range slices.Sorted(maps.Keys(targets)) {
		from, had := before[group][offsets.TopicPartition{Topic: q.Topic, Partition: p}]
		if !had {
			from = -1
		}
		moved = append(moved, movedOffset{q.Topic, p, from, int64(targets[p].Start)})
	}
	var refused error
	if !dryRun {
		if err := a.confirm("move the offsets of " + group); err != nil {
			return err
		}
		moved, refused = k.moveOffsets(ctx, group, &topics[0], moved)
	}
	return a.printDone(len(moved), refused, moved, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TOPIC", "PARTITION", "FROM", "TO"}}
		for _, m := range moved {
			rows.Add(m.Topic, m.Partition, m.From, m.To)
		}
		return rows
	})
}

// moveOffsets sets the offsets of a group, and returns those that are set.
func (k *kafka) moveOffsets(ctx context.Context, group string, topic *admin.Topic, all []movedOffset) ([]movedOffset, error) {
	to := map[int32]int64{}
	for _, m := range all {
		to[m.Partition] = m.To
	}
	set, err := admin.Commit(ctx, k, group, topic, to)
	if len(set) == 0 && admin.Joined(err) {
		return nil, &output.Error{Code: output.Conflict, Err: err, Hint: "stop the group's members first"}
	}
	moved := slices.DeleteFunc(all, func(m movedOffset) bool { return !slices.Contains(set, m.Partition) })
	return moved, deed(err, "sawlog group describe "+group)
}
