package parquet

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func openFile(t *testing.T, path string) *Reader {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll reads one column.
func readAll(t *testing.T, r *Reader, column string) (values []string) {
	t.Helper()
	err := r.Read([]string{column}, 0, -1, func(row [][]byte) error {
		values = append(values, string(row[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestReadRange reads parts of a file with several row groups.
func TestReadRange(t *testing.T) {
	s := mustSchema("a int64", "l list<int64>")
	var rows []string
	for range 1500 {
		rows = append(rows, `{"a":7,"l":[1,2,3]}`)
	}
	c := decode(t, s, recordTime(), rows...)
	path := writeFile(t, s, Options{RowGroupRows: 1000, Metadata: map[string]string{"b": "2", "a": "1"}}, c, c, c)
	r := openFile(t, path)
	if r.Rows() != 4500 || len(r.RowGroups()) != 3 || r.RowGroups()[2].Rows != 1500 {
		t.Fatalf("%d rows, groups %v", r.Rows(), r.RowGroups())
	}
	if m := r.Metadata(); m["a"] != "1" || m["b"] != "2" {
		t.Errorf("metadata %v", m)
	}
	if !strings.Contains(r.Schema(), "list") || strings.Join(r.Columns(), " ") != "_partition _offset a l" {
		t.Errorf("schema %s, columns %v", r.Schema(), r.Columns())
	}
	for _, tt := range []struct{ from, n, want, first int64 }{
		{0, 5, 5, 0}, {1490, 20, 20, 1490}, {2999, 2, 2, 1499}, {4499, 10, 1, 1499}, {4500, -1, 0, 0}, {0, -1, 4500, 0}, {0, 0, 0, 0},
	} {
		var got, first int64 = 0, -1
		err := r.Read([]string{"_offset", "l"}, tt.from, tt.n, func(row [][]byte) error {
			if got == 0 {
				for first = 0; string(row[0]) != itoa(first); first++ {
				}
			}
			if string(row[1]) != "[1,2,3]" {
				t.Errorf("l = %s", row[1])
			}
			got++
			return nil
		})
		if err != nil || got != tt.want || got > 0 && first != tt.first {
			t.Errorf("Read(%d, %d): %d rows from %d, %v; want %d from %d", tt.from, tt.n, got, first, err, tt.want, tt.first)
		}
	}
	if err := r.Read([]string{"nope"}, 0, 1, nil); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("unknown column: %v", err)
	}
}

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// TestDamagedFiles cuts and flips a file everywhere; the reader must end with
// an error or an answer, never with a panic.
func TestDamagedFiles(t *testing.T) {
	s := mustSchema(shapeNames()...)
	path := writeFile(t, s, Options{}, decode(t, s, recordTime(), shapeRows()...))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		r, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		return r.Read(nil, 0, -1, func([][]byte) error { return nil })
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 1 + len(whole)/300 {
		if err := read(whole[:n]); err == nil {
			t.Errorf("cut at %d: no error", n)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 1500 {
		b := bytes.Clone(whole)
		for range 1 + rnd.IntN(3) {
			b[rnd.IntN(len(b))] ^= byte(1 << rnd.IntN(8))
		}
		if read(b) != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no flipped file was refused")
	}
}
