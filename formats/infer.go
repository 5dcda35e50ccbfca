package formats

import (
	"fmt"
	"slices"
)

// Inference watches records for paths a schema has not.
type Inference struct {
	o      Options
	filter *filter
	report *Report
}

// NewInference starts with nothing seen. The schema a data set has matters only
// to Report.Extend, so every record's paths are kept.
func NewInference(_ *Schema, o Options) *Inference {
	return &Inference{o: o, filter: o.filter(), report: &Report{Root: &Seen{}}}
}

// Observe looks at one record; its error is *BadRecord or ErrSkip. A record
// whose values or time do not fit is looked at all the same: its paths count.
func (in *Inference) Observe(m *Message) error {
	if m.Value == nil {
		if in.o.Tombstones == "row" {
			return nil
		}
		return ErrSkip
	}
	if in.o.framed() {
		return in.schema(m)
	}
	if in.o.Value != "json" {
		return nil
	}
	n, err := parseJSON(m.Value)
	if err != nil {
		return err
	}
	if err := checkNumbers(n); err != nil {
		return err
	}
	in.report.Records++
	in.members(in.report.Root, n, nil, -1)
	in.report.Root.trim(true)
	return nil
}

// schema notes the schema that a record names, if the plan has it not.
func (in *Inference) schema(m *Message) error {
	id, err := schemaID(m.Value)
	if err != nil {
		return err
	}
	if in.o.writer(id) == nil && !slices.Contains(in.report.Schemas, id) {
		in.report.Schemas = append(in.report.Schemas, id)
	}
	return nil
}

// Report is what was seen so far.
func (in *Inference) Report() *Report { return Merge(in.report, nil) }

// checkNumbers refuses a record with a number no type holds, such as 1e400; an
// integer of any length is held as text.
func checkNumbers(n *jsonNode) error {
	if n.kind == '#' && !integral(n.raw) {
		if _, ok := parseDouble(n.raw); !ok {
			return &BadRecord{BadNumber, fmt.Sprintf("no double is as large as %.40s", n.raw)}
		}
	}
	for _, kid := range n.kids {
		if err := checkNumbers(kid); err != nil {
			return err
		}
	}
	return nil
}

// members notes the members of an object at depth; the record is at -1.
func (in *Inference) members(seen *Seen, n *jsonNode, keys []string, depth int) {
	if seen.Fields == nil {
		seen.Fields = make(map[string]*Seen, len(n.keys))
	}
	for i, key := range n.keys {
		path := append(keys[:len(keys):len(keys)], string(key))
		if !in.filter.trivial() && !in.filter.keeps(path) {
			continue
		}
		at := seen.Fields[string(key)]
		if at == nil {
			at = &Seen{}
			seen.Fields[string(key)] = at
		}
		in.value(at, n.kids[i], path, depth+1)
	}
}

func (in *Inference) value(seen *Seen, n *jsonNode, keys []string, depth int) {
	switch n.kind {
	case 't', 'f':
		seen.Kinds |= SeenBool
	case '"':
		seen.Kinds |= SeenString
	case '#':
		seen.number(n.raw)
	case '[', '{':
		kinds := [...]SeenKinds{SeenEmptyList, SeenList, SeenEmptyObject, SeenObject}
		at := min(len(n.kids), 1)
		if n.kind == '{' {
			at += 2
		}
		seen.Kinds |= kinds[at]
		switch {
		case len(n.kids) == 0 || seen.Kinds&SeenCrowded != 0:
		case depth == MaxDepth:
			if hasContent(n, keys, in.filter) {
				seen.Kinds |= SeenDeep
			}
		case n.kind == '{':
			in.members(seen, n, keys, depth)
			seen.trim(false)
		default:
			if seen.Elem == nil {
				seen.Elem = &Seen{}
			}
			for _, kid := range n.kids {
				in.value(seen.Elem, kid, keys, depth+1)
			}
		}
	}
}

// number notes a number literal.
func (n *Seen) number(text []byte) {
	whole, scale, _ := digitsOf(text)
	n.Whole, n.Scale = max(n.Whole, whole), max(n.Scale, scale)
	if !integral(text) || isMinusZero(text) {
		n.Kinds |= SeenDouble
		return
	}
	v, ok := parseInt(text)
	switch {
	case ok && v <= maxExactInt && v >= -maxExactInt:
		n.Kinds |= SeenInt
	case ok:
		n.Kinds |= SeenInt | SeenWide
	case whole <= 38:
		n.Kinds |= SeenBig
	default:
		n.Kinds |= SeenHuge
	}
}
