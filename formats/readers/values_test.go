package readers

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sawlog/formats"
	"sawlog/formats/arrow"
	"sawlog/formats/jsonl"
	"sawlog/formats/parquet"
)

var seeds = flag.Int("seeds", 2, "random schemas")

// formatsOf are the formats a schema is written in: all writer profiles of
// Parquet, Arrow and lines, with options that make many pages and groups of few
// rows, and with what loads take.
func formatsOf(r *random) []format {
	codec := pick(r, "zstd", "snappy", "gzip", "none")
	small := parquet.Options{Codec: codec, PageBytes: 512, DictBytes: 700, RowGroupRows: 300}
	one, two, three := small, parquet.Options{Codec: codec}, small
	if r.IntN(2) == 0 {
		two, three = three, two
	}
	one.Profile, two.Profile, three.Profile = 1, 2, 3
	return []format{
		{suffix: "1.parquet", parquet: one},
		{suffix: "2.parquet", parquet: two},
		{suffix: "3.parquet", parquet: three},
		{suffix: "out.arrow", arrow: arrow.Options{Codec: pick(r, "zstd", "lz4", "none")}},
		{suffix: "out.jsonl", jsonl: jsonl.Options{Codec: pick(r, "zstd", "gzip", "none")}},
	}
}

// TestRandomRows writes random rows of random schemas in every format and
// compares every value with what pyarrow, DuckDB, parquet-java and Python's own
// reader of JSON find.
func TestRandomRows(t *testing.T) {
	var files []file
	for seed := range *seeds {
		r := &random{Rand: rand.New(rand.NewPCG(17, uint64(seed)))}
		s := r.schema(12)
		var records []string
		var rows [][]any
		for i := range 600 {
			r.nulls = []int{0, 15, 70}[i/200]
			record, row := r.record(s, i)
			records, rows = append(records, record), append(rows, row)
		}
		dir := t.TempDir()
		for _, f := range formatsOf(r) {
			path := write(t, dir, f, s, records, 170)
			files = append(files, file{name: fmt.Sprintf("seed %d %s", seed, f.suffix), path: path, schema: s, rows: rows})
		}
	}
	compareAll(t, files)
}

// compareAll has every reader read the files it can read.
func compareAll(t *testing.T, files []file) {
	t.Helper()
	of := func(suffixes ...string) (out []file) {
		for _, f := range files {
			for _, suffix := range suffixes {
				if strings.HasSuffix(f.path, suffix) {
					out = append(out, f)
				}
			}
		}
		return out
	}
	for reader, theirs := range map[string][]file{
		"pyarrow": of(".parquet", ".arrow"), "duckdb": of(".parquet", ".arrow"), "parquet-java": of(".parquet"),
		"lines-by-python": of(".jsonl"), "lines-by-duckdb": of(".jsonl"),
	} {
		t.Run(reader, func(t *testing.T) { compare(t, reader, theirs) })
	}
}

// TestManyFrames compares files whose lines fill several frames of each codec,
// which others have to read as one stream.
func TestManyFrames(t *testing.T) {
	s := based(&formats.Schema{Fields: []formats.Field{{Name: "s", Type: typed("string")}}})
	var records []string
	var rows [][]any
	for i := range 700 {
		text := strings.Repeat(fmt.Sprint(i, "-"), 1000)
		records, rows = append(records, `{"s":"`+text+`"}`), append(rows, []any{number(0), number(i), text})
	}
	var files []file
	for _, codec := range []string{"zstd", "gzip", "none"} {
		f := format{suffix: codec + ".jsonl", jsonl: jsonl.Options{Codec: codec}}
		files = append(files, file{codec, write(t, t.TempDir(), f, s, records, 300), s, rows})
	}
	for _, reader := range []string{"lines-by-python", "lines-by-duckdb"} {
		t.Run(reader, func(t *testing.T) { compare(t, reader, files) })
	}
}

// TestShapes compares the shapes that matter by name: the four states of a list,
// entries of maps without a value, structs that are null and whose members are,
// the deepest and the widest schema.
func TestShapes(t *testing.T) {
	deep := strings.Repeat("list<", formats.MaxDepth) + "int64" + strings.Repeat(">", formats.MaxDepth)
	inside := strings.Repeat("[", formats.MaxDepth)
	outside := strings.Repeat("]", formats.MaxDepth)
	one := any([]any{number(7), nil})
	for range formats.MaxDepth - 1 {
		one = []any{one}
	}
	narrow := []struct {
		typ  string
		in   []string
		want []any
	}{
		{
			"list<int64>",
			[]string{"null", "[]", "[null]", "[1,null,2]"},
			[]any{nil, []any{}, []any{nil}, []any{number(1), nil, number(2)}},
		},
		{"map<string>", []string{"null", "{}", `{"k":null}`, `{"k":"v","l":null}`}, []any{
			nil, []any{}, []any{[]any{"k", nil}}, []any{[]any{"k", "v"}, []any{"l", nil}},
		}},
		{"struct<a:int32,b:struct<c:string>>", []string{"null", "{}", `{"b":{}}`, `{"a":1,"b":{"c":"x"}}`}, []any{
			nil,
			map[string]any{"a": nil, "b": nil},
			map[string]any{"a": nil, "b": map[string]any{"c": nil}},
			map[string]any{"a": number(1), "b": map[string]any{"c": "x"}},
		}},
		{deep, []string{"null", inside + "7,null" + outside, "[]", "[null]"}, []any{nil, one, []any{}, []any{nil}}},
	}
	s := &formats.Schema{}
	records, rows := make([]string, 4), make([][]any, 4)
	for i := range narrow {
		s.Fields = append(s.Fields, formats.Field{Name: fmt.Sprint("c", i), Type: typed(narrow[i].typ)})
	}
	for row := range 4 {
		rows[row] = []any{number(0), number(row)}
		for i := range narrow {
			records[row] += fmt.Sprintf(`,"c%d":%s`, i, narrow[i].in[row])
			rows[row] = append(rows[row], narrow[i].want[row])
		}
		records[row] = "{" + records[row][1:] + "}"
	}
	s = based(s)
	w := &formats.Schema{}
	for i := range formats.MaxColumns - 2 {
		w.Fields = append(w.Fields, formats.Field{Name: fmt.Sprint("w", i), Type: typed(scalarTypes[i%len(scalarTypes)])})
	}
	w = based(w)
	r := &random{Rand: rand.New(rand.NewPCG(1, 1)), nulls: 30}
	var wideRecords []string
	var wideRows [][]any
	for i := range 20 {
		record, row := r.record(w, i)
		wideRecords, wideRows = append(wideRecords, record), append(wideRows, row)
	}
	var files []file
	for _, f := range formatsOf(r) {
		files = append(files, file{"narrow " + f.suffix, write(t, t.TempDir(), f, s, records, 3), s, rows},
			file{"wide " + f.suffix, write(t, t.TempDir(), f, w, wideRecords, 7), w, wideRows})
	}
	compareAll(t, files)
}
