package parquet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"sawlog/formats"
	"sawlog/formats/formatstest"
)

// copyOf scans a file as columns of a schema and writes them with options.
func copyOf(t *testing.T, body []byte, s *formats.Schema, o Options, batch int) ([]byte, error) {
	t.Helper()
	r, err := Open(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	scan, err := r.Scan(s)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for {
		err := scan.Next(c)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if c.Rows() == batch || err == io.EOF && c.Rows() > 0 {
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
			c.Reset()
		}
		if err == io.EOF {
			break
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), nil
}

// fileOf writes records as a file, in batches.
func fileOf(t *testing.T, s *formats.Schema, o Options, batch int, values ...string) []byte {
	t.Helper()
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for n, value := range values {
		if _, err := d.Append(c, &formats.Message{Offset: int64(n), Timestamp: 1, Value: []byte(value)}); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if c.Rows() == batch || n == len(values)-1 {
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
			c.Reset()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestScanIsTheFile copies files of every type, row by row: the copy has the
// same bytes.
func TestScanIsTheFile(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile int) {
		s := mustSchema("b bool", "i int32", "l int64", "f float", "d double", "s string", "raw bytes", "day date", "u uuid", "j json",
			"tm timestamp_ms", "tu timestamp_us", "tn timestamp_ns", "lm timestamp_ms_local", "lu timestamp_us_local", "ln timestamp_ns_local",
			"d9 decimal(9,2)", "d18 decimal(18,0)", "d38 decimal(38,5)",
			"li list<string>", "m map<int64>", "ls list<struct<a:int32,b:list<bool>>>", "st struct<x:string,y:struct<z:double>>", "none string")
		rnd := rand.New(rand.NewPCG(5, 6))
		var values []string
		for n := range 7000 {
			values = append(values, string(everyType(rnd, n)))
		}
		for name, o := range map[string]Options{
			"small pages": {PageBytes: 2048, DictBytes: 700, RowGroupRows: 3000}, "plain": {Codec: "none", PageBytes: 1, DictBytes: 1},
			"snappy": {Codec: "snappy"}, "gzip": {Codec: "gzip", Level: 1},
		} {
			o.Profile = profile
			want := fileOf(t, s, o, 1500, values...)
			got, err := copyOf(t, want, s, o, 1500)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the copy differs", name)
			}
		}
	})
}

// scans begins to read a file of columns.
func scans(t *testing.T) formatstest.Scans {
	return func(c *formats.Columns, s *formats.Schema) (formatstest.Scan, error) {
		var out bytes.Buffer
		w, err := NewWriter(&out, c.Schema(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(c), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return r.Scan(s)
	}
}

func TestScanWider(t *testing.T) { formatstest.ScansWider(t, scans(t)) }

func TestScanRefuses(t *testing.T) { formatstest.ScansRefuse(t, scans(t), true) }

func TestScanHeads(t *testing.T) { formatstest.ScansHeads(t, scans(t)) }
