package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

// configPatience is how long a survey waits for configs.
const configPatience = time.Second

// survey describes all topics that are not internal, for those who watch a
// cluster: what can't be told is left out, not waited for. The error is of the
// metadata only.
func survey(ctx context.Context, c consumer.Cluster) ([]surveyed, error) {
	topics, err := admin.Topics(ctx, c)
	if err != nil {
		return nil, err
	}
	topics = slices.DeleteFunc(topics, func(t admin.Topic) bool { return t.Internal })
	names := make([]string, len(topics))
	for i := range topics {
		names[i] = topics[i].Name
	}
	var configs map[string][]admin.Config
	ps := admin.PartitionsOf(topics)
	_ = admin.Together( // untold are offsets and sizes, and a topic counts as not compacted
		func() error { return admin.AtLeaders(ctx, c, ps, admin.Positions) },
		func() error { return admin.AtLeaders(ctx, c, ps, admin.Sizes) },
		func() (err error) {
			within, done := context.WithTimeout(ctx, configPatience)
			defer done()
			configs, err = admin.Configs(within, c, kmsg.ConfigResourceTypeTopic, names, []string{"cleanup.policy"})
			return err
		},
	)
	out := make([]surveyed, len(topics))
	for i := range topics {
		out[i] = surveyed{topics[i], slices.ContainsFunc(configs[topics[i].Name], func(c admin.Config) bool { return strings.Contains(c.Value, "compact") })}
	}
	return out, nil
}

// surveyed is a topic and whether its cleanup.policy names compact.
type surveyed struct {
	admin.Topic
	compact bool
}

func topicOf(t *surveyed) Topic {
	out := Topic{Name: t.Name, Compact: t.compact, Records: t.Records(), Bytes: t.Bytes(), Partitions: []Partition{}}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		out.Partitions = append(out.Partitions, Partition{
			Index: p.Index, Leader: p.Leader, Replicas: slices.Concat([]int32{}, p.Replicas), ISR: slices.Concat([]int32{}, p.ISR),
			LogStart: p.Start, LastStable: p.LastStable, HighWatermark: p.End, Bytes: p.Size,
		})
	}
	return out
}

// fillGroups adds members, offsets and lag to groups.
func fillGroups(ctx context.Context, c consumer.Cluster, groups []Group) error {
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	described, membersErr := admin.DescribeGroups(ctx, c, names)
	committed, err := admin.Committed(ctx, c, names)
	wanted := map[offsets.TopicPartition]bool{}
	for _, of := range committed {
		for at := range of {
			wanted[at] = true
		}
	}
	ps, endsErr := admin.PartitionsAt(ctx, c, wanted)
	_ = admin.AtLeaders(ctx, c, ps, admin.Ends) // the lag is untold where an end is
	there := admin.ByPlace(ps)
	for i := range groups {
		g := &groups[i]
		if d := described[g.Name]; d != nil {
			g.Members, g.State = len(d.Members), cmp.Or(d.State, g.State)
		}
		g.Lag = 0
		for at, offset := range committed[g.Name] {
			p := there[at]
			if p == nil {
				continue // it is no more
			}
			if p.End < 0 {
				g.Lag = admin.Untold
				continue
			}
			o := GroupOffset{Topic: at.Topic, Partition: at.Partition, Committed: offset, End: p.End, Lag: max(0, p.End-offset)}
			if g.Lag >= 0 {
				g.Lag += o.Lag
			}
			g.Offsets = append(g.Offsets, o)
		}
		slices.SortFunc(g.Offsets, func(a, b GroupOffset) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return errors.Join(membersErr, err, endsErr)
}
