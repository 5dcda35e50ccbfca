package formats

import (
	"slices"
	"strings"

	"sawlog/formats/protobuf"
)

// The columns of a Protobuf message:
//
//	bool int32 sint32 sfixed32 int64 sint64 sfixed64   bool int32 int64
//	uint32 fixed32, uint64 fixed64                     int64, decimal(20,0)
//	float double string bytes                          float double string bytes
//	enum                                               string: its name; a number without one as digits
//	message, group                                     struct
//	message without fields                             bool, true where it is present
//	repeated, map                                      list, map with the keys' text (never null: they have no presence)
//	google.protobuf.Timestamp, …Value                  timestamp_us, the value or null
//	google.protobuf.Struct, Value, ListValue           json
//	a message within itself, depth beyond 32           json
//
// A value without presence is never null: what is not on the wire is zero. A
// member of a oneof, an optional value and a message that are absent are null.
type protobufColumns struct {
	filter *filter
	within []*protobuf.Message
	depth  int
}

func (c *protobufColumns) members(m *protobuf.Message, keys []string, names namer) []Field {
	c.within = append(c.within, m)
	defer func() { c.within = c.within[:len(c.within)-1] }()
	var out []Field
	for i := range m.Fields {
		f := &m.Fields[i]
		path := append(keys[:len(keys):len(keys)], f.Name)
		if !c.filter.keeps(path) {
			continue
		}
		column := Field{Name: f.Name, Type: c.column(f, path)}
		if len(keys) > 0 {
			if column.Name = names.take(f.Name); column.Name != f.Name {
				column.From = []string{f.Name}
			}
		}
		out = append(out, column)
	}
	return out
}

func (c *protobufColumns) column(f *protobuf.Field, keys []string) *Type {
	c.depth++
	defer func() { c.depth-- }()
	if c.filter.hashes(keys, strings.Join(keys, ".")) {
		return &Type{Kind: String}
	}
	switch {
	case f.Map:
		return &Type{Kind: Map, Elem: c.single(&f.Message.Fields[1], keys)}
	case f.Repeated:
		return &Type{Kind: List, Elem: c.single(f, keys)}
	default:
		return c.single(f, keys)
	}
}

// single is the type of one value.
func (c *protobufColumns) single(f *protobuf.Field, keys []string) *Type {
	if f.Kind != protobuf.Submessage {
		return protobufScalar(f.Kind)
	}
	m := f.Message
	switch {
	case m.Name == protobuf.Timestamp:
		return &Type{Kind: Timestamp, Unit: Micros}
	case m.Wrapper():
		return protobufScalar(m.Fields[0].Kind)
	case m.Free() || c.depth > MaxDepth/2: // a list of structs is two levels
		return &Type{Kind: JSON}
	}
	if slices.Contains(c.within, m) {
		return &Type{Kind: JSON}
	}
	if members := c.members(m, keys, namer{}); len(members) > 0 {
		return &Type{Kind: Struct, Fields: members}
	}
	return &Type{Kind: Bool}
}

func protobufScalar(k protobuf.Kind) *Type {
	switch k {
	case protobuf.Bool:
		return &Type{Kind: Bool}
	case protobuf.Int32, protobuf.Sint32, protobuf.Sfixed32:
		return &Type{Kind: Int32}
	case protobuf.Uint64, protobuf.Fixed64:
		return &Type{Kind: Decimal, Precision: 20}
	case protobuf.Float:
		return &Type{Kind: Float}
	case protobuf.Double:
		return &Type{Kind: Double}
	case protobuf.String, protobuf.Enum:
		return &Type{Kind: String}
	case protobuf.Bytes:
		return &Type{Kind: Bytes}
	default:
		return &Type{Kind: Int64}
	}
}
