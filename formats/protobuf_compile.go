package formats

import (
	"fmt"

	"sawlog/formats/protobuf"
)

// pbMessage is a message laid over the slots of an object.
type pbMessage struct {
	fields []pbField
	at     map[int32]int // by number; unwanted ones too
	s      *sink         // its column; nil for a row and along key paths
	lacks  []*sink       // members of s without a field
}

// unwanted is where a field is that nobody asks for.
const unwanted = -1

// pbField is a field somebody wants: all that its values feed.
type pbField struct {
	f     *protobuf.Field
	kin   []int      // the other members of its oneof, which it replaces
	takes []pbTake   //
	path  *pbMessage // key paths lead further
	time  bool
}

// pbTake is one column that a field feeds.
type pbTake struct {
	s   *sink
	sub *pbMessage // of a struct; of a map, its entry
	one *pbTake    // of a list or map: an element, a value
}

// pbCompiler lays a message over columns.
type pbCompiler struct {
	times    *timeFormat
	misfit   *Misfit // the first column that can't hold what the schema says
	timed    bool    // the event time was found
	timeless string  // why it can't be read
}

// message compiles the fields that an object has slots for. Members of a oneof
// that nobody wants are looked at all the same: they replace those wanted.
func (c *pbCompiler) message(m *protobuf.Message, o *object, s *sink) *pbMessage {
	out := &pbMessage{at: map[int32]int{}, s: s}
	fed := make([]bool, len(o.slots))
	wanted := map[int]bool{}
	for i := range m.Fields {
		if _, known := o.index[m.Fields[i].Name]; known && m.Fields[i].Oneof > 0 {
			wanted[m.Fields[i].Oneof] = true
		}
	}
	for i := range m.Fields {
		f := &m.Fields[i]
		at, known := o.index[f.Name]
		if !known && !wanted[f.Oneof] {
			out.at[f.Number] = unwanted
			continue
		}
		p := pbField{f: f}
		if known {
			fed[at] = true
			c.slot(&p, &o.slots[at])
		}
		out.at[f.Number] = len(out.fields)
		out.fields = append(out.fields, p)
	}
	for i := range out.fields {
		for j := range out.fields {
			if i != j && out.fields[i].f.Oneof > 0 && out.fields[i].f.Oneof == out.fields[j].f.Oneof {
				out.fields[i].kin = append(out.fields[i].kin, j)
			}
		}
	}
	for i := range o.slots {
		if !fed[i] && s != nil {
			out.lacks = append(out.lacks, o.slots[i].sinks...)
		}
	}
	return out
}

func (c *pbCompiler) slot(p *pbField, sl *slot) {
	for _, s := range sl.sinks {
		p.takes = append(p.takes, c.take(p.f, s))
	}
	if sl.kids != nil && p.f.Kind == protobuf.Submessage && !p.f.Repeated {
		p.path = c.message(p.f.Message, sl.kids, nil)
	}
	if p.time = sl.time; p.time {
		c.time(p.f)
	}
}

// time refuses a field that is no time.
func (c *pbCompiler) time(f *protobuf.Field) {
	c.timed = true
	switch {
	case f.Repeated, f.Kind == protobuf.Bool, f.Kind == protobuf.Bytes, f.Kind == protobuf.Enum:
		c.timeless = pbSeen(f) + " is no time"
	case f.Kind == protobuf.String:
	case f.Kind == protobuf.Submessage:
		if f.Message.Name != protobuf.Timestamp {
			c.timeless = fmt.Sprintf("protobuf %s is no time", f.Message.Name)
		}
	case c.times.textual():
		c.timeless = fmt.Sprintf("protobuf %s has no unit: give time.format, such as epoch_ms", f.Kind)
	}
}

// take compiles a field into one column.
func (c *pbCompiler) take(f *protobuf.Field, s *sink) pbTake {
	t := pbTake{s: s}
	switch {
	case f.Map && s.kind == Map:
		t.sub = &pbMessage{at: map[int32]int{1: 0, 2: 1}, fields: []pbField{{f: &f.Message.Fields[0]}, {f: &f.Message.Fields[1]}}}
		one := c.single(&f.Message.Fields[1], s.elem)
		t.one = &one
	case f.Repeated && !f.Map && s.kind == List:
		one := c.single(f, s.elem)
		t.one = &one
	case !f.Repeated:
		return c.single(f, s)
	default:
		c.refuse(f, s)
	}
	return t
}

func (c *pbCompiler) refuse(f *protobuf.Field, s *sink) {
	if c.misfit == nil {
		c.misfit = newMisfit(s, pbSeen(f), "protobuf field "+f.Name)
	}
}

// pbSeen says of what kind a field's values are.
func pbSeen(f *protobuf.Field) string {
	switch {
	case f.Map:
		return "protobuf map"
	case f.Repeated:
		return "protobuf repeated " + f.Kind.String()
	default:
		return "protobuf " + f.Kind.String()
	}
}

// single compiles one value into one column.
func (c *pbCompiler) single(f *protobuf.Field, s *sink) pbTake {
	t := pbTake{s: s}
	if f.Kind != protobuf.Submessage {
		if !protobufFits(f.Kind, s) {
			c.refuse(f, s)
		}
		return t
	}
	m := f.Message
	switch {
	case s.hash || s.kind == JSON:
	case m.Name == protobuf.Timestamp && s.kind == Timestamp && !s.t.Local:
	case m.Wrapper() && s.kind != Struct:
		if !protobufFits(m.Fields[0].Kind, s) {
			c.refuse(f, s)
		}
		t.sub = &pbMessage{at: map[int32]int{1: 0}, fields: []pbField{{f: &m.Fields[0]}}}
	case s.kind == Struct:
		t.sub = c.message(m, s.object, s)
	case s.kind == Bool:
	default:
		c.refuse(f, s)
	}
	return t
}

// protobufFits says that a scalar can go to a column; its range is another
// matter.
func protobufFits(k protobuf.Kind, s *sink) bool {
	if s.hash {
		return true
	}
	switch k {
	case protobuf.Bool:
		return s.kind == Bool
	case protobuf.String:
		switch s.kind {
		case String, Bytes, Date, UUID, Decimal, Timestamp:
			return true
		}
		return false
	case protobuf.Bytes:
		return s.kind == Bytes || s.kind == String
	case protobuf.Enum:
		return s.kind == String || s.kind == Int32 || s.kind == Int64
	case protobuf.Float, protobuf.Double:
		return s.kind == Double || s.kind == Timestamp || s.kind == Float && k == protobuf.Float
	default:
		switch s.kind {
		case Int32, Int64, Float, Double, Decimal, Timestamp:
			return true
		}
		return false
	}
}
