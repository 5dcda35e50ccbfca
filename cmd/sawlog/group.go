package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
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
			ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
			defer cancel()
			list := []groupLine{}
			for _, shard := range k.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest()) {
				if shard.Err != nil {
					return k.explain(shard.Err)
				}
				resp := shard.Resp.(*kmsg.ListGroupsResponse)
				if err := kafkaCode("groups", resp.ErrorCode, nil); err != nil {
					return err
				}
				for _, g := range resp.Groups {
					list = append(list, groupLine{g.Group, g.GroupState, g.ProtocolType, g.GroupType})
				}
			}
			sort.Slice(list, func(i, j int) bool { return list[i].Group < list[j].Group })
			return a.print.Print(list, func() *output.Rows {
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
	End       int64  `json:"end"`
	Lag       *int64 `json:"lag"`    // null = nothing committed
	Member    string `json:"member"` // "" = nobody reads it
	Host      string `json:"host"`
	Client    string `json:"client"`
}

type groupDescription struct {
	groupLine
	Assignor    string          `json:"assignor"`
	Coordinator int32           `json:"coordinator"`
	Members     []groupMember   `json:"members"`
	Positions   []groupPosition `json:"positions"`
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
			return a.print.Print(d, d.rows)
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
		committed, lag := "-", "-"
		if p.Lag != nil {
			committed, lag = fmt.Sprint(p.Committed), fmt.Sprint(*p.Lag)
		}
		rows.Add(p.Topic, p.Partition, committed, p.End, lag, orDash(p.Member), orDash(p.Host), orDash(p.Client))
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
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{name}
	resp, err := ask[*kmsg.DescribeGroupsResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	g := resp.Groups[0]
	if err := kafkaCode("group "+name, g.ErrorCode, g.ErrorMessage); err != nil {
		return nil, err
	}
	d := &groupDescription{
		groupLine: groupLine{name, g.State, g.ProtocolType, "classic"}, Assignor: g.Protocol,
		Members: []groupMember{}, Positions: []groupPosition{},
	}
	if d.Coordinator, err = k.coordinator(ctx, name); err != nil {
		return nil, err
	}
	readers := map[memberPartition]groupMember{}
	for _, m := range g.Members {
		member := groupMember{m.MemberID, deref(m.InstanceID), m.ClientID, m.ClientHost, assigned(g.ProtocolType, m.MemberAssignment)}
		d.Members = append(d.Members, member)
		for _, p := range member.Assignment {
			readers[p] = member
		}
	}
	committed, err := k.committed(ctx, name)
	if err != nil {
		return nil, err
	}
	if g.State == "Dead" && len(committed) == 0 {
		return nil, output.Errorf(output.NotFound, "group %s does not exist", name).WithHint("sawlog group list")
	}
	d.Positions, err = k.positions(ctx, committed, readers)
	return d, err
}

// assigned reads what a member of a consumer group was given.
func assigned(protocolType string, assignment []byte) []memberPartition {
	list := []memberPartition{}
	var a kmsg.ConsumerMemberAssignment
	if protocolType != "consumer" || a.ReadFrom(assignment) != nil {
		return list
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			list = append(list, memberPartition{t.Topic, p})
		}
	}
	return list
}

// coordinator is the broker that coordinates a group.
func (k *kafka) coordinator(ctx context.Context, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := ask[*kmsg.FindCoordinatorResponse](ctx, k, req)
	if err != nil {
		return -1, err
	}
	if len(resp.Coordinators) == 0 {
		return resp.NodeID, kafkaCode("coordinator of "+group, resp.ErrorCode, resp.ErrorMessage)
	}
	c := resp.Coordinators[0]
	return c.NodeID, kafkaCode("coordinator of "+group, c.ErrorCode, c.ErrorMessage)
}

// positions are the partitions a group has committed or reads, with their lag.
func (k *kafka) positions(ctx context.Context, committed map[string]map[int32]int64, readers map[memberPartition]groupMember) ([]groupPosition, error) {
	parts := map[string][]int32{}
	for topic, of := range committed {
		parts[topic] = sortedKeys(of)
	}
	for p := range readers {
		if !slices.Contains(parts[p.Topic], p.Partition) {
			parts[p.Topic] = append(parts[p.Topic], p.Partition)
		}
	}
	list := []groupPosition{}
	for _, topic := range sortedKeys(parts) {
		slices.Sort(parts[topic])
		ends, err := k.offsetsAt(ctx, topic, parts[topic], -1)
		if err != nil {
			return nil, err
		}
		for _, p := range parts[topic] {
			reader := readers[memberPartition{topic, p}]
			at := groupPosition{Topic: topic, Partition: p, Committed: -1, End: ends[p], Member: reader.ID, Host: reader.Host, Client: reader.Client}
			if offset, ok := committed[topic][p]; ok {
				at.Committed, at.Lag = offset, new(max(0, ends[p]-offset))
			}
			list = append(list, at)
		}
	}
	return list, nil
}

// committed are a group's offsets by topic and partition.
func (k *kafka) committed(ctx context.Context, group string) (map[string]map[int32]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	resp, err := ask[*kmsg.OffsetFetchResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	out := map[string]map[int32]int64{}
	put := func(topic string, p int32, at int64) {
		if at < 0 {
			return
		}
		if out[topic] == nil {
			out[topic] = map[int32]int64{}
		}
		out[topic][p] = at
	}
	if err := kafkaCode("group "+group, resp.ErrorCode, nil); err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			put(t.Topic, p.Partition, p.Offset)
		}
	}
	for _, g := range resp.Groups {
		if err := kafkaCode("group "+group, g.ErrorCode, nil); err != nil {
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				put(t.Topic, p.Partition, p.Offset)
			}
		}
	}
	return out, nil
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
	before, err := k.committed(ctx, group)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	meta, err := k.metadata(ctx, q.Topic)
	if err != nil {
		return err
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = q.Topic, meta.Topics[0].TopicID
	moved := []movedOffset{}
	for _, p := range sortedKeys(targets) {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p, int64(targets[p].Start), -1
		t.Partitions = append(t.Partitions, part)
		from, had := before[q.Topic][p]
		if !had {
			from = -1
		}
		moved = append(moved, movedOffset{q.Topic, p, from, part.Offset})
	}
	req.Topics = append(req.Topics, t)
	if !dryRun {
		if err := a.confirm("move the offsets of " + group); err != nil {
			return err
		}
		resp, err := ask[*kmsg.OffsetCommitResponse](ctx, k, req)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				what := fmt.Sprintf("group %s, %s/%d", group, q.Topic, p.Partition)
				if err := kafkaCode(what, p.ErrorCode, nil); err != nil {
					return &output.Error{Code: output.Conflict, Err: err, Hint: "stop the group's members first"}
				}
			}
		}
	}
	return a.print.Print(moved, func() *output.Rows {
		rows := &output.Rows{Head: []string{"TOPIC", "PARTITION", "FROM", "TO"}}
		for _, m := range moved {
			rows.Add(m.Topic, m.Partition, m.From, m.To)
		}
		return rows
	})
}

func (a *app) groupDelete() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete GROUP…", Short: "Delete groups and their offsets", Args: cobra.MinimumNArgs(1),
		Example: "  sawlog group delete checkers --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			for _, g := range args {
				d, err := k.describeGroup(cmd.Context(), g)
				if err == nil {
					err = d.idle()
				}
				if err != nil {
					return err
				}
			}
			if !dryRun {
				if err := a.confirm("delete " + strings.Join(args, ", ")); err != nil {
					return err
				}
				req := kmsg.NewPtrDeleteGroupsRequest()
				req.Groups = args
				resp, err := ask[*kmsg.DeleteGroupsResponse](cmd.Context(), k, req)
				if err != nil {
					return err
				}
				for _, g := range resp.Groups {
					if err := kafkaCode("group "+g.Group, g.ErrorCode, nil); err != nil {
						return err
					}
				}
			}
			return a.print.Print(map[string]any{"deleted": args, "dry_run": dryRun}, func() *output.Rows {
				rows := &output.Rows{Head: []string{"DELETED"}}
				for _, g := range args {
					rows.Add(g)
				}
				return rows
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted")
	return c
}

func sortedKeys[K interface{ ~string | ~int32 }, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
