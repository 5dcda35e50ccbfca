package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sawlog/formats"
)

// TestProfilesHoldTheSame writes random rows of every type under all writer
// profiles and compares the rows, and what the footers say of schema, columns
// and statistics.
func TestProfilesHoldTheSame(t *testing.T) {
	s := mustSchema("b bool", "i int32", "l int64", "f float", "d double", "s string", "raw bytes", "day date", "u uuid", "j json",
		"tm timestamp_ms", "tu timestamp_us", "tn timestamp_ns", "lm timestamp_ms_local", "lu timestamp_us_local", "ln timestamp_ns_local",
		"d9 decimal(9,2)", "d18 decimal(18,0)", "d38 decimal(38,5)",
		"li list<string>", "m map<int64>", "ls list<struct<a:int32,b:list<bool>>>", "st struct<x:string,y:struct<z:double>>", "none string")
	for _, tt := range []struct {
		name string
		o    Options
		rows int
	}{
		{"small pages", Options{PageBytes: 2048, DictBytes: 700, RowGroupRows: 3000}, 9000},
		{"snappy", Options{Codec: "snappy", PageBytes: 64 << 10, DictBytes: 32 << 10}, 9000},
		{"gzip", Options{Codec: "gzip", Level: 1, Metadata: map[string]string{"k": "v", "a": ""}}, 3000},
		{"none", Options{Codec: "none", PageBytes: 1, DictBytes: 1}, 1500},
		{"one row", Options{}, 1},
		{"no rows", Options{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var files [Profile]*Reader
			for i := range files {
				var out bytes.Buffer
				tt.o.Profile = i + 1
				w, err := NewWriter(&out, s, tt.o)
				if err != nil {
					t.Fatal(err)
				}
				c := formats.NewColumns(s)
				d, err := formats.NewDecoder(s, recordTime())
				if err != nil {
					t.Fatal(err)
				}
				rnd := rand.New(rand.NewPCG(3, uint64(tt.rows)))
				for n := range tt.rows {
					m := formats.Message{Offset: int64(n), Timestamp: 1, Value: everyType(rnd, n)}
					if _, err := d.Append(c, &m); err != nil {
						t.Fatalf("%s: %v", m.Value, err)
					}
					if c.Rows() == 1500 || n == tt.rows-1 {
						if err := w.Write(c); err != nil {
							t.Fatal(err)
						}
						c.Reset()
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if files[i], err = Open(bytes.NewReader(out.Bytes()), int64(out.Len())); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range files[1:] {
				sameRows(t, files[0], other)
			}
			sameFooters(t, files[:]...)
		})
	}
}

// everyType is a record for the schema above: half of the stretches draw from
// few values, some have many nulls.
func everyType(rnd *rand.Rand, n int) []byte {
	if n%911 > 700 && rnd.IntN(3) > 0 {
		return []byte("{}")
	}
	many := 5
	if n%2000 > 1000 {
		many = 100_000
	}
	x := rnd.IntN(many)
	return fmt.Appendf(nil, `{"b":%v,"i":%d,"l":%d,"f":%d.5,"d":%g,"s":"s%d","raw":"r%x","day":"2020-01-%02d","u":"%08x-0000-0000-0000-000000000000","j":{"k":%d},`+
		`"tm":%d,"tu":%d,"tn":%d,"lm":%d,"lu":%d,"ln":%d,"d9":%d.25,"d18":-%d,"d38":%d.5,`+
		`"li":["a%d",null],"m":{"k":%d},"ls":[{"a":%d,"b":[true,null]},null],"st":{"x":"%d","y":{"z":%d}}}`,
		x%2 == 0, -x, x*1e6, x%1000, float64(x)/7, x, x, 1+x%28, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)
}

func sameRows(t *testing.T, a, b *Reader) {
	t.Helper()
	var rows []string
	if err := a.Read(nil, 0, -1, func(row [][]byte) error {
		rows = append(rows, string(bytes.Join(row, []byte(" "))))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	at := 0
	if err := b.Read(nil, 0, -1, func(row [][]byte) error {
		if got := string(bytes.Join(row, []byte(" "))); at >= len(rows) || got != rows[at] {
			return fmt.Errorf("row %d: %s", at, got)
		}
		at++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if at != len(rows) {
		t.Errorf("%d rows, want %d", at, len(rows))
	}
}

// sameFooters compares the footers but for positions, sizes, encodings and the
// name of the writer.
func sameFooters(t *testing.T, files ...*Reader) {
	t.Helper()
	for _, r := range files {
		r.footer.unset(fileCreatedByID)
		for i := range r.footer.get(fileGroupsID).list {
			group := &r.footer.get(fileGroupsID).list[i]
			for _, id := range []int16{groupBytesID, groupOffsetID, groupCompressedID} {
				if group.get(id) == nil {
					t.Errorf("row group has no field %d", id)
				}
				group.unset(id)
			}
			for j := range group.get(groupColumnsID).list {
				column := group.get(groupColumnsID).list[j].get(chunkMetadataID)
				checkEncodings(t, column)
				for _, id := range []int16{columnEncodingsID, columnUncompressedID, columnCompressedID, columnDataPageID, columnDictPageID, columnEncodingStatsID} {
					column.unset(id)
				}
			}
		}
	}
	a := files[0]
	for _, b := range files[1:] {
		for i := range a.footer.get(fileSchemaID).list {
			if x, y := a.footer.get(fileSchemaID).list[i], b.footer.get(fileSchemaID).list[i]; !reflect.DeepEqual(x, y) {
				t.Errorf("schema element %d:\n%+v\n%+v", i, x, y)
			}
		}
		if x, y := a.footer.append(nil), b.footer.append(nil); !bytes.Equal(x, y) {
			t.Errorf("footers differ:\n%+v\n%+v", a.footer, b.footer)
		}
	}
}

// checkEncodings compares the encodings of a chunk with its pages.
func checkEncodings(t *testing.T, column *tValue) {
	t.Helper()
	var listed, counted []int64
	for _, e := range column.get(columnEncodingsID).list {
		if e.n != encodingRLE {
			listed = append(listed, e.n)
		}
	}
	dict := false
	for _, e := range column.get(columnEncodingStatsID).list {
		dict = dict || e.int(1) == pageDict
		counted = append(counted, e.int(2))
		if e.int(3) <= 0 {
			t.Errorf("%d pages of a kind", e.int(3))
		}
	}
	slices.Sort(counted)
	if counted = slices.Compact(counted); !slices.Equal(listed, counted) || dict != (column.get(columnDictPageID) != nil) {
		t.Errorf("encodings %v, of pages %v, dictionary page %v", listed, counted, dict)
	}
}

// TestHybrid reads back runs of every length in every width, packed tightly.
func TestHybrid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 5))
	for width := 1; width <= 32; width++ {
		for range 40 {
			var values []uint32
			for range rnd.IntN(30) {
				v := uint32(rnd.Uint64() & (1<<width - 1))
				for range 1 + rnd.IntN([]int{1, 3, 9, 200}[rnd.IntN(4)]) {
					values = append(values, v)
				}
			}
			packed := appendHybrid(nil, values, width)
			if most := (len(values)+7)/8*width + 6 + len(values)/8; len(packed) > most {
				t.Errorf("width %d: %d values take %d bytes, at most %d expected", width, len(values), len(packed), most)
			}
			var got []uint32
			err := hybrid(packed, width, len(values), func(v uint32, count int) error {
				got = append(got, slices.Repeat([]uint32{v}, count)...)
				return nil
			})
			if err != nil || !slices.Equal(got, values) {
				t.Fatalf("width %d: %v, %v read as %v", width, err, values, got)
			}
		}
	}
}

// TestZstdChoosesItsLevel wants each column about as small as the better of
// the two levels makes it: hexadecimal ids at 1, the others at 3.
func TestZstdChoosesItsLevel(t *testing.T) {
	for profile := 2; profile <= Profile; profile++ {
		t.Run(fmt.Sprint("profile ", profile), func(t *testing.T) { checkZstdLevel(t, profile) })
	}
}

func checkZstdLevel(t *testing.T, profile int) {
	s := mustSchema("id string", "text string", "n int64")
	rnd := rand.New(rand.NewPCG(6, 7))
	c := formats.NewColumns(s)
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields("error warning info user login logout session timeout connection reset by peer refused accepted from port retry")
	for i := range 20_000 {
		text := make([]string, 8)
		for j := range text {
			text[j] = words[rnd.IntN(len(words))]
		}
		m := formats.Message{Offset: int64(i), Timestamp: 1, Value: fmt.Appendf(nil, `{"id":"%016x","text":%q,"n":%d}`,
			rnd.Uint64(), strings.Join(text, " "), 1_700_000_000_000+i*977)}
		if _, err := d.Append(c, &m); err != nil {
			t.Fatal(err)
		}
	}
	sizes := map[int][]int64{}
	for _, level := range []int{0, zstdLow, zstdHigh} {
		var out bytes.Buffer
		w, err := NewWriter(&out, s, Options{Level: level, Profile: profile})
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
		for _, chunk := range r.footer.get(fileGroupsID).list[0].get(groupColumnsID).list {
			sizes[level] = append(sizes[level], chunk.get(chunkMetadataID).int(columnCompressedID))
		}
	}
	better := map[int]bool{}
	for i, size := range sizes[0] {
		low, high := sizes[zstdLow][i], sizes[zstdHigh][i]
		if size > min(low, high)*103/100 {
			t.Errorf("column %d takes %d bytes, at level %d %d, at %d %d", i, size, zstdLow, low, zstdHigh, high)
		}
		better[zstdLow] = better[zstdLow] || size == low && low*103/100 < high
		better[zstdHigh] = better[zstdHigh] || size == high && high*103/100 < low
	}
	// Without their lengths ids come out alike at both levels; the lower is chosen.
	if profile == 2 && !better[zstdLow] || profile > 2 && sizes[0][0] != sizes[zstdLow][0] || !better[zstdHigh] {
		t.Errorf("no column for each level: %v", sizes)
	}
}
