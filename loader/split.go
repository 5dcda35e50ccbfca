package loader

import (
	"math"

	"sawlog/formats"
	"sawlog/offsets"
)

// The numbers of the writer that a plan freezes.
const (
	batchRows  = 8192
	batchBytes = 8 << 20
	groupBytes = 64 << 20
	groupRows  = 1 << 20

	pagesBytes   = 32 << 20 // pages of all columns together
	minPageBytes = 16 << 10
	maxPageBytes = 1 << 20

	dictsBytes   = 4 << 20 // dictionaries of all columns together
	minDictBytes = 4 << 10
	maxDictBytes = 512 << 10
)

// pageLimit is the page limit of a file of that schema.
func pageLimit(s *formats.Schema) int64 {
	columns := max(1, len(s.Leaves()))
	return min(max(pagesBytes/int64(columns), minPageBytes), maxPageBytes)
}

// dictLimit is the dictionary limit of a file of that schema.
func dictLimit(s *formats.Schema) int64 {
	columns := max(1, len(s.Leaves()))
	return min(max(dictsBytes/int64(columns), minDictBytes), maxDictBytes)
}

// fallbackDensity is taken for a partition whose size is not told, in bytes of
// the log per offset.
const fallbackDensity = 256

// sized is a range with the size it is thought to have in the log.
type sized struct {
	SplitRange
	density float64 // bytes per offset
}

func (r sized) bytes() float64 { return float64(r.Len()) * r.density }

// cut makes splits of ranges in (topic, partition) order. Each range is cut
// into equal numbers of offsets that are thought to hold target bytes at most;
// pieces are then packed in order while they stay below the target together.
// Never merging leaves one range to a split; auto packs only pieces of less
// than half the target, so that big partitions keep files of their own.
func cut(ranges []sized, target int64, merge string) []Split {
	var splits []Split
	var open []SplitRange // pieces of the split being packed
	var filled float64
	flush := func() {
		if len(open) > 0 {
			splits = append(splits, Split{Index: len(splits), Ranges: open})
		}
		open, filled = nil, 0
	}
	for _, r := range ranges {
		for _, piece := range pieces(r, target) {
			small := piece.bytes() < float64(target)/2
			packs := merge == mergeAlways || merge == mergeAuto && small
			if !packs || filled+piece.bytes() > float64(target) {
				flush()
			}
			open = append(open, piece.SplitRange)
			filled += piece.bytes()
			if !packs {
				flush()
			}
		}
	}
	flush()
	return splits
}

// pieces cuts one range into equal numbers of offsets.
func pieces(r sized, target int64) []sized {
	if r.Empty() {
		return nil
	}
	n := int64(math.Ceil(r.bytes() / float64(target)))
	n = min(max(n, 1), r.Len(), maxSplits)
	out := make([]sized, 0, n)
	for i := range n {
		p := r
		p.Start = r.Start + offsets.Offset(mulDiv(r.Len(), i, n))
		p.End = r.Start + offsets.Offset(mulDiv(r.Len(), i+1, n))
		out = append(out, p)
	}
	return out
}

// maxSplits bounds the splits of one partition.
const maxSplits = 10_000

// mulDiv is length·i/n without overflow, for i ≤ n ≤ maxSplits.
func mulDiv(length, i, n int64) int64 { return length/n*i + length%n*i/n }
