package formats

import "fmt"

// wholeDecoder puts the value as it is into one column: text that has no pattern
// as a string, raw as bytes.
type wholeDecoder struct {
	*rowFrame
	to    *sink
	cells cells
}

func newWholeDecoder(f *rowFrame) (Decoder, error) {
	d := &wholeDecoder{rowFrame: f}
	keep, leaf := f.o.filter(), 0
	for i := range f.schema.Fields {
		field := &f.schema.Fields[i]
		if !field.Metadata() {
			kind := field.Type.Kind
			if d.to != nil || field.Keys()[0] != "value" || kind != String && kind != Bytes {
				return nil, fmt.Errorf("column %q: value: %s has one column, value, of type string or bytes", field.Name, f.o.Value)
			}
			d.to = newSink(field.Type, field.Name, leaf, 1, 0)
			if d.to.hash = keep.hashes(field.Keys(), field.Name); d.to.hash && kind != String {
				return nil, fmt.Errorf("column %q is to be hashed and must be a string, not %s", field.Name, field.Type)
			}
		}
		leaf += field.Type.width()
	}
	return d, nil
}

// Time is the record's own.
func (d *wholeDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	return d.recordTime(m)
}

// Append adds the record as a row.
func (d *wholeDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	at, err := d.recordTime(m)
	if err != nil {
		return 0, err
	}
	d.cells = cells{c: c, ref: m.Timestamp}
	if d.to != nil {
		d.cells.text(d.to, m.Value, 0)
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.replaced += d.cells.replaced
	return at, nil
}
