package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"sawlog/formats"
	"sawlog/formats/formatstest"
)

// opens starts files of a schema.
func opens(s *formats.Schema, o Options) formatstest.Open {
	return func(to io.Writer) (formatstest.Writer, error) { return NewWriter(to, s, o) }
}

// file is a file in memory.
func file(t *testing.T, o Options, batches ...*formats.Columns) []byte {
	t.Helper()
	return formatstest.File(t, opens(batches[0].Schema(), o), batches...)
}

var every = []string{
	"b bool", "i int32", "l int64", "f float", "d double", "s string", "y bytes", "day date", "u uuid", "j json",
	"ms timestamp_ms", "us timestamp_us", "ns timestamp_ns", "lo timestamp_us_local", "d9 decimal(9,2)", "d18 decimal(18,3)", "d38 decimal(38,0)",
	"d1 decimal(10,10)", "li list<int64>", "m map<list<string>>", "st struct<a:int64,b:struct<c:string>>",
}

// TestLines holds how each type looks, nulls and empty values included.
func TestLines(t *testing.T) {
	c := formatstest.Columns(t, every,
		`{"b":true,"i":-5,"l":9007199254740993,"f":0.5,"d":-0.0,"s":"é\"\\\u0000\u007f\u2028\n","y":"ab","day":"1969-12-31",`+
			`"u":"00112233-4455-6677-8899-AABBCCDDEEFF","j":{"a": [1,`+"\n"+`2.50]},"ms":-1,"us":1577833200123456,"ns":"2020-01-01T00:00:00.123456789Z","lo":0,`+
			`"d9":-0.01,"d18":"123456789012345.678","d38":-99999999999999999999999999999999999999,"d1":0.5,"li":[1,null,2],"m":{"k\n":["x",null],"e":[],"n":null},"st":{"a":1,"b":{"c":"x"}}}`,
		`{"li":[],"m":{},"st":{},"d":1e300,"s":""}`, `{"li":[null],"st":{"b":{}}}`)
	want := `{"_partition":1,"_offset":0,"b":true,"i":-5,"l":9007199254740993,"f":0.5,"d":-0,"s":"é\"\\\u0000` + "\x7f\u2028" + `\n","y":"YWI=","day":"1969-12-31",` +
		`"u":"00112233-4455-6677-8899-aabbccddeeff","j":{"a": [1, 2.50]},"ms":"1969-12-31T23:59:59.999Z","us":"2019-12-31T23:00:00.123456Z","ns":"2020-01-01T00:00:00.123456789Z","lo":"1970-01-01T00:00:00.000000",` +
		`"d9":-0.01,"d18":123456789012345.678,"d38":-99999999999999999999999999999999999999,"d1":0.5000000000,"li":[1,null,2],"m":{"k\n":["x",null],"e":[],"n":null},"st":{"a":1,"b":{"c":"x"}}}
{"_partition":1,"_offset":1,"b":null,"i":null,"l":null,"f":null,"d":1e+300,"s":"","y":null,"day":null,"u":null,"j":null,"ms":null,"us":null,"ns":null,"lo":null,"d9":null,"d18":null,"d38":null,"d1":null,"li":[],"m":{},"st":{"a":null,"b":null}}
{"_partition":1,"_offset":2,"b":null,"i":null,"l":null,"f":null,"d":null,"s":null,"y":null,"day":null,"u":null,"j":null,"ms":null,"us":null,"ns":null,"lo":null,"d9":null,"d18":null,"d38":null,"d1":null,"li":[null],"m":null,"st":{"a":null,"b":{"c":null}}}
`
	if got := string(file(t, Options{Codec: "none"}, c)); got != want {
		t.Errorf("lines are\n%s\nwant\n%s", got, want)
	}
}

// batch is rows that differ, enough for several frames.
func batch(t *testing.T, rows int) *formats.Columns {
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf(`{"s":"row %d %s","l":%d}`, i, strings.Repeat("long ", 60), i*7919))
	}
	return formatstest.Columns(t, []string{"s string", "l int64"}, values...)
}

