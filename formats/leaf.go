package formats

import "strings"

// Store is how the values of a leaf lie in a Vector.
type Store uint8

// The stores of leaf values.
const (
	StoreBool    Store = iota + 1
	StoreInt32         // int32, date, decimal up to 9 digits
	StoreInt64         // int64, timestamps, decimal up to 18 digits
	StoreFloat         // float
	StoreDouble        // double
	StoreBytes         // string, bytes, json: any length
	StoreFixed16       // uuid; wider decimals, big-endian two's complement
)

// Leaf is one column of a file: a primitive at the end of a path.
type Leaf struct {
	Path   []string // in the file: key_value, key, value, list and element included
	Type   *Type    // a primitive
	Store  Store
	MaxDef int16 // 0 = required
	MaxRep int16
	Field  int // the top-level field it belongs to
}

// Leaves lists the primitives of a schema in file order.
func (s *Schema) Leaves() []Leaf {
	var out []Leaf
	for i := range s.Fields {
		f := &s.Fields[i]
		def := int16(1)
		if f.Required() {
			def = 0
		}
		out = leavesOf(out, []string{f.Name}, f.Type, def, 0, i)
	}
	return out
}

// leavesOf walks t, whose presence is definition level def.
func leavesOf(out []Leaf, path []string, t *Type, def, rep int16, field int) []Leaf {
	sub := func(names ...string) []string {
		return append(append(make([]string, 0, len(path)+len(names)), path...), names...)
	}
	switch t.Kind {
	case Struct:
		for i := range t.Fields {
			out = leavesOf(out, sub(t.Fields[i].Name), t.Fields[i].Type, def+1, rep, field)
		}
		return out
	case List:
		return leavesOf(out, sub("list", "element"), t.Elem, def+2, rep+1, field)
	case Map:
		key := Leaf{Path: sub("key_value", "key"), Type: &Type{Kind: String}, Store: StoreBytes, MaxDef: def + 1, MaxRep: rep + 1, Field: field}
		return leavesOf(append(out, key), sub("key_value", "value"), t.Elem, def+2, rep+1, field)
	default:
		return append(out, Leaf{Path: path, Type: t, Store: t.Store(), MaxDef: def, MaxRep: rep, Field: field})
	}
}

// Store is how values of a primitive type lie.
func (t *Type) Store() Store {
	switch t.Kind {
	case Bool:
		return StoreBool
	case Int32, Date:
		return StoreInt32
	case Int64, Timestamp:
		return StoreInt64
	case Float:
		return StoreFloat
	case Double:
		return StoreDouble
	case UUID:
		return StoreFixed16
	case Decimal:
		switch {
		case t.Precision <= 9:
			return StoreInt32
		case t.Precision <= 18:
			return StoreInt64
		}
		return StoreFixed16
	default:
		return StoreBytes
	}
}

// width counts the leaves of a type.
func (t *Type) width() int {
	switch t.Kind {
	case Struct:
		n := 0
		for i := range t.Fields {
			n += t.Fields[i].Type.width()
		}
		return n
	case List:
		return t.Elem.width()
	case Map:
		return 1 + t.Elem.width()
	default:
		return 1
	}
}

// Find looks for what the records have at a dotted key path: a column, or a
// member of structs below one. It gives its type and the first of its leaves;
// nil = no column holds it.
func (s *Schema) Find(path string) (t *Type, leaf int) {
	fields := s.Fields
	for len(fields) > 0 && fields[0].Metadata() {
		leaf += fields[0].Type.width()
		fields = fields[1:]
	}
	return findField(fields, path, leaf)
}

// findField is Find among fields whose first leaf is given.
func findField(fields []Field, path string, leaf int) (*Type, int) {
	for i := range fields {
		f := &fields[i]
		rest, at := strings.CutPrefix(path, strings.Join(f.Keys(), "."))
		if at && rest == "" {
			return f.Type, leaf
		}
		if at && rest[0] == '.' && f.Type.Kind == Struct {
			if t, found := findField(f.Type.Fields, rest[1:], leaf); t != nil {
				return t, found
			}
		}
		leaf += f.Type.width()
	}
	return nil, -1
}
