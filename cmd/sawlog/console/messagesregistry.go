package console

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"sawlog/formats"
	"sawlog/formats/jsonl"
	"sawlog/formats/registry"
)

// valueDecoder shows keys and values. Those that are framed, with the id of a
// schema in front, are read as that schema says where a job that loads the topic
// names the registry.
type valueDecoder struct {
	how     string
	format  string // avro | protobuf
	at      *formats.Registry
	client  *registry.Client // nil = no registry is known
	readers map[uint32]*framedReader
}

// framedReader reads the values of one schema.
type framedReader struct {
	rows    formats.Decoder
	columns *formats.Columns
	err     error // why it can't
}

// decoderOf prepares to show the records of a topic.
func (k *console) decoderOf(topic, how string) *valueDecoder {
	d := &valueDecoder{how: how, readers: map[uint32]*framedReader{}}
	for _, load := range k.loadsOf(topic) {
		spec, err := k.Jobs.Spec(load.Job)
		if err != nil || spec.Decode.Registry == nil {
			continue
		}
		r := spec.Decode.Registry
		client, err := registry.New(registry.Config{URLs: r.URLs, User: r.User, PasswordFile: r.PasswordFile, CAFile: r.CAFile, Timeout: patience, Tries: 1})
		if err == nil {
			d.format, d.at, d.client = spec.Decode.Value, r, client
			break
		}
	}
	return d
}

func (d *valueDecoder) close() {
	if d.client != nil {
		d.client.Close()
	}
}

// value lays out the value of a record.
func (d *valueDecoder) value(ctx context.Context, m *message) shown {
	p := m.value
	framed := d.client != nil && d.how == "auto" && len(p.head) >= 5 && p.head[0] == 0
	if !framed {
		return show(p, d.how)
	}
	text, err := d.decoded(ctx, m)
	if err != nil {
		s := show(p, "hex")
		s.Notes = err.Error()
		return s
	}
	s := show(piece{text, len(text)}, "json")
	s.Kind, s.Size = d.format, int64(p.size)
	return s
}

// decoded is a framed value as a line of JSON, as a load would read it.
func (d *valueDecoder) decoded(ctx context.Context, m *message) ([]byte, error) {
	if len(m.value.head) < m.value.size {
		return nil, errors.New("is longer than a page reads of a value")
	}
	id := binary.BigEndian.Uint32(m.value.head[1:])
	r := d.readers[id]
	if r == nil {
		r = d.reader(ctx, id)
		d.readers[id] = r
	}
	if r.err != nil {
		return nil, fmt.Errorf("schema id %d: %w", id, r.err)
	}
	defer r.columns.Reset()
	in := formats.Message{Partition: m.partition, Offset: m.offset, Timestamp: max(0, m.millis), Value: m.value.head}
	if _, err := r.rows.Append(r.columns, &in); err != nil {
		return nil, err
	}
	var line bytes.Buffer
	w, err := jsonl.NewWriter(&line, r.columns.Schema(), jsonl.Options{Codec: "none"})
	if err == nil {
		err = errors.Join(w.Write(r.columns), w.Close())
	}
	return bytes.TrimSpace(line.Bytes()), err
}

// reader asks the registry for a schema and prepares to read its values.
func (d *valueDecoder) reader(ctx context.Context, id uint32) *framedReader {
	w, err := d.client.Writer(ctx, d.format, id)
	if err == nil && w.Unknown != "" {
		err = errors.New(w.Unknown)
	}
	if err != nil {
		return &framedReader{err: err}
	}
	o := formats.Options{
		Value: d.format, Framing: formats.FramingConfluent, Registry: d.at, Schema: &w, Writers: []formats.WireSchema{w},
		Time: formats.TimeOptions{Field: []string{"_timestamp"}}, Metadata: []string{},
	}
	schema, err := o.Base(nil)
	if err != nil {
		return &framedReader{err: err}
	}
	rows, err := formats.NewDecoder(schema, o)
	return &framedReader{rows: rows, columns: formats.NewColumns(schema), err: err}
}
