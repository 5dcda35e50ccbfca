package parquet

import (
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	avrolib "github.com/twmb/avro"

	"sawlog/formats"
	"sawlog/formats/avro"
)

// container is an Avro object container file cut into records, each with what
// another implementation reads in it.
type container struct {
	schema string
	values [][]byte
	read   []any
	broken error // why its blocks or records end early
}

// openContainer reads a container of the real inputs.
func openContainer(t *testing.T, name string) *container {
	t.Helper()
	data, err := os.ReadFile(realFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := cutContainer(t, data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func cutContainer(t *testing.T, data []byte) (*container, error) {
	if !bytes.HasPrefix(data, []byte("Obj\x01")) {
		return nil, errors.New("is no container")
	}
	var meta map[string][]byte
	rest, err := avrolib.MustParse(`{"type":"map","values":"bytes"}`).Decode(data[4:], &meta)
	if err != nil {
		return nil, err
	}
	c := &container{schema: string(meta["avro.schema"])}
	schema, err := avrolib.Parse(c.schema)
	if err != nil {
		return nil, err
	}
	sync, rest := rest[:16], rest[16:]
	for len(rest) > 0 {
		count, n := binary.Varint(rest)
		size, m := binary.Varint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || size < 0 || int64(len(rest)-n-m) < size+16 {
			c.broken = errors.New("a block is cut off")
			break
		}
		block, err := inflate(t, string(meta["avro.codec"]), rest[n+m:n+m+int(size)])
		if err != nil {
			return nil, err
		}
		rest = rest[n+m+int(size):]
		for ; count > 0; count-- {
			var v any
			after, err := schema.Decode(block, &v, avrolib.TaggedUnions())
			if err != nil {
				c.broken = err
				after = nil
			}
			c.values = append(c.values, block[:len(block)-len(after)])
			c.read = append(c.read, v)
			if block = after; err != nil {
				break
			}
		}
		if !bytes.Equal(rest[:16], sync) {
			c.broken = errors.New("a block does not end in the sync marker")
			break
		}
		rest = rest[16:]
	}
	return c, nil
}

func inflate(t *testing.T, codec string, b []byte) ([]byte, error) {
	switch codec {
	case "", "null":
		return b, nil
	case "deflate":
		return io.ReadAll(flate.NewReader(bytes.NewReader(b)))
	case "snappy":
		return s2.Decode(nil, b[:len(b)-4]) // a checksum follows
	case "zstandard":
		z, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return z.DecodeAll(b, nil)
	case "bzip2":
		return io.ReadAll(bzip2.NewReader(bytes.NewReader(b)))
	case "xz":
		cmd := exec.Command("python3", "-c", "import lzma, sys; sys.stdout.buffer.write(lzma.decompress(sys.stdin.buffer.read()))")
		cmd.Stdin = bytes.NewReader(b)
		out, err := cmd.Output()
		if err != nil {
			missing(t, "python3 with lzma", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("codec %s", codec)
}

func avroOptions(schema string) formats.Options {
	return formats.Options{
		Value: "avro", Schema: &formats.WireSchema{Text: []string{schema}}, Metadata: []string{},
		Time: formats.TimeOptions{Field: []string{"_timestamp"}},
	}
}

// decodeAvro decodes values into the columns of their schema; the errors are of
// single values.
func decodeAvro(t *testing.T, o formats.Options, values [][]byte) (*formats.Columns, []error) {
	t.Helper()
	s, err := o.Base(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	bad := make([]error, len(values))
	for i, v := range values {
		_, bad[i] = d.Append(c, &formats.Message{Timestamp: 1, Value: v})
	}
	return c, bad
}

// expected is what a column shows of a value that another implementation read.
func expected(t *avro.Type, v any) any {
	switch x := v.(type) {
	case nil, bool:
		return v
	case time.Time:
		return expectedTime(t, x)
	case time.Duration:
		if t.Logical == "time-millis" {
			return number(strconv.FormatInt(x.Milliseconds(), 10))
		}
		return number(strconv.FormatInt(x.Microseconds(), 10))
	case int32, int64:
		return number(fmt.Sprint(x))
	case float32:
		return float(float64(x), 32)
	case float64:
		return float(x, 64)
	case *big.Rat:
		if t.Precision > 38 {
			return x.FloatString(t.Scale)
		}
		return number(x.RatString())
	case [16]byte:
		return fmt.Sprintf("%x-%x-%x-%x-%x", x[:4], x[4:6], x[6:8], x[8:10], x[10:])
	case avrolib.Duration:
		return map[string]any{"months": number(fmt.Sprint(x.Months)), "days": number(fmt.Sprint(x.Days)), "millis": number(fmt.Sprint(x.Milliseconds))}
	case []byte:
		return base64.StdEncoding.EncodeToString(x)
	case string:
		if t.Kind == avro.Fixed || t.Kind == avro.Bytes {
			return base64.StdEncoding.EncodeToString([]byte(x))
		}
		return x
	case []any:
		out := []any{}
		for _, e := range x {
			out = append(out, expected(t.Elem, e))
		}
		return out
	case map[string]any:
		return expectedObject(t, x)
	}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Array {
		b := make([]byte, rv.Len())
		reflect.Copy(reflect.ValueOf(b), rv)
		return base64.StdEncoding.EncodeToString(b)
	}
	return fmt.Sprintf("%T", v)
}

func expectedObject(t *avro.Type, x map[string]any) any {
	switch t.Kind {
	case avro.Map:
		out := map[string]any{}
		for k, e := range x {
			out[k] = expected(t.Elem, e)
		}
		return out
	case avro.Union:
		some := t.Optional()
		out := map[string]any{}
		for _, b := range some {
			tagged, here := x[b.Name]
			if !here {
				out[b.ShortName()] = nil
				continue
			}
			value := expected(b, tagged)
			if len(some) == 1 || merges(some) {
				return value
			}
			out[b.ShortName()] = value
		}
		return out
	}
	out := map[string]any{}
	for i := range t.Fields {
		if f := &t.Fields[i]; len(f.Type.Optional()) > 0 && f.Type.Kind != avro.Null {
			out[f.Name] = expected(f.Type, x[f.Name])
		}
	}
	if len(out) == 0 {
		return true
	}
	return out
}

func merges(some []*avro.Type) bool {
	kinds := map[avro.Kind]bool{}
	for _, b := range some {
		kinds[b.Kind] = b.Logical == ""
	}
	return len(some) == 2 && (kinds[avro.Int] && kinds[avro.Long] || kinds[avro.Float] && kinds[avro.Double])
}

func expectedTime(t *avro.Type, x time.Time) any {
	layout := "2006-01-02T15:04:05.000"
	switch {
	case t.Logical == "date":
		return x.Format(time.DateOnly)
	case strings.HasSuffix(t.Logical, "micros"):
		layout += "000"
	case strings.HasSuffix(t.Logical, "nanos"):
		layout += "000000"
	}
	if !strings.HasPrefix(t.Logical, "local") {
		layout += "Z"
	}
	return x.UTC().Format(layout)
}

// number and float are numbers in one spelling.
func number(text string) any {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return text
	}
	return "#" + r.RatString()
}

func float(v float64, bits int) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, bits)
	}
	return number(strconv.FormatFloat(v, 'g', -1, bits))
}

// spelled gives every number of a value its one spelling.
func spelled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = spelled(x)
		}
	case []any:
		for i, x := range v {
			v[i] = spelled(x)
		}
	case json.Number:
		return number(v.String())
	}
	return v
}

