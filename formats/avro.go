package formats

import (
	"errors"
	"fmt"

	"sawlog/formats/avro"
)

// avroDecoder decodes one Avro value a record. For each schema that records
// were written with it makes a program that reads their bytes straight into the
// columns.
type avroDecoder struct {
	*rowFrame
	reader   *avro.Type
	root     *object
	clock    *object // knows the event time only
	programs map[uint32]*avroProgram
	last     *avroProgram
	lastID   uint32
	read     avroReader
}

// avroProgram reads the records of one writer's schema.
type avroProgram struct {
	row   *avroNode
	clock *avroNode
	bad   *BadRecord // what is wrong with the schema itself
}

func newAvroDecoder(f *rowFrame) (Decoder, error) {
	d := &avroDecoder{rowFrame: f, programs: map[uint32]*avroProgram{}}
	var err error
	if d.reader, err = avro.Parse(f.o.Schema.Text...); err != nil {
		return nil, err
	}
	if d.root, _, err = compileJSON(f.schema, &f.o, f.times); err != nil {
		return nil, err
	}
	if d.clock, _, err = compileJSON(&Schema{}, &f.o, f.times); err != nil {
		return nil, err
	}
	c := avroCompiler{times: f.times}
	own := &avroProgram{row: c.row(d.reader, d.reader, d.root), clock: c.row(d.reader, d.reader, d.clock)}
	if c.timeless != "" {
		return nil, fmt.Errorf("time.field: %q: %s", f.o.Time.Field, c.timeless)
	}
	for _, misfit := range c.misfits {
		return nil, errors.New(misfit)
	}
	if !f.o.framed() {
		d.programs[0], d.last = own, own
	}
	d.read.times = f.times
	return d, nil
}

// program is what reads the records of a schema id.
func (d *avroDecoder) program(id uint32) (*avroProgram, error) {
	if d.last != nil && d.lastID == id {
		return d.last, nil
	}
	p := d.programs[id]
	if p == nil {
		w := d.o.writer(id)
		if w == nil {
			return nil, ErrUnknownPath
		}
		p = d.compile(w)
		d.programs[id] = p
	}
	d.last, d.lastID = p, id
	return p, nil
}

func (d *avroDecoder) compile(w *WireSchema) *avroProgram {
	if w.Unknown != "" {
		return &avroProgram{bad: &BadRecord{BadSchema, fmt.Sprintf("schema id %d: %s", w.ID, w.Unknown)}}
	}
	t, err := avro.Parse(w.Text...)
	if err != nil {
		return &avroProgram{bad: &BadRecord{BadSchema, fmt.Sprintf("schema id %d: %s", w.ID, err)}}
	}
	c := avroCompiler{times: d.times}
	return &avroProgram{row: c.row(t, d.reader, d.root), clock: c.row(t, d.reader, d.clock)}
}

// open finds the program of a record and where its value starts.
func (d *avroDecoder) open(m *Message) (p *avroProgram, start int, err error) {
	var id uint32
	if d.o.framed() {
		if id, err = schemaID(m.Value); err != nil {
			return nil, 0, err
		}
		start = frameHeader
	}
	if p, err = d.program(id); err != nil {
		return nil, 0, err
	}
	if p.bad != nil {
		return nil, 0, p.bad
	}
	return p, start, nil
}

// run carries a program out and gives the event time.
func (d *avroDecoder) run(c *Columns, n *avroNode, m *Message, start int) (Instant, error) {
	r := &d.read
	r.cells = cells{c: c, ref: m.Timestamp, scratch: r.scratch}
	r.b, r.timed, r.err, r.depth, r.empty, r.twice, r.maps = m.Value, false, nil, 0, 0, 0, r.maps[:0]
	end := r.value(n, start, 0)
	switch {
	case end < 0:
		return 0, r.err
	case end < len(m.Value):
		return 0, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: %d bytes more than the avro value", end, len(m.Value)-end)}
	case d.o.Time.fromRecord():
		return d.recordTime(m)
	case !r.timed:
		return 0, d.noTime()
	}
	return d.plausible(r.event.instant())
}

// Time finds the event time.
func (d *avroDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	p, start, err := d.open(m)
	if err != nil {
		return 0, err
	}
	return d.run(nil, p.clock, m, start)
}

// Append adds the record as a row.
func (d *avroDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	p, start, err := d.open(m)
	if err != nil {
		return 0, err
	}
	at, err := d.run(c, p.row, m, start)
	if err != nil {
		c.Truncate(c.rows)
		return 0, err
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.replaced += d.read.replaced
	d.duplicate += d.read.twice
	return at, nil
}
