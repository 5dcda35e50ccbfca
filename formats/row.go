package formats

import (
	"fmt"
	"slices"
)

// rowFrame is what all decoders share: metadata columns, event time, policies.
type rowFrame struct {
	schema    *Schema
	o         Options
	times     *timeFormat
	meta      []metaSink
	cell      cells // of the row at hand, for metadata
	duplicate int64
	replaced  int64
}

type metaSink struct {
	column int // in MetadataColumns: texts would be compared for every record
	to     *sink
}

func newRowFrame(s *Schema, o Options) (*rowFrame, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Unresolved() {
		return nil, fmt.Errorf("decode.schema: the registry was not asked yet")
	}
	times, err := o.Time.reader()
	if err != nil {
		return nil, err
	}
	f := &rowFrame{schema: s, o: o, times: times}
	leaf := 0
	for i := range s.Fields {
		field := &s.Fields[i]
		if field.Metadata() {
			def := int16(1)
			if field.Required() {
				def = 0
			}
			f.meta = append(f.meta, metaSink{slices.Index(MetadataColumns[:], field.Name), newSink(field.Type, field.Name, leaf, def, 0)})
		}
		leaf += field.Type.width()
	}
	return f, nil
}

// Notes counts what is worth showing.
func (f *rowFrame) Notes() map[string]int64 {
	notes := map[string]int64{}
	if f.duplicate > 0 {
		notes["duplicate_keys"] = f.duplicate
	}
	if f.replaced > 0 {
		notes["replaced_utf8"] = f.replaced
	}
	return notes
}

// recordTime is the record's own timestamp as event time.
func (f *rowFrame) recordTime(m *Message) (Instant, error) {
	if m.Timestamp == -1 {
		return 0, &BadRecord{BadTime, "the record has no timestamp"}
	}
	at, ok := epochUnits(m.Timestamp, 3)
	if !ok {
		return 0, &BadRecord{BadRange, fmt.Sprintf("record timestamp %d ms is outside the years 0 to 9999", m.Timestamp)}
	}
	return f.plausible(at.instant())
}

// plausible refuses an event time outside the window.
func (f *rowFrame) plausible(at Instant) (Instant, error) {
	t := &f.o.Time
	if t.PlausibleFrom != nil && at < *t.PlausibleFrom || t.PlausibleTo != nil && at >= *t.PlausibleTo {
		return 0, &BadRecord{BadRange, fmt.Sprintf("event time %d µs is outside the plausible window", int64(at))}
	}
	return at, nil
}

// tombstone carries out the policy for a null value.
func (f *rowFrame) tombstone(c *Columns, m *Message) (Instant, error) {
	if f.o.Tombstones != "row" {
		return 0, ErrSkip
	}
	at, err := f.recordTime(m)
	if err != nil {
		return 0, err
	}
	if c != nil {
		if err := f.finish(c, m); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// timeText reads the event time from text.
func (f *rowFrame) timeText(text []byte, m *Message) (Instant, error) {
	at, ok := f.times.text(text, m.Timestamp)
	if !ok {
		return 0, &BadRecord{BadTime, fmt.Sprintf("%.60q is no time in format %s", text, f.times.name)}
	}
	return f.plausible(at.instant())
}

// timeNumber reads the event time from a number.
func (f *rowFrame) timeNumber(text []byte) (Instant, error) {
	at, ok := f.times.number(text)
	if !ok {
		return 0, &BadRecord{BadTime, fmt.Sprintf("number %.40s is no time in format %s", text, f.times.name)}
	}
	return f.plausible(at.instant())
}

func (f *rowFrame) noTime() error {
	return &BadRecord{BadTime, fmt.Sprintf("no event time at %q", f.o.Time.Field)}
}

// finish adds the metadata columns, nulls for what the record lacks, and
// counts the row.
func (f *rowFrame) finish(c *Columns, m *Message) error {
	f.cell.c, f.cell.replaced = c, 0
	for i := range f.meta {
		if err := f.metadata(&f.meta[i], m); err != nil {
			c.Truncate(c.rows)
			return err
		}
	}
	f.replaced += f.cell.replaced
	c.endRow()
	return nil
}

func (f *rowFrame) metadata(s *metaSink, m *Message) error {
	k := &f.cell
	switch s.column {
	case metaTopic:
		vec, leaf := k.at(s.to)
		vec.Data = append(vec.Data, m.Topic...)
		vec.seal()
		vec.level(leaf, 0, 0)
	case metaPartition:
		k.int32(s.to, m.Partition, 0)
	case metaOffset:
		k.int64(s.to, m.Offset, 0)
	case metaTimestamp:
		if m.Timestamp != -1 {
			k.int64(s.to, m.Timestamp, 0)
		}
	case metaTombstone:
		k.bool(s.to, m.Value == nil, 0)
	case metaHeaders:
		f.headers(s.to, m)
	case metaKey:
		switch {
		case m.Key == nil:
		case s.to.kind == Bytes:
			k.bytes(s.to, m.Key, 0)
		case s.to.kind == JSON && !wholeJSON(m.Key):
			return &BadRecord{BadSyntax, "the key is no JSON"}
		default:
			k.utf8(s.to, m.Key, 0)
		}
	}
	return nil
}

// wholeJSON says that b is one JSON value.
func wholeJSON(b []byte) bool {
	p := space(b, 0)
	if p == len(b) {
		return false
	}
	p = skipValue(b, p)
	return p >= 0 && space(b, p) == len(b)
}

// headers adds all headers, duplicates too, in the record's order.
func (f *rowFrame) headers(s *sink, m *Message) {
	k := &f.cell
	if len(m.Headers) == 0 {
		k.null(s, 0, s.def)
		return
	}
	keys, values := &k.c.vecs[s.lo], &k.c.vecs[s.lo+1]
	keyLeaf, valueLeaf := &k.c.leaves[s.lo], &k.c.leaves[s.lo+1]
	rep := int16(0)
	for i := range m.Headers {
		h := &m.Headers[i]
		var bad bool
		if keys.Data, bad = appendUTF8(keys.Data, []byte(h.Key)); bad {
			k.replaced++
		}
		keys.seal()
		keys.level(keyLeaf, keyLeaf.MaxDef, rep)
		if h.Value == nil {
			values.level(valueLeaf, valueLeaf.MaxDef-1, rep)
		} else {
			values.Data = append(values.Data, h.Value...)
			values.seal()
			values.level(valueLeaf, valueLeaf.MaxDef, rep)
		}
		rep = 1
	}
}
