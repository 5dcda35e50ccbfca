package formats

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// object is a JSON object whose members the schema knows: the record itself, a
// struct, or an object that key paths lead through.
type object struct {
	path  []string // keys that lead here
	slots []slot
	index map[string]int // by key
	rest  bool           // members without a slot go to the schema's rest column
	watch bool           // members without a slot are unknown paths

	// first and the slots' next are the order members were last seen in.
	first int
	seen  []uint32 // per slot: the turn it was last met in
	turn  uint32
}

// slot is a member of an object: what its value feeds.
type slot struct {
	key    string
	quoted string // the key as records write it, up to its colon; "" = look it up
	head   uint64 // the first eight bytes of quoted
	mask   uint64 // of them, those there are
	next   int
	only   *sink // where the value feeds one column and nothing else
	sinks  []*sink
	kids   *object // key paths that lead further
	time   bool    // the event time
}

// stands says that the key of the slot stands at p, behind its first quote.
func (s *slot) stands(b []byte, p int) bool {
	if s.quoted == "" || len(b)-p < 8 || (binary.LittleEndian.Uint64(b[p:])^s.head)&s.mask != 0 {
		return false
	}
	return len(s.quoted) <= 8 || word(b, p+8, s.quoted[8:])
}

// nothing is the index of no slot.
const nothing = -1

func newObject(path []string) *object {
	return &object{path: path, index: map[string]int{}, first: nothing}
}

// slot finds or makes the slot of a key.
func (o *object) slot(key string) *slot {
	at, ok := o.index[key]
	if !ok {
		at = len(o.slots)
		o.index[key] = at
		s := slot{key: key, next: nothing}
		if plainKey(key) {
			s.quoted = key + `":`
			var head, mask [8]byte
			for i := range copy(head[:], s.quoted) {
				mask[i] = 0xff
			}
			s.head, s.mask = binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(mask[:])
		}
		o.slots = append(o.slots, s)
		o.seen = append(o.seen, 0)
	}
	return &o.slots[at]
}

// feed adds a column to those the slot feeds.
func (s *slot) feed(to *sink) {
	s.sinks = append(s.sinks, to)
	if s.only = nil; len(s.sinks) == 1 && s.kids == nil {
		s.only = to
	}
}

// plainKey says that records write the key without escapes.
func plainKey(key string) bool {
	return utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
}

// reach walks the key path and gives the slot at its end.
func (o *object) reach(keys []string) *slot {
	s := o.slot(keys[0])
	if len(keys) == 1 {
		return s
	}
	if s.kids == nil {
		s.kids, s.only = newObject(append(append([]string{}, o.path...), keys[0])), nil
	}
	return s.kids.reach(keys[1:])
}

// enter starts a turn at the object.
func (o *object) enter() {
	o.turn++
	if o.turn == 0 {
		clear(o.seen)
		o.turn = 1
	}
}

// restPath is the From of the column that takes, as one JSON object, what the
// limit on columns left no column of its own.
var restPath = [...]string{"*", "*"}

func (f *Field) isRest() bool { return equalPath(f.From, restPath[:]) }

func (s *Schema) hasRest() bool {
	return slices.ContainsFunc(s.Fields, func(f Field) bool { return f.isRest() })
}

// compileJSON lays a schema over the objects of a record.
func compileJSON(s *Schema, o *Options, times *timeFormat) (root *object, rest *sink, err error) {
	root = newObject(nil)
	c := jsonCompiler{filter: o.filter(), times: times, timeField: o.Time.Field, hasRest: s.hasRest()}
	leaf := 0
	for i := range s.Fields {
		f := &s.Fields[i]
		width := f.Type.width()
		if !f.Metadata() {
			keys := f.Keys()
			col := newSink(f.Type, f.Name, leaf, 1, 0)
			if f.isRest() {
				c.rest = col
				root.rest = true
			} else {
				c.sink(col, keys, f.Name, s.Inferred && !c.hasRest)
				root.reach(keys).feed(col)
			}
		}
		leaf += width
	}
	root.watch = s.Inferred && !c.hasRest
	for _, pattern := range o.Exclude {
		if !strings.ContainsAny(pattern, ".*") {
			root.slot(pattern) // passed over without asking
		}
	}
	if !o.Time.fromRecord() {
		root.reach(o.Time.Field).time = true
	}
	return root, c.rest, c.err
}

// jsonCompiler gives sinks of a schema their parts.
type jsonCompiler struct {
	filter    *filter
	times     *timeFormat
	timeField []string
	hasRest   bool
	rest      *sink
	err       error
}

// sink completes s, whose value stands at keys.
func (c *jsonCompiler) sink(s *sink, keys []string, name string, watch bool) {
	s.times = c.times
	s.epoch = !c.times.textual() && equalPath(keys, c.timeField)
	switch s.kind {
	case List:
		s.rep++ // newSink gave the level where the list stands
		s.elem = newSink(s.t.Elem, name, s.lo, s.def+2, s.rep)
		c.sink(s.elem, keys, name, watch)
	case Map:
		s.rep++ // newSink gave the level where the list stands
		s.elem = newSink(s.t.Elem, name, s.lo+1, s.def+2, s.rep)
		c.sink(s.elem, keys, name, false)
	case Struct:
		s.object = newObject(keys)
		s.object.watch, s.object.rest = watch, c.hasRest
		leaf := s.lo
		for i := range s.t.Fields {
			f := &s.t.Fields[i]
			member := newSink(f.Type, name+"."+f.Name, leaf, s.def+1, s.rep)
			c.sink(member, append(append([]string{}, keys...), f.Keys()[0]), member.name, watch)
			s.object.slot(f.Keys()[0]).feed(member)
			leaf += f.Type.width()
		}
	}
	if c.filter.hashes(keys, name) {
		if s.hash = s.kind == String; !s.hash && c.err == nil {
			c.err = fmt.Errorf("column %q is to be hashed and must be a string, not %s", name, s.t)
		}
	}
	s.plain = s.kind == String && !s.hash
}
