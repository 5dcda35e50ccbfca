package formats

import (
	"bytes"
	"fmt"
)

// csvDecoder decodes one RFC 4180 record of a log record.
type csvDecoder struct {
	textFields
	delimiter byte
}

func newCSVDecoder(f *rowFrame) (Decoder, error) {
	fields, err := newTextFields(f, f.o.Columns, "decode.columns")
	if err != nil {
		return nil, err
	}
	d := &csvDecoder{textFields: fields, delimiter: ','}
	if f.o.Delimiter != "" {
		d.delimiter = f.o.Delimiter[0]
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

// Append adds the record as a row.
func (d *csvDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	if err := d.split(m.Value); err != nil {
		return 0, err
	}
	return d.row(c, m)
}

// split cuts a record into fields.
func (d *csvDecoder) split(b []byte) error {
	b = withoutLineEnd(b)
	d.fields = d.fields[:0]
	for p := 0; ; p++ {
		var f textField
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
func (d *csvDecoder) bareField(b []byte, p int) (textField, int, error) {
	end := len(b)
	if i := bytes.IndexByte(b[p:], d.delimiter); i >= 0 {
		end = p + i
	}
	f := textField{text: b[p:end], null: p == end}
	if i := bytes.IndexAny(f.text, "\"\n"); i >= 0 {
		return f, p, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: %q in a field without quotes", p+i, f.text[i])}
	}
	return f, end, nil
}

// quotedField reads a field whose opening quote stands at p and gives the
// position behind its closing one.
func quotedField(b []byte, p int) (textField, int, error) {
	var f textField
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
