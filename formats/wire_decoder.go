package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// wireDecoder decodes values with a schema of their own, one a record. N is the
// program that Avro or Protobuf makes of a schema: it reads the bytes straight
// into the columns.
type wireDecoder[N any] struct {
	*rowFrame
	in       wireReader[N]
	row      *wireRow // of in
	programs map[string]*wireProgram[N]
	last     *wireProgram[N]
	frame    []byte // before the value of the last record
	byRecord bool   // the event time is the record's own
	unknown  int64
}

// wireProgram reads the records of one writer's schema.
type wireProgram[N any] struct {
	row   N
	clock N     // knows the event time only
	bad   error // why no record of it can be read
}

// wireReader is what each format does in its own way.
type wireReader[N any] interface {
	// header is the length of what stands before a framed value: its schema's id
	// and what else says how it is read.
	header(value []byte) (int, error)
	// compile makes the program of records with this header. An error is that of
	// the record alone; a program is kept.
	compile(w *WireSchema, header []byte) (*wireProgram[N], error)
	// read carries a program out over the bytes of the row from start on; false =
	// the row has the error.
	read(n N, start int) bool
}

// wireRow is the record at hand, and what reading it came to.
type wireRow struct {
	cells
	b       []byte
	times   *timeFormat
	event   moment // the event time
	timed   bool   // there was one
	err     error
	digits  []byte
	keys    map[string]int // of one large map: the last entry of each key
	twice   int64          // keys of maps that stood twice
	unknown int64          // fields the schema has not
}

// newWireDecoder returns a decoder; own is the program of the schema that the
// columns are made of, which unframed values have.
func newWireDecoder[N any](f *rowFrame, in wireReader[N], row *wireRow, own *wireProgram[N]) *wireDecoder[N] {
	d := &wireDecoder[N]{rowFrame: f, in: in, row: row, programs: map[string]*wireProgram[N]{}, byRecord: f.o.Time.fromRecord()}
	row.times = f.times
	if !f.o.framed() {
		d.last = own
	}
	return d
}

// rowAndClock are the columns of a row, and none at all: for a program that only
// looks for the event time.
func rowAndClock(f *rowFrame) (row, clock *object, err error) {
	if row, _, err = compileJSON(f.schema, &f.o, f.times); err == nil {
		clock, _, err = compileJSON(&Schema{}, &f.o, f.times)
	}
	return row, clock, err
}

// program finds the program of a value, and where the value itself starts.
func (d *wireDecoder[N]) program(value []byte) (p *wireProgram[N], start int, err error) {
	if d.o.framed() {
		if start, err = d.in.header(value); err != nil {
			return nil, 0, err
		}
	}
	if p = d.last; p == nil || !bytes.Equal(value[:start], d.frame) {
		if p = d.programs[string(value[:start])]; p == nil {
			if p, err = d.compile(value[:start]); err != nil {
				return nil, 0, err
			}
			d.programs[string(value[:start])] = p
		}
		d.last, d.frame = p, append(d.frame[:0], value[:start]...)
	}
	return p, start, p.bad
}

func (d *wireDecoder[N]) compile(header []byte) (*wireProgram[N], error) {
	id := binary.BigEndian.Uint32(header[1:])
	switch w := d.o.writer(id); {
	case w == nil:
		return nil, ErrUnknownPath
	case w.Unknown != "":
		return nil, badSchema(id, w.Unknown)
	default:
		return d.in.compile(w, header)
	}
}

// noTimeField is why a schema has no event time.
const noTimeField = "the schema has no such field"

// badSchema is the error of records whose schema can't be read.
func badSchema(id uint32, why string) *BadRecord {
	return &BadRecord{BadSchema, fmt.Sprintf("schema id %d: %s", id, why)}
}

// carryOut reads a record and gives its event time.
func (d *wireDecoder[N]) carryOut(c *Columns, n N, m *Message, start int) (Instant, error) {
	r := d.row
	r.c, r.ref, r.replaced, r.seenTime = c, m.Timestamp, 0, nil
	r.b, r.timed, r.err, r.twice, r.unknown = m.Value, false, nil, 0, 0
	switch {
	case !d.in.read(n, start):
		return 0, r.err
	case d.byRecord:
		return d.recordTime(m)
	case !r.timed:
		return 0, d.noTime()
	}
	return d.plausible(r.event.instant())
}

// Time finds the event time.
func (d *wireDecoder[N]) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	p, start, err := d.program(m.Value)
	if err != nil {
		return 0, err
	}
	return d.carryOut(nil, p.clock, m, start)
}

// Append adds the record as a row.
func (d *wireDecoder[N]) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	p, start, err := d.program(m.Value)
	if err != nil {
		return 0, err
	}
	at, err := d.carryOut(c, p.row, m, start)
	if err != nil {
		c.Truncate(c.rows)
		return 0, err
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.replaced += d.row.replaced
	d.duplicate += d.row.twice
	d.unknown += d.row.unknown
	return at, nil
}

// Notes counts what is worth showing: unknown_fields too.
func (d *wireDecoder[N]) Notes() map[string]int64 {
	notes := d.rowFrame.Notes()
	if d.unknown > 0 {
		notes["unknown_fields"] = d.unknown
	}
	return notes
}
