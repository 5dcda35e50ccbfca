package offsets

import (
	"fmt"
	"sort"
)

// Range is the half-open interval [Start, End) of one partition.
type Range struct {
	Start Offset `json:"start"`
	End   Offset `json:"end"`
}

// Len is the number of offsets in the range.
func (r Range) Len() int64 { return max(0, int64(r.End-r.Start)) }

// Empty tells whether the range holds no offset.
func (r Range) Empty() bool { return r.End <= r.Start }

// Contains tells whether o lies in [Start, End).
func (r Range) Contains(o Offset) bool { return r.Start <= o && o < r.End }

// Overlaps tells whether the two ranges share an offset.
func (r Range) Overlaps(other Range) bool {
	return !r.Empty() && !other.Empty() && r.Start < other.End && other.Start < r.End
}

// String prints "1200..9800".
func (r Range) String() string { return fmt.Sprintf("%d..%d", r.Start, r.End) }

// Set is a set of offsets of one partition: disjoint, non-empty ranges in
// ascending order, neighbours merged. The zero value is the empty set.
type Set []Range

// Add returns the set with r in it.
func (s Set) Add(r Range) Set {
	if r.Empty() {
		return s
	}
	i := sort.Search(len(s), func(i int) bool { return s[i].End >= r.Start })
	j := i
	for j < len(s) && s[j].Start <= r.End {
		r.Start, r.End = min(r.Start, s[j].Start), max(r.End, s[j].End)
		j++
	}
	out := make(Set, 0, len(s)-(j-i)+1)
	out = append(out, s[:i]...)
	out = append(out, r)
	return append(out, s[j:]...)
}

// Remove returns the set without the offsets of r.
func (s Set) Remove(r Range) Set {
	if r.Empty() {
		return s
	}
	var out Set
	for _, have := range s {
		if left := (Range{have.Start, min(have.End, r.Start)}); !left.Empty() {
			out = append(out, left)
		}
		if right := (Range{max(have.Start, r.End), have.End}); !right.Empty() {
			out = append(out, right)
		}
	}
	return out
}

// Overlaps tells whether any offset of r is in the set.
func (s Set) Overlaps(r Range) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].End > r.Start })
	return i < len(s) && s[i].Overlaps(r)
}

// Covers tells whether every offset of r is in the set.
func (s Set) Covers(r Range) bool { return r.Empty() || s.ContiguousEnd(r.Start) >= r.End }

// ContiguousEnd is the end of the unbroken run of offsets that starts at
// start: start itself when start is not in the set.
func (s Set) ContiguousEnd(start Offset) Offset {
	i := sort.Search(len(s), func(i int) bool { return s[i].End > start })
	if i < len(s) && s[i].Contains(start) {
		return s[i].End
	}
	return start
}

// Len is the number of offsets in the set.
func (s Set) Len() int64 {
	var n int64
	for _, r := range s {
		n += r.Len()
	}
	return n
}
