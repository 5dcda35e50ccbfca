package parquet

import (
	"encoding/json"
	"errors"
	"fmt"

	"sawlog/formats"
)

// node is a part of a column that values are put together from.
type node struct {
	name     string
	shape    shape
	def, rep int16 // level of a present value; rep, of a list or map, of its further entries
	required bool
	lo, hi   int // leaves
	kids     []*node
	t        *formats.Type // as far as our types go
	physical int64         // of a leaf: parquet.thrift's Type
	width    int           // of a leaf: bytes of a fixed-length value
}

type shape uint8

const (
	shapeLeaf   shape = iota
	shapeStruct       // kids are the members
	shapeList         // kids[0] is the element
	shapeMap          // kids are key and value
)

// Physical types of parquet.thrift.
const (
	physicalBool, physicalInt32, physicalInt64              = 0, 1, 2
	physicalFloat, physicalDouble                           = 4, 5
	physicalBytes, physicalFixed                            = 6, 7
	repetitionRequired, repetitionRepeated                  = 0, 2
	elementTypeID, elementWidthID, elementNameID            = 1, 2, 4
	elementChildrenID, elementConvertedID, elementLogicalID = 5, 6, 10
)

// schemaReader turns the flat list of schema elements into nodes.
type schemaReader struct {
	elements []tValue
	leaves   []*node
}

var errShape = errors.New("a schema of another shape than ours is not read")

// next is the next element of the list, depth first.
func (r *schemaReader) next() (*tValue, error) {
	if len(r.elements) == 0 {
		return nil, errThrift
	}
	e := &r.elements[0]
	r.elements = r.elements[1:]
	return e, nil
}

