package parquet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"sawlog/formats"
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

// TestScanWider reads files as columns of a wider schema: the rows are those a
// decoder makes of the same records under it.
func TestScanWider(t *testing.T) {
	for _, c := range []struct {
		name, narrow, wide string
		values             []string
		want               string // of the last row, where a decoder would not make it
	}{
		{"int32", "a int32", "a int64", []string{`{"a":-7}`, `{}`}, ""},
		{"integers to double", "a int32|b int64", "a double|b double", []string{`{"a":-7,"b":9007199254740992}`, `{"a":1}`}, ""},
		{"float", "a float", "a double", []string{`{"a":0.5}`, `{"a":-3.25}`}, ""},
		{"to decimal", "a int32|b int64", "a decimal(12,2)|b decimal(38,5)", []string{`{"a":-7,"b":-9223372036854775808}`}, ""},
		{"decimals", "a decimal(9,2)|b decimal(18,1)", "a decimal(18,3)|b decimal(20,2)", []string{`{"a":-7.25,"b":-12345.5}`, `{"a":0.01}`}, ""},
		{"timestamps", "a timestamp_ms|b timestamp_us_local", "a timestamp_ns|b timestamp_ns_local", []string{`{"a":"2020-01-01T00:00:00.5Z","b":"1960-01-01T00:00:00.000001"}`}, ""},
		{"new columns", "a int64", "a int64|b string|c list<struct<x:int64>>", []string{`{"a":1}`, `{}`}, ""},
		{
			"new members", "s struct<a:int32>|l list<struct<a:int32,k:list<int32>>>|m map<struct<a:int32>>",
			"s struct<a:int64,b:string>|l list<struct<a:int64,k:list<double>,n:struct<z:list<int64>>>>|m map<struct<a:int32,b:bool>>",
			[]string{`{"s":{"a":1},"l":[{"a":1,"k":[1,2]},{"a":2,"k":[]},null,{}],"m":{"x":{"a":1},"y":{}}}`, `{"s":null,"l":[],"m":{}}`, `{"l":[{"k":[3,4,null]}]}`, `{}`},
			"",
		},
		{
			"to text", "b bool|i int64|d double|t timestamp_ms|u uuid|j json", "b string|i string|d string|t string|u string|j string",
			[]string{`{"b":true,"i":-12,"d":1.5,"t":"2020-01-02T03:04:05Z","u":"00000001-0000-0000-0000-000000000000","j":{"k":[1]}}`},
			`"true" "-12" "1.5" "2020-01-02T03:04:05.000Z" "00000001-0000-0000-0000-000000000000" "{\"k\":[1]}"`,
		},
		{"to json", "b bool|i int64|t timestamp_ms", "b json|i json|t json", []string{`{"b":true,"i":-12,"t":"2020-01-02T03:04:05Z"}`}, `true -12 "2020-01-02T03:04:05.000Z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			narrow, wide := mustSchema(strings.Split(c.narrow, "|")...), mustSchema(strings.Split(c.wide, "|")...)
			got, err := copyOf(t, fileOf(t, narrow, Options{}, 2, c.values...), wide, Options{}, 2)
			if err != nil {
				t.Fatal(err)
			}
			have, err := Open(bytes.NewReader(got), int64(len(got)))
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				direct := fileOf(t, wide, Options{}, 2, c.values...)
				want, err := Open(bytes.NewReader(direct), int64(len(direct)))
				if err != nil {
					t.Fatal(err)
				}
				sameRows(t, have, want)
				return
			}
			err = have.Read(nil, have.Rows()-1, 1, func(row [][]byte) error {
				if text := string(bytes.Join(row[2:], []byte(" "))); text != c.want {
					t.Errorf("row %s, want %s", text, c.want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestScanRefuses has values, and types, that are no wider ones.
func TestScanRefuses(t *testing.T) {
	for _, c := range []struct{ narrow, wide, value, want string }{
		{"a int64", "a double", `{"a":9007199254740993}`, "is no double"},
		{"a int64", "a decimal(5,2)", `{"a":1000}`, "does not fit"},
		{"a timestamp_ms", "a timestamp_ns", `{"a":"2500-01-01T00:00:00Z"}`, "does not fit"},
		{"a string", "a int64", `{"a":"1"}`, "no wider"},
		{"a double", "a int64", `{"a":1}`, "no wider"},
		{"a decimal(9,2)", "a decimal(9,1)", `{"a":1.25}`, "no wider"},
		{"a list<int64>", "a string", `{"a":[1]}`, "is list<int64> in the file"},
		{"a bytes", "a string", `{"a":"x"}`, "no wider"},
		{"a int64|b int64", "a int64", `{"a":1}`, `has a column "b"`},
	} {
		narrow, wide := mustSchema(strings.Split(c.narrow, "|")...), mustSchema(strings.Split(c.wide, "|")...)
		_, err := copyOf(t, fileOf(t, narrow, Options{}, 2, c.value), wide, Options{}, 2)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: %v, want %s", c.narrow, c.wide, err, c.want)
		}
	}
	body := fileOf(t, mustSchema("a int64"), Options{}, 2, `{"a":1}`, `{}`)
	r, err := Open(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	scan, err := r.Scan(mustSchema("a int64"))
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(mustSchema("a int64"))
	for n, want := range []string{"\x00", "\x01"} {
		if head, err := scan.Head("_offset"); err != nil || string(head[:1]) != want {
			t.Errorf("head of row %d: %x, %v", n, head, err)
		}
		if head, err := scan.Head("a"); err != nil || (head == nil) != (n == 1) {
			t.Errorf("head of row %d: %x, %v", n, head, err)
		}
		if err := scan.Next(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := scan.Head("a"); !errors.Is(err, io.EOF) {
		t.Errorf("head after the last row: %v", err)
	}
}
