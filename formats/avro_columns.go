package formats

import (
	"slices"
	"strings"

	"sawlog/formats/avro"
)

// The columns of an Avro schema:
//
//	boolean int long float double bytes string   bool int32 int64 float double bytes string
//	enum, fixed                                  string, bytes
//	decimal up to 38 digits, longer              decimal(p,s), string
//	date, timestamp-*, local-timestamp-*         date, timestamp_*, timestamp_*_local
//	time-millis, time-micros                     int32 ms, int64 µs since midnight
//	uuid, duration                               uuid, struct<months,days,millis: int64>
//	record, array, map                           struct, list, map
//	record without fields                        bool, true where it is present
//	union of null and T, of T alone              T
//	union of int and long, float and double      int64, double
//	other unions                                 struct with a member for each branch, named like it
//	a record within itself, depth beyond 32      json
//
// null alone makes no column. A schema that is no record has one column, value.

// wholeValue is the key of a value that is no record.
const wholeValue = "value"

// avroDurations are the members of a duration.
var avroDurations = [...]string{"months", "days", "millis"}

type avroColumns struct {
	filter *filter
	within []*avro.Type // records around the type at hand
	depth  int
}

// rowRecord is the record whose fields are the columns; nil = the schema is
// another thing.
func rowRecord(t *avro.Type) *avro.Type {
	if some := t.Optional(); len(some) == 1 && some[0].Kind == avro.Record {
		return some[0]
	}
	return nil
}

// fields are the columns of a schema.
func (c *avroColumns) fields(t *avro.Type) []Field {
	if r := rowRecord(t); r != nil {
		return c.members(r, nil, newNamer(nil))
	}
	if column := c.column(t, []string{wholeValue}); column != nil {
		return []Field{{Name: wholeValue, Type: column}}
	}
	return nil
}

// members are the fields of a record that make columns.
func (c *avroColumns) members(r *avro.Type, keys []string, names namer) []Field {
	c.within = append(c.within, r)
	defer func() { c.within = c.within[:len(c.within)-1] }()
	var out []Field
	for i := range r.Fields {
		out = c.member(out, r.Fields[i].Name, r.Fields[i].Type, keys, names)
	}
	return out
}

func (c *avroColumns) member(out []Field, key string, t *avro.Type, keys []string, names namer) []Field {
	path := append(keys[:len(keys):len(keys)], key)
	if !c.filter.keeps(path) {
		return out
	}
	column := c.column(t, path)
	if column == nil {
		return out
	}
	f := Field{Name: key, Type: column}
	if len(keys) > 0 {
		if f.Name = names.take(key); f.Name != key {
			f.From = []string{key}
		}
	}
	return append(out, f)
}

// column is the type of a column; nil = none.
func (c *avroColumns) column(t *avro.Type, keys []string) *Type {
	if c.filter.hashes(keys, strings.Join(keys, ".")) {
		return &Type{Kind: String}
	}
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > MaxDepth {
		return &Type{Kind: JSON}
	}
	switch t.Kind {
	case avro.Null:
		return nil
	case avro.Union:
		return c.union(t, keys)
	case avro.Array, avro.Map:
		elem := c.column(t.Elem, keys)
		if elem == nil {
			return nil
		}
		if t.Kind == avro.Map {
			return &Type{Kind: Map, Elem: elem}
		}
		return &Type{Kind: List, Elem: elem}
	case avro.Record:
		if slices.Contains(c.within, t) {
			return &Type{Kind: JSON}
		}
		if members := c.members(t, keys, namer{}); len(members) > 0 {
			return &Type{Kind: Struct, Fields: members}
		}
		return &Type{Kind: Bool}
	default:
		return avroScalar(t)
	}
}

func (c *avroColumns) union(t *avro.Type, keys []string) *Type {
	some := t.Optional()
	switch len(some) {
	case 0:
		return nil
	case 1:
		return c.column(some[0], keys)
	case 2:
		if merged := mergedNumber(some[0], some[1]); merged != nil {
			return merged
		}
	}
	s, names := &Type{Kind: Struct}, namer{}
	for _, b := range some {
		s.Fields = c.member(s.Fields, b.ShortName(), b, keys, names)
	}
	if len(s.Fields) == 0 {
		return nil
	}
	return s
}

// mergedNumber is the type of a union of two widths of one kind of number.
func mergedNumber(a, b *avro.Type) *Type {
	if a.Logical != "" || b.Logical != "" {
		return nil
	}
	switch [2]avro.Kind{min(a.Kind, b.Kind), max(a.Kind, b.Kind)} {
	case [2]avro.Kind{avro.Int, avro.Long}:
		return &Type{Kind: Int64}
	case [2]avro.Kind{avro.Float, avro.Double}:
		return &Type{Kind: Double}
	default:
		return nil
	}
}

func avroScalar(t *avro.Type) *Type {
	switch t.Logical {
	case "decimal":
		if t.Precision > 38 || t.Scale > t.Precision || t.Scale < 0 {
			return &Type{Kind: String}
		}
		return &Type{Kind: Decimal, Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case "uuid":
		return &Type{Kind: UUID}
	case "date":
		return &Type{Kind: Date}
	case "duration":
		s := &Type{Kind: Struct}
		for _, name := range avroDurations {
			s.Fields = append(s.Fields, Field{Name: name, Type: &Type{Kind: Int64}})
		}
		return s
	}
	if unit, local, ok := avroTimestamp(t.Logical); ok {
		return &Type{Kind: Timestamp, Unit: unit, Local: local}
	}
	kinds := map[avro.Kind]Kind{
		avro.Boolean: Bool, avro.Int: Int32, avro.Long: Int64, avro.Float: Float, avro.Double: Double,
		avro.Bytes: Bytes, avro.Fixed: Bytes, avro.String: String, avro.Enum: String,
	}
	return &Type{Kind: kinds[t.Kind]}
}

// avroTimestamp reads the name of a timestamp's logical type.
func avroTimestamp(logical string) (unit TimeUnit, local, ok bool) {
	name, local := strings.CutPrefix(logical, "local-")
	switch name {
	case "timestamp-millis":
		return Millis, local, true
	case "timestamp-micros":
		return Micros, local, true
	case "timestamp-nanos":
		return Nanos, local, true
	}
	return 0, false, false
}
