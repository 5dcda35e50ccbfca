package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sawlog/formats"
)

// TestPredicatesLoseNoRows asks DuckDB for rows by the extremes of every row
// group, in files whose columns were recycled between batches. Wrong bounds
// would make it skip the group.
func TestPredicatesLoseNoRows(t *testing.T) { eachProfile(t, checkPredicatesLoseNoRows) }

func checkPredicatesLoseNoRows(t *testing.T, profile int) {
	s := mustSchema("s string", "l int64", "i int32", "d double", "b bool", "day date", "ts timestamp_ms", "x decimal(38,2)", "y decimal(9,0)", "li list<int64>", "u uuid")
	rnd := rand.New(rand.NewPCG(5, 6))
	words := []string{"zzz", "aaa", "", "é", "\U0001F600", "mmm", strings.Repeat("q", 2000)}
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/stats.parquet"
	f := createFile(t, path)
	w, err := NewWriter(f, s, Options{Profile: profile, RowGroupRows: 200})
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for batch := range 20 {
		for i := range 100 {
			// Extremes come first, then values in between that reuse their memory.
			word, n := words[rnd.IntN(len(words))], rnd.Int64N(200)-100
			if i > 2 {
				word, n = "nnn", n/2
			}
			value := fmt.Sprintf(`{"s":%q,"l":%d,"i":%d,"d":%g,"b":%v,"day":"19%02d-01-02","ts":%d,"x":%d.05,"y":%d,"li":[%d,null],"u":"%08x-0000-0000-0000-000000000000"}`,
				word, n*1e15, n, float64(n)/3, n > 0, 50+rnd.IntN(50), n*1e9, n*1e6, n, n, rnd.Uint32())
			if i%7 == 3 {
				value = "{}"
			}
			m := formats.Message{Offset: int64(batch*100 + i), Timestamp: 1, Value: []byte(value)}
			if _, err := d.Append(c, &m); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
		c.Reset()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := openFile(t, path)
	if len(r.RowGroups()) != 10 {
		t.Fatalf("%d row groups", len(r.RowGroups()))
	}
	literal := map[string]string{"day": "date '%s'", "ts": "timestamptz '%s'", "s": "'%s'", "u": "uuid '%s'", "x": "%s", "y": "%s"}
	var predicates []string
	var want []int
	for _, name := range []string{"s", "l", "i", "d", "b", "day", "ts", "x", "y", "u"} {
		values := readAll(t, r, name)
		counts := map[string]int{}
		for _, v := range values {
			counts[v]++
		}
		sorted := slices.Sorted(slices.Values(values))
		for _, v := range []string{sorted[0], sorted[len(sorted)/3], sorted[len(sorted)-1]} {
			form, ok := literal[name]
			if !ok {
				form = "%s"
			}
			if v == "null" {
				predicates = append(predicates, name+" is null")
			} else {
				predicates = append(predicates, name+" = "+fmt.Sprintf(form, strings.Trim(v, `"`)))
			}
			want = append(want, counts[v])
		}
	}
	var out foreignCounts
	foreign(t, &out, "duckdb", path, strings.Join(predicates, "\n"))
	for i := range predicates {
		if out.Rows.Counts[i] != want[i] {
			t.Errorf("%.80s: duckdb finds %d rows, want %d", predicates[i], out.Rows.Counts[i], want[i])
		}
	}
}

// TestStatisticsByPyarrow compares the statistics pyarrow sees with the values.
func TestStatisticsByPyarrow(t *testing.T) { eachProfile(t, checkStatisticsByPyarrow) }

func checkStatisticsByPyarrow(t *testing.T, profile int) {
	s := mustSchema("s string", "d double", "f float", "x decimal(38,0)", "long string", "none string", "li list<int64>")
	long := strings.Repeat("w", maxStat+1)
	path := writeFile(t, s, Options{Profile: profile}, decode(t, s, recordTime(),
		`{"s":"b","d":0.0,"f":-0.0,"x":-5,"long":"a","li":[3,null,-7]}`,
		`{"s":"é","d":-0.0,"f":2.5,"x":99999999999999999999999999999999999999,"li":[]}`,
		`{"s":"a","d":7,"x":-99999999999999999999999999999999999999,"long":"`+long+`"}`))
	var got foreignFile
	foreign(t, &got, "pyarrow", path)
	text := func(s string) string { return "b64:" + base64.StdEncoding.EncodeToString([]byte(s)) }
	want := map[string][]any{
		"_offset":         {0.0, false, 0.0, 2.0},
		"s":               {0.0, false, text("a"), text("é")},
		"d":               {0.0, false, "f:-0.0", "f:7.0"},
		"f":               {1.0, false, "f:-0.0", "f:2.5"},
		"long":            {1.0, false, nil, nil},
		"none":            {3.0, false, nil, nil},
		"li.list.element": {3.0, false, -7.0, 3.0},
	}
	for _, entry := range got.Stats {
		w, ok := want[entry[0].(string)]
		if !ok {
			continue
		}
		delete(want, entry[0].(string))
		if fmt.Sprint(entry[1:]) != fmt.Sprint(w) {
			t.Errorf("%s: statistics %v, want %v", entry[0], entry[1:], w)
		}
	}
	if len(want) > 0 {
		t.Errorf("no statistics for %v", want)
	}
	for _, g := range got.GroupBytes {
		if g[0] != g[1] || g[0] == 0 {
			t.Errorf("total_byte_size %d, columns uncompressed %d", g[0], g[1])
		}
	}
}

// TestBounds covers orders that foreign readers compare by.
func TestBounds(t *testing.T) {
	double := func(f float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)) }
	for _, tt := range []struct {
		name     string
		leaf     formats.Leaf
		v        formats.Vector
		min, max []byte
	}{
		{"all NaN", formats.Leaf{Store: formats.StoreDouble, Type: &formats.Type{Kind: formats.Double}}, formats.Vector{Doubles: []float64{math.NaN()}}, nil, nil},
		{"NaN first", formats.Leaf{Store: formats.StoreDouble, Type: &formats.Type{Kind: formats.Double}}, formats.Vector{Doubles: []float64{math.NaN(), 2, 1, math.NaN()}}, nil, nil},
		{"NaN last", formats.Leaf{Store: formats.StoreDouble, Type: &formats.Type{Kind: formats.Double}}, formats.Vector{Doubles: []float64{2, 1, math.NaN()}}, nil, nil},
		{"infinities", formats.Leaf{Store: formats.StoreDouble, Type: &formats.Type{Kind: formats.Double}}, formats.Vector{Doubles: []float64{math.Inf(1), math.Inf(-1)}}, double(math.Inf(-1)), double(math.Inf(1))},
		{"zero", formats.Leaf{Store: formats.StoreDouble, Type: &formats.Type{Kind: formats.Double}}, formats.Vector{Doubles: []float64{0}}, double(math.Copysign(0, -1)), double(0)},
		{"signed bytes", formats.Leaf{Store: formats.StoreFixed16, Type: &formats.Type{Kind: formats.Decimal}}, formats.Vector{Data: []byte{1, 0xff, 0x7f}, Ends: []uint32{1, 2, 3}}, []byte{0xff}, []byte{0x7f}},
		{"unsigned bytes", formats.Leaf{Store: formats.StoreFixed16, Type: &formats.Type{Kind: formats.UUID}}, formats.Vector{Data: []byte{1, 0xff, 0x7f}, Ends: []uint32{1, 2, 3}}, []byte{1}, []byte{0xff}},
		{"empty string", formats.Leaf{Store: formats.StoreBytes, Type: &formats.Type{Kind: formats.String}}, formats.Vector{Data: []byte("a"), Ends: []uint32{1, 1}}, []byte{}, []byte("a")},
		{"bool", formats.Leaf{Store: formats.StoreBool, Type: &formats.Type{Kind: formats.Bool}}, formats.Vector{Bools: []bool{true, true}}, []byte{1}, []byte{1}},
	} {
		var s leafStats
		s.add(&tt.leaf, &tt.v)
		got := s.thrift(&tt.leaf)
		lo, hi := got.get(6), got.get(5)
		if tt.min == nil {
			if lo != nil || hi != nil {
				t.Errorf("%s: has bounds", tt.name)
			}
			continue
		}
		if lo == nil || hi == nil || string(lo.bytes) != string(tt.min) || string(hi.bytes) != string(tt.max) {
			t.Errorf("%s: bounds %v %v, want %v %v", tt.name, lo, hi, tt.min, tt.max)
		}
	}
}
