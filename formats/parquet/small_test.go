package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"sawlog/formats"
	"sawlog/formats/parquet"
)

// BenchmarkSmallFiles writes files of 14 rows and 20 columns: a data set of
// many hours is made of such. The loader writes them with one Writer that it
// restarts. Run it with
//
//	go test ./formats/parquet -run xxx -bench SmallFiles
//
// and look at the allocations first: they do not depend on what else runs.
func BenchmarkSmallFiles(b *testing.B) {
	s, cols := smallFile(b)
	write := func(b *testing.B, w *parquet.Writer) {
		if err := errors.Join(w.Write(cols), w.Close()); err != nil {
			b.Fatal(err)
		}
	}
	var out bytes.Buffer
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Reset()
			w, err := parquet.NewWriter(&out, s, parquet.Options{Codec: "zstd", PageBytes: 1 << 20})
			if err != nil {
				b.Fatal(err)
			}
			write(b, w)
		}
	})
	b.Run("restarted", func(b *testing.B) {
		w, err := parquet.NewWriter(&out, s, parquet.Options{Codec: "zstd", PageBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			out.Reset()
			if err := w.Restart(&out); err != nil {
				b.Fatal(err)
			}
			write(b, w)
		}
	})
}

// smallFile is the content of such a file.
func smallFile(tb testing.TB) (*formats.Schema, *formats.Columns) {
	tb.Helper()
	var o formats.Options
	o.Value = "csv"
	for i := range 18 {
		o.Columns = append(o.Columns, fmt.Sprintf("c%d", i))
	}
	o.Time.Field = []string{"_timestamp"}
	o.Metadata = []string{"_partition", "_offset"}
	s := &formats.Schema{}
	for _, m := range []struct {
		name string
		kind formats.Kind
	}{{"_partition", formats.Int32}, {"_offset", formats.Int64}} {
		s.Fields = append(s.Fields, formats.Field{Name: m.name, Type: &formats.Type{Kind: m.kind}})
	}
	for _, c := range o.Columns {
		s.Fields = append(s.Fields, formats.Field{Name: c, Type: &formats.Type{Kind: formats.String}})
	}
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		tb.Fatal(err)
	}
	value := []byte("1,2019-01-15 03:36:12,2019-01-15 03:42:19,1,1.0,1,N,230,48,1,6.5,0.5,0.5,1.95,0.0,0.3,9.75,")
	cols := formats.NewColumns(s)
	for i := range 14 {
		if _, err := d.Append(cols, &formats.Message{Offset: int64(i), Timestamp: 1, Value: value}); err != nil {
			tb.Fatal(err)
		}
	}
	return s, cols
}

// TestSmallFilesAllocateLittle holds a file of a restarted Writer at a few
// allocations a column, most of them of its footer, written and read back.
func TestSmallFilesAllocateLittle(t *testing.T) {
	s, cols := smallFile(t)
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, s, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	perFile := testing.AllocsPerRun(50, func() {
		out.Reset()
		if err := errors.Join(w.Restart(&out), w.Write(cols), w.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if perFile > 8*20 {
		t.Errorf("%v allocations a file of 20 columns, want at most 160", perFile)
	}
}
