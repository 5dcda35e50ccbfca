package formats

import (
	"fmt"
	"slices"

	"sawlog/formats/avro"
)

// avroCode says how the bytes of a value become cells.
type avroCode uint8

const (
	avroSkip        avroCode = iota // the value is passed over
	avroMany                        // kids read the same value, each for itself
	avroNull                        // null
	avroUnion                       // kids by branch
	avroBranch                      // elem reads the member of s for this branch; the others are null
	avroRecord                      // kids by field of the writer
	avroPresent                     // bool: the record is there
	avroArray                       // elem
	avroMap                         // elem
	avroMisfit                      // the column can't hold it
	avroJSON                        // JSON text
	avroHash                        // sha256 of the text
	avroBool                        //
	avroInt32                       //
	avroInt64                       // elem is its event time, too
	avroIntDouble                   //
	avroIntDecimal                  //
	avroEpoch                       // a number of units as a timestamp
	avroRescale                     // a timestamp of another unit
	avroFloat                       //
	avroFloatDouble                 //
	avroDouble                      //
	avroFloatEpoch                  // float or double units as a timestamp
	avroString                      //
	avroText                        // string in a column of another type
	avroBytes                       // bytes or fixed as they are
	avroBytesText                   // bytes as text
	avroEnum                        //
	avroDecimal                     //
	avroDecimalText                 //
	avroUUIDText                    //
	avroDuration                    //
	avroTime                        // the event time
)

// avroNode is one step of the program that reads values of a writer's type w
// into the column s.
type avroNode struct {
	code     avroCode
	s        *sink
	w        *avro.Type
	elem     *avroNode
	kids     []*avroNode
	defaults []avroDefault // of members only the reader's schema has
	lacks    []*sink       // members of s that nothing feeds
	symbols  [][]byte
	unit     int // of a timestamp, as powers of ten a second
	local    bool
}

// avroDefault is a value, in Avro binary, that stands for what is not written.
type avroDefault struct {
	value []byte
	node  *avroNode
}

// avroCompiler makes the program of one writer's schema. Where the reader's
// schema has a field the writer has not, its default is read, or null where it
// has none; a column whose field only the writer has is fed all the same, since
// the data set keeps columns that left the schema.
type avroCompiler struct {
	times    *timeFormat
	misfits  []string // columns that can't hold what the schema says
	timed    bool     // the event time was found
	timeless string   // why it can't be read
}

// row compiles the whole schema over the columns of a row.
func (c *avroCompiler) row(w, r *avro.Type, root *object) *avroNode {
	if rowRecord(r) != nil || rowRecord(w) != nil {
		return c.into(w, r, root)
	}
	if at, ok := root.index[wholeValue]; ok {
		return c.slot(w, r, &root.slots[at])
	}
	return &avroNode{w: w}
}

// into compiles a value whose members are asked for, not the value itself.
func (c *avroCompiler) into(w, r *avro.Type, o *object) *avroNode {
	switch w.Kind {
	case avro.Union:
		n := &avroNode{code: avroUnion, w: w}
		for _, b := range w.Branches {
			n.kids = append(n.kids, c.into(b, r, o))
		}
		return n
	case avro.Record:
		return c.record(w, readerOf(r, w), o, nil)
	default:
		return &avroNode{w: w}
	}
}

// readerOf is what the reader calls a value of the writer's type.
func readerOf(r, w *avro.Type) *avro.Type {
	if r.Kind == avro.Union {
		at := r.Match(w)
		if at < 0 {
			return w
		}
		r = r.Branches[at]
	}
	if r.Kind != w.Kind {
		return w
	}
	return r
}

// record compiles a record over the slots of an object; s is its column, nil
// for a row or an object that key paths lead through.
func (c *avroCompiler) record(w, r *avro.Type, o *object, s *sink) *avroNode {
	n := &avroNode{code: avroRecord, w: w, s: s}
	fed := make([]bool, len(o.slots))
	for i := range w.Fields {
		f := &w.Fields[i]
		name, reader := f.Name, f.Type
		if rf := readerField(r, f.Name); rf != nil {
			name, reader = rf.Name, rf.Type
		}
		at, known := o.index[name]
		if !known || fed[at] {
			n.kids = append(n.kids, &avroNode{w: f.Type})
			continue
		}
		fed[at] = true
		n.kids = append(n.kids, c.slot(f.Type, reader, &o.slots[at]))
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		if at, known := o.index[f.Name]; known && !fed[at] && f.Default != nil {
			fed[at] = true
			n.defaults = append(n.defaults, avroDefault{f.Default, c.slot(f.Type, f.Type, &o.slots[at])})
		}
	}
	for i := range o.slots {
		if !fed[i] && s != nil {
			n.lacks = append(n.lacks, o.slots[i].sinks...)
		}
	}
	return n
}

