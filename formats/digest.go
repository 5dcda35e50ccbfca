package formats

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"

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
	d := &Digest{streams: make([]leafStreams, len(s.Leaves())), scratch: make([]byte, 0, 16<<10)}
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

// flushAt is when the scratch buffer goes to the hash.
const flushAt = 16<<10 - 16

func (d *Digest) flush(h *xxh3.Hasher) {
	_, _ = h.Write(d.scratch) // a hash takes everything
	d.scratch = d.scratch[:0]
}

func (d *Digest) room(h *xxh3.Hasher) {
	if len(d.scratch) >= flushAt {
		d.flush(h)
	}
}

// Add takes the rows of c.
func (d *Digest) Add(c *Columns) {
	d.rows += int64(c.rows)
	for i := range c.vecs {
		v, s := &c.vecs[i], &d.streams[i]
		for at, def := range v.Def {
			rep := int16(0)
			if v.Rep != nil {
				rep = v.Rep[at]
			}
			// Levels are at most 2 × MaxDepth + 2, so a byte holds each.
			d.scratch = append(d.scratch, byte(def), byte(rep))
			d.room(s.levels)
		}
		d.flush(s.levels)
		last := uint32(0)
		for _, end := range v.Ends {
			d.scratch = binary.LittleEndian.AppendUint32(d.scratch, end-last)
			last = end
			d.room(s.lengths)
		}
		d.flush(s.lengths)
		_, _ = s.values.Write(v.Data)
		d.values(v, s.values)
	}
}

func (d *Digest) values(v *Vector, h *xxh3.Hasher) {
	for _, x := range v.Int64s {
		d.scratch = binary.LittleEndian.AppendUint64(d.scratch, uint64(x))
		d.room(h)
	}
	for _, x := range v.Doubles {
		d.scratch = binary.LittleEndian.AppendUint64(d.scratch, math.Float64bits(x))
		d.room(h)
	}
	for _, x := range v.Int32s {
		d.scratch = binary.LittleEndian.AppendUint32(d.scratch, uint32(x))
		d.room(h)
	}
	for _, x := range v.Floats {
		d.scratch = binary.LittleEndian.AppendUint32(d.scratch, math.Float32bits(x))
		d.room(h)
	}
	for _, x := range v.Bools {
		bit := byte(0)
		if x {
			bit = 1
		}
		d.scratch = append(d.scratch, bit)
		d.room(h)
	}
	d.flush(h)
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
