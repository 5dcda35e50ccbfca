package formats

// Node is a column of a schema, or a part of one, and where its values stand in
// the levels of its leaves.
type Node struct {
	Name     string
	Type     *Type
	Def, Rep int16   // of a value that is present; what follows the first entry of a list or map has Rep + 1
	Lo, Hi   int     // its leaves [Lo, Hi)
	Kids     []*Node // members; an element; a key and a value
}

// Tree lists the columns of a schema, with their leaves as Leaves numbers them.
func (s *Schema) Tree() []*Node {
	var columns []*Node
	lo := 0
	for i := range s.Fields {
		f := &s.Fields[i]
		def := int16(1)
		if f.Required() {
			def = 0
		}
		n := newNode(f.Name, f.Type, def, 0, lo)
		lo = n.Hi
		columns = append(columns, n)
	}
	return columns
}

func newNode(name string, t *Type, def, rep int16, lo int) *Node {
	n := &Node{Name: name, Type: t, Def: def, Rep: rep, Lo: lo, Hi: lo}
	add := func(kid *Node) {
		n.Kids = append(n.Kids, kid)
		n.Hi = kid.Hi
	}
	switch t.Kind {
	case Struct:
		for i := range t.Fields {
			add(newNode(t.Fields[i].Name, t.Fields[i].Type, def+1, rep, n.Hi))
		}
	case List:
		add(newNode("", t.Elem, def+2, rep+1, n.Hi))
	case Map:
		add(newNode("", &Type{Kind: String}, def+1, rep+1, n.Hi))
		add(newNode("", t.Elem, def+2, rep+1, n.Hi))
	default:
		n.Hi++
	}
	return n
}

// PutEmpty adds the one entry that stands in every leaf of a node for a value
// without any: at Def for an empty list or map, at Def - 1 for a null.
func (n *Node) PutEmpty(c *Columns, def, rep int16) {
	for leaf := n.Lo; leaf < n.Hi; leaf++ {
		c.Put(leaf, def, rep, nil)
	}
}
