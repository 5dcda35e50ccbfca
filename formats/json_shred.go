package formats

import (
	"encoding/json"
	"fmt"
	"strings"
)

// shredder lays a full decoder's tree over the columns: the slow path, which
// decides what every record means.
type shredder struct {
	cells
	time       *jsonNode // the event time's value
	duplicates int64
	rest       []byte // a JSON object of the members no slot took
}

// unknown says that the tree holds, outside null, [] and {}, a path the
// schema has not.
func unknownPath(o *object, n *jsonNode, keep *filter) bool {
	for i, key := range n.keys {
		at, ok := o.index[string(key)]
		if !ok {
			if o.watch && hasContent(n.kids[i], append(o.path[:len(o.path):len(o.path)], string(key)), keep) {
				return true
			}
			continue
		}
		for _, s := range o.slots[at].sinks {
			if unknownBelow(s, n.kids[i], keep) {
				return true
			}
		}
	}
	return false
}

func unknownBelow(s *sink, n *jsonNode, keep *filter) bool {
	switch {
	case s.kind == Struct && n.kind == '{':
		return unknownPath(s.object, n, keep)
	case s.kind == List && n.kind == '[':
		for _, kid := range n.kids {
			if unknownBelow(s.elem, kid, keep) {
				return true
			}
		}
	}
	return false
}

// hasContent says that a value at keys would make a column.
func hasContent(n *jsonNode, keys []string, keep *filter) bool {
	if !keep.trivial() && !keep.keeps(keys) {
		return false
	}
	switch n.kind {
	case 'n':
		return false
	case '[':
		for _, kid := range n.kids {
			if hasContent(kid, keys, keep) {
				return true
			}
		}
		return false
	case '{':
		for i, kid := range n.kids {
			if hasContent(kid, append(keys[:len(keys):len(keys)], string(n.keys[i])), keep) {
				return true
			}
		}
		return false
	default:
		return true
	}
}

// members feeds the members of an object to their slots.
func (d *shredder) members(o *object, n *jsonNode, rep int16) error {
	o.enter()
	for _, key := range n.dropped {
		if _, known := o.index[string(key)]; known || o.rest {
			d.duplicates++
		}
	}
	for i, key := range n.keys {
		at, known := o.index[string(key)]
		if !known {
			if o.rest && n.kids[i].kind != 'n' {
				d.rest = appendMember(d.rest, append(o.path[:len(o.path):len(o.path)], string(key)), n.kids[i])
			}
			continue
		}
		o.seen[at] = o.turn
		s := &o.slots[at]
		for _, to := range s.sinks {
			if err := d.value(to, n.kids[i], rep); err != nil {
				return err
			}
		}
		if s.kids != nil && n.kids[i].kind == '{' {
			if err := d.members(s.kids, n.kids[i], 0); err != nil {
				return err
			}
		}
		if s.time {
			d.time = n.kids[i]
		}
	}
	return nil
}

// leftOver feeds what no slot took to its column, if the schema has one.
func (d *shredder) leftOver(to *sink) {
	if to != nil && d.rest != nil {
		d.utf8(to, append(d.rest, '}'), 0)
	}
}

// appendMember adds a member, named by its dotted path, to a JSON object under
// construction.
func appendMember(text []byte, keys []string, n *jsonNode) []byte {
	if text == nil {
		text = append(text, '{')
	} else {
		text = append(text, ',')
	}
	quoted, _ := json.Marshal(strings.Join(keys, ".")) // a string always marshals
	text = append(append(text, quoted...), ':')
	return append(text, n.raw...)
}

func misfit(s *sink, n *jsonNode) error {
	raw := n.raw
	if len(raw) > 40 {
		raw = append(raw[:40:40], "…"...)
	}
	return newMisfit(s, n.seen(), fmt.Sprintf("%s %s", n.describe(), raw))
}

// value feeds one value to a column.
func (d *shredder) value(s *sink, n *jsonNode, rep int16) error {
	if n.kind == 'n' {
		d.null(s, rep, s.def-1)
		return nil
	}
	ok := true
	switch {
	case s.hash && n.kind != '"':
		d.digest(s, n.raw, rep)
	case s.kind == JSON:
		d.utf8(s, n.raw, rep)
	case s.kind == Struct:
		if n.kind != '{' {
			return misfit(s, n)
		}
		if err := d.members(s.object, n, rep); err != nil {
			return err
		}
		d.lacking(s, rep)
	case s.kind == List:
		return d.list(s, n, rep)
	case s.kind == Map:
		return d.mapping(s, n, rep)
	case n.kind == '"':
		if ok = d.text(s, n.text, rep); ok && n.bad && (s.kind == String || s.kind == Bytes) {
			d.replaced++
		}
	case n.kind == '#':
		if ok = d.number(s, n.raw, rep); !ok && (s.kind == Double || s.kind == Float) {
			if _, finite := parseDouble(n.raw); !finite {
				return &BadRecord{BadNumber, fmt.Sprintf("column %q: no double is as large as %.40s", s.name, n.raw)}
			}
		}
	case n.kind == 't' || n.kind == 'f':
		if ok = s.kind == Bool; ok {
			d.bool(s, n.kind == 't', rep)
		}
	default:
		ok = false
	}
	if !ok {
		return misfit(s, n)
	}
	return nil
}

func (d *shredder) list(s *sink, n *jsonNode, rep int16) error {
	if n.kind != '[' {
		return misfit(s, n)
	}
	if len(n.kids) == 0 {
		d.null(s, rep, s.def)
		return nil
	}
	for _, kid := range n.kids {
		if err := d.value(s.elem, kid, rep); err != nil {
			return err
		}
		rep = s.rep
	}
	return nil
}

func (d *shredder) mapping(s *sink, n *jsonNode, rep int16) error {
	if n.kind != '{' {
		return misfit(s, n)
	}
	d.duplicates += int64(len(n.dropped))
	if len(n.kids) == 0 {
		d.null(s, rep, s.def)
		return nil
	}
	keys, leaf := &d.c.vecs[s.lo], &d.c.leaves[s.lo]
	for i, kid := range n.kids {
		keys.Data = append(keys.Data, n.keys[i]...)
		keys.seal()
		keys.level(leaf, s.def+1, rep)
		if err := d.value(s.elem, kid, rep); err != nil {
			return err
		}
		rep = s.rep
	}
	return nil
}
