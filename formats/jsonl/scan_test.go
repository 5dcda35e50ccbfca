package jsonl

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"sawlog/formats"
	"sawlog/formats/formatstest"
)

// scans begins to read a file of columns.
func scans(t *testing.T) formatstest.Scans {
	return func(c *formats.Columns, s *formats.Schema) (formatstest.Scan, error) {
		data := file(t, Options{}, c)
		r, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		return r.Scan(s)
	}
}

// TestScan reads values of every type back, the odd ones too.
func TestScan(t *testing.T) {
	formatstest.ScansAll(t, scans(t), formatstest.Columns(t, every,
		`{"b":true,"i":-5,"l":9007199254740993,"f":0.1,"d":-0.0,"s":"é\"\\\u0000\u007f\u2028\n\r","y":"ab","day":"1969-12-31",`+
			`"u":"00112233-4455-6677-8899-AABBCCDDEEFF","j":{"a": [1,2.50], "b\"}":"{[,:"},"ms":-1,"us":1577833200123456,"ns":"2020-01-01T00:00:00.123456789Z","lo":0,`+
			`"d9":-0.01,"d18":"123456789012345.678","d38":-99999999999999999999999999999999999999,"d1":0.5,"li":[1,null,2],"m":{"k\n,:{":["x",null],"e":[],"n":null},"st":{"a":1,"b":{"c":"x"}}}`,
		`{"li":[],"m":{},"st":{},"d":1e300,"s":""}`, `{"li":[null],"st":{"b":{}},"d":1000000,"f":16777216,"day":"0001-01-01","ms":"9999-12-31T23:59:59.999Z","ns":"1678-01-01T00:00:00Z"}`,
		`{"j":"text","d":1125899906842624,"d38":0,"d9":0,"us":"0001-01-01T00:00:00Z"}`, `{"d":5e-324,"f":1e-45,"j":1.0e5}`))
}

func TestScanWider(t *testing.T) { formatstest.ScansWider(t, scans(t)) }

func TestScanRefuses(t *testing.T) { formatstest.ScansRefuse(t, scans(t), false) }

func TestScanHeads(t *testing.T) { formatstest.ScansHeads(t, scans(t)) }

// TestScanYears reads times of years that RFC 3339 has not, as Avro may bring them.
func TestScanYears(t *testing.T) {
	s := &formats.Schema{Fields: []formats.Field{{Name: "ms", Type: &formats.Type{Kind: formats.Timestamp}}, {Name: "us", Type: &formats.Type{Kind: formats.Timestamp, Unit: formats.Micros, Local: true}}}}
	c := formats.NewColumns(s)
	for _, v := range []int64{math.MaxInt64, math.MinInt64, 253402300800000, -62198755200000} {
		c.Put(0, 1, 0, binary.LittleEndian.AppendUint64(nil, uint64(v)))
		c.Put(1, 1, 0, binary.LittleEndian.AppendUint64(nil, uint64(v)))
		c.EndRow()
	}
	formatstest.ScansAll(t, scans(t), c)
}
