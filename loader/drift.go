package loader

import (
	"cmp"
	"fmt"
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

// Wider is the type that holds what the column has and what was seen, and that a
// rewrite can give it; "" = there is none.
func (d *Drift) Wider() string {
	of, seen, one := strings.Cut(d.Seen, " ") // avro long
	if !one {
		of, seen = "", d.Seen
	}
	whole := d.Type == "int32" || d.Type == "int64"
	switch {
	case d.Type == "int32" && (seen == "int64" || seen == "long" || seen == "uint32"):
		return "int64"
	case (whole || d.Type == "float") && (seen == "double" || seen == "float"):
		return "double"
	case of == "protobuf", strings.HasPrefix(d.Type, "string"), strings.HasPrefix(d.Type, "bytes"), strings.ContainsAny(d.Type, "<"):
		return ""
	default:
		return "json"
	}
}

// WayOut says how the records get into the column after all.
func (d *Drift) WayOut(dataset, run string) string {
	wider := d.Wider()
	if wider == "" {
		return fmt.Sprintf("no wider type holds what column %s has and what was seen: repair what is sent, or load into another root", d.Column)
	}
	return fmt.Sprintf("declare %s as %s under schema: and apply the job; sawlog out rewrite %s --job FILE gives all files the type, then sawlog out requeue %s loads what is in quarantine",
		d.Column, wider, dataset, run)
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
