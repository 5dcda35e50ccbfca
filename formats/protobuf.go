package formats

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sawlog/formats/protobuf"
)

// pbRecords makes, for each message that records were written as, a program that
// reads them, and carries it out.
type pbRecords struct {
	pbReader
	reader  *protobuf.Message
	root    *object
	clock   *object
	schemas map[uint32]*pbSchema // of writers
	indexes []int64
}

type pbSchema struct {
	*protobuf.Schema
	bad error // why it can't be read
}

func newProtobufDecoder(f *rowFrame) (Decoder, error) {
	d := &pbRecords{schemas: map[uint32]*pbSchema{}}
	var err error
	if d.reader, err = f.o.message(); err != nil {
		return nil, err
	}
	if d.root, d.clock, err = rowAndClock(f); err != nil {
		return nil, err
	}
	d.times = f.times
	c := pbCompiler{times: f.times}
	own := d.program(&c, d.reader)
	if !c.timed && !f.o.Time.fromRecord() {
		c.timeless = noTimeField
	}
	switch {
	case c.timeless != "":
		return nil, fmt.Errorf("time.field: %q: %s", f.o.Time.Field, c.timeless)
	case c.misfit != nil:
		return nil, errors.New(c.misfit.Detail)
	}
	return newWireDecoder(f, d, &d.wireRow, own), nil
}

// message is the message of protobuf values.
func (o *Options) message() (*protobuf.Message, error) {
	s, err := protobuf.Parse(o.Schema.Text[0])
	if err != nil {
		return nil, err
	}
	return s.Message(o.Message)
}

func (d *pbRecords) program(c *pbCompiler, m *protobuf.Message) *wireProgram[*pbMessage] {
	return &wireProgram[*pbMessage]{row: c.message(m, d.root, nil), clock: c.message(m, d.clock, nil)}
}

func (d *pbRecords) header(value []byte) (end int, err error) {
	if _, err = schemaID(value); err == nil {
		d.indexes, end, err = messageIndexes(d.indexes[:0], value)
	}
	return end, err
}

// maxIndexes bounds how deep the message of a record may be declared.
const maxIndexes = 64

// messageIndexes reads where in its file the message of a framed value is
// declared: how many indexes there are, and each of them, as zig-zag varints.
// None at all is the file's first message.
func messageIndexes(dst []int64, value []byte) (indexes []int64, end int, err error) {
	count, end := messageIndex(value, frameHeader)
	if end > 0 && count == 0 {
		return append(dst, 0), end, nil
	}
	for i := int64(0); end > 0 && i < count && count <= maxIndexes; i++ {
		var index int64
		index, end = messageIndex(value, end)
		dst = append(dst, index)
	}
	if end < 0 || count > maxIndexes {
		return dst, 0, &BadRecord{BadFraming, "no indexes of a message stand behind the schema's id"}
	}
	return dst, end, nil
}

// messageIndex reads one number and tells where it ends; -1 = there is none as
// serializers write them.
func messageIndex(value []byte, at int) (v int64, end int) {
	v, n := binary.Varint(value[at:])
	if n <= 0 || v < 0 || n > 1 && value[at+n-1] == 0 {
		return 0, -1
	}
	return v, at + n
}

// compile makes the program of the message that the header's indexes lead to.
// Only messages that are there have one, so that their number is bounded.
func (d *pbRecords) compile(w *WireSchema, _ []byte) (*wireProgram[*pbMessage], error) {
	s := d.schemas[w.ID]
	if s == nil {
		s = &pbSchema{}
		var err error
		if s.Schema, err = protobuf.Parse(w.Text[0]); err != nil {
			s.bad = badSchema(w.ID, err.Error())
		}
		d.schemas[w.ID] = s
	}
	if s.bad != nil {
		return nil, s.bad
	}
	m := s.At(d.indexes, d.reader.Name)
	switch {
	case m == nil:
		return nil, badSchema(w.ID, fmt.Sprintf("has no message with the indexes %d", d.indexes))
	case m.Name != d.reader.Name:
		return &wireProgram[*pbMessage]{bad: badSchema(w.ID, fmt.Sprintf("the value is a %s, the job reads %s: name the one it is to read as decode.message", m.Name, d.reader.Name))}, nil
	}
	c := pbCompiler{times: d.times}
	p := d.program(&c, protobuf.Resolve(m, d.reader))
	switch {
	case c.timeless != "":
		p.bad = &BadRecord{BadTime, fmt.Sprintf("schema id %d: %s", w.ID, c.timeless)}
	case c.misfit != nil:
		c.misfit.Detail = fmt.Sprintf("schema id %d: %s", w.ID, c.misfit.Detail)
		p.bad = c.misfit
	}
	return p, nil
}

func (d *pbRecords) read(m *pbMessage, start int) bool {
	d.values, d.heads, d.entries = d.values[:0], d.heads[:0], d.entries[:0]
	base := d.open(m)
	return d.scan(m, base, start, len(d.b)) && d.message(m, base, 0)
}
