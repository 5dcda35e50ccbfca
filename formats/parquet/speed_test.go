package parquet

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"sawlog/formats"
)

// batchRows and batchBytes are the loader's rule for batches.
const (
	batchRows  = 8192
	batchBytes = 8 << 20
)

func benchDecoder(tb testing.TB) (formats.Decoder, *formats.Schema, [][]byte, int64) {
	tb.Helper()
	s := benchSchema()
	d, err := formats.NewDecoder(s, benchOptions())
	if err != nil {
		tb.Fatal(err)
	}
	lines := benchLines(batchRows * 8)
	var bytes int64
	for _, l := range lines {
		bytes += int64(len(l))
	}
	return d, s, lines, bytes
}

func decodeLines(tb testing.TB, d formats.Decoder, c *formats.Columns, lines [][]byte, full func()) {
	m := formats.Message{Topic: "t", Partition: 3, Timestamp: -1}
	for i, l := range lines {
		m.Offset, m.Value = int64(i), l
		if _, err := d.Append(c, &m); err != nil {
			tb.Fatalf("line %d: %v", i, err)
		}
		if c.Rows() >= batchRows || c.Bytes() >= batchBytes {
			full()
			c.Reset()
		}
	}
}

func BenchmarkJSONToColumns(b *testing.B) {
	d, s, lines, bytes := benchDecoder(b)
	c := formats.NewColumns(s)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		decodeLines(b, d, c, lines, func() {})
	}
	report(b, len(lines), bytes)
}

func BenchmarkJSONToParquet(b *testing.B) {
	for _, codec := range []string{"zstd", "snappy", "none"} {
		b.Run(codec, func(b *testing.B) {
			d, s, lines, bytes := benchDecoder(b)
			c := formats.NewColumns(s)
			b.ReportAllocs()
			b.ResetTimer()
			var out int64
			for range b.N {
				sink := &countingWriter{}
				w, err := NewWriter(sink, s, Options{Codec: codec})
				if err != nil {
					b.Fatal(err)
				}
				for range 8 { // a file of 524,288 rows
					decodeLines(b, d, c, lines, func() {
						if err := w.Write(c); err != nil {
							b.Fatal(err)
						}
					})
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				out = sink.n
			}
			report(b, 8*len(lines), 8*bytes)
			b.ReportMetric(float64(out)/float64(8*len(lines)), "outB/row")
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	d, s, lines, bytes := benchDecoder(b)
	c := formats.NewColumns(s)
	decodeLines(b, d, c, lines[:batchRows-1], func() {})
	digest := formats.NewDigest(s)
	b.ResetTimer()
	for range b.N {
		digest.Add(c)
	}
	report(b, batchRows-1, bytes/8)
}

func report(b *testing.B, rows int, bytes int64) {
	b.SetBytes(bytes)
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

type countingWriter struct{ n int64 }

func (w *countingWriter) Write(b []byte) (int, error) {
	w.n += int64(len(b))
	return len(b), nil
}

var _ io.Writer = (*countingWriter)(nil)

// TestDecodeAllocatesNothing holds the decode path at 0 allocations a record.
func TestDecodeAllocatesNothing(t *testing.T) {
	d, s, lines, _ := benchDecoder(t)
	c := formats.NewColumns(s)
	decodeLines(t, d, c, lines[:4096], func() {}) // grows the columns
	c.Reset()
	m := formats.Message{Topic: "t", Timestamp: -1}
	next := 0
	perRun := testing.AllocsPerRun(3000, func() {
		m.Offset, m.Value = int64(next), lines[next]
		if _, err := d.Append(c, &m); err != nil {
			t.Fatal(err)
		}
		next++
	})
	if perRun != 0 {
		t.Errorf("%v allocations a record, want 0", perRun)
	}
}

// BenchmarkNullColumns writes 4 columns with 10 % nulls with our allocator and
// with arrow's own, which leaves many times the garbage.
func BenchmarkNullColumns(b *testing.B) {
	s := mustSchema("a int64", "b string", "c double", "d int64")
	d, err := formats.NewDecoder(s, formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}}})
	if err != nil {
		b.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i := range batchRows {
		value := fmt.Appendf(nil, `{"a":%d,"b":"v%d","c":%d.5,"d":%d}`, i*7919, i%997, i, i%10)
		if i%10 == 0 {
			value = []byte("{}")
		}
		if _, err := d.Append(c, &formats.Message{Value: value}); err != nil {
			b.Fatal(err)
		}
	}
	for _, own := range []memory.Allocator{growing{}, memory.NewGoAllocator()} {
		b.Run(fmt.Sprintf("%T", own), func(b *testing.B) {
			before := memory.DefaultAllocator
			memory.DefaultAllocator = own
			defer func() { memory.DefaultAllocator = before }()
			runtime.GC() // twice empties arrow's pool of buffers
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w, err := NewWriter(&countingWriter{}, s, Options{Codec: "snappy"})
				if err != nil {
					b.Fatal(err)
				}
				for range 4 {
					if err := w.Write(c); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			report(b, 4*batchRows, 4*c.Bytes())
		})
	}
}

// TestWriteAllocatesLittle holds the writer at far less than an allocation a
// row: a batch of 8,192 rows costs some, mostly growing pages.
func TestWriteAllocatesLittle(t *testing.T) {
	d, s, lines, _ := benchDecoder(t)
	c := formats.NewColumns(s)
	decodeLines(t, d, c, lines[:batchRows-1], func() {})
	w, err := NewWriter(io.Discard, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	perBatch := testing.AllocsPerRun(100, func() {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	})
	if perBatch > 100 {
		t.Errorf("%v allocations a batch of %d rows, want at most 100", perBatch, batchRows-1)
	}
}
