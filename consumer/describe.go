package consumer

import (
	"context"

	"sawlog/offsets"
)

// Topic is a topic as a cluster describes it.
type Topic struct {
	Name       string
	ID         offsets.TopicID // zero when the cluster knows none
	Internal   bool
	Compact    bool // cleanup.policy names compact
	Partitions []Partition
}

// Partition is a partition of a Topic; LogStart ≤ LastStable ≤ HighWatermark.
type Partition struct {
	Index         int32
	Leader        offsets.BrokerID
	Epoch         offsets.Epoch
	LogStart      offsets.Offset
	LastStable    offsets.Offset
	HighWatermark offsets.Offset
	Size          int64 // bytes of the log on its leader; -1 = not told
}

// Describe names the topics asked for (or, with a pattern, those whose whole
// name matches it; internal ones only by name) in order of name, and the id of
// the cluster.
func Describe(ctx context.Context, c Cluster, names []string, pattern string) ([]Topic, string, error) {
	panic("unwritten")
}

// OffsetForTime is the first offset of the partition whose record has a
// timestamp ≥ ms; the last stable offset when there is none.
func OffsetForTime(ctx context.Context, c Cluster, tps []offsets.TopicPartition, ms int64) (map[offsets.TopicPartition]offsets.Offset, error) {
	panic("unwritten")
}