// readerField is the reader's field that takes the writer's of a name.
func readerField(r *avro.Type, name string) *avro.Field {
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return &r.Fields[i]
		}
	}
	for i := range r.Fields {
		if slices.Contains(r.Fields[i].Aliases, name) {
			return &r.Fields[i]
		}
	}
	return nil
}

// slot compiles a value into all that it feeds.
func (c *avroCompiler) slot(w, r *avro.Type, sl *slot) *avroNode {
	var many []*avroNode
	for _, s := range sl.sinks {
		many = append(many, c.node(w, r, s))
	}
	if sl.kids != nil {
		many = append(many, c.into(w, r, sl.kids))
	}
	if sl.time {
		many = append(many, c.time(w))
	}
	switch len(many) {
	case 0:
		return &avroNode{w: w}
	case 1:
		return many[0]
	case 2:
		if many[0].code == avroInt64 && many[1].code == avroTime && !many[1].local {
			many[0].elem = many[1] // what was read is the time, too
			return many[0]
		}
		fallthrough
	default:
		return &avroNode{code: avroMany, w: w, kids: many}
	}
}

// node compiles a value into one column.
func (c *avroCompiler) node(w, r *avro.Type, s *sink) *avroNode {
	n := &avroNode{w: w, s: s}
	switch {
	case w.Kind == avro.Union:
		n.code = avroUnion
		for _, b := range w.Branches {
			n.kids = append(n.kids, c.node(b, r, s))
		}
	case w.Kind == avro.Null:
		n.code = avroNull
	case s.hash:
		n.code = avroHash
	case s.kind == JSON:
		n.code = avroJSON
	case s.kind == Struct && r.Kind == avro.Union && len(r.Optional()) > 1:
		c.branch(n, r)
	case w.Kind == avro.Record && s.kind == Struct:
		return c.record(w, readerOf(r, w), s.object, s)
	case w.Kind == avro.Record && s.kind == Bool:
		n.code = avroPresent
	case w.Kind == avro.Array && s.kind == List:
		n.code, n.elem = avroArray, c.node(w.Elem, readerOf(r, w).Elem, s.elem)
	case w.Kind == avro.Map && s.kind == Map:
		n.code, n.elem = avroMap, c.node(w.Elem, readerOf(r, w).Elem, s.elem)
	default:
		n.code = scalarCode(w, s)
		c.details(n, r)
	}
	return n
}

// branch compiles a value into the member that a union's column has for it.
func (c *avroCompiler) branch(n *avroNode, r *avro.Type) {
	n.code = avroMisfit
	if at := r.Match(n.w); at >= 0 {
		b := r.Branches[at]
		if slot, ok := n.s.object.index[b.ShortName()]; ok && len(n.s.object.slots[slot].sinks) > 0 {
			n.code, n.elem = avroBranch, c.slot(n.w, b, &n.s.object.slots[slot])
			for i := range n.s.object.slots {
				if i != slot {
					n.lacks = append(n.lacks, n.s.object.slots[i].sinks...)
				}
			}
			return
		}
	}
	c.misfit(n)
}

func (c *avroCompiler) misfit(n *avroNode) {
	c.misfits = append(c.misfits, fmt.Sprintf("column %q is %s and can't hold avro %s", n.s.name, n.s.t, avroName(n.w)))
}

func avroName(t *avro.Type) string {
	if t.Logical != "" {
		return t.Logical
	}
	return t.Name
}

// details gives a node of a scalar what its code needs.
func (c *avroCompiler) details(n *avroNode, r *avro.Type) {
	switch n.code {
	case avroMisfit:
		c.misfit(n)
	case avroRescale:
		unit, _, _ := avroTimestamp(n.w.Logical)
		n.unit = timeUnits[unit]
	case avroEpoch, avroFloatEpoch:
		if n.unit = timeUnits[n.s.t.Unit]; n.s.epoch {
			n.unit = n.s.times.unit
		}
	case avroDuration:
		for _, name := range avroDurations {
			var to *sink
			if at, ok := n.s.object.index[name]; ok && len(n.s.object.slots[at].sinks) > 0 {
				to = n.s.object.slots[at].sinks[0]
			}
			n.kids = append(n.kids, &avroNode{s: to})
		}
		for i := range n.s.object.slots {
			if sl := &n.s.object.slots[i]; sl.key != avroDurations[0] && sl.key != avroDurations[1] && sl.key != avroDurations[2] {
				n.lacks = append(n.lacks, sl.sinks...)
			}
		}
	case avroEnum:
		n.symbols = symbols(n.w, readerOf(r, n.w))
	}
}

