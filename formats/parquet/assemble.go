package parquet

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// node is a part of a column that values are put together from.
type node struct {
	name     string
	shape    shape
	def, rep int16 // level of a present value; of a repeated node, of its entries
	optional bool
	lo, hi   int // leaves
	kids     []*node
}

type shape uint8

const (
	shapeLeaf   shape = iota
	shapeStruct       // kids are the members
	shapeList         // kids[0] is the element
	shapeMap          // kids are key and value
)

// newNode builds the node of a schema element that lies at levels def and rep;
// leaf counts the leaves so far.
func newNode(n schema.Node, leaf *int, def, rep int16) (*node, error) {
	out := &node{name: n.Name(), def: def, rep: rep, lo: *leaf}
	switch n.RepetitionType() {
	case parquet.Repetitions.Optional:
		out.optional = true
		out.def++
	case parquet.Repetitions.Repeated:
		return nil, errors.New("repeated without LIST or MAP is not read")
	}
	group, ok := n.(*schema.GroupNode)
	if !ok {
		*leaf++
		out.hi = *leaf
		return out, nil
	}
	var members []schema.Node
	kidDef, kidRep := out.def, rep
	switch group.LogicalType().(type) {
	case schema.ListLogicalType, *schema.ListLogicalType:
		out.shape = shapeList
	case schema.MapLogicalType, *schema.MapLogicalType:
		out.shape = shapeMap
	default:
		out.shape = shapeStruct
	}
	parent := group
	if out.shape != shapeStruct {
		want := 1
		if out.shape == shapeMap {
			want = 2
		}
		inner, ok := group.Field(0).(*schema.GroupNode)
		if group.NumFields() != 1 || !ok || inner.RepetitionType() != parquet.Repetitions.Repeated || inner.NumFields() != want {
			return nil, errors.New("a LIST or MAP of another shape than ours is not read")
		}
		parent = inner
		kidDef, kidRep = out.def+1, rep+1
		out.rep = kidRep
	}
	for i := range parent.NumFields() {
		members = append(members, parent.Field(i))
	}
	for _, m := range members {
		kid, err := newNode(m, leaf, kidDef, kidRep)
		if err != nil {
			return nil, err
		}
		out.kids = append(out.kids, kid)
	}
	out.hi = *leaf
	return out, nil
}

// assemble appends the next value of the node as JSON.
func (n *node) assemble(dst []byte, cursors map[int]*cursor) ([]byte, error) {
	head := cursors[n.lo]
	if err := head.fill(); err != nil {
		return dst, err
	}
	if n.shape == shapeLeaf {
		return head.take(dst, n.def), nil
	}
	if head.def[head.at] < n.def {
		return append(dst, "null"...), n.skip(cursors)
	}
	switch n.shape {
	case shapeStruct:
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
	default:
		return n.entries(dst, cursors, head)
	}
}

// entries appends the entries of a list or map.
func (n *node) entries(dst []byte, cursors map[int]*cursor, head *cursor) (_ []byte, err error) {
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
func (n *node) skip(cursors map[int]*cursor) error {
	for leaf := n.lo; leaf < n.hi; leaf++ {
		if err := cursors[leaf].fill(); err != nil {
			return err
		}
		cursors[leaf].at++
	}
	return nil
}

var errShort = fmt.Errorf("the column ends early")
