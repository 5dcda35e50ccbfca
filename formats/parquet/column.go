package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"

	"sawlog/formats"
)

// column encodes one leaf, a column chunk at a time. Values go to a dictionary
// at first. The dictionary is given up, and the open page written anew in
// PLAIN, if it does not pay in the first trialValues values or the first page;
// later, once it reaches DictBytes, the pages that follow are PLAIN.
type column struct {
	leaf  *formats.Leaf
	file  *ownFile
	width int // bytes of a fixed-size value; 0 = bytes of any length
	stats *leafStats
	none  bool  // no dictionary, ever
	delta int64 // the encoding beside PLAIN and dictionaries; 0 = none

	// The open page.
	def, rep []int16
	levels   int
	index    []uint32 // values by entries of the dictionary
	plain    []byte   // values in PLAIN
	lengths  []int64  // of byte values that stand in plain without them
	bools    int      // in plain

	// The open chunk.
	dict     *dictionary
	byEntry  bool // values go to the dictionary
	values   int
	size     int     // of the values in PLAIN, while none is written
	shelved  []piece // data pages that are written, the first of them
	pages    pages   // and those that follow
	byDelta  verdict // on delta, for integers
	count    [3]int  // pages by their kind
	unpacked int64   // bytes of pages before compression, headers included
	total    int64   // levels
	tried    bool    // levels of compression
	low      bool    // the lower one will do
}

const (
	trialValues   = 32 << 10
	maxPageLevels = 64 << 10
	// Integers of a chunk are written by their differences if that takes a quarter
	// less than PLAIN in its first page that has any: compression then has nothing
	// left to find, nor to look for.
	deltaGain = 4
)

// Kinds of data pages, in the order footers list them.
const (
	plainPages = iota
	deltaPages // by differences or lengths
	dictPages  // of indexes
)

// verdict is what the first page of a chunk decides for the others.
type verdict int

const (
	undecided verdict = iota
	yes
	no
)

func newColumn(leaf *formats.Leaf, f *ownFile) column {
	c := column{leaf: leaf, file: f}
	switch leaf.Store {
	case formats.StoreInt32, formats.StoreFloat:
		c.width = 4
	case formats.StoreInt64, formats.StoreDouble:
		c.width = 8
	case formats.StoreFixed16:
		c.width = 16
	}
	// Booleans are bits anyway, and every offset is new.
	c.none = leaf.Store == formats.StoreBool || leaf.Path[0] == "_offset"
	if f.deltas {
		switch leaf.Store {
		case formats.StoreInt32, formats.StoreInt64:
			c.delta = encodingDelta
		case formats.StoreBytes:
			c.delta = encodingDeltaLength
		}
	}
	return c
}

// begin starts a chunk.
func (c *column) begin(s *leafStats) {
	c.stats = s
	c.empty()
	if c.byEntry = !c.none; c.byEntry && c.dict == nil {
		c.dict = newDictionary()
	} else if c.byEntry {
		c.dict.reset()
	}
	c.values, c.size, c.unpacked, c.total = 0, 0, 0, 0
	c.shelved, c.count, c.tried, c.low, c.byDelta = c.shelved[:0], [3]int{}, false, false, undecided
	c.pages.reset()
}

// write takes a batch.
func (c *column) write(v *formats.Vector) {
	c.stats.count(c.leaf, v)
	total := len(v.Def)
	if c.leaf.MaxDef == 0 {
		total = valuesOf(c.leaf, v)
	}
	full := c.leaf.MaxRep == 0 && total == valuesOf(c.leaf, v) // no nulls, no lists
	value := 0
	for from := 0; from < total; {
		var to, end int
		if to = min(from+chunkLevels, total); full && c.fits(v, value, value+to-from) {
			end = value + to - from
		} else {
			to, end = chunkOf(c.leaf, v, from, total, value, c.file.pageBytes)
		}
		if c.leaf.MaxDef > 0 {
			c.def = append(grown(c.def, to-from), v.Def[from:to]...)
		}
		if c.leaf.MaxRep > 0 {
			c.rep = append(grown(c.rep, to-from), v.Rep[from:to]...)
		}
		c.levels += to - from
		c.take(v, value, end)
		if c.look(); c.full() {
			c.cut()
		}
		from, value = to, end
	}
	if bytes := c.leaf.Store == formats.StoreBytes || c.leaf.Store == formats.StoreFixed16; !bytes || !c.byEntry {
		c.stats.bound(c.leaf, v)
	}
}

// fits tells whether values [from, to) are fewer bytes than a page.
func (c *column) fits(v *formats.Vector, from, to int) bool {
	if c.leaf.Store != formats.StoreBytes {
		return true
	}
	start := uint32(0)
	if from > 0 {
		start = v.Ends[from-1]
	}
	return int(v.Ends[to-1]-start) < c.file.pageBytes
}

