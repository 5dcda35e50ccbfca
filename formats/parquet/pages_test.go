package parquet

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestPages has pages of all sizes come back as they were added, and a chunk of
// the same pages as the one before take no memory.
func TestPages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var p pages
	for range 50 {
		var all [][2][]byte
		var want []byte
		for range rnd.IntN(40) {
			page := [2][]byte{make([]byte, rnd.IntN(64)), make([]byte, rnd.IntN(1<<rnd.IntN(20)))}
			for _, part := range page {
				for i := range part {
					part[i] = byte(rnd.Uint32())
				}
				want = append(want, part...)
			}
			all = append(all, page)
		}
		fill := func() {
			p.reset()
			for _, page := range all {
				p.add(page[0], page[1])
			}
		}
		for range 2 {
			fill()
			if got := bytes.Join(p.all(), nil); !bytes.Equal(got, want) || p.size != len(want) {
				t.Fatalf("%d pages: %d bytes that differ from %d", len(all), p.size, len(want))
			}
		}
		if n := testing.AllocsPerRun(1, fill); n > 0 {
			t.Errorf("%d pages of a second chunk took %v allocations", len(all), n)
		}
	}
}

// TestPagesSpare has many small pages in few blocks, which hold at most half as
// much again.
func TestPagesSpare(t *testing.T) {
	var p pages
	for range 10_000 {
		p.add(make([]byte, 30), make([]byte, 70))
	}
	room := 0
	for _, b := range p.all() {
		room += cap(b)
	}
	if n := len(p.all()); n > 40 || room > p.size*3/2 {
		t.Errorf("%d bytes are in %d blocks of %d", p.size, n, room)
	}
}

// TestAppendPlain compares values that are copied by sixteen bytes with values
// that are copied one by one, at the end of the data, too.
func TestAppendPlain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2_000 {
		var data, want []byte
		var ends []uint32
		for range rnd.IntN(20) {
			v := bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(1<<rnd.IntN(7)))
			data, ends = append(data, v...), append(ends, uint32(len(data)+len(v)))
			want = append(binary.LittleEndian.AppendUint32(want, uint32(len(v))), v...)
		}
		from := rnd.IntN(len(ends) + 1)
		start, skip := uint32(0), 0
		if from > 0 {
			start = ends[from-1]
			skip = int(start) + 4*from
		}
		got := appendPlain(make([]byte, 0, len(want)-skip), data, start, ends[from:])
		if !bytes.Equal(got, want[skip:]) {
			t.Fatalf("values %v of %q: %q, want %q", ends[from:], data, got, want[skip:])
		}
	}
}
