package formats

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// Digest is a logical digest of rows: equal for equal rows in equal order,
// however they were batched. Each leaf has three streams, levels, value
// lengths and value bytes; the sum is the first 16 bytes, in hex, of the sha256
// over "sawlog-digest-1", the row count and, leaf by leaf, the 128-bit XXH3 of
// its streams. It guards against accidents, not against an adversary.
type Digest struct {
	rows    int64
	streams []leafStreams
	scratch []byte
}

type leafStreams struct{ levels, lengths, values *xxh3.Hasher }

// NewDigest returns the digest of no rows of a schema.
func NewDigest(s *Schema) *Digest {
	d := &Digest{streams: make([]leafStreams, len(s.Leaves())), scratch: make([]byte, 16<<10)}
	for i := range d.streams {
		d.streams[i] = leafStreams{xxh3.New(), xxh3.New(), xxh3.New()}
	}
	return d
}

// Reset makes it the digest of no rows again.
func (d *Digest) Reset() {
	d.rows = 0
	for _, s := range d.streams {
		s.levels.Reset()
		s.lengths.Reset()
		s.values.Reset()
	}
}

// Add takes the rows of c.
func (d *Digest) Add(c *Columns) {
	d.rows += int64(c.rows)
	for i := range c.vecs {
		v, s := &c.vecs[i], &d.streams[i]
		d.levels(v, s.levels)
		d.lengths(v.Ends, s.lengths)
		_, _ = s.values.Write(v.Data) // a hash takes everything
		d.values(v, s.values)
	}
}

// levels adds a byte of definition and one of repetition level for each entry:
// levels are at most 2 × MaxDepth + 2.
func (d *Digest) levels(v *Vector, h *xxh3.Hasher) {
	for def, rep := v.Def, v.Rep; len(def) > 0; {
		n := min(len(def), len(d.scratch)/2)
		b := d.scratch[:2*n]
		for i, level := range def[:n] {
			b[2*i], b[2*i+1] = byte(level), 0
		}
		if rep != nil {
			for i, level := range rep[:n] {
				b[2*i+1] = byte(level)
			}
			rep = rep[n:]
		}
		_, _ = h.Write(b)
		def = def[n:]
	}
}

// lengths adds the length of each byte value.
func (d *Digest) lengths(ends []uint32, h *xxh3.Hasher) {
	last := uint32(0)
	for x := range slices.Chunk(ends, len(d.scratch)/4) {
		for i, end := range x {
			binary.LittleEndian.PutUint32(d.scratch[4*i:], end-last)
			last = end
		}
		_, _ = h.Write(d.scratch[:4*len(x)])
	}
}

func (d *Digest) values(v *Vector, h *xxh3.Hasher) {
	for x := range slices.Chunk(v.Int64s, len(d.scratch)/8) {
		for i, n := range x {
			binary.LittleEndian.PutUint64(d.scratch[8*i:], uint64(n))
		}
		_, _ = h.Write(d.scratch[:8*len(x)])
	}
	for x := range slices.Chunk(v.Doubles, len(d.scratch)/8) {
		for i, n := range x {
			binary.LittleEndian.PutUint64(d.scratch[8*i:], math.Float64bits(n))
		}
		_, _ = h.Write(d.scratch[:8*len(x)])
	}
	for x := range slices.Chunk(v.Int32s, len(d.scratch)/4) {
		for i, n := range x {
			binary.LittleEndian.PutUint32(d.scratch[4*i:], uint32(n))
		}
		_, _ = h.Write(d.scratch[:4*len(x)])
	}
	for x := range slices.Chunk(v.Floats, len(d.scratch)/4) {
		for i, n := range x {
			binary.LittleEndian.PutUint32(d.scratch[4*i:], math.Float32bits(n))
		}
		_, _ = h.Write(d.scratch[:4*len(x)])
	}
	for x := range slices.Chunk(v.Bools, len(d.scratch)) {
		for i, set := range x {
			d.scratch[i] = 0
			if set {
				d.scratch[i] = 1
			}
		}
		_, _ = h.Write(d.scratch[:len(x)])
	}
}

// Sum is the digest so far.
func (d *Digest) Sum() string {
	all := binary.LittleEndian.AppendUint64([]byte("sawlog-digest-1"), uint64(d.rows))
	for _, s := range d.streams {
		for _, h := range [...]*xxh3.Hasher{s.levels, s.lengths, s.values} {
			sum := h.Sum128().Bytes()
			all = append(all, sum[:]...)
		}
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:16])
}