// take encodes values [from, to).
func (c *column) take(v *formats.Vector, from, to int) {
	c.values += to - from
	if !c.byEntry {
		c.takePlain(v, from, to)
		return
	}
	c.size += (to - from) * c.width
	c.index = grown(c.index, to-from)
	switch c.leaf.Store {
	case formats.StoreInt32:
		for _, x := range v.Int32s[from:to] {
			c.index = append(c.index, c.dict.number(uint64(uint32(x))))
		}
	case formats.StoreInt64:
		for _, x := range v.Int64s[from:to] {
			c.index = append(c.index, c.dict.number(uint64(x)))
		}
	case formats.StoreFloat:
		for _, x := range v.Floats[from:to] {
			c.index = append(c.index, c.dict.number(uint64(math.Float32bits(x))))
		}
	case formats.StoreDouble:
		for _, x := range v.Doubles[from:to] {
			c.index = append(c.index, c.dict.number(math.Float64bits(x)))
		}
	default:
		start := startOf(v, from)
		if c.width == 0 && to > from {
			c.size += 4*(to-from) + int(v.Ends[to-1]-start)
		}
		for _, end := range v.Ends[from:to] {
			c.index = append(c.index, c.dict.text(v.Data[start:end]))
			start = end
		}
	}
}

// takePlain encodes values [from, to) in PLAIN.
func (c *column) takePlain(v *formats.Vector, from, to int) {
	switch c.leaf.Store {
	case formats.StoreBool:
		for _, x := range v.Bools[from:to] {
			if c.bools%8 == 0 {
				c.plain = append(c.plain, 0)
			}
			if x {
				c.plain[len(c.plain)-1] |= 1 << (c.bools % 8)
			}
			c.bools++
		}
	case formats.StoreInt32:
		c.plain = grown(c.plain, 4*(to-from))
		for _, x := range v.Int32s[from:to] {
			c.plain = binary.LittleEndian.AppendUint32(c.plain, uint32(x))
		}
	case formats.StoreInt64:
		c.plain = grown(c.plain, 8*(to-from))
		for _, x := range v.Int64s[from:to] {
			c.plain = binary.LittleEndian.AppendUint64(c.plain, uint64(x))
		}
	case formats.StoreFloat:
		c.plain = grown(c.plain, 4*(to-from))
		for _, x := range v.Floats[from:to] {
			c.plain = binary.LittleEndian.AppendUint32(c.plain, math.Float32bits(x))
		}
	case formats.StoreDouble:
		c.plain = grown(c.plain, 8*(to-from))
		for _, x := range v.Doubles[from:to] {
			c.plain = binary.LittleEndian.AppendUint64(c.plain, math.Float64bits(x))
		}
	case formats.StoreFixed16:
		if to > from {
			c.plain = append(c.plain, v.Data[startOf(v, from):v.Ends[to-1]]...)
		}
	default:
		switch start := startOf(v, from); {
		case to == from:
		case c.delta == encodingDeltaLength:
			c.lengths = grown(c.lengths, to-from)
			data := v.Data[start:v.Ends[to-1]]
			for _, end := range v.Ends[from:to] {
				c.lengths = append(c.lengths, int64(end-start))
				start = end
			}
			c.plain = append(grown(c.plain, len(data)), data...)
		default:
			c.plain = grown(c.plain, 4*(to-from)+int(v.Ends[to-1]-start))
			c.plain = appendPlain(c.plain, v.Data, start, v.Ends[from:to])
		}
	}
}

// appendPlain appends byte values in PLAIN; dst has room for them. Values of up to
// 16 bytes are copied as such, without a call, where so many are there.
func appendPlain(dst, data []byte, start uint32, ends []uint32) []byte {
	at, limit := len(dst), cap(dst)-20
	for _, end := range ends {
		if n := int(end - start); n <= 16 && at <= limit && int(start)+16 <= len(data) {
			to := dst[at : at+20]
			binary.LittleEndian.PutUint32(to, uint32(n))
			*(*[16]byte)(to[4:]) = *(*[16]byte)(data[start:])
			at += 4 + n
		} else {
			dst = binary.LittleEndian.AppendUint32(dst[:at], uint32(n))
			dst = append(dst, data[start:end]...)
			at = len(dst)
		}
		start = end
	}
	return dst[:at]
}

// startOf is where byte value i starts in the data.
func startOf(v *formats.Vector, i int) uint32 {
	if i == 0 {
		return 0
	}
	return v.Ends[i-1]
}

// look gives the dictionary up where it does not pay, or grew too large.
func (c *column) look() {
	if !c.byEntry {
		return
	}
	large := c.dict.plainSize(c.width) >= c.file.dictBytes
	if first := c.count[dictPages] == 0 && c.values > 0; first && (large || c.values >= trialValues || c.full()) && !c.pays() {
		c.abandon()
	} else if large {
		c.cut()
		c.fallBack()
	}
}

