package formats

import (
	"bytes"
	"fmt"
	"strconv"
)

// textDecoder lays named fields of text over the columns of a schema.
type textDecoder struct {
	*rowFrame
	by        splitter
	fields    []textField
	sinks     [][]*sink // per field
	timeField int       // -1 = the record's own time
	cells     cells
}

// splitter cuts a value into the fields of a decoder.
type splitter interface {
	split(d *textDecoder, value []byte) error
}

// textField is one field of the record at hand.
type textField struct {
	text []byte
	null bool
}

// newTextDecoder finds the columns of fields; from is the option that names them.
func newTextDecoder(f *rowFrame, by splitter, names []string, from string) (Decoder, error) {
	t := &textDecoder{rowFrame: f, by: by, fields: make([]textField, len(names)), sinks: make([][]*sink, len(names)), timeField: -1}
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	if !f.o.Time.fromRecord() {
		t.timeField = at[f.o.Time.Field[0]]
	}
	keep, leaf := f.o.filter(), 0
	for i := range f.schema.Fields {
		field := &f.schema.Fields[i]
		first := leaf
		leaf += field.Type.width()
		if field.Metadata() {
			continue
		}
		keys := field.Keys()
		column, ok := at[keys[0]]
		if !ok || len(keys) != 1 {
			return nil, fmt.Errorf("column %q: %s has no %q", field.Name, from, keys)
		}
		switch field.Type.Kind {
		case List, Map, Struct:
			return nil, fmt.Errorf("column %q: %s has no %s", field.Name, f.o.Value, field.Type)
		}
		s := newSink(field.Type, field.Name, first, 1, 0)
		s.times, s.epoch = f.times, !f.times.textual() && column == t.timeField
		if s.hash = keep.hashes(keys, field.Name); s.hash && s.kind != String {
			return nil, fmt.Errorf("column %q is to be hashed and must be a string, not %s", field.Name, s.t)
		}
		t.sinks[column] = append(t.sinks[column], s)
	}
	return t, nil
}

// Time finds the event time.
func (t *textDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return t.tombstone(nil, m)
	}
	if err := t.by.split(t, m.Value); err != nil {
		return 0, err
	}
	return t.eventTime(m)
}

// Append adds the record as a row.
func (t *textDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return t.tombstone(c, m)
	}
	if err := t.by.split(t, m.Value); err != nil {
		return 0, err
	}
	return t.row(c, m)
}

// eventTime is that of the fields, or of the record.
func (t *textDecoder) eventTime(m *Message) (Instant, error) {
	if t.timeField < 0 {
		return t.recordTime(m)
	}
	f := t.fields[t.timeField]
	if len(f.text) == 0 {
		return 0, t.noTime()
	}
	return t.timeText(f.text, m)
}

// row adds the fields as a row.
func (t *textDecoder) row(c *Columns, m *Message) (Instant, error) {
	at, err := t.eventTime(m)
	if err != nil {
		return 0, err
	}
	t.cells = cells{c: c, ref: m.Timestamp, scratch: t.cells.scratch}
	for i, f := range t.fields {
		if f.null {
			continue
		}
		for _, s := range t.sinks[i] {
			if !t.cells.field(s, f.text) {
				c.Truncate(c.rows)
				return 0, newMisfit(s, "text", fmt.Sprintf("%.40q", f.text))
			}
		}
	}
	if err := t.finish(c, m); err != nil {
		return 0, err
	}
	t.replaced += t.cells.replaced
	return at, nil
}

// field adds a field's text to a column of any primitive type.
func (k *cells) field(s *sink, text []byte) bool {
	switch s.kind {
	case Bool:
		v, err := strconv.ParseBool(string(text))
		if err == nil {
			k.bool(s, v, 0)
		}
		return err == nil
	case Int32, Int64, Float, Double:
		var ok bool
		if text, ok = k.plainNumber(text); !ok {
			return false
		}
		return k.number(s, text, 0)
	case Timestamp:
		if _, number := parseInt(text); number && !s.epoch && s.times.ops == nil {
			return k.number(s, text, 0)
		}
	case JSON:
		if !wholeJSON(text) {
			return false
		}
		k.utf8(s, text, 0)
		return true
	}
	return k.text(s, text, 0)
}

// plainNumber gives a number as JSON would write it: CSV writers add a plus,
// leading zeros, and leave out the zero before a point.
func (k *cells) plainNumber(text []byte) ([]byte, bool) {
	if scanNumber(text, 0) == len(text) {
		return text, true
	}
	k.scratch = k.scratch[:0]
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		if text[0] == '-' {
			k.scratch = append(k.scratch, '-')
		}
		text = text[1:]
	}
	for len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9' {
		text = text[1:]
	}
	if len(text) > 0 && text[0] == '.' {
		k.scratch = append(k.scratch, '0')
	}
	k.scratch = append(k.scratch, text...)
	return k.scratch, scanNumber(k.scratch, 0) == len(k.scratch)
}

// withoutLineEnd drops one line feed at the end, and one carriage return before it.
func withoutLineEnd(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}
