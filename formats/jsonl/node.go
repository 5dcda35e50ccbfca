package jsonl

import "sawlog/formats"

// node is a column, or a part of one: what writes the JSON of its values, and
// reads it (scan.go).
type node struct {
	*formats.Node
	name []byte // quoted, with the colon
	kids []*node
}

// nodes are those of the columns of a schema, or of parts of one.
func nodes(of []*formats.Node) []*node {
	out := make([]*node, len(of))
	for i, n := range of {
		out[i] = &node{Node: n, name: append(formats.AppendQuoted(nil, n.Name), ':'), kids: nodes(n.Kids)}
	}
	return out
}

// cursor stands in one leaf's part of a batch.
type cursor struct {
	v     *formats.Vector
	leaf  *formats.Leaf
	at    int // entries passed
	value int // values passed
}

// def is the definition level of the next entry.
func (c *cursor) def() int16 {
	if c.leaf.MaxDef == 0 {
		return 0
	}
	return c.v.Def[c.at]
}

// append appends the value of n that comes next.
func (n *node) append(dst []byte, cursors []cursor) []byte {
	head := &cursors[n.Lo]
	if head.def() < n.Def {
		n.skip(cursors)
		return append(dst, "null"...)
	}
	switch n.Type.Kind {
	case formats.Struct:
		return appendObject(dst, n.kids, cursors)
	case formats.List, formats.Map:
		return n.appendEntries(dst, cursors)
	}
	head.at++
	head.value++
	return head.append(dst, head.value-1)
}

// appendObject appends an object of all the nodes.
func appendObject(dst []byte, members []*node, cursors []cursor) []byte {
	open := byte('{')
	for _, n := range members {
		dst = append(append(dst, open), n.name...)
		dst = n.append(dst, cursors)
		open = ','
	}
	return append(dst, '}')
}

// appendEntries appends the elements of a list or the entries of a map.
func (n *node) appendEntries(dst []byte, cursors []cursor) []byte {
	ends := "[]"
	if n.Type.Kind == formats.Map {
		ends = "{}"
	}
	head := &cursors[n.Lo]
	if head.def() == n.Def {
		n.skip(cursors)
		return append(dst, ends...)
	}
	dst = append(dst, ends[0])
	for first := true; first || head.at < len(head.v.Rep) && head.v.Rep[head.at] > n.Rep; first = false {
		if !first {
			dst = append(dst, ',')
		}
		dst = n.kids[0].append(dst, cursors)
		if n.Type.Kind == formats.Map {
			dst = n.kids[1].append(append(dst, ':'), cursors)
		}
	}
	return append(dst, ends[1])
}

// skip passes the one entry that stands for an absent or empty value.
func (n *node) skip(cursors []cursor) {
	for i := n.Lo; i < n.Hi; i++ {
		cursors[i].at++
	}
}

// append appends value i of a leaf.
func (c *cursor) append(dst []byte, i int) []byte {
	t, v := c.leaf.Type, c.v
	switch c.leaf.Store {
	case formats.StoreBool:
		if v.Bools[i] {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case formats.StoreInt32:
		return t.AppendInt(dst, int64(v.Int32s[i]))
	case formats.StoreInt64:
		return t.AppendInt(dst, v.Int64s[i])
	case formats.StoreFloat:
		return t.AppendFloat(dst, float64(v.Floats[i]))
	case formats.StoreDouble:
		return t.AppendFloat(dst, v.Doubles[i])
	default:
		return t.AppendBytes(dst, v.Value(i))
	}
}
