package parquet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// shapeCase is one column with values as JSON has them and as readers must see them.
type shapeCase struct {
	column string // "name type"
	in     []string
	arrow  string // pyarrow's type
	out    []string
}

// The values of shapes: JSON texts of what read.py prints.
var shapes = []shapeCase{
	{"b bool", []string{"true", "false", "null"}, "bool", []string{"true", "false", "null"}},
	{"i int32", []string{"-2147483648", "2147483647", "null"}, "int32", []string{"-2147483648", "2147483647", "null"}},
	{"l int64", []string{"-9223372036854775808", "9007199254740993", "null"}, "int64", []string{"-9223372036854775808", "9007199254740993", "null"}},
	{"f float", []string{"0.5", "-3", "null"}, "float", []string{`"f:0.5"`, `"f:-3.0"`, "null"}},
	{"d double", []string{"0.1", "1E5", "-0.0"}, "double", []string{`"f:0.1"`, `"f:100000.0"`, `"f:-0.0"`}},
	{"s string", []string{`"é\u00e9\n\ud83d\ude00"`, `""`, "null"}, "string", []string{`"éé\n😀"`, `""`, "null"}},
	{"y bytes", []string{`"ab"`, `""`, "null"}, "binary", []string{`"b64:YWI="`, `"b64:"`, "null"}},
	{"day date", []string{`"1969-12-31"`, `"2024-02-29"`, "null"}, "date32[day]", []string{`"1969-12-31"`, `"2024-02-29"`, "null"}},
	{"u uuid", []string{`"00112233-4455-6677-8899-aabbccddeeff"`, `"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"`, "null"}, "extension<arrow.uuid>", []string{`"00112233-4455-6677-8899-aabbccddeeff"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`, "null"}},
	{"d9 decimal(9,2)", []string{"1234567.89", "-0.01", "null"}, "decimal128(9, 2)", []string{`"1234567.89"`, `"-0.01"`, "null"}},
	{"d18 decimal(18,3)", []string{"123456789012345.678", "-1e2", "null"}, "decimal128(18, 3)", []string{`"123456789012345.678"`, `"-100.000"`, "null"}},
	{"d38 decimal(38,0)", []string{"327267367867168100000", "-99999999999999999999999999999999999999", "null"}, "decimal128(38, 0)", []string{`"327267367867168100000"`, `"-99999999999999999999999999999999999999"`, "null"}},
	{"ms timestamp_ms", []string{`"1969-12-31T23:59:59.9999Z"`, "1500", "null"}, "timestamp[ms, tz=UTC]", []string{"-1", "1500", "null"}},
	{"us timestamp_us", []string{`"2020-01-01T00:00:00.1234567+01:00"`, "-1", "null"}, "timestamp[us, tz=UTC]", []string{"1577833200123456", "-1", "null"}},
	{"ns timestamp_ns", []string{`"2020-01-01 00:00:00.123456789"`, "0", "null"}, "timestamp[ns, tz=UTC]", []string{"1577836800123456789", "0", "null"}},
	{"lo timestamp_us_local", []string{`"2020-01-01T00:00:00+05:00"`, `"2020-01-01T00:00:00"`, "null"}, "timestamp[us]", []string{"1577836800000000", "1577836800000000", "null"}},
	{"lm timestamp_ms_local", []string{`"2020-01-01T00:00:00.999"`, `"1969-12-31T23:59:59.999"`, "null"}, "timestamp[ms]", []string{"1577836800999", "-1", "null"}},
	{"lx timestamp_ns_local", []string{`"2020-01-01T00:00:00.123456789"`, `"1970-01-01T00:00:00.000000000"`, "null"}, "timestamp[ns]", []string{"1577836800123456789", "0", "null"}},
	{"li list<int64>", []string{"[null]", "[1,null,2]", "[]"}, "list<element: int64>", []string{"[null]", "[1,null,2]", "[]"}},
	{"ln list<int64>", []string{"null", "[7]", "null"}, "list<element: int64>", []string{"null", "[7]", "null"}},
	{"ll list<list<string>>", []string{`[[],null,["a",null],["b"]]`, `[[null]]`, `[]`}, "list<element: list<element: string>>", []string{`[[],null,["a",null],["b"]]`, `[[null]]`, `[]`}},
	{"st struct<a:int64,b:struct<c:string>>", []string{`{"a":1,"b":{"c":"x"}}`, `{"b":{}}`, "null"}, "struct<a: int64, b: struct<c: string>>", []string{`{"a":1,"b":{"c":"x"}}`, `{"a":null,"b":{"c":null}}`, "null"}},
	{"ls list<struct<a:int64,t:list<string>>>", []string{`[{"a":1,"t":["x","y"]},{"t":[]},null,{"a":null,"t":[null]}]`, `[{}]`, `null`}, "list<element: struct<a: int64, t: list<element: string>>>", []string{`[{"a":1,"t":["x","y"]},{"a":null,"t":[]},null,{"a":null,"t":[null]}]`, `[{"a":null,"t":null}]`, `null`}},
	{"m map<int64>", []string{`{"k":1,"z":null}`, `{}`, `null`}, "map<string, int64 ('m')>", []string{`{"map":[["k",1],["z",null]]}`, `[]`, `null`}},
	{"ml map<list<struct<a:int64>>>", []string{`{"k":[{"a":1},null],"e":[]}`, `{"n":null}`, `null`}, "map<string, list<element: struct<a: int64>> ('ml')>", []string{`{"map":[["k",[{"a":1},null]],["e",[]]]}`, `{"map":[["n",null]]}`, `null`}},
	{"j json", []string{`{"a": [1, 2]}`, `"text"`, "null"}, "", []string{`"{\"a\": [1, 2]}"`, `"\"text\""`, "null"}},
}

