package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestDelta reads back integers of either width, however far they jump, and wants
// them no longer than their blocks have to be.
func TestDelta(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	for _, width := range []int{4, 8} {
		shift := 64 - 8*width
		least, most := int64(math.MinInt64)>>shift, int64(math.MaxInt64)>>shift
		lists := [][]int64{{}, {0}, {least}, {most, least}, {least, most, least, most}, slices.Repeat([]int64{-7}, 1000)}
		for _, n := range []int{1, 2, 32, 33, 34, 127, 128, 129, 130, 257, 5000} {
			for reach := 0; reach <= 8*width; reach++ { // bits of the steps
				values := make([]int64, n)
				for i := range values {
					step := int64(rnd.Uint64() & (1<<reach - 1))
					values[i] = (values[max(i-1, 0)] + step - int64(1)<<max(reach-1, 0)) << shift >> shift
				}
				lists = append(lists, values)
			}
		}
		for _, values := range lists {
			packed := appendDelta(nil, values, width)
			if room := 16 + len(values)*width + len(values)/deltaBlock*14 + 32*width + 14; len(packed) > room {
				t.Errorf("%d values of %d bytes take %d, more than %d", len(values), width, len(packed), room)
			}
			got, rest, err := deltas(append(packed, "rest"...), int64(len(values)), width)
			if err != nil || !slices.Equal(got, values) || string(rest) != "rest" {
				t.Fatalf("width %d: %v read as %v, %q, %v", width, values, got, rest, err)
			}
			for cut := range min(len(packed), 400) {
				if got, _, err := deltas(packed[:cut], int64(len(values)), width); err == nil || !errors.Is(err, errPage) {
					t.Fatalf("width %d, %d of %d bytes read as %v, %v", width, cut, len(packed), got, err)
				}
			}
			if _, _, err := deltas(packed, int64(len(values)+1), width); !errors.Is(err, errPage) {
				t.Errorf("one value too many: %v", err)
			}
		}
	}
	for _, b := range [][]byte{
		{0, 4, 1, 0}, {128, 1, 0, 1, 0}, {128, 1, 3, 1, 0}, {8, 4, 1, 0}, // sizes of blocks that nobody has
		{128, 1, 4, 2, 0, 0, 65, 0, 0, 0}, // a delta of 65 bits
	} {
		if got, _, err := deltas(b, int64(b[len(b)-2]), 8); err == nil {
			t.Errorf("% x read as %v", b, got)
		}
	}
}

// FuzzDelta reads any bytes as deltas.
func FuzzDelta(f *testing.F) {
	f.Add(appendDelta(nil, []int64{1, 2, 3, 1 << 40}, 8), int64(4))
	f.Add(appendDelta(nil, slices.Repeat([]int64{5}, 300), 4), int64(300))
	f.Fuzz(func(t *testing.T, b []byte, n int64) {
		for _, width := range []int{4, 8} {
			if values, _, err := deltas(b, n%(1<<16), width); err == nil && int64(len(values)) != n%(1<<16) {
				t.Fatalf("%d values, want %d", len(values), n)
			}
		}
	})
}

// encodingsOf counts the pages of a file by their encoding.
func encodingsOf(r *Reader) map[int64]int64 {
	pages := map[int64]int64{}
	for _, group := range r.footer.get(fileGroupsID).list {
		for _, column := range group.get(groupColumnsID).list {
			for _, e := range column.get(chunkMetadataID).get(columnEncodingStatsID).list {
				if e.int(1) == pageData {
					pages[e.int(2)] += e.int(3)
				}
			}
		}
	}
	return pages
}

// TestPlainAlone wants files for older readers to have PLAIN pages and
// dictionaries alone, others to have all encodings, and the same rows.
func TestPlainAlone(t *testing.T) {
	var files [2]*Reader
	for i, plain := range []bool{false, true} {
		var out bytes.Buffer
		if err := writeFallbackWith(&out, 24_000, Options{Plain: plain, Profile: 3}); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = Open(bytes.NewReader(out.Bytes()), int64(out.Len())); err != nil {
			t.Fatal(err)
		}
		for encoding, want := range map[int64]bool{encodingPlain: true, encodingRLEDict: true, encodingDelta: !plain, encodingDeltaLength: !plain} {
			if pages := encodingsOf(files[i])[encoding]; pages > 0 != want {
				t.Errorf("plain %v: %d pages of encoding %d", plain, pages, encoding)
			}
		}
	}
	sameRows(t, files[0], files[1])
}

// TestNullsBesideDeltas has pages of nulls alone, and empty texts, in columns that
// are written by differences, for our reader and foreign ones.
func TestNullsBesideDeltas(t *testing.T) {
	s := mustSchema("n int64", "i int32", "s string", "e string")
	var rows []string
	for i := range 6000 {
		row := "{}"
		if i/1500%2 == 0 {
			row = fmt.Sprintf(`{"n":%d,"i":%d,"s":"%x","e":%q}`, i*3, -i*1000-1, i*1_000_003, strings.Repeat("x", i%2))
		}
		rows = append(rows, row)
	}
	path := writeFile(t, s, Options{PageBytes: 2048, DictBytes: 1}, decode(t, s, recordTime(), rows...))
	if pages := encodingsOf(openFile(t, path)); pages[encodingDelta] == 0 || pages[encodingDeltaLength] == 0 || pages[encodingPlain] == 0 {
		t.Errorf("pages by encoding: %v", pages)
	}
	for _, reader := range []string{"own", "pyarrow", "duckdb"} {
		t.Run(reader, func(t *testing.T) {
			var got []map[string]any
			if reader == "own" {
				r := openFile(t, path)
				if err := r.Read(nil, 0, -1, func(row [][]byte) error {
					values := map[string]any{}
					for i, name := range r.Columns() {
						var v any
						if err := json.Unmarshal(row[i], &v); err != nil {
							return err
						}
						values[name] = v
					}
					got = append(got, values)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			} else {
				var file foreignFile
				foreign(t, &file, reader, path)
				got = file.Rows
			}
			if len(got) != len(rows) {
				t.Fatalf("%d rows", len(got))
			}
			for i, row := range got {
				want := map[string]any{"n": nil, "i": nil, "s": nil, "e": nil}
				if err := json.Unmarshal([]byte(rows[i]), &want); err != nil {
					t.Fatal(err)
				}
				for name, v := range want {
					if !reflect.DeepEqual(row[name], v) {
						t.Fatalf("row %d, %s: %v, want %v", i, name, row[name], v)
					}
				}
			}
		})
	}
}
