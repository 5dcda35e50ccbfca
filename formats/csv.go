package formats

import (
	"bytes"
	"fmt"
	"strconv"
)

// csvDecoder decodes one RFC 4180 record of a log record.
type csvDecoder struct {
	*rowFrame
	delimiter byte
	sinks     [][]*sink // per field
	timeField int       // -1 = the record's own time
	fields    []csvField
	cells     cells
}

// csvField is one field as read; a quoted one with doubled quotes is copied.
type csvField struct {
	text   []byte
	quoted bool
}

func newCSVDecoder(f *rowFrame) (Decoder, error) {
	d := &csvDecoder{rowFrame: f, delimiter: ',', sinks: make([][]*sink, len(f.o.Columns)), timeField: -1}
	if f.o.Delimiter != "" {
		d.delimiter = f.o.Delimiter[0]
	}
	at := make(map[string]int, len(f.o.Columns))
	for i, name := range f.o.Columns {
		at[name] = i
	}
	if !f.o.Time.fromRecord() {
		d.timeField = at[f.o.Time.Field[0]]
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
			return nil, fmt.Errorf("column %q: decode.columns has no %q", field.Name, keys)
		}
		switch field.Type.Kind {
		case List, Map, Struct:
			return nil, fmt.Errorf("column %q: csv has no %s", field.Name, field.Type)
		}
		s := newSink(field.Type, field.Name, first, 1, 0)
		s.times, s.epoch = f.times, !f.times.textual() && column == d.timeField
		if s.hash = keep.hashes(keys, field.Name); s.hash && s.kind != String {
			return nil, fmt.Errorf("column %q is to be hashed and must be a string, not %s", field.Name, s.t)
		}
		d.sinks[column] = append(d.sinks[column], s)
	}
	return d, nil
}

// Time finds the event time.
func (d *csvDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	if err := d.split(m.Value); err != nil {
		return 0, err
	}
	return d.eventTime(m)
}

func (d *csvDecoder) eventTime(m *Message) (Instant, error) {
	if d.timeField < 0 {
		return d.recordTime(m)
	}
	f := d.fields[d.timeField]
	if len(f.text) == 0 {
		return 0, d.noTime()
	}
	return d.timeText(f.text, m)
}

// Append adds the record as a row.
func (d *csvDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	if err := d.split(m.Value); err != nil {
		return 0, err
	}
	at, err := d.eventTime(m)
	if err != nil {
		return 0, err
	}
	d.cells = cells{c: c, ref: m.Timestamp, scratch: d.cells.scratch}
	for i, f := range d.fields {
		if len(f.text) == 0 && !f.quoted {
			continue // null
		}
		for _, s := range d.sinks[i] {
			if !d.cells.field(s, f.text) {
				c.Truncate(c.rows)
				return 0, &BadRecord{BadType, fmt.Sprintf("column %q is %s and can't hold %.40q", s.name, s.t, f.text)}
			}
		}
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.replaced += d.cells.replaced
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

// split cuts a record into fields.
func (d *csvDecoder) split(b []byte) error {
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.TrimSuffix(b, []byte("\r"))
	d.fields = d.fields[:0]
	for p := 0; ; p++ {
		var f csvField
		var err error
		if p < len(b) && b[p] == '"' {
			f, p, err = quotedField(b, p)
		} else {
			f, p, err = d.bareField(b, p)
		}
		if err != nil {
			return err
		}
		d.fields = append(d.fields, f)
		if p >= len(b) {
			break
		}
		if b[p] != d.delimiter {
			return &BadRecord{BadSyntax, fmt.Sprintf("byte %d: data after a closing quote", p)}
		}
	}
	if len(d.fields) != len(d.sinks) {
		return &BadRecord{BadFields, fmt.Sprintf("%d fields, expected %d", len(d.fields), len(d.sinks))}
	}
	if d.o.SkipHeader && d.isHeader() {
		return ErrSkip
	}
	return nil
}

func (d *csvDecoder) isHeader() bool {
	for i, f := range d.fields {
		if string(f.text) != d.o.Columns[i] {
			return false
		}
	}
	return true
}

// bareField reads a field without quotes and gives the position of its end.
func (d *csvDecoder) bareField(b []byte, p int) (csvField, int, error) {
	end := len(b)
	if i := bytes.IndexByte(b[p:], d.delimiter); i >= 0 {
		end = p + i
	}
	f := csvField{text: b[p:end]}
	if i := bytes.IndexAny(f.text, "\"\n"); i >= 0 {
		return f, p, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: %q in a field without quotes", p+i, f.text[i])}
	}
	return f, end, nil
}

// quotedField reads a field whose opening quote stands at p and gives the
// position behind its closing one.
func quotedField(b []byte, p int) (csvField, int, error) {
	f := csvField{quoted: true}
	start := p + 1
	var joined []byte
	for at := start; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return f, p, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: quote without end", p)}
		}
		end := at + i
		if end+1 >= len(b) || b[end+1] != '"' {
			if joined == nil {
				f.text = b[start:end]
			} else {
				f.text = append(joined, b[at:end]...)
			}
			return f, end + 1, nil
		}
		joined = append(joined, b[at:end+1]...)
		at = end + 2
	}
}
