package loader

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"sawlog/offsets"
)

// extent is a range of one partition that a file has rows of, or bad records.
type extent struct {
	key   PartitionKey
	topic string
	offsets.Range
}

// extents are the ranges of the split a file comes from: all of its rows lie in
// them. They stand in the entry of a file of several ranges or in its name.
func (f *Fold) extent(v *Visible) []extent {
	var out []extent
	if len(v.Parts) == 0 {
		name, ok := ParseFileName(path.Base(v.Path))
		if !ok || name.Merged {
			return nil
		}
		for key, p := range f.Partitions {
			if key.Partition == name.Partition && key.TopicID.Hex()[:8] == name.TopicID {
				out = append(out, extent{key, p.Topic, name.Range})
			}
		}
		return out
	}
	for _, part := range v.Parts {
		for key := range f.Partitions {
			if key.Partition == part.Partition && key.TopicID == part.TopicID {
				out = append(out, extent{key, part.Topic, part.Range})
			}
		}
	}
	return out
}

// compareRanges orders by topic, partition and offset.
func compareRanges(a, b SplitRange) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.TopicID.Hex(), b.TopicID.Hex()),
		cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Start, b.Start))
}

// joined are the ranges of several files in (topic, partition, offset) order,
// those that touch each other as one.
func joined(parts []extent) []SplitRange {
	sets := map[PartitionKey]offsets.Set{}
	topics := map[PartitionKey]string{}
	for _, part := range parts {
		sets[part.key] = sets[part.key].Add(part.Range)
		topics[part.key] = part.topic
	}
	var out []SplitRange
	for key, set := range sets {
		for _, r := range set {
			out = append(out, SplitRange{Topic: topics[key], TopicID: key.TopicID, Partition: key.Partition, Range: r})
		}
	}
	slices.SortFunc(out, compareRanges)
	return out
}
