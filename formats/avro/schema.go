package avro

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"
)

// Kind is a kind of Avro type.
type Kind uint8

// The kinds of the specification.
const (
	Null Kind = iota + 1
	Boolean
	Int
	Long
	Float
	Double
	Bytes
	String
	Record
	Enum
	Array
	Map
	Union
	Fixed
)

var primitives = map[string]Kind{
	"null": Null, "boolean": Boolean, "int": Int, "long": Long, "float": Float, "double": Double, "bytes": Bytes, "string": String,
}

// Type is a type of a schema. A recursive schema makes a cycle of pointers.
type Type struct {
	Kind     Kind
	Logical  string   // a logical type that is defined for the kind; "" = none
	Name     string   // full name of a Record, Enum or Fixed; of others the word of the schema
	Aliases  []string // full names
	Fields   []Field  // of a Record
	Symbols  []string // of an Enum
	Default  string   // of an Enum: what an unknown symbol is read as; "" = none
	Elem     *Type    // of an Array or Map
	Branches []*Type  // of a Union
	Size     int      // of a Fixed, in bytes
	// Precision and Scale are of a decimal.
	Precision, Scale int
}

// Field is a field of a record.
type Field struct {
	Name    string
	Aliases []string
	Type    *Type
	Default []byte // Avro binary of Type; nil = none
}

// Parse reads a schema; texts are those it refers to, in an order in which each
// follows what it refers to, and last the schema itself.
func Parse(texts ...string) (*Type, error) {
	var cache avro.SchemaCache
	p := parser{named: map[string]*Type{}}
	var root *Type
	for _, text := range texts {
		schema, err := cache.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("avro schema: %w", err)
		}
		if root, err = p.parse(schema.Root(), ""); err != nil {
			return nil, fmt.Errorf("avro schema: %w", err)
		}
	}
	if root == nil {
		return nil, fmt.Errorf("avro schema: no text")
	}
	return root, nil
}

// parser turns the nodes of the library into types, named ones into one each.
type parser struct{ named map[string]*Type }

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func (p *parser) parse(n *avro.SchemaNode, namespace string) (*Type, error) {
	t := &Type{Name: n.Type, Logical: n.LogicalType}
	if kind, ok := primitives[n.Type]; ok {
		t.Kind = kind
		t.Precision, t.Scale = n.Precision, n.Scale
		t.checkLogical()
		return t, nil
	}
	var err error
	switch n.Type {
	case "array":
		t.Kind = Array
		t.Elem, err = p.parse(n.Items, namespace)
	case "map":
		t.Kind = Map
		t.Elem, err = p.parse(n.Values, namespace)
	case "union":
		t.Kind = Union
		for i := range n.Branches {
			branch, err := p.parse(&n.Branches[i], namespace)
			if err != nil {
				return nil, err
			}
			t.Branches = append(t.Branches, branch)
		}
	case "record", "error", "enum", "fixed":
		return p.define(t, n)
	default:
		for _, name := range [...]string{fullName(n.Type, namespace), n.Type} {
			if known := p.named[name]; known != nil {
				return known, nil
			}
		}
		return nil, fmt.Errorf("type %q is not defined", n.Type)
	}
	t.Logical = ""
	return t, err
}

// define reads a named type; it is known by its name before its fields are
// read, for these may refer to it.
func (p *parser) define(t *Type, n *avro.SchemaNode) (*Type, error) {
	t.Name = fullName(n.Name, n.Namespace)
	namespace := ""
	if dot := strings.LastIndexByte(t.Name, '.'); dot >= 0 {
		namespace = t.Name[:dot]
	}
	for _, alias := range n.Aliases {
		t.Aliases = append(t.Aliases, fullName(alias, namespace))
	}
	p.named[t.Name] = t
	switch n.Type {
	case "enum":
		t.Kind, t.Symbols, t.Logical = Enum, n.Symbols, ""
		if n.HasEnumDefault {
			t.Default = n.EnumDefault
		}
		return t, nil
	case "fixed":
		t.Kind, t.Size, t.Precision, t.Scale = Fixed, n.Size, n.Precision, n.Scale
		t.checkLogical()
		return t, nil
	}
	t.Kind, t.Logical = Record, ""
	for i := range n.Fields {
		field, err := p.field(&n.Fields[i], namespace)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.Name, n.Fields[i].Name, err)
		}
		t.Fields = append(t.Fields, field)
	}
	return t, nil
}

func (p *parser) field(n *avro.SchemaField, namespace string) (Field, error) {
	f := Field{Name: n.Name, Aliases: n.Aliases}
	var err error
	if f.Type, err = p.parse(&n.Type, namespace); err != nil || !n.HasDefault {
		return f, err
	}
	schema, err := n.Type.Schema()
	if err != nil {
		return f, err
	}
	f.Default, err = schema.AppendEncode([]byte{}, n.Default)
	return f, err
}

// logicals names the logical types and the kinds each is defined for; a reader
// must pass over any other.
var logicals = map[string][]Kind{
	"decimal": {Bytes, Fixed}, "uuid": {String, Fixed}, "date": {Int}, "time-millis": {Int}, "time-micros": {Long},
	"timestamp-millis": {Long}, "timestamp-micros": {Long}, "timestamp-nanos": {Long},
	"local-timestamp-millis": {Long}, "local-timestamp-micros": {Long}, "local-timestamp-nanos": {Long},
	"duration": {Fixed},
}

func (t *Type) checkLogical() {
	for _, kind := range logicals[t.Logical] {
		sized := t.Kind != Fixed || t.Logical == "decimal" || t.Logical == "uuid" && t.Size == 16 || t.Logical == "duration" && t.Size == 12
		if kind == t.Kind && sized && (t.Logical != "decimal" || t.Precision > 0) {
			return
		}
	}
	t.Logical = ""
}

// Optional takes a union apart: its branches other than null.
func (t *Type) Optional() []*Type {
	if t.Kind != Union {
		return []*Type{t}
	}
	var some []*Type
	for _, b := range t.Branches {
		if b.Kind != Null {
			some = append(some, b)
		}
	}
	return some
}

// ShortName is the name without its namespace.
func (t *Type) ShortName() string { return t.Name[strings.LastIndexByte(t.Name, '.')+1:] }

// Named says that the reader's type t goes by the name of the writer's w: by
// name, by an alias, or by the name without namespaces.
func (t *Type) Named(w *Type) bool {
	if t.Name == w.Name || t.ShortName() == w.ShortName() {
		return true
	}
	return slices.Contains(t.Aliases, w.Name)
}

// Match is the branch of the reader's union t that takes a value of the
// writer's type w, as the specification resolves it: the first of the same
// kind and name, else the first that w may be promoted to. It is -1 when there
// is none.
func (t *Type) Match(w *Type) int {
	for i, b := range t.Branches {
		if b.Kind == w.Kind && b.Name == w.Name {
			return i
		}
	}
	for i, b := range t.Branches {
		named := b.Kind == Record || b.Kind == Enum || b.Kind == Fixed
		if b.Kind == w.Kind && (!named || b.Named(w)) {
			return i
		}
	}
	for i, b := range t.Branches {
		if Promotes(w.Kind, b.Kind) {
			return i
		}
	}
	return -1
}

// Promotes says that a value of kind from may be read as one of kind to.
func Promotes(from, to Kind) bool {
	switch from {
	case Int:
		return to == Long || to == Float || to == Double
	case Long:
		return to == Float || to == Double
	case Float:
		return to == Double
	case String:
		return to == Bytes
	case Bytes:
		return to == String
	default:
		return false
	}
}
