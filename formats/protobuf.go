package formats

import (
	"sawlog/formats/protobuf"
)

// protobufDecoder decodes one Protobuf message a record.
type protobufDecoder struct {
	*rowFrame
	row, clock *pbMessage
	read       pbReader
	unknown    int64
}

func newProtobufDecoder(f *rowFrame) (Decoder, error) {
	m, err := f.o.message()
	if err != nil {
		return nil, err
	}
	d := &protobufDecoder{rowFrame: f}
	root, _, err := compileJSON(f.schema, &f.o, f.times)
	if err != nil {
		return nil, err
	}
	clock, _, err := compileJSON(&Schema{}, &f.o, f.times)
	if err != nil {
		return nil, err
	}
	c := pbCompiler{times: f.times}
	d.row, d.clock = c.message(m, root, nil), c.message(m, clock, nil)
	if c.err != nil {
		return nil, c.err
	}
	d.read.times = f.times
	return d, nil
}

// message is the message of protobuf values.
func (o *Options) message() (*protobuf.Message, error) {
	return protobuf.Parse(o.Schema.Text[0], o.Message)
}

// run reads a record and gives the event time.
func (d *protobufDecoder) run(c *Columns, m *pbMessage, msg *Message) (Instant, error) {
	r := &d.read
	r.cells = cells{c: c, ref: msg.Timestamp, scratch: r.scratch}
	r.b, r.timed, r.err, r.unknown, r.twice = msg.Value, false, nil, 0, 0
	r.values, r.heads, r.entries = r.values[:0], r.heads[:0], r.entries[:0]
	base := r.open(m)
	if !r.scan(m, base, 0, len(msg.Value)) || !r.message(m, base, 0) {
		return 0, r.err
	}
	switch {
	case d.o.Time.fromRecord():
		return d.recordTime(msg)
	case !r.timed:
		return 0, d.noTime()
	}
	return d.plausible(r.event.instant())
}

// Time finds the event time.
func (d *protobufDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	return d.run(nil, d.clock, m)
}

// Append adds the record as a row.
func (d *protobufDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	at, err := d.run(c, d.row, m)
	if err != nil {
		c.Truncate(c.rows)
		return 0, err
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.replaced += d.read.replaced
	d.duplicate += d.read.twice
	d.unknown += d.read.unknown
	return at, nil
}

// Notes counts what is worth showing: unknown_fields too.
func (d *protobufDecoder) Notes() map[string]int64 {
	notes := d.rowFrame.Notes()
	if d.unknown > 0 {
		notes["unknown_fields"] = d.unknown
	}
	return notes
}
