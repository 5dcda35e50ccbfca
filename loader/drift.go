package loader

import (
	"cmp"
	"slices"
	"strings"

	"sawlog/formats"
)

// Drift is one way in which records no longer fit the schema: values of a kind
// that their column can't hold. The records are in quarantine, each counted for
// the first such value it has.
type Drift struct {
	Column  string `json:"column"` // dotted names
	Type    string `json:"type"`   // of the column
	Seen    string `json:"seen"`   // the kind of the values
	Records int64  `json:"records"`
}

// Column is a column that a run brought to its data set.
type Column struct {
	Name string `json:"column"` // dotted names; that of a struct's new member too
	Type string `json:"type"`
}

// maxDrift bounds the kinds of drift that are listed; the quarantine files tell
// all of it.
const maxDrift = 100

// driftOf joins what results met, most records first.
func driftOf(results []*Result) []Drift {
	counts := map[Drift]int64{}
	for _, r := range results {
		for _, d := range r.Drift {
			n := d.Records
			d.Records = 0
			counts[d] += n
		}
	}
	return driftList(counts)
}

// driftList lists what was counted by kind.
func driftList(counts map[Drift]int64) []Drift {
	var out []Drift
	for d, n := range counts {
		d.Records = n
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(a.Column, b.Column), strings.Compare(a.Type, b.Type), strings.Compare(a.Seen, b.Seen))
	})
	return out[:min(len(out), maxDrift)]
}

// newColumns lists what a schema has and an earlier one has not; nothing before
// the first.
func newColumns(before, after *formats.Schema) []Column {
	if before == nil || after == nil {
		return nil
	}
	return appendNew(nil, "", before.Fields, after.Fields)
}

func appendNew(out []Column, prefix string, before, after []formats.Field) []Column {
	had := map[string]*formats.Type{}
	for i := range before {
		had[before[i].Name] = before[i].Type
	}
	for i := range after {
		name := prefix + after[i].Name
		was, is := had[after[i].Name], after[i].Type
		if was == nil {
			out = append(out, Column{name, is.String()})
			continue
		}
		for was.Elem != nil && is.Elem != nil { // of lists and maps
			was, is = was.Elem, is.Elem
		}
		out = appendNew(out, name+".", was.Fields, is.Fields)
	}
	return out
}
