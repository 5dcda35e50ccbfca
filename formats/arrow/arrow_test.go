package arrow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"sawlog/formats"
	"sawlog/formats/formatstest"
	"sawlog/formats/jsonl"
)

// opens starts files of a schema.
func opens(s *formats.Schema, o Options) formatstest.Open {
	return func(to io.Writer) (formatstest.Writer, error) { return NewWriter(to, s, o) }
}

// file is a file in memory, of rows that go to the writer batch by batch.
func file(t *testing.T, o Options, batches ...*formats.Columns) []byte {
	t.Helper()
	return formatstest.File(t, opens(batches[0].Schema(), o), batches...)
}

var every = []string{
	"b bool", "i int32", "l int64", "f float", "d double", "s string", "y bytes", "day date", "u uuid", "j json",
	"ms timestamp_ms", "us timestamp_us", "ns timestamp_ns", "lo timestamp_ns_local", "d9 decimal(9,2)", "d18 decimal(18,3)", "d38 decimal(38,2)",
	"li list<int64>", "ll list<list<string>>", "m map<list<decimal(9,2)>>", "mu map<uuid>", "st struct<a:bool,b:struct<c:string>>", "ls list<struct<a:int64,t:list<bool>>>", "none string",
}

// rows are values of every type, with many nulls.
func rows(t *testing.T) *formats.Columns {
	rnd := rand.New(rand.NewPCG(1, 2))
	var values []string
	for i := range 400 {
		if rnd.IntN(4) == 0 {
			values = append(values, pick(rnd, "{}", `{"li":[],"m":{},"st":{},"ls":[{},null]}`, `{"li":[null],"ll":[null,[]],"m":{"k":null},"st":{"b":{}}}`))
			continue
		}
		values = append(values, fmt.Sprintf(`{"b":%v,"i":%d,"l":%d,"f":%d.5,"d":%g,"s":"s%d","y":"y%d","day":"20%02d-01-02","u":"%08x-0000-0000-0000-00000000000f","j":[%d],`+
			`"ms":%d,"us":%d,"ns":-%d,"lo":%d,"d9":-%d.25,"d18":-%d.125,"d38":-99999999999999999999%d,"li":[%d,null],"ll":[["a%d",null],[]],"m":{"k":[1.25],"l":[]},"mu":{"k":"%08x-0000-0000-0000-00000000000f"},`+
			`"st":{"a":true,"b":{"c":"%d"}},"ls":[{"a":%d,"t":[true,null]}]}`,
			i%2 == 0, -i, i*1e12, i, float64(i)/7, i, i, i%100, i, i, i, i, i, i, i, i, i, i, i, i, i, i))
	}
	return formatstest.Columns(t, every, values...)
}

func pick(rnd *rand.Rand, from ...string) string { return from[rnd.IntN(len(from))] }

// TestRowsAsLines reads files back and compares each row with the line of JSON
// that formats/jsonl, which shares nothing but the looks of values, makes of it.
func TestRowsAsLines(t *testing.T) {
	c := rows(t)
	var want bytes.Buffer
	w, err := jsonl.NewWriter(&want, c.Schema(), jsonl.Options{Codec: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(c), w.Write(c), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, codec := range []string{"zstd", "lz4", "none"} {
		data := file(t, Options{Codec: codec}, c, c)
		r, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		err = r.Read(nil, 0, -1, func(row [][]byte) error {
			open := byte('{')
			for i, name := range r.Columns() {
				got.WriteByte(open)
				got.Write(append(formats.AppendQuoted(nil, name), ':'))
				got.Write(row[i])
				open = ','
			}
			got.WriteString("}\n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			lines, wanted := strings.Split(got.String(), "\n"), strings.Split(want.String(), "\n")
			for i := range wanted {
				if i >= len(lines) || lines[i] != wanted[i] {
					t.Fatalf("%s: row %d of %d:\n%s\nwant\n%s", codec, i, len(lines), lines[min(i, len(lines)-1)], wanted[i])
				}
			}
		}
	}
}

// TestBytesStay holds the bytes of files: of each codec, however the writer came
// to be, whatever memory held before and however many processors there are.
func TestBytesStay(t *testing.T) {
	c := rows(t)
	for codec, want := range map[string]string{"zstd": "9491fda1b9ab0c60", "lz4": "34e52691fe2790ce", "none": "154598bfb73ee982"} {
		if got := formatstest.Hash(t, opens(c.Schema(), Options{Codec: codec}), c, c); got != want {
			t.Errorf("%s: %s, want %s", codec, got, want)
		}
	}
}

// TestRead reads parts of a file of several batches, and refuses what was cut
// off.
func TestRead(t *testing.T) {
	c := rows(t)
	data := file(t, Options{}, c, c, c)
	r, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ from, n, want int64 }{{0, 5, 5}, {395, 10, 10}, {801, -1, 399}, {1200, 3, 0}, {0, 0, 0}} {
		var got int64
		err := r.Read([]string{"i", "_offset"}, tt.from, tt.n, func(row [][]byte) error {
			if want := fmt.Sprint((tt.from + got) % 400); string(row[1]) != want {
				t.Errorf("row %d of Read(%d, %d): %s", got, tt.from, tt.n, row)
			}
			got++
			return nil
		})
		if err != nil || got != tt.want {
			t.Errorf("Read(%d, %d): %d rows, %v", tt.from, tt.n, got, err)
		}
	}
	if err := r.Read([]string{"nope"}, 0, 1, nil); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("unknown column: %v", err)
	}
	if n, err := Count(bytes.NewReader(data), int64(len(data))); err != nil || n != 1200 {
		t.Errorf("%d rows, %v", n, err)
	}
	for cut := 0; cut < len(data); cut += 1 + len(data)/50 {
		if _, err := Count(bytes.NewReader(data), int64(cut)); err == nil {
			t.Errorf("cut at %d of %d: no error", cut, len(data))
		}
	}
}

// TestDeepest writes the deepest lists, structs and maps there can be, and
// refuses more maps with the name of the column.
func TestDeepest(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		depth int
		ok    bool
	}{{"list<", formats.MaxDepth, true}, {"struct<a:", formats.MaxDepth, true}, {"map<", maxMaps, true}, {"struct<a:map<", maxMaps + 1, false}} {
		depth := strings.Repeat(tt.kind, tt.depth)
		c := formatstest.Columns(t, []string{"deep " + depth + "int64" + strings.Repeat(">", strings.Count(depth, "<"))}, "{}")
		w, err := NewWriter(&bytes.Buffer{}, c.Schema(), Options{})
		if !tt.ok {
			if err == nil || !strings.Contains(err.Error(), `"deep"`) {
				t.Errorf("%s: %v", depth, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(c), w.Close()); err != nil {
			t.Errorf("%s: %v", depth, err)
		}
	}
}

// TestErrors wants every error of the sink to stay, and options to be checked.
func TestErrors(t *testing.T) {
	c := rows(t)
	formatstest.KeepsErrors(t, opens(c.Schema(), Options{}), c)
	if _, err := NewWriter(io.Discard, c.Schema(), Options{Codec: "snappy"}); err == nil {
		t.Error("snappy: no error")
	}
}
