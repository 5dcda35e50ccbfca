package loader

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"sawlog/offsets"
)

// SealHours decides which hours are complete once a plan's inputs and files are
// committed on top of a fold. It is a pure function: the clock is the plan's.
//
// An hour with rows is sealed when every partition of the data set has passed
// its end by the lateness: by its watermark, or by being idle, which is to have
// been loaded to the last stable offset when the plan was made, later than that
// instant. A partition of a topic that was made again under another id counts no
// more; one the plan does not name must pass by its watermark.
func SealHours(f *Fold, p *Plan, inputs []Input, files []File, end func(hour int64) int64) []int64 {
	passed := passedBy(f, p, inputs)
	if passed == math.MinInt64 {
		return nil
	}
	open := map[int64]bool{}
	for hour, h := range f.Hours {
		if h.Rows > 0 && h.Sealed == NotSealed {
			open[hour] = true
		}
	}
	for i := range files {
		if hour := files[i].Hour; hour != nil && !f.SealedBy(*hour, f.Head) {
			open[*hour] = true
		}
	}
	var sealed []int64
	for _, hour := range slices.Sorted(maps.Keys(open)) {
		if end(hour)*1e6+p.Bucket.Lateness*1e3 <= passed {
			sealed = append(sealed, hour)
		}
	}
	return sealed
}

// passedBy is the event time, in microseconds, all partitions have passed;
// MinInt64 = none.
func passedBy(f *Fold, p *Plan, inputs []Input) int64 {
	reached := map[PartitionKey]int64{}
	idle := map[PartitionKey]bool{}
	current := map[string]offsets.TopicID{}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		reached[in.Key(p.Cluster)] = NoWatermark
		idle[in.Key(p.Cluster)] = in.End == in.LastStable
		current[in.Topic] = in.TopicID
	}
	for key, part := range f.Partitions {
		if id, planned := current[part.Topic]; planned && id != key.TopicID {
			continue // the topic was made again
		}
		reached[key] = part.Watermark
	}
	for i := range inputs {
		in := &inputs[i]
		reached[in.key()] = max(reached[in.key()], in.Watermark)
	}
	if len(reached) == 0 {
		return math.MinInt64
	}
	passed := int64(math.MaxInt64)
	for key, watermark := range reached {
		if idle[key] {
			watermark = max(watermark, p.Now*1000-1)
		}
		passed = min(passed, watermark)
	}
	return passed
}

// sealed is what a plan's results come to, checked against the plan.
type sealed struct {
	inputs  []Input
	files   []File
	results []*Result // one per split
	mutable bool      // attempts differ because the log was compacted in between
}

// sum merges the chosen results into one count per partition of the plan, in
// the plan's order, and checks that together they cover it.
func (p *Plan) sum(chosen []*Result) (*sealed, error) {
	out := &sealed{results: chosen}
	at := map[PartitionKey]int{}
	covered := map[PartitionKey]offsets.Set{}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		at[in.Key(p.Cluster)] = i
		out.inputs = append(out.inputs, Input{
			Cluster: p.Cluster, TopicID: in.TopicID, Topic: in.Topic, Partition: in.Partition,
			Range: in.Range, Watermark: NoWatermark,
		})
	}
	for _, r := range chosen {
		for i := range r.Inputs {
			in := &r.Inputs[i]
			n, planned := at[in.key()]
			if !planned || covered[in.key()].Overlaps(in.Range) {
				return nil, fmt.Errorf("split %d: %s/%d=%s is not planned, or counted twice", r.Split, in.Topic, in.Partition, in.Range)
			}
			covered[in.key()] = covered[in.key()].Add(in.Range)
			out.inputs[n].add(in)
		}
		out.files = append(out.files, r.Files...)
	}
	for i := range p.Inputs {
		in, total := &p.Inputs[i], &out.inputs[i]
		have := covered[in.Key(p.Cluster)]
		// The part retention had removed when the plan was made is in no split.
		gone := offsets.Range{Start: in.Start, End: in.Start + offsets.Offset(in.Gap)}
		if in.Gap > 0 && !have.Overlaps(gone) {
			have = have.Add(gone)
			total.Gap += in.Gap
		}
		if !have.Covers(in.Range) || have.Len() != in.Len() || total.Accounted() != in.Len() {
			return nil, fmt.Errorf("%s/%d=%s: the splits cover %v and account for %d of %d offsets",
				in.Topic, in.Partition, in.Range, have, total.Accounted(), in.Len())
		}
	}
	slices.SortFunc(out.files, func(a, b File) int { return compareFiles(&a, &b) })
	return out, nil
}

// compareFiles orders by hour, then path; quarantine files come last.
func compareFiles(a, b *File) int {
	switch {
	case a.Hour == nil && b.Hour != nil:
		return 1
	case a.Hour != nil && b.Hour == nil:
		return -1
	case a.Hour != nil && *a.Hour != *b.Hour:
		if *a.Hour < *b.Hour {
			return -1
		}
		return 1
	case a.Path < b.Path:
		return -1
	case a.Path > b.Path:
		return 1
	default:
		return 0
	}
}

// add counts a further piece of the same partition.
func (in *Input) add(piece *Input) {
	in.Add(&piece.Account)
	in.Watermark = max(in.Watermark, piece.Watermark)
}
