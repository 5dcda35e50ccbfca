package parquet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sawlog/formats"
)

// randomType makes a type of lists and structs over values that every reader
// prints alike.
func randomType(rnd *rand.Rand, depth int) string {
	switch n := rnd.IntN(6); {
	case depth > 0 && n < 2:
		return "list<" + randomType(rnd, depth-1) + ">"
	case depth > 0 && n < 4:
		var members []string
		for i := range 1 + rnd.IntN(3) {
			members = append(members, fmt.Sprintf("m%d:%s", i, randomType(rnd, depth-1)))
		}
		return "struct<" + strings.Join(members, ",") + ">"
	default:
		return []string{"int32", "string", "bool"}[rnd.IntN(3)]
	}
}

// randomValue makes a value of a type; missing struct members are nulls.
func randomValue(rnd *rand.Rand, t *formats.Type, nulls int) any {
	if rnd.IntN(100) < nulls {
		return nil
	}
	switch t.Kind {
	case formats.List:
		out := []any{}
		for range rnd.IntN(4) {
			out = append(out, randomValue(rnd, t.Elem, nulls))
		}
		return out
	case formats.Struct:
		out := map[string]any{}
		for _, f := range t.Fields {
			out[f.Name] = randomValue(rnd, f.Type, nulls)
		}
		return out
	case formats.Int32:
		return float64(rnd.IntN(50))
	case formats.Bool:
		return rnd.IntN(2) == 0
	default:
		return []string{"", "é", "text", strings.Repeat("long ", 30)}[rnd.IntN(4)]
	}
}

// TestRandomShapesByForeignReaders writes random nested columns over several
// batches, pages and row groups, and compares every value in two foreign
// readers and our own.
func TestRandomShapesByForeignReaders(t *testing.T) {
	eachProfile(t, checkRandomShapesByForeignReaders)
}

func checkRandomShapesByForeignReaders(t *testing.T, profile int) {
	rnd := rand.New(rand.NewPCG(8, 9))
	var columns []string
	for i := range 14 {
		columns = append(columns, fmt.Sprintf("c%d %s", i, randomType(rnd, 3)))
	}
	s := mustSchema(columns...)
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/random.parquet"
	f := createFile(t, path)
	w, err := NewWriter(f, s, Options{Profile: profile, RowGroupRows: 900, PageBytes: 512, DictBytes: 700})
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	var want []map[string]any
	for i := range 2000 {
		record := map[string]any{}
		for at := range s.Fields {
			if f := &s.Fields[at]; !f.Metadata() {
				record[f.Name] = randomValue(rnd, f.Type, []int{0, 10, 60}[i/700])
			}
		}
		want = append(want, record)
		value, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Append(c, &formats.Message{Offset: int64(i), Timestamp: 1, Value: value}); err != nil {
			t.Fatal(err)
		}
		if c.Rows() == 450 {
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
			c.Reset()
		}
	}
	if err := w.Write(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	compare := func(reader string, i int, got map[string]any) {
		delete(got, "_partition")
		delete(got, "_offset")
		if !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("%s row %d:\n%v\nwant\n%v", reader, i, got, want[i])
		}
	}
	for _, reader := range []string{"pyarrow", "duckdb"} {
		t.Run(reader, func(t *testing.T) {
			var got foreignFile
			foreign(t, &got, reader, path)
			if len(got.Rows) != len(want) {
				t.Fatalf("%d rows", len(got.Rows))
			}
			for i, row := range got.Rows {
				compare(reader, i, row)
			}
		})
	}
	r, at := openFile(t, path), 0
	if len(r.RowGroups()) != 3 {
		t.Errorf("%d row groups", len(r.RowGroups()))
	}
	err = r.Read(nil, 0, -1, func(row [][]byte) error {
		got := map[string]any{}
		for i, name := range r.Columns() {
			var v any
			if err := json.Unmarshal(row[i], &v); err != nil {
				return err
			}
			got[name] = v
		}
		compare("own reader", at, got)
		at++
		return nil
	})
	if err != nil || at != len(want) {
		t.Errorf("%d rows, %v", at, err)
	}
}

// FuzzOpen reads damaged files; only a panic, a hang or a huge allocation fails.
func FuzzOpen(f *testing.F) {
	s := mustSchema("a string", "l list<struct<x:int64,y:bool>>", "d decimal(38,2)", "t timestamp_ms")
	for _, codec := range []string{"none", "snappy", "zstd", "gzip"} {
		d, err := formats.NewDecoder(s, recordTime())
		if err != nil {
			f.Fatal(err)
		}
		c := formats.NewColumns(s)
		for i := range 50 {
			value := fmt.Appendf(nil, `{"a":"v%d","l":[{"x":%d},null],"d":1.5,"t":%d}`, i%3, i, i)
			if _, err := d.Append(c, &formats.Message{Timestamp: 1, Value: value}); err != nil {
				f.Fatal(err)
			}
		}
		var file strings.Builder
		w, err := NewWriter(&file, s, Options{Codec: codec})
		if err != nil {
			f.Fatal(err)
		}
		if err := w.Write(c); err != nil {
			f.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(file.String()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Open(strings.NewReader(string(data)), int64(len(data)))
		if err != nil {
			return
		}
		rows := 0
		_ = r.Read(nil, 0, 2000, func([][]byte) error { rows++; return nil }) // an error is an answer
		if rows > 2000 {
			t.Errorf("%d rows", rows)
		}
	})
}

// TestLateValues writes columns that are null for many pages before their first
// value, for ever, or whose values change their kind in the middle of a chunk,
// and has foreign readers compare.
func TestLateValues(t *testing.T) { eachProfile(t, checkLateValues) }

func checkLateValues(t *testing.T, profile int) {
	s := mustSchema("late string", "n int32", "never string", "then string", "l list<string>")
	var rows []string
	var want []map[string]any
	for i := range 9000 {
		row := map[string]any{"late": nil, "n": nil, "never": nil, "then": fmt.Sprintf("v%d", i%3), "l": nil}
		if i > 4000 {
			row["late"], row["n"] = fmt.Sprintf("x%d", i%7), float64(i%5)
			row["then"] = fmt.Sprintf("%064d", i)
			row["l"] = []any{fmt.Sprint(i % 2), nil}
		}
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		rows, want = append(rows, string(text)), append(want, row)
	}
	half := decode(t, s, recordTime(), rows[:4500]...)
	path := writeFile(t, s, Options{Profile: profile, PageBytes: 4096, DictBytes: 16 << 10}, half, decode(t, s, recordTime(), rows[4500:]...))
	for _, reader := range []string{"pyarrow", "duckdb"} {
		var got foreignFile
		foreign(t, &got, reader, path)
		if len(got.Rows) != len(want) {
			t.Fatalf("%s: %d rows", reader, len(got.Rows))
		}
		for i, row := range got.Rows {
			delete(row, "_partition")
			delete(row, "_offset")
			if !reflect.DeepEqual(row, want[i]) {
				t.Fatalf("%s row %d: %v, want %v", reader, i, row, want[i])
			}
		}
	}
}
