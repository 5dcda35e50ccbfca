package formats

import (
	"maps"
	"slices"
)

// Report is what inference saw: mergeable, and the same whatever the order the
// records came in and the parts were merged in.
type Report struct {
	Records int64 `json:"records"`
	Root    *Seen `json:"root"`
	// Schemas are the ids of schemas that the plan has not, in their order.
	Schemas []uint32 `json:"schemas,omitempty"`
}

// Seen is what was met at one key path. Everything in it only grows, so that
// merging is a join.
type Seen struct {
	Kinds  SeenKinds        `json:"kinds,omitempty"`
	Whole  int              `json:"whole,omitempty"` // most digits of a number before the point
	Scale  int              `json:"scale,omitempty"` // most digits behind it
	Elem   *Seen            `json:"elem,omitempty"`
	Fields map[string]*Seen `json:"fields,omitempty"`
}

// SeenKinds is a set of kinds of values.
type SeenKinds uint16

// The kinds of values inference tells apart; null leaves no trace.
const (
	SeenBool        SeenKinds = 1 << iota
	SeenString                //
	SeenInt                   // an integer literal in int64
	SeenWide                  // an integer beyond ±2^53, which a double may round
	SeenBig                   // an integer beyond int64, of at most 38 digits
	SeenHuge                  // a longer one
	SeenDouble                // a number with a point or an exponent, or -0
	SeenList                  // a list that is not empty
	SeenObject                // an object that is not empty
	SeenEmptyList             //
	SeenEmptyObject           //
	SeenDeep                  // content at MaxDepth
	SeenCrowded               // more members than are kept
)

const seenNumbers = SeenInt | SeenWide | SeenBig | SeenHuge | SeenDouble

// maxMembers is how many keys of one object are kept: of the record itself the
// first ones in byte order, of any other object none beyond.
const maxMembers = 2 * MaxColumns

// content says that a column could come of it.
func (n *Seen) content() bool {
	if n == nil {
		return false
	}
	if n.Kinds&(SeenBool|SeenString|seenNumbers|SeenDeep|SeenCrowded) != 0 || n.Elem.content() {
		return true
	}
	for _, f := range n.Fields {
		if f.content() {
			return true
		}
	}
	return false
}

// Merge returns what a and b saw together; it leaves both alone.
func Merge(a, b *Report) *Report {
	if a == nil {
		a = &Report{}
	}
	if b == nil {
		b = &Report{}
	}
	ids := slices.Concat(a.Schemas, b.Schemas)
	slices.Sort(ids)
	return &Report{Records: a.Records + b.Records, Root: mergeSeen(a.Root, b.Root, true), Schemas: slices.Compact(ids)}
}

func mergeSeen(a, b *Seen, root bool) *Seen {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		a = &Seen{}
	case b == nil:
		b = &Seen{}
	}
	out := &Seen{
		Kinds: a.Kinds | b.Kinds, Whole: max(a.Whole, b.Whole), Scale: max(a.Scale, b.Scale),
		Elem: mergeSeen(a.Elem, b.Elem, false),
	}
	if len(a.Fields)+len(b.Fields) > 0 {
		out.Fields = make(map[string]*Seen, len(a.Fields)+len(b.Fields))
		for key := range a.Fields {
			out.Fields[key] = mergeSeen(a.Fields[key], b.Fields[key], false)
		}
		for key := range b.Fields {
			if out.Fields[key] == nil {
				out.Fields[key] = mergeSeen(nil, b.Fields[key], false)
			}
		}
	}
	out.trim(root)
	return out
}

// trim bounds the members of an object in a way that does not depend on the
// order they came in.
func (n *Seen) trim(root bool) {
	switch {
	case len(n.Fields) <= maxMembers && n.Kinds&SeenCrowded == 0:
	case !root:
		n.Fields = nil
		n.Kinds |= SeenCrowded
	case len(n.Fields) > maxMembers:
		n.Kinds |= SeenCrowded
		for _, key := range slices.Sorted(maps.Keys(n.Fields))[maxMembers:] {
			delete(n.Fields, key)
		}
	}
}