// timeUnits are the powers of ten in a second.
var timeUnits = [...]int{Millis: 3, Micros: 6, Nanos: 9}

// symbols are the texts of the writer's symbols: one the reader has not is the
// reader's default, and itself where there is none.
func symbols(w, r *avro.Type) [][]byte {
	known := map[string]bool{}
	for _, s := range r.Symbols {
		known[s] = true
	}
	out := make([][]byte, len(w.Symbols))
	for i, s := range w.Symbols {
		if !known[s] && r.Default != "" {
			s = r.Default
		}
		out[i] = []byte(s)
	}
	return out
}

// scalarCode is how a scalar of the writer goes to a column.
func scalarCode(w *avro.Type, s *sink) avroCode {
	switch w.Kind {
	case avro.Boolean:
		if s.kind == Bool {
			return avroBool
		}
	case avro.Int, avro.Long:
		return integerCode(w, s)
	case avro.Float, avro.Double:
		return floatCode(w, s)
	case avro.String:
		switch s.kind {
		case String:
			return avroString
		case Bytes, Date, UUID, Decimal, Timestamp:
			return avroText
		}
	case avro.Enum:
		if s.kind == String {
			return avroEnum
		}
	case avro.Bytes, avro.Fixed:
		return bytesCode(w, s)
	}
	return avroMisfit
}

func integerCode(w *avro.Type, s *sink) avroCode {
	unit, local, stamp := avroTimestamp(w.Logical)
	switch s.kind {
	case Int32:
		return avroInt32
	case Int64:
		return avroInt64
	case Date:
		if w.Kind == avro.Int && !stamp {
			return avroInt32
		}
	case Float, Double:
		return avroIntDouble
	case Decimal:
		return avroIntDecimal
	case Timestamp:
		switch {
		case !stamp:
			return avroEpoch
		case local != s.t.Local:
		case unit == s.t.Unit:
			return avroInt64
		default:
			return avroRescale
		}
	}
	return avroMisfit
}

func floatCode(w *avro.Type, s *sink) avroCode {
	switch {
	case s.kind == Float && w.Kind == avro.Float:
		return avroFloat
	case s.kind == Double && w.Kind == avro.Float:
		return avroFloatDouble
	case s.kind == Double:
		return avroDouble
	case s.kind == Timestamp:
		return avroFloatEpoch
	}
	return avroMisfit
}

func bytesCode(w *avro.Type, s *sink) avroCode {
	switch {
	case s.kind == Bytes:
		return avroBytes
	case w.Logical == "decimal" && s.kind == Decimal:
		return avroDecimal
	case w.Logical == "decimal" && s.kind == String:
		return avroDecimalText
	case w.Logical == "duration" && s.kind == Struct:
		return avroDuration
	case w.Logical == "uuid" && s.kind == String:
		return avroUUIDText
	case w.Kind == avro.Fixed && w.Size == 16 && s.kind == UUID:
		return avroBytes
	case s.kind == String && w.Logical == "":
		return avroBytesText
	}
	return avroMisfit
}

// time compiles the event time. A logical type says what a number means;
// without one the job's format does.
func (c *avroCompiler) time(w *avro.Type) *avroNode {
	c.timed = true
	n := &avroNode{code: avroTime, w: w, unit: -1}
	switch {
	case w.Kind == avro.Union:
		n.code = avroUnion
		for _, b := range w.Branches {
			n.kids = append(n.kids, c.time(b))
		}
	case w.Kind == avro.Null:
		n.code = avroSkip
	case w.Kind == avro.String:
	case w.Logical == "date":
		n.local = true
	case w.Kind == avro.Int || w.Kind == avro.Long || w.Kind == avro.Float || w.Kind == avro.Double:
		if unit, local, ok := avroTimestamp(w.Logical); ok {
			n.unit, n.local = timeUnits[unit], local
		} else if n.unit = c.times.unit; n.unit < 0 {
			c.timeless = fmt.Sprintf("avro %s without a logical type: give time.format, such as epoch_ms", avroName(w))
		}
	default:
		c.timeless = fmt.Sprintf("avro %s is no time", avroName(w))
	}
	return n
}
