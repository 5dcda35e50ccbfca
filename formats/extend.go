package formats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Extend returns base with new columns appended in byte order of their path
// and new members appended to its structs; nothing base has is changed. A nil
// base means the first inference of a data set. It is a function of its
// arguments only.
func (r *Report) Extend(base *Schema, o Options) (*Schema, error) {
	if base == nil {
		var err error
		if base, err = o.Base(nil); err != nil {
			return nil, err
		}
	}
	out := &Schema{Fields: slices.Clone(base.Fields), Inferred: base.Inferred}
	if r == nil || r.Root == nil || !base.Inferred || base.hasRest() {
		return out, nil
	}
	e := extension{o: &o, filter: o.filter(), budget: MaxColumns - 1, crowded: r.Root.Kinds&SeenCrowded != 0}
	names, known := newNamer(o.Reserved), make(map[string]bool, len(out.Fields))
	for i := range out.Fields {
		f := &out.Fields[i]
		names[fold(f.Name)] = true
		e.budget -= f.Type.width()
		if !f.Metadata() {
			known[f.Keys()[0]] = true
		}
	}
	for i := range out.Fields {
		f := &out.Fields[i]
		if keys := f.Keys(); !f.Metadata() && len(keys) == 1 {
			f.Type = e.grow(f.Type, r.Root.Fields[keys[0]], keys)
		}
	}
	for _, f := range e.columns(r.Root, known) {
		f.Name = names.take(f.Name)
		if f.Name == f.From[0] {
			f.From = nil
		}
		out.Fields = append(out.Fields, f)
	}
	if e.crowded {
		out.Fields = append(out.Fields, Field{Name: names.take("_rest"), From: slices.Clone(restPath[:]), Type: &Type{Kind: JSON}})
	}
	if len(out.Fields) == 0 {
		return out, nil
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("inferred schema: %w", err)
	}
	return out, nil
}

// extension adds what was seen to a schema, within a number of leaves.
type extension struct {
	o       *Options
	filter  *filter
	budget  int
	crowded bool // something found no room: the rest column is needed
}

// columns makes new top-level columns. Too wide ones, the widest first, become
// JSON text before any is left to the rest column.
func (e *extension) columns(root *Seen, known map[string]bool) []Field {
	var fields []Field
	width := 0
	for _, key := range slices.Sorted(maps.Keys(root.Fields)) {
		if known[key] {
			continue
		}
		if t := e.resolve(root.Fields[key], []string{key}); t != nil {
			f := Field{Name: key, From: []string{key}, Type: t}
			if name, ok := e.o.renamed(f.From, key); ok {
				f.Name = name
			}
			fields = append(fields, f)
			width += t.width()
		}
	}
	for width > e.budget {
		widest := 0
		for i := range fields {
			if fields[i].Type.width() > fields[widest].Type.width() {
				widest = i
			}
		}
		if len(fields) == 0 || fields[widest].Type.width() == 1 {
			break
		}
		width -= fields[widest].Type.width() - 1
		fields[widest].Type = &Type{Kind: JSON}
	}
	if len(fields) > e.budget && width > e.budget {
		fields = fields[:max(e.budget, 0)]
		e.crowded = true
	}
	e.budget -= min(width, max(e.budget, 0))
	return fields
}

// grow gives t the members that were seen and it has not.
func (e *extension) grow(t *Type, n *Seen, keys []string) *Type {
	if n == nil {
		return t
	}
	switch t.Kind {
	case List:
		if elem := e.grow(t.Elem, n.Elem, keys); elem != t.Elem {
			return &Type{Kind: List, Elem: elem}
		}
	case Struct:
		return e.growStruct(t, n, keys)
	}
	return t
}

func (e *extension) growStruct(t *Type, n *Seen, keys []string) *Type {
	if n.Kinds&SeenCrowded != 0 {
		e.crowded = true
	}
	out := &Type{Kind: Struct, Fields: slices.Clone(t.Fields)}
	names, known := namer{}, map[string]bool{}
	for i := range out.Fields {
		f := &out.Fields[i]
		names[fold(f.Name)] = true
		known[f.Keys()[0]] = true
		f.Type = e.grow(f.Type, n.Fields[f.Keys()[0]], append(keys[:len(keys):len(keys)], f.Keys()[0]))
	}
	for _, f := range e.members(n, known, names, keys) {
		if w := f.Type.width(); w <= e.budget {
			e.budget -= w
		} else if e.budget > 0 {
			f.Type = &Type{Kind: JSON}
			e.budget--
		} else {
			e.crowded = true
			break
		}
		out.Fields = append(out.Fields, f)
	}
	if out.Equal(t) {
		return t
	}
	return out
}

// members resolves the members of an object that are not known.
func (e *extension) members(n *Seen, known map[string]bool, names namer, keys []string) []Field {
	var fields []Field
	for _, key := range slices.Sorted(maps.Keys(n.Fields)) {
		if known[key] {
			continue
		}
		t := e.resolve(n.Fields[key], append(keys[:len(keys):len(keys)], key))
		if t == nil {
			continue
		}
		f := Field{Name: names.take(key), Type: t}
		if f.Name != key {
			f.From = []string{key}
		}
		fields = append(fields, f)
	}
	return fields
}

// hashed says that the column at a path holds digests, so that it is a string
// whatever its values are. A decoder looks at the same names.
func (e *extension) hashed(keys []string) bool {
	name := strings.Join(keys, ".")
	if to, ok := e.o.renamed(keys, name); ok && len(keys) == 1 {
		name = to
	}
	return e.filter.hashes(keys, name)
}

// resolve is the type of a new path; nil = nothing but null, [] and {}.
func (e *extension) resolve(n *Seen, keys []string) *Type {
	if !n.content() {
		return nil
	}
	if e.hashed(keys) {
		return &Type{Kind: String}
	}
	k := n.Kinds
	families := 0
	for _, family := range [...]SeenKinds{SeenBool, SeenString, seenNumbers, SeenList, SeenObject} {
		if k&family != 0 {
			families++
		}
	}
	odd := SeenDeep | SeenCrowded
	switch {
	case k&SeenList != 0:
		odd |= SeenEmptyObject
	case k&SeenObject != 0:
		odd |= SeenEmptyList
	default:
		odd |= SeenEmptyList | SeenEmptyObject
	}
	switch {
	case families != 1 || k&odd != 0:
		return &Type{Kind: JSON}
	case k&SeenBool != 0:
		return &Type{Kind: Bool}
	case k&SeenString != 0:
		return &Type{Kind: String}
	case k&SeenList != 0:
		elem := e.resolve(n.Elem, keys)
		if elem == nil {
			return nil
		}
		return &Type{Kind: List, Elem: elem}
	case k&SeenObject != 0:
		members := e.members(n, nil, namer{}, keys)
		if len(members) == 0 {
			return nil
		}
		return &Type{Kind: Struct, Fields: members}
	default:
		return n.numberType()
	}
}

// numberType is the narrowest type that holds all numbers seen, exactly.
func (n *Seen) numberType() *Type {
	k := n.Kinds
	switch {
	case k&SeenHuge != 0:
		return &Type{Kind: JSON}
	case k&SeenDouble == 0 && k&SeenBig == 0:
		return &Type{Kind: Int64}
	case k&SeenDouble == 0:
		return &Type{Kind: Decimal, Precision: 38}
	case k&(SeenWide|SeenBig) == 0:
		return &Type{Kind: Double}
	case n.Whole+n.Scale <= 38:
		return &Type{Kind: Decimal, Precision: 38, Scale: int32(n.Scale)}
	default:
		return &Type{Kind: JSON}
	}
}