// pays tells whether dictionary and indexes take at most 7/8 of the values.
func (c *column) pays() bool {
	if c.values == 0 {
		return false
	}
	indexes := c.values * widthOf(c.dict.len()-1) / 8
	return 8*(c.dict.plainSize(c.width)+indexes) <= 7*c.size
}

// abandon writes the open page, which is the first, in PLAIN.
func (c *column) abandon() {
	c.plain = grown(c.plain, c.size)
	for _, i := range c.index {
		if c.delta == encodingDeltaLength {
			v := c.dict.entry(i)
			c.lengths = append(c.lengths, int64(len(v)))
			c.plain = append(c.plain, v...)
		} else {
			c.plain = c.dict.appendEntry(c.plain, i, c.width)
		}
	}
	c.index = c.index[:0]
	c.fallBack()
}

// fallBack makes the values that follow PLAIN.
func (c *column) fallBack() {
	c.byEntry = false
	if c.width == 0 || c.width == 16 {
		c.stats.bound(c.leaf, &formats.Vector{Data: c.dict.data, Ends: c.dict.ends})
	}
}

// full tells whether the open page is to be cut.
func (c *column) full() bool {
	size := len(c.plain) + 4*len(c.lengths)
	if c.byEntry {
		size = len(c.index) * bits.Len(uint(c.dict.len())) / 8
	}
	return size >= c.file.pageBytes || c.levels >= min(maxPageLevels, max(c.file.pageBytes/4, chunkLevels))
}

// cut writes the open page, if it holds anything.
func (c *column) cut() {
	if c.levels == 0 {
		return
	}
	raw := c.file.raw[:0]
	if c.leaf.MaxRep > 0 {
		raw = appendLevels(raw, c.rep, c.leaf.MaxRep)
	}
	if c.leaf.MaxDef > 0 {
		raw = appendLevels(raw, c.def, c.leaf.MaxDef)
	}
	raw, encoding := c.encode(raw)
	c.file.raw = raw
	c.pages.add(c.file.page(c, raw, pageData, c.levels, encoding))
	c.total += int64(c.levels)
	c.empty()
}

// empty begins a page.
func (c *column) empty() {
	c.def, c.rep, c.index, c.plain, c.lengths = c.def[:0], c.rep[:0], c.index[:0], c.plain[:0], c.lengths[:0]
	c.levels, c.bools = 0, 0
}

// encode appends the values of the open page, and counts it.
func (c *column) encode(raw []byte) (_ []byte, encoding int64) {
	switch {
	case c.byEntry:
		c.count[dictPages]++
		width := widthOf(c.dict.len() - 1)
		return appendHybrid(append(raw, byte(width)), c.index, width), encodingRLEDict
	case len(c.lengths) > 0:
		c.count[deltaPages]++
		return append(appendDelta(raw, c.lengths, 4), c.plain...), encodingDeltaLength
	case c.delta == encodingDelta && c.byDelta != no && len(c.plain) > 0:
		start := len(raw)
		raw = appendDelta(raw, c.integers(), c.width)
		if c.byDelta == undecided {
			c.byDelta = no
			if deltaGain*(len(raw)-start) <= (deltaGain-1)*len(c.plain) {
				c.byDelta = yes
			}
		}
		if c.byDelta == yes {
			c.count[deltaPages]++
			return raw, encodingDelta
		}
		raw = raw[:start]
	}
	c.count[plainPages]++
	return append(raw, c.plain...), encodingPlain
}

// integers are the values in plain.
func (c *column) integers() []int64 {
	out := grown(c.file.integers[:0], len(c.plain)/c.width)
	for at := 0; at < len(c.plain); at += c.width {
		if c.width == 4 {
			out = append(out, int64(int32(binary.LittleEndian.Uint32(c.plain[at:]))))
		} else {
			out = append(out, int64(binary.LittleEndian.Uint64(c.plain[at:])))
		}
	}
	c.file.integers = out
	return out
}

// appendLevels appends the levels of a page.
func appendLevels(dst []byte, levels []int16, limit int16) []byte {
	at := len(dst)
	dst = appendHybrid(append(dst, 0, 0, 0, 0), levels, widthOf(int(limit)))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// end ends the chunk and gives its dictionary page; nil = none.
func (c *column) end() (dict []byte) {
	if c.byEntry && c.count[dictPages] == 0 && !c.pays() {
		c.abandon()
	}
	c.cut()
	if c.byEntry {
		c.fallBack()
	}
	if c.count[dictPages] > 0 {
		raw := grown(c.file.raw[:0], c.dict.plainSize(c.width))
		for i := range uint32(c.dict.len()) {
			raw = c.dict.appendEntry(raw, i, c.width)
		}
		c.file.raw = raw
		header, packed := c.file.page(c, raw, pageDict, c.dict.len(), encodingPlain)
		dict = append(append(c.file.dict[:0], header...), packed...)
		c.file.dict = dict
	}
	return dict
}