// columns reads the whole schema.
func (r *schemaReader) columns() (nodes []*node, err error) {
	root, err := r.next()
	if err != nil {
		return nil, err
	}
	for range root.int(elementChildrenID) {
		n, err := r.node(0, 0, 0)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if len(r.elements) > 0 {
		return nil, errThrift
	}
	return nodes, nil
}

// node reads the element that lies at levels def and rep.
func (r *schemaReader) node(def, rep int16, depth int) (*node, error) {
	e, err := r.next()
	if err != nil {
		return nil, err
	}
	if depth > 3*formats.MaxDepth {
		return nil, errShape
	}
	n := &node{def: def, rep: rep, lo: len(r.leaves), required: e.int(elementRepetitionID) == repetitionRequired}
	if name := e.get(elementNameID); name != nil {
		n.name = string(name.bytes)
	}
	if e.int(elementRepetitionID) == repetitionRepeated {
		return nil, fmt.Errorf("%q: %w", n.name, errShape)
	}
	if !n.required {
		n.def++
	}
	kids := e.int(elementChildrenID)
	if kids == 0 {
		n.physical, n.width, n.t = e.int(elementTypeID), int(e.int(elementWidthID)), leafType(e)
		r.leaves = append(r.leaves, n)
		n.hi = len(r.leaves)
		return n, nil
	}
	logical, converted := e.get(elementLogicalID), e.get(elementConvertedID)
	kind := int64(-1)
	if converted != nil {
		kind = converted.n
	}
	switch {
	case logical.get(3) != nil || kind == 3:
		n.shape, err = shapeList, r.entries(n, 1, kids, depth)
	case logical.get(2) != nil || kind == 1:
		n.shape, err = shapeMap, r.entries(n, 2, kids, depth)
	default:
		n.shape = shapeStruct
		err = r.members(n, kids, n.def, n.rep, depth)
	}
	n.hi = len(r.leaves)
	n.t = n.nestedType()
	return n, err
}

// entries reads the repeated group of a list or map, with want children.
func (r *schemaReader) entries(n *node, want, kids int64, depth int) error {
	inner, err := r.next()
	if err != nil {
		return err
	}
	if kids != 1 || inner.int(elementRepetitionID) != repetitionRepeated || inner.int(elementChildrenID) != want {
		return fmt.Errorf("%q: %w", n.name, errShape)
	}
	n.rep++
	return r.members(n, want, n.def+1, n.rep, depth)
}

func (r *schemaReader) members(n *node, kids int64, def, rep int16, depth int) error {
	for range kids {
		kid, err := r.node(def, rep, depth+1)
		if err != nil {
			return err
		}
		n.kids = append(n.kids, kid)
	}
	return nil
}

func (n *node) nestedType() *formats.Type {
	if len(n.kids) == 0 {
		return nil
	}
	last := n.kids[len(n.kids)-1]
	switch n.shape {
	case shapeList:
		return &formats.Type{Kind: formats.List, Elem: last.t}
	case shapeMap:
		return &formats.Type{Kind: formats.Map, Elem: last.t}
	default:
		t := &formats.Type{Kind: formats.Struct}
		for _, kid := range n.kids {
			t.Fields = append(t.Fields, formats.Field{Name: kid.name, Type: kid.t})
		}
		return t
	}
}

// leafType is the type of a leaf by its logical type.
func leafType(e *tValue) *formats.Type {
	logical := e.get(elementLogicalID)
	switch {
	case logical.get(1) != nil:
		return &formats.Type{Kind: formats.String}
	case logical.get(5) != nil:
		d := logical.get(5)
		return &formats.Type{Kind: formats.Decimal, Scale: int32(d.int(1)), Precision: int32(d.int(2))}
	case logical.get(6) != nil:
		return &formats.Type{Kind: formats.Date}
	case logical.get(8) != nil:
		t := &formats.Type{Kind: formats.Timestamp, Unit: formats.Nanos}
		utc := logical.get(8).get(1)
		t.Local = utc != nil && utc.kind == tFalse
		if unit := logical.get(8).get(2); unit.get(1) != nil {
			t.Unit = formats.Millis
		} else if unit.get(2) != nil {
			t.Unit = formats.Micros
		}
		return t
	case logical.get(12) != nil:
		return &formats.Type{Kind: formats.JSON}
	case logical.get(14) != nil:
		return &formats.Type{Kind: formats.UUID}
	}
	kinds := map[int64]formats.Kind{
		physicalBool: formats.Bool, physicalInt32: formats.Int32, physicalInt64: formats.Int64,
		physicalFloat: formats.Float, physicalDouble: formats.Double,
	}
	if kind, ok := kinds[e.int(elementTypeID)]; ok {
		return &formats.Type{Kind: kind}
	}
	return &formats.Type{Kind: formats.Bytes}
}

// assemble appends the next value of the node as JSON.
func (n *node) assemble(dst []byte, cursors []*cursor) ([]byte, error) {
	head := cursors[n.lo]
	if err := head.fill(); err != nil {
		return dst, err
	}
	if n.shape == shapeLeaf {
		return head.take(dst, n.def)
	}
	if head.def[head.at] < n.def {
		return append(dst, "null"...), n.skip(cursors)
	}
	if n.shape != shapeStruct {
		return n.list(dst, cursors, head)
	}
	dst = append(dst, '{')
	for i, kid := range n.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		name, err := json.Marshal(kid.name)
		if err != nil {
			return dst, err
		}
		dst = append(append(dst, name...), ':')
		if dst, err = kid.assemble(dst, cursors); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// list appends the entries of a list or map.
func (n *node) list(dst []byte, cursors []*cursor, head *cursor) (_ []byte, err error) {
	ends := "[]"
	if n.shape == shapeMap {
		ends = "{}"
	}
	dst = append(dst, ends[0])
	if head.def[head.at] == n.def {
		return append(dst, ends[1]), n.skip(cursors)
	}
	for first := true; ; first = false {
		if !first {
			dst = append(dst, ',')
		}
		if dst, err = n.kids[0].assemble(dst, cursors); err != nil {
			return dst, err
		}
		if n.shape == shapeMap {
			dst = append(dst, ':')
			if dst, err = n.kids[1].assemble(dst, cursors); err != nil {
				return dst, err
			}
		}
		more, err := head.more()
		if err != nil {
			return dst, err
		}
		if !more || head.rep[head.at] != n.rep {
			return append(dst, ends[1]), nil
		}
	}
}

// skip passes the one entry that stands for an absent or empty value.
func (n *node) skip(cursors []*cursor) error {
	for leaf := n.lo; leaf < n.hi; leaf++ {
		if err := cursors[leaf].fill(); err != nil {
			return err
		}
		cursors[leaf].at++
	}
	return nil
}
