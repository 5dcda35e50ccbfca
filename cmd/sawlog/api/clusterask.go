package api

import (
	"cmp"
	"context"
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

// fillGroups adds members, offsets and lag to groups, as far as they are told of;
// an error says that none is.
func fillGroups(ctx context.Context, c consumer.Cluster, groups []Group) error {
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	described, committed, err := admin.Standing(ctx, c, names)
	if err != nil && len(described)+len(committed) == 0 {
		return err
	}
	ends := endsOf(ctx, c, committed)
	for i := range groups {
		g := &groups[i]
		if d := described[g.Name]; d != nil {
			g.Members, g.State = len(d.Members), cmp.Or(d.State, g.State)
		}
		if of, told := committed[g.Name]; told {
			g.fill(of, ends)
		}
	}
	return nil
}

// endsOf are the ends of partitions that groups have offsets of, Untold where they
// are not told; those that are no more have none.
func endsOf(ctx context.Context, c consumer.Cluster, committed map[string]map[offsets.TopicPartition]int64) map[offsets.TopicPartition]int64 {
	wanted := map[offsets.TopicPartition]bool{}
	for _, of := range committed {
		for at := range of {
			wanted[at] = true
		}
	}
	ps, _ := admin.PartitionsAt(ctx, c, wanted) // those that are refused are untold
	_ = admin.AtLeaders(ctx, c, ps, admin.Ends) // so are those that fail
	ends := make(map[offsets.TopicPartition]int64, len(ps))
	for _, p := range ps {
		ends[p.Place()] = p.End
	}
	return ends
}

// fill takes in what a group has committed, but for what is no more.
func (g *Group) fill(committed, ends map[offsets.TopicPartition]int64) {
	g.Lag = 0
	for at, offset := range committed {
		end, there := ends[at]
		if !there {
			continue
		}
		o := GroupOffset{Topic: at.Topic, Partition: at.Partition, Committed: offset, End: end, Lag: admin.Untold}
		if end >= 0 {
			o.Lag = max(0, end-offset)
		}
		g.Lag = sum(g.Lag, o.Lag)
		g.Offsets = append(g.Offsets, o)
	}
	slices.SortFunc(g.Offsets, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// sum is untold where one of both is.
func sum(a, b int64) int64 {
	if a < 0 || b < 0 {
		return admin.Untold
	}
	return a + b
}