func shapeNames() (columns []string) {
	for _, s := range shapes {
		columns = append(columns, s.column)
	}
	return columns
}

// shapeRows makes one record per value index of all shapes.
func shapeRows() (rows []string) {
	for i := range 3 {
		var row strings.Builder
		row.WriteString("{")
		for j, s := range shapes {
			if j > 0 {
				row.WriteString(",")
			}
			row.WriteString(`"` + nameOf(s.column) + `":` + s.in[i])
		}
		rows = append(rows, row.String()+"}")
	}
	return append(rows, "{}") // and everything missing
}

func nameOf(column string) string {
	for i := range column {
		if column[i] == ' ' {
			return column[:i]
		}
	}
	return column
}

// TestShapesByForeignReaders compares every type, shape and null by value.
func TestShapesByForeignReaders(t *testing.T) { eachProfile(t, checkShapes) }

func checkShapes(t *testing.T, profile int) {
	s := mustSchema(shapeNames()...)
	path := writeFile(t, s, Options{Profile: profile}, decode(t, s, recordTime(), shapeRows()...))
	var arrow, duck foreignFile
	foreign(t, &arrow, "pyarrow", path)
	foreign(t, &duck, "duckdb", path)
	if len(arrow.Rows) != 4 || len(duck.Rows) != 4 {
		t.Fatalf("rows: pyarrow %d, duckdb %d, want 4", len(arrow.Rows), len(duck.Rows))
	}
	for _, sh := range shapes {
		name := nameOf(sh.column)
		if sh.arrow != "" && arrow.Schema[name] != sh.arrow {
			t.Errorf("%s: pyarrow type %q, want %q", sh.column, arrow.Schema[name], sh.arrow)
		}
		for i := range 4 {
			var want any
			if i < 3 {
				if err := json.Unmarshal([]byte(sh.out[i]), &want); err != nil {
					t.Fatal(err)
				}
			}
			if got := arrow.Rows[i][name]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s row %d: pyarrow %#v, want %#v", sh.column, i, got, want)
			}
			got := duck.Rows[i][name]
			switch {
			case got == nil != (want == nil):
				t.Errorf("%s row %d: duckdb %#v, want %#v", sh.column, i, got, want)
			case sameInDuckDB(sh.column) && !reflect.DeepEqual(got, want):
				t.Errorf("%s row %d: duckdb %#v, want %#v", sh.column, i, got, want)
			}
		}
	}
	for i := range duck.Rows {
		if duck.Rows[i]["_offset"] != float64(i) {
			t.Errorf("row %d: _offset %v", i, duck.Rows[i]["_offset"])
		}
	}
}

// sameInDuckDB says that read.py prints the column alike for both readers.
func sameInDuckDB(column string) bool {
	switch nameOf(column) {
	case "ms", "us", "ns", "lo", "lm", "lx", "m", "ml":
		return false
	}
	return true
}

// TestShapesByOwnReader reads the same file back with Reader.
func TestShapesByOwnReader(t *testing.T) {
	s := mustSchema(shapeNames()...)
	path := writeFile(t, s, Options{Codec: "snappy"}, decode(t, s, recordTime(), shapeRows()...))
	own := map[string][]string{
		"f":   {"0.5", "-3", "null"},
		"d":   {"0.1", "100000", "-0"},
		"s":   {`"éé\n😀"`, `""`, "null"},
		"y":   {`"YWI="`, `""`, "null"},
		"u":   {`"00112233-4455-6677-8899-aabbccddeeff"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`, "null"},
		"d9":  {"1234567.89", "-0.01", "null"},
		"d18": {"123456789012345.678", "-100.000", "null"},
		"d38": {"327267367867168100000", "-99999999999999999999999999999999999999", "null"},
		"ms":  {`"1969-12-31T23:59:59.999Z"`, `"1970-01-01T00:00:01.500Z"`, "null"},
		"us":  {`"2019-12-31T23:00:00.123456Z"`, `"1969-12-31T23:59:59.999999Z"`, "null"},
		"ns":  {`"2020-01-01T00:00:00.123456789Z"`, `"1970-01-01T00:00:00.000000000Z"`, "null"},
		"lo":  {`"2020-01-01T00:00:00.000000"`, `"2020-01-01T00:00:00.000000"`, "null"},
		"st":  {`{"a":1,"b":{"c":"x"}}`, `{"a":null,"b":{"c":null}}`, "null"},
		"ls":  {`[{"a":1,"t":["x","y"]},{"a":null,"t":[]},null,{"a":null,"t":[null]}]`, `[{"a":null,"t":null}]`, `null`},
	}
	r := openFile(t, path)
	for _, sh := range shapes {
		name := nameOf(sh.column)
		want := sh.in
		if o, ok := own[name]; ok {
			want = o
		}
		got := readAll(t, r, name)
		for i, w := range append(want[:3:3], "null") {
			if got[i] != w {
				t.Errorf("%s row %d: %s, want %s", sh.column, i, got[i], w)
			}
		}
	}
}
