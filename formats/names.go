package formats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sawlog/formats/avro"
)

// namer gives columns names that letter case does not confuse.
type namer map[string]bool

// newNamer knows the names that are taken before any column: metadata columns,
// whether asked for or not, and path keys.
func newNamer(reserved []string) namer {
	n := namer{}
	for _, name := range MetadataColumns {
		n[name] = true
	}
	for _, name := range reserved {
		n[fold(name)] = true
	}
	return n
}

// take gives name, or name_2, name_3 … where it is taken.
func (n namer) take(name string) string {
	if name == "" {
		name = "_"
	}
	try := name
	for i := 2; n[fold(try)]; i++ {
		try = name + "_" + strconv.Itoa(i)
	}
	n[fold(try)] = true
	return try
}

// Base is the schema a data set starts with: metadata columns, then the
// declared columns (nil = none: every field of CSV and of a pattern as a string,
// the value column of other text and of raw, and inference for JSON), with
// include, exclude, rename and hash applied.
func (o *Options) Base(declared *Schema) (*Schema, error) {
	s := &Schema{Inferred: declared == nil && o.Value == "json"}
	wanted := o.Metadata
	if wanted == nil {
		wanted = DefaultMetadata[:]
	}
	for _, name := range MetadataColumns {
		if slices.Contains(wanted, name) {
			s.Fields = append(s.Fields, Field{Name: name, Type: o.metadataType(name)})
		}
	}
	var fields []Field
	if declared != nil {
		s.Inferred = declared.Inferred
		for _, f := range declared.Fields {
			if !f.Metadata() {
				fields = append(fields, f)
			}
		}
	} else {
		var err error
		if fields, err = o.fixedFields(); err != nil {
			return nil, err
		}
	}
	names, keep := newNamer(o.Reserved), o.filter()
	for _, f := range fields {
		keys := f.Keys()
		if !keep.keeps(keys) {
			continue
		}
		name := f.Name
		if to, ok := o.renamed(keys, name); ok {
			name = to
		}
		name = names.take(name)
		if keep.hashes(keys, name) {
			f.Type = &Type{Kind: String}
		}
		column := Field{Name: name, Type: f.Type}
		if len(keys) != 1 || keys[0] != name {
			column.From = keys
		}
		s.Fields = append(s.Fields, column)
	}
	if s.Inferred {
		return s, nil // may still have no column at all
	}
	if err := s.Validate(); err != nil || o.Value == "json" {
		return s, err
	}
	_, err := NewDecoder(s, *o) // refuses columns that nothing fills, or that can't hold what does
	return s, err
}

// fixedFields are the fields that are known before any record; none of JSON.
func (o *Options) fixedFields() (fields []Field, err error) {
	switch {
	case o.Value == "csv" || o.Pattern != "":
		names, _, err := o.fieldNames()
		for _, name := range names {
			fields = append(fields, Field{Name: name, Type: &Type{Kind: String}})
		}
		return fields, err
	case o.Value == "text":
		return []Field{{Name: wholeValue, Type: &Type{Kind: String}}}, nil
	case o.Value == "raw":
		return []Field{{Name: wholeValue, Type: &Type{Kind: Bytes}}}, nil
	case o.wire():
		return o.wireFields()
	}
	return nil, nil
}

// wireFields are the columns of the schema of the wire.
func (o *Options) wireFields() ([]Field, error) {
	if o.Schema == nil {
		return nil, fmt.Errorf("decode.schema: the registry was not asked yet")
	}
	if o.Value == "protobuf" {
		m, err := o.message()
		if err != nil {
			return nil, err
		}
		c := protobufColumns{filter: o.filter()}
		return c.members(m, nil, newNamer(nil)), nil
	}
	t, err := avro.Parse(o.Schema.Text...)
	if err != nil {
		return nil, err
	}
	c := avroColumns{filter: o.filter()}
	return c.fields(t), nil
}

// renamed is the new name of a column, asked for by its path or its own name.
func (o *Options) renamed(keys []string, name string) (string, bool) {
	if to, ok := o.Rename[strings.Join(keys, ".")]; ok {
		return to, true
	}
	to, ok := o.Rename[name]
	return to, ok
}

// metadataType is the type of a metadata column.
func (o *Options) metadataType(name string) *Type {
	switch name {
	case "_topic":
		return &Type{Kind: String}
	case "_partition":
		return &Type{Kind: Int32}
	case "_offset":
		return &Type{Kind: Int64}
	case "_timestamp":
		return &Type{Kind: Timestamp, Unit: Millis}
	case "_headers":
		return &Type{Kind: List, Elem: &Type{Kind: Struct, Fields: []Field{
			{Name: "key", Type: &Type{Kind: String}}, {Name: "value", Type: &Type{Kind: Bytes}},
		}}}
	case "_tombstone":
		return &Type{Kind: Bool}
	}
	switch o.Key { // _key
	case "string":
		return &Type{Kind: String}
	case "json":
		return &Type{Kind: JSON}
	}
	return &Type{Kind: Bytes}
}

// fold is a name as readers compare it that ignore letter case.
func fold(name string) string { return strings.ToLower(name) }