// readRows reads a file of ours back as objects.
func readRows(t *testing.T, path string, s *formats.Schema) (rows []any) {
	t.Helper()
	err := openFile(t, path).Read(nil, 0, -1, func(row [][]byte) error {
		got := map[string]any{}
		for i := range s.Fields {
			d := json.NewDecoder(bytes.NewReader(row[i]))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				return err
			}
			got[s.Fields[i].Keys()[0]] = spelled(v)
		}
		rows = append(rows, got)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// sameAvro writes the rows of values and compares what is read back with what
// the other implementation read.
func sameAvro(t *testing.T, schema string, values [][]byte, read []any) (path string, s *formats.Schema) {
	t.Helper()
	typ, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	c, bad := decodeAvro(t, avroOptions(schema), values)
	for i, err := range bad {
		if err != nil {
			t.Fatalf("value %d, %x: %v", i, values[i], err)
		}
	}
	path = writeFile(t, c.Schema(), Options{}, c)
	rows := readRows(t, path, c.Schema())
	if len(rows) != len(values) {
		t.Fatalf("%d rows, want %d", len(rows), len(values))
	}
	for i, row := range rows {
		want := expected(typ, read[i])
		if typ.Kind != avro.Record {
			want = map[string]any{"value": want}
		}
		if !reflect.DeepEqual(row, want) {
			t.Fatalf("row %d of %s:\n%v\nwant\n%v", i, schema, row, want)
		}
	}
	return path, c.Schema()
}
