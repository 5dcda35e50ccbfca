package formats

import (
	"errors"
	"fmt"

	"sawlog/formats/avro"
)

// avroRecords makes, for each schema that records were written with, a program
// that reads them, and carries it out.
type avroRecords struct {
	avroReader
	reader *avro.Type
	root   *object
	clock  *object
}

func newAvroDecoder(f *rowFrame) (Decoder, error) {
	d := &avroRecords{}
	var err error
	if d.reader, err = avro.Parse(f.o.Schema.Text...); err != nil {
		return nil, err
	}
	if d.root, d.clock, err = rowAndClock(f); err != nil {
		return nil, err
	}
	d.times = f.times
	c := avroCompiler{times: f.times}
	own := d.program(&c, d.reader)
	if !c.timed && !f.o.Time.fromRecord() {
		c.timeless = noTimeField
	}
	if c.timeless != "" {
		return nil, fmt.Errorf("time.field: %q: %s", f.o.Time.Field, c.timeless)
	}
	for _, misfit := range c.misfits {
		return nil, errors.New(misfit)
	}
	return newWireDecoder(f, d, &d.wireRow, own), nil
}

func (d *avroRecords) program(c *avroCompiler, writer *avro.Type) *wireProgram[*avroNode] {
	return &wireProgram[*avroNode]{row: c.row(writer, d.reader, d.root), clock: c.row(writer, d.reader, d.clock)}
}

func (d *avroRecords) header(value []byte) (int, error) {
	_, err := schemaID(value)
	return frameHeader, err
}

func (d *avroRecords) compile(w *WireSchema, _ []byte) (*wireProgram[*avroNode], error) {
	t, err := avro.Parse(w.Text...)
	if err != nil {
		return &wireProgram[*avroNode]{bad: badSchema(w.ID, err.Error())}, nil
	}
	if is, want := rowRecord(t), rowRecord(d.reader); is != nil && want != nil && !want.Named(is) {
		return &wireProgram[*avroNode]{bad: badSchema(w.ID, fmt.Sprintf("the value is a %s, the job reads %s: name its subject under decode.registry", is.Name, want.Name))}, nil
	}
	return d.program(&avroCompiler{times: d.times}, t), nil
}

func (d *avroRecords) read(n *avroNode, start int) bool {
	d.depth, d.empty, d.maps = 0, 0, d.maps[:0]
	end := d.value(n, start, 0)
	if end >= 0 && end < len(d.b) {
		end = d.fail(BadSyntax, "byte %d: %d bytes more than the avro value", end, len(d.b)-end)
	}
	return end >= 0
}
