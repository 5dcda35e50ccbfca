package parquet

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// dictionary numbers the values of a column chunk in the order they first come,
// so that no byte of a file depends on how its table is hashed.
type dictionary struct {
	slots []uint64 // hash<<32 | entry+1; 0 = free
	seed  maphash.Seed
	mix   uint64

	numbers []uint64 // entries of 4 or 8 bytes
	data    []byte   // entries of other columns, end to end
	ends    []uint32
}

const leastSlots = 64

func newDictionary() *dictionary {
	d := &dictionary{seed: maphash.MakeSeed(), slots: make([]uint64, leastSlots)}
	d.mix = maphash.String(d.seed, "") | 1
	return d
}

// reset forgets the entries and keeps the memory, but not a table that is far
// larger than it had to be.
func (d *dictionary) reset() {
	if len(d.slots) > leastSlots && len(d.slots) > 64*d.len() {
		d.slots = make([]uint64, leastSlots)
	} else {
		clear(d.slots)
	}
	d.numbers, d.data, d.ends = d.numbers[:0], d.data[:0], d.ends[:0]
}

// len is the number of entries; one of the two slices is empty.
func (d *dictionary) len() int { return len(d.numbers) + len(d.ends) }

// number is the entry of a value of 4 or 8 bytes.
func (d *dictionary) number(v uint64) uint32 {
	hi, lo := bits.Mul64(v^d.mix, 0x9e3779b97f4a7c15)
	mask := uint64(len(d.slots) - 1)
	for at := (hi ^ lo) & mask; ; at = (at + 1) & mask {
		slot := d.slots[at]
		if slot == 0 {
			d.numbers = append(d.numbers, v)
			d.slots[at] = (hi^lo)<<32 | uint64(len(d.numbers))
			d.grow(len(d.numbers))
			return uint32(len(d.numbers) - 1)
		}
		if entry := uint32(slot) - 1; d.numbers[entry] == v {
			return entry
		}
	}
}

// text is the entry of a value of bytes.
func (d *dictionary) text(v []byte) uint32 {
	hash := maphash.Bytes(d.seed, v)
	mask := uint64(len(d.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := d.slots[at]
		if slot == 0 {
			d.data = append(d.data, v...)
			d.ends = append(d.ends, uint32(len(d.data)))
			d.slots[at] = hash<<32 | uint64(len(d.ends))
			d.grow(len(d.ends))
			return uint32(len(d.ends) - 1)
		}
		if entry := uint32(slot) - 1; uint32(slot>>32) == uint32(hash) && string(d.entry(entry)) == string(v) {
			return entry
		}
	}
}

// entry is a value of bytes.
func (d *dictionary) entry(i uint32) []byte {
	start := uint32(0)
	if i > 0 {
		start = d.ends[i-1]
	}
	return d.data[start:d.ends[i]]
}

// grow doubles the table once it is two thirds full. Low bits of the hash are
// kept beside each entry: a table never has more than 2^32 slots.
func (d *dictionary) grow(entries int) {
	if 3*entries < 2*len(d.slots) {
		return
	}
	old := d.slots
	d.slots = make([]uint64, 2*len(old))
	mask := uint64(len(d.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := slot >> 32 & mask
		for d.slots[at] != 0 {
			at = (at + 1) & mask
		}
		d.slots[at] = slot
	}
}

// plainSize is what the entries take in PLAIN encoding; width is that of a
// fixed-size value, or 0.
func (d *dictionary) plainSize(width int) int {
	if width > 0 {
		return d.len() * width
	}
	return len(d.data) + 4*len(d.ends)
}

// appendEntry appends entry i in PLAIN encoding.
func (d *dictionary) appendEntry(dst []byte, i uint32, width int) []byte {
	switch width {
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(d.numbers[i]))
	case 8:
		return binary.LittleEndian.AppendUint64(dst, d.numbers[i])
	case 0:
		v := d.entry(i)
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(v))), v...)
	default:
		return append(dst, d.entry(i)...)
	}
}
