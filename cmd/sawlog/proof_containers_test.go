package main

import (
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/formats"
	"sawlog/formats/parquet"
)

// cutContainer gives the schema of an Avro container and the bytes of its values,
// as far as its blocks go; a value that can't be read ends them.
func cutContainer(t *testing.T, data []byte) (schema string, values [][]byte, err error) {
	if !bytes.HasPrefix(data, []byte("Obj\x01")) {
		return "", nil, errors.New("is no container")
	}
	var meta map[string][]byte
	rest, err := avro.MustParse(`{"type":"map","values":"bytes"}`).Decode(data[4:], &meta)
	if err != nil {
		return "", nil, err
	}
	schema = string(meta["avro.schema"])
	parsed, err := avro.Parse(schema)
	for rest = rest[min(16, len(rest)):]; err == nil && len(rest) > 0; rest = rest[min(16, len(rest)):] {
		count, n := binary.Varint(rest)
		size, m := binary.Varint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || size < 0 || int64(len(rest)-n-m) < size+16 {
			break // it is cut off
		}
		block := unpack(t, string(meta["avro.codec"]), rest[n+m:n+m+int(size)])
		rest = rest[n+m+int(size):]
		for ; count > 0; count-- {
			var v any
			after, bad := parsed.Decode(block, &v)
			if bad != nil {
				return schema, append(values, block), nil
			}
			values, block = append(values, block[:len(block)-len(after)]), after
		}
	}
	return schema, values, err
}

// unpack undoes the codec of a block.
func unpack(t *testing.T, codec string, b []byte) (out []byte) {
	t.Helper()
	var err error
	switch codec {
	case "deflate":
		out, err = io.ReadAll(flate.NewReader(bytes.NewReader(b)))
	case "snappy":
		out, err = s2.Decode(nil, b[:len(b)-4]) // a checksum follows
	case "zstandard":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(nil); err == nil {
			out, err = z.DecodeAll(b, nil)
			z.Close()
		}
	case "bzip2":
		out, err = io.ReadAll(bzip2.NewReader(bytes.NewReader(b)))
	case "xz":
		cmd := exec.Command("python3", "-c", "import lzma, sys; sys.stdout.buffer.write(lzma.decompress(sys.stdin.buffer.read()))")
		cmd.Stdin = bytes.NewReader(b)
		out, err = cmd.Output()
	default:
		out = b
	}
	if err != nil {
		t.Fatalf("codec %s: %v", codec, err)
	}
	return out
}

// fileRows are the rows of a Parquet file as JSON.
func fileRows(t *testing.T, f io.ReaderAt, size int64) (out []string) {
	t.Helper()
	r, err := parquet.Open(f, size)
	if err == nil {
		err = r.Read(nil, 0, -1, func(row [][]byte) error {
			out = append(out, string(bytes.Join(row, []byte(" "))))
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decodedRows are the rows that values make without any of the ways through
// broker, task and ledger, in a file of their own; no row for a bad value.
func decodedRows(t *testing.T, schema string, first int64, values [][]byte) []string {
	t.Helper()
	o := formats.Options{Value: "avro", Schema: &formats.WireSchema{Text: []string{schema}}, Time: formats.TimeOptions{Field: []string{"_timestamp"}}}
	s, err := o.Base(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i, v := range values {
		var bad *formats.BadRecord
		if _, err := d.Append(c, &formats.Message{Timestamp: 1, Offset: first + int64(i), Value: v}); err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	w, err := parquet.NewWriter(&file, s, parquet.Options{})
	if err == nil {
		err = errors.Join(w.Write(c), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return fileRows(t, bytes.NewReader(file.Bytes()), int64(file.Len()))
}

// TestSoakContainers sends the values of every real Avro container through a
// broker and loads them: the rows and values are those its bytes decode to, which
// formats/parquet compares with another implementation and with Parquet files that
// others made of the same rows. What is no container, or is broken, is refused.
func TestSoakContainers(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob(filepath.Join(realData(t), "schemas", "avro-files", "*avro*"))
	if err != nil || len(found) < 50 {
		t.Fatalf("%d containers, %v", len(found), err)
	}
	n := startNode(t)
	n.run("topic", "create", "containers", "--partitions", "1", "--config", "retention.ms=-1")
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	var sent int64
	for i, path := range found {
		schema, values, err := cutContainer(t, mustRead(t, path))
		name := filepath.Base(path)
		if name == "test.avro12" {
			if err == nil {
				t.Errorf("%s was read", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(values) == 0 {
			continue // all of it is cut off
		}
		var records []*kgo.Record
		for _, v := range values {
			records = append(records, &kgo.Record{Topic: "containers", Value: v, Timestamp: at})
		}
		n.send(nil, records...)
		first := sent
		sent += int64(len(values))
		root := filepath.Join(n.dir, "warehouse", name)
		job := n.write(fmt.Sprintf("container-%d.yaml", i), fmt.Sprintf("name: container-%d\nsource: {topics: [containers]}\ndecode: {value: avro, schema: '%s'}\noutput: {root: 'file://%s'}\n",
			i, n.write(fmt.Sprintf("container-%d.avsc", i), schema), root))
		o := n.outcome(0, "run", job, "--range", fmt.Sprintf("containers/0=%d..%d", first, sent))
		want := decodedRows(t, schema, first, values)
		if o.Rows != int64(len(want)) || o.Rows+o.Quarantined != int64(len(values)) || o.Quarantined > 0 != strings.Contains(name, "bad-union") {
			t.Errorf("%s: %d values: %d rows, %d quarantined", name, len(values), o.Rows, o.Quarantined)
			continue
		}
		var got []string
		for file := range treeOf(t, root) {
			if strings.HasPrefix(file, "dt=") {
				f, err := os.Open(filepath.Join(root, file))
				if err != nil {
					t.Fatal(err)
				}
				info, err := f.Stat()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fileRows(t, f, info.Size())...)
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows that are not those of its bytes", name, len(got))
		}
	}
}