// TestBytesStay holds the bytes of files: of each codec, however the writer
// came to be.
func TestBytesStay(t *testing.T) {
	c := batch(t, 9000)
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "ea4a66775fe83ab7"},
		{Options{Codec: "zstd", Level: 9}, "385a109b5ea3924a"},
		{Options{Codec: "gzip"}, "5922c172a63a671d"},
		{Options{Codec: "none"}, "c93a29585f3ba0bd"},
	} {
		if got := formatstest.Hash(t, opens(c.Schema(), tt.o), c); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.o, got, tt.want)
		}
	}
}

// TestRead reads parts of a file of several frames, and what was cut off.
func TestRead(t *testing.T) {
	c := batch(t, 9000)
	for _, codec := range []string{"zstd", "gzip", "none"} {
		data := file(t, Options{Codec: codec}, c, c)
		r, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Columns(), " "); got != "_partition _offset s l" {
			t.Errorf("columns %s", got)
		}
		for _, tt := range []struct{ from, n, want, first int64 }{{0, 5, 5, 0}, {8990, 20, 20, 8990}, {9001, -1, 8999, 1}, {18000, 3, 0, 0}, {0, 0, 0, 0}} {
			var got int64
			err := r.Read([]string{"l", "_offset"}, tt.from, tt.n, func(row [][]byte) error {
				if got == 0 && string(row[1]) != fmt.Sprint(tt.first) || string(row[0]) != fmt.Sprint((tt.from+got)%9000*7919) {
					t.Errorf("%s: row %d of Read(%d, %d): %s", codec, got, tt.from, tt.n, row)
				}
				got++
				return nil
			})
			if err != nil || got != tt.want {
				t.Errorf("%s: Read(%d, %d): %d rows, %v", codec, tt.from, tt.n, got, err)
			}
		}
		if err := r.Read([]string{"nope"}, 0, 1, nil); err == nil || !strings.Contains(err.Error(), "nope") {
			t.Errorf("unknown column: %v", err)
		}
		if rows, err := Count(bytes.NewReader(data), int64(len(data))); err != nil || rows != 18000 {
			t.Errorf("%s: %d rows, %v", codec, rows, err)
		}
		// A file that ends with a frame is a shorter file: its rows tell.
		for _, cut := range []int{1, 5, len(data)/2 + 1, len(data) - 1} {
			if _, err := Count(bytes.NewReader(data), int64(cut)); err == nil {
				t.Errorf("%s cut at %d of %d: no error", codec, cut, len(data))
			}
		}
	}
}

// TestMembers splits objects with everything that could mislead it.
func TestMembers(t *testing.T) {
	for _, line := range []string{`{}`, `{"a":1}`, `{"a,\"}:":"{\"x\":[,","b":{"c":[1,{"d":":"}],"e":{}},"f":[[],[",]"]],"g":null}`} {
		want := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := members([]byte(line), func(name, value []byte) error {
			var key string
			if err := json.Unmarshal(name, &key); err != nil {
				return err
			}
			if n++; string(want[key]) != string(value) {
				t.Errorf("%s: %s = %s", line, name, value)
			}
			return nil
		})
		if err != nil || n != len(want) {
			t.Errorf("%s: %d members, %v", line, n, err)
		}
	}
	for _, line := range []string{"", "[]", `{"a":`, `{"a" 1}`} {
		if err := members([]byte(line), func(_, _ []byte) error { return nil }); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}

// TestErrors wants every error of the sink to stay, and options to be checked.
func TestErrors(t *testing.T) {
	c := batch(t, 4000)
	for _, codec := range []string{"zstd", "none"} {
		formatstest.KeepsErrors(t, opens(c.Schema(), Options{Codec: codec}), c)
	}
	for _, o := range []Options{{Codec: "snappy"}, {Level: 23}, {Codec: "gzip", Level: 10}} {
		if _, err := NewWriter(io.Discard, c.Schema(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
