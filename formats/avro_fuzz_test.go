package formats

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	avrolib "github.com/twmb/avro"
)

const fuzzSchema = `{"type":"record","name":"r","fields":[
	{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":["null","long"]},{"name":"f","type":"float"},{"name":"d","type":"double"},
	{"name":"s","type":"string"},{"name":"y","type":"bytes"},{"name":"x","type":{"type":"fixed","name":"x","size":3}},
	{"name":"e","type":{"type":"enum","name":"e","symbols":["A","B"]}},{"name":"u","type":["null","string",{"type":"array","items":"int"}]},
	{"name":"m","type":{"type":"map","values":{"type":"map","values":["null","int"]}}},
	{"name":"q","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},{"name":"n","type":{"type":"array","items":"null"}},
	{"name":"node","type":{"type":"record","name":"node","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","node"]}]}}]}`

// FuzzAvro holds that no bytes do harm, that a refused record leaves nothing,
// and that what is accepted another implementation reads too, to the same end;
// read as a union's branch or past as a field nobody wants makes no difference.
func FuzzAvro(f *testing.F) {
	schema := avrolib.MustParse(fuzzSchema)
	full, err := schema.AppendEncode(nil, map[string]any{
		"b": true, "i": int32(-3), "l": int64(1 << 50), "f": float32(1.5), "d": math.Copysign(0, -1), "s": "é", "y": []byte{0, 255}, "x": [3]byte{1, 2, 3}, "e": "B",
		"u": []any{int32(1)}, "m": map[string]any{"a": map[string]any{"k": nil}}, "q": []byte{0x30}, "n": []any{nil, nil},
		"node": map[string]any{"v": int32(1), "next": map[string]any{"v": int32(2), "next": nil}},
	})
	if err == nil {
		f.Add(full)
	}
	zero, err := schema.AppendEncode(nil, map[string]any{
		"b": false, "i": int32(0), "l": nil, "f": float32(0), "d": 0.0, "s": "", "y": []byte{}, "x": [3]byte{}, "e": "A", "u": nil,
		"m": map[string]any{}, "q": []byte{}, "n": []any{}, "node": map[string]any{"v": int32(0), "next": nil},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(zero)
	f.Add(append([]byte{1}, make([]byte, 60)...))
	o := avroOptions(fuzzSchema)
	nothing := &Schema{Fields: []Field{{Name: "absent", Type: &Type{Kind: String}}}}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, bad := avroRows(t, nil, o, value)
		_, skipped := avroRows(t, nothing, o, value)
		record := new(BadRecord)
		if bad[0] != nil && !errors.As(bad[0], &record) {
			t.Fatalf("%x: %v", value, bad[0])
		}
		if bad[0] == nil != (c.Rows() == 1) || bad[0] == nil && skipped[0] != nil {
			t.Errorf("%x: %v with %d rows, passed over %v", value, bad[0], c.Rows(), skipped[0])
		}
		var v any
		rest, err := schema.Decode(value, &v)
		if accepted := err == nil && len(rest) == 0; bad[0] == nil && !accepted {
			t.Errorf("%x: accepted, and another says %v with %d bytes left", value, err, len(rest))
		}
	})
}

// FuzzAvroLong holds that a number read as a word is the one read byte by byte,
// wherever it stands, and that what is none is refused as there.
func FuzzAvroLong(f *testing.F) {
	for _, n := range []int64{0, -1, 63, 64, math.MinInt32, math.MaxInt32, 1<<48 - 1, 1 << 55, math.MinInt64, math.MaxInt64} {
		b := binary.AppendVarint([]byte{0xff}, n)
		f.Add(b, uint8(1))
		f.Add(append(b, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0), uint8(1))
	}
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, uint8(0)) // longer than need be
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		p := min(int(at), len(b))
		r := avroReader{wireRow: wireRow{b: b}}
		got, end := r.long(p)
		want, n := binary.Varint(b[p:])
		if n > 0 && (got != want || end != p+n) || n <= 0 && (end >= 0 || r.err == nil) {
			t.Errorf("%x from %d: %d to %d (%v), want %d of %d bytes", b, p, got, end, r.err, want, n)
		}
	})
}
