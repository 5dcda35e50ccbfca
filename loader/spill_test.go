package loader

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"sawlog/formats"
)

// spillRows are columns of numbered rows with a text, one bucket a row.
func spillRows(t *testing.T, texts []string) (*formats.Columns, *formats.Schema) {
	t.Helper()
	s := &formats.Schema{Fields: []formats.Field{
		{Name: "_offset", Type: &formats.Type{Kind: formats.Int64}},
		{Name: "text", Type: &formats.Type{Kind: formats.String}},
	}}
	d, err := formats.NewDecoder(s, formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i, text := range texts {
		value := fmt.Appendf(nil, `{"text":%q}`, text)
		if text == "" {
			value = []byte("{}")
		}
		if _, err := d.Append(c, &formats.Message{Offset: int64(i), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	return c, s
}

// spillAll gives the numbers and buckets of the rows in the order they come out.
func spillAll(t *testing.T, limit int, buckets []int64, texts []string) (order []int, runs int) {
	t.Helper()
	dir := t.TempDir()
	c, schema := spillRows(t, texts)
	s := newSpill(dir, limit)
	var row formats.RowCursor
	row.Reset(c)
	for _, bucket := range buckets {
		if err := s.Add(bucket, &row); err != nil {
			t.Fatal(err)
		}
	}
	out := formats.NewColumns(schema)
	err := s.Each(func(bucket int64, row []byte) error {
		if err := out.AddRow(row); err != nil {
			return err
		}
		n := int(out.Vector(0).Int64s[out.Rows()-1])
		text := out.Vector(1)
		if value := text.Value; text.Def[out.Rows()-1] == 1 && string(value(len(text.Ends)-1)) != texts[n] || buckets[n] != bucket {
			t.Errorf("row %d changed, or came in bucket %d", n, bucket)
		}
		order = append(order, n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	runs = len(s.runs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	return order, runs
}

// The order is (bucket, arrival), and nothing of a row is lost, whether all of
// them fit in memory or hardly a row does.
func TestSpillSortsStably(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const n = 3000
	texts := make([]string, n)
	buckets := make([]int64, n)
	want := make([]int, n)
	for i := range texts {
		texts[i] = string(bytes.Repeat([]byte{'a' + byte(i%26)}, rnd.IntN(200)))
		buckets[i], want[i] = int64(rnd.IntN(40))-20, i
	}
	texts[1500] = string(bytes.Repeat([]byte("x"), 300_000)) // larger than the limit
	slices.SortStableFunc(want, func(a, b int) int { return int(buckets[a] - buckets[b]) })
	for _, limit := range []int{64 << 20, 100_000, 4_000} {
		got, runs := spillAll(t, limit, buckets, texts)
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: the order differs", limit)
		}
		if spills := limit < 1<<20; spills != (runs > 1) || runs > newSpill("", limit).most() {
			t.Errorf("limit %d: %d runs", limit, runs)
		}
	}
}

func TestSpillEmpty(t *testing.T) {
	if got, _ := spillAll(t, 1000, nil, nil); len(got) != 0 {
		t.Error(got)
	}
}

// Damage anywhere in the local file is an error, never another row.
func TestSpillDamaged(t *testing.T) {
	c, _ := spillRows(t, slices.Repeat([]string{string(bytes.Repeat([]byte("v"), 50))}, 100))
	for _, harm := range []func(f *os.File, size int64) error{
		func(f *os.File, size int64) error { return f.Truncate(size - 10) },
		func(f *os.File, size int64) error { _, err := f.WriteAt([]byte{0xff}, 3); return err },
		func(f *os.File, size int64) error { _, err := f.WriteAt([]byte{0, 0, 0, 0}, 0); return err },
		func(f *os.File, size int64) error { _, err := f.WriteAt([]byte{'V'}, size/2); return err },
	} {
		s := newSpill(t.TempDir(), 1000)
		var row formats.RowCursor
		row.Reset(c)
		for i := range c.Rows() {
			if err := s.Add(int64(i%3), &row); err != nil {
				t.Fatal(err)
			}
		}
		if err := harm(s.file, s.size); err != nil {
			t.Fatal(err)
		}
		err := s.Each(func(int64, []byte) error { return nil })
		if !errors.Is(err, errSpillDamaged) {
			t.Errorf("a damaged file was read: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// So does damage that is met while many runs are made one.
func TestSpillDamagedBeforeItIsUnited(t *testing.T) {
	c, _ := spillRows(t, slices.Repeat([]string{string(bytes.Repeat([]byte("v"), 50))}, 200))
	s := newSpill(t.TempDir(), 1000)
	var row formats.RowCursor
	row.Reset(c)
	for i := range c.Rows() {
		if err := s.Add(int64(i%3), &row); err != nil {
			if !errors.Is(err, errSpillDamaged) {
				t.Error(err)
			}
			break
		}
		if i == c.Rows()-1 {
			t.Error("no run was read")
		}
		if len(s.runs) == s.most()-1 {
			if _, err := s.file.WriteAt([]byte{'V'}, s.size/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
