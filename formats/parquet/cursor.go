package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// cursor reads one column chunk entry by entry, page by page.
type cursor struct {
	leaf     *node
	codec    int64
	data     []byte // pages that are left
	left     int64  // entries in them
	dict     [][]byte
	def, rep []int16
	at       int
	texts    [][]byte // values of this page as JSON, or as they stand there
	raw      bool     // as they stand there: PLAIN without lengths, a bool one byte
	value    int
}

var errShort = errors.New("the column ends early")

// errPage is a page that does not read.
var errPage = errors.New("malformed page")

// maxPage bounds the bytes of a page that is read, maxEntries its entries: a
// page of nulls may hold those of a whole row group.
const (
	maxPage    = 1 << 28
	maxEntries = 1 << 26
)

// fill makes sure that there is an entry.
func (c *cursor) fill() error {
	more, err := c.more()
	if err == nil && !more {
		return errShort
	}
	return err
}

// more says whether there is another entry, reading on if need be.
func (c *cursor) more() (bool, error) {
	for c.at == len(c.def) {
		if c.left == 0 {
			return false, nil
		}
		if err := c.page(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// take appends the value of the next entry, or null.
func (c *cursor) take(dst []byte, def int16) ([]byte, error) {
	here := c.def[c.at]
	c.at++
	if here < def {
		return append(dst, "null"...), nil
	}
	if c.value == len(c.texts) {
		return dst, errShort
	}
	c.value++
	return append(dst, c.texts[c.value-1]...), nil
}

// Field ids of a page header, and the page types and encodings we write.
const (
	pageTypeID, pageSizeID, pageCompressedID          = 1, 2, 3
	pageDataID, pageDictID                            = 5, 7
	pageValuesID, pageEncodingID                      = 1, 2
	pageData, pageDict                                = 0, 2
	encodingPlain, encodingPlainDict, encodingRLEDict = 0, 2, 8
	encodingDelta, encodingDeltaLength                = 5, 6
)

// page reads the next page: a dictionary, or entries.
func (c *cursor) page() error {
	r := tReader{b: c.data}
	head := r.value(tStruct, 0)
	if r.err != nil {
		return r.err
	}
	size, packed := head.int(pageSizeID), head.int(pageCompressedID)
	if size < 0 || size > maxPage || packed < 0 || packed > int64(len(r.b)) {
		return fmt.Errorf("%w: %d bytes", errPage, size)
	}
	raw, err := decompress(c.codec, r.b[:packed], int(size))
	if err != nil {
		return err
	}
	c.data = r.b[packed:]
	switch head.int(pageTypeID) {
	case pageDict:
		dict := head.get(pageDictID)
		if c.dict != nil || dict == nil {
			return errPage
		}
		c.dict, err = c.plain(raw, dict.int(pageValuesID))
		return err
	case pageData:
		page := head.get(pageDataID)
		n := page.int(pageValuesID)
		if page == nil || n <= 0 || n > c.left || n > maxEntries {
			return fmt.Errorf("%w: %d values", errPage, n)
		}
		c.left -= n
		return c.entries(raw, int(n), page.int(pageEncodingID))
	default:
		return fmt.Errorf("%w: type %d is not read", errPage, head.int(pageTypeID))
	}
}

// entries reads the levels and values of a data page.
func (c *cursor) entries(b []byte, n int, encoding int64) (err error) {
	c.at, c.value = 0, 0
	maxRep := c.leaf.rep
	if c.rep, b, err = levels(c.rep[:0], b, n, maxRep); err != nil {
		return err
	}
	if c.def, b, err = levels(c.def[:0], b, n, c.leaf.def); err != nil {
		return err
	}
	present := int64(0)
	for _, d := range c.def {
		if d == c.leaf.def {
			present++
		}
	}
	switch encoding {
	case encodingPlain:
		c.texts, err = c.plain(b, present)
		return err
	case encodingPlainDict, encodingRLEDict:
		return c.indexes(b, int(present))
	case encodingDelta:
		c.texts, err = c.deltaInts(b, present)
		return err
	case encodingDeltaLength:
		c.texts, err = c.deltaTexts(b, present)
		return err
	default:
		return fmt.Errorf("%w: encoding %d is not read", errPage, encoding)
	}
}

// levels reads n levels of at most limit from the front of a page.
func levels(dst []int16, b []byte, n int, limit int16) ([]int16, []byte, error) {
	if limit == 0 {
		for range n {
			dst = append(dst, 0)
		}
		return dst, b, nil
	}
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return dst, b, errPage
	}
	size := binary.LittleEndian.Uint32(b)
	width := 0
	for 1<<width <= int(limit) {
		width++
	}
	err := hybrid(b[4:4+size], width, n, func(v uint32, count int) error {
		if v > uint32(limit) {
			return errPage
		}
		for range count {
			dst = append(dst, int16(v))
		}
		return nil
	})
	return dst, b[4+size:], err
}

// indexes reads n dictionary indexes.
func (c *cursor) indexes(b []byte, n int) error {
	c.texts = c.texts[:0]
	if n == 0 {
		return nil
	}
	if len(b) == 0 || b[0] > 32 {
		return errPage
	}
	return hybrid(b[1:], int(b[0]), n, func(v uint32, count int) error {
		if v >= uint32(len(c.dict)) {
			return fmt.Errorf("%w: index %d in a dictionary of %d", errPage, v, len(c.dict))
		}
		for range count {
			c.texts = append(c.texts, c.dict[v])
		}
		return nil
	})
}

// hybrid reads n values of Parquet's hybrid of run lengths and bit packing;
// give takes each with how often it comes.
func hybrid(b []byte, width, n int, give func(v uint32, count int) error) error {
	for n > 0 {
		head, used := binary.Uvarint(b)
		if used <= 0 || head>>1 == 0 {
			return errPage
		}
		b = b[used:]
		if head&1 == 0 {
			size := (width + 7) / 8
			if len(b) < size {
				return errPage
			}
			v := uint32(0)
			for i := range size {
				v |= uint32(b[i]) << (8 * i)
			}
			b = b[size:]
			count := int(min(head>>1, uint64(n)))
			if err := give(v, count); err != nil {
				return err
			}
			n -= count
			continue
		}
		groups := head >> 1
		if groups > uint64(len(b)) && width > 0 || groups > maxEntries {
			return errPage
		}
		packed := b[:min(int(groups)*width, len(b))] // the last group may be cut
		b = b[len(packed):]
		count := min(int(groups)*8, n)
		if len(packed)*8 < count*width {
			return errPage
		}
		for i := range count {
			v := uint64(0)
			for bit := i * width; bit < (i+1)*width; bit++ {
				v |= uint64(packed[bit/8]>>(bit%8)&1) << (bit - i*width)
			}
			if err := give(uint32(v), 1); err != nil {
				return err
			}
			n--
		}
	}
	return nil
}

// plain reads n values in PLAIN encoding as JSON texts.
func (c *cursor) plain(b []byte, n int64) ([][]byte, error) {
	size := int64(0)
	switch c.leaf.physical {
	case physicalBool:
		if n < 0 || (n+7)/8 > int64(len(b)) {
			return nil, errPage
		}
		out := make([][]byte, n)
		for i := range out {
			bit := b[i/8] >> (i % 8) & 1
			if out[i] = []byte("false"); bit == 1 {
				out[i] = []byte("true")
			}
			if c.raw {
				out[i] = []byte{bit}
			}
		}
		return out, nil
	case physicalInt32, physicalFloat:
		size = 4
	case physicalInt64, physicalDouble:
		size = 8
	case physicalFixed:
		size = int64(c.leaf.width)
	case physicalBytes:
		size = 4 // at least
	}
	if size <= 0 || n < 0 || n > int64(len(b))/size {
		return nil, fmt.Errorf("%w: %d values in %d bytes", errPage, n, len(b))
	}
	out := make([][]byte, n)
	for i := range out {
		end := size
		if c.leaf.physical == physicalBytes {
			if len(b) < 4 {
				return nil, errPage
			}
			end = int64(binary.LittleEndian.Uint32(b))
			b = b[4:]
		}
		if end > int64(len(b)) {
			return nil, errPage
		}
		if out[i] = b[:end]; !c.raw {
			out[i] = c.leaf.text(nil, b[:end])
		}
		b = b[end:]
	}
	return out, nil
}
