package parquet

import (
	"maps"
	"slices"

	"github.com/apache/arrow/go/v15/parquet/compress"

	"sawlog/formats"
)

// ownFile is the encoder of writer profiles 2 and 3.
type ownFile struct {
	sink      *stickySink
	schema    *formats.Schema
	leaves    []formats.Leaf
	columns   []column
	pageBytes int
	dictBytes int
	codecID   compress.Compression
	codec     compress.Codec // nil = none
	level     int            // 0 = zstd's choice
	profile   int
	deltas    bool // values outside dictionaries by their differences or lengths
	stats     []leafStats

	// Scratch of all columns.
	raw, packed, dict, header []byte
	other                     []byte
	integers                  []int64

	shelf  shelf
	groups emitter // the row groups that are written, as list entries
	count  int     // of them
	rows   int64
}

// Page kinds beside those of data and dictionaries have no use here; levels
// are always in the hybrid encoding.
const encodingRLE = 3

func newOwnFile(s *formats.Schema, leaves []formats.Leaf, o *Options, codec compress.Compression, level int) (*ownFile, error) {
	f := &ownFile{
		schema: s, leaves: leaves, columns: make([]column, len(leaves)),
		pageBytes: int(o.PageBytes), dictBytes: int(o.DictBytes), codecID: codec, level: level,
		profile: o.Profile, deltas: o.Profile >= 3 && !o.Plain,
		shelf: shelf{hold: o.HoldBytes, open: o.Scratch},
	}
	for i := range leaves {
		f.columns[i] = newColumn(&leaves[i], f)
	}
	if codec == compress.Codecs.Zstd && level == compress.DefaultCompressionLevel {
		f.level = 0
	}
	if codec != compress.Codecs.Uncompressed {
		var err error
		if f.codec, err = compress.GetCodec(codec); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// start begins a file.
func (f *ownFile) start(sink *stickySink) error {
	f.sink, f.count, f.rows = sink, 0, 0
	f.groups = emitter{b: f.groups.b[:0]}
	_, err := sink.Write([]byte(magic))
	return err
}

// Where no level of zstd is asked for, a chunk is compressed at zstdHigh, but
// at zstdLow from the first page of zstdTrial bytes on if that is no more than
// 1/zstdGain larger at zstdLow. Hexadecimal ids and the like even come out
// smaller there.
const (
	zstdLow, zstdHigh = 1, 3
	zstdTrial         = 64 << 10
	zstdSample        = 128 << 10
	zstdGain          = 50
)

func (f *ownFile) begin(stats []leafStats) error {
	f.stats = stats
	f.shelf.begin()
	for i := range f.columns {
		f.columns[i].begin(&stats[i])
	}
	return nil
}

func (f *ownFile) write(leaf int, v *formats.Vector) error {
	c := &f.columns[leaf]
	before := c.pages.size
	c.write(v)
	if f.shelf.add(c.pages.size - before) {
		return f.unload()
	}
	return nil
}

// unload puts the pages of all columns on the shelf.
func (f *ownFile) unload() error {
	for i := range f.columns {
		c := &f.columns[i]
		if c.pages.size == 0 {
			continue
		}
		p, err := f.shelf.put(c.pages.all())
		if err != nil {
			return err
		}
		c.shelved = append(c.shelved, p)
		c.pages.reset()
	}
	return nil
}

// page makes a page: its header and its bytes, both valid until the next one.
func (f *ownFile) page(c *column, raw []byte, kind, entries int, encoding int64) (header, packed []byte) {
	packed = f.compress(c, raw)
	e := emitter{b: f.header[:0]}
	e.int(pageTypeID, tI32, int64(kind))
	e.int(pageSizeID, tI32, int64(len(raw)))
	e.int(pageCompressedID, tI32, int64(len(packed)))
	if kind == pageDict {
		e.open(pageDictID)
	} else {
		e.open(pageDataID)
	}
	e.int(pageValuesID, tI32, int64(entries))
	e.int(pageEncodingID, tI32, encoding)
	if kind == pageData {
		e.int(3, tI32, encodingRLE) // of definition levels
		e.int(4, tI32, encodingRLE) // of repetition levels
	}
	e.close()
	e.close()
	c.unpacked += int64(len(e.b) + len(raw))
	f.header = e.b
	return e.b, packed
}

// compress compresses a page, which stays valid until the next one.
func (f *ownFile) compress(c *column, raw []byte) []byte {
	if f.codec == nil {
		return raw
	}
	level := f.level
	if level == 0 {
		level = zstdHigh
		switch {
		case c.tried && c.low:
			level = zstdLow
		case !c.tried && len(raw) >= zstdTrial:
			c.tried = true
			sample := raw
			if f.profile >= 3 {
				sample = raw[:min(len(raw), zstdSample)]
			}
			f.other = f.encode(f.other, sample, zstdLow)
			f.packed = f.encode(f.packed, sample, zstdHigh)
			if c.low = len(f.other)-len(f.packed) <= len(f.packed)/zstdGain; c.low {
				level, f.packed, f.other = zstdLow, f.other, f.packed
			}
			if len(sample) == len(raw) {
				return f.packed
			}
		}
	}
	f.packed = f.encode(f.packed, raw, level)
	return f.packed
}

func (f *ownFile) encode(dst, raw []byte, level int) []byte {
	// Snappy looks at the length of what it may write to, not at its capacity.
	bound := int(f.codec.CompressBound(int64(len(raw))))
	dst = slices.Grow(dst[:0], bound)
	if z, ok := f.codec.(*keptZstd); ok && f.profile >= 3 {
		return z.encode(dst, raw, level, true)
	}
	return f.codec.EncodeLevel(dst[:bound], raw, level)
}

// end writes the column chunks and notes the row group.
func (f *ownFile) end(rows int64) error {
	e := &f.groups
	e.entry()
	e.list(groupColumnsID, tStruct, len(f.columns))
	start := f.sink.Bytes
	var unpacked int64
	for i := range f.columns {
		c := &f.columns[i]
		dict := c.end()
		at := f.sink.Bytes
		if len(dict) > 0 {
			if _, err := f.sink.Write(dict); err != nil {
				return err
			}
		}
		for _, p := range c.shelved {
			if err := f.shelf.give(p, f.sink); err != nil {
				return err
			}
		}
		for _, b := range c.pages.all() {
			if _, err := f.sink.Write(b); err != nil {
				return err
			}
		}
		f.chunk(c, at, int64(len(dict)))
		unpacked += c.unpacked
	}
	e.int(groupBytesID, tI64, unpacked)
	e.int(groupRowsID, tI64, rows)
	e.int(groupOffsetID, tI64, start)
	e.int(groupCompressedID, tI64, f.sink.Bytes-start)
	e.int(groupOrdinalID, tI16, int64(f.count))
	e.close()
	f.count++
	f.rows += rows
	return nil
}

// chunk notes a column chunk at a position, with a dictionary page of so many
// bytes.
func (f *ownFile) chunk(c *column, at, dict int64) {
	e := &f.groups
	e.entry()
	e.int(chunkOffsetID, tI64, 0) // deprecated; 0 as the specification asks
	e.open(chunkMetadataID)
	e.int(columnTypeID, tI32, physicalOf(c.leaf.Store))
	encodings := make([]int64, 0, 4)
	if c.count[plainPages] > 0 || dict > 0 {
		encodings = append(encodings, encodingPlain)
	}
	encodings = append(encodings, encodingRLE)
	if c.count[deltaPages] > 0 {
		encodings = append(encodings, c.delta)
	}
	if dict > 0 {
		encodings = append(encodings, encodingRLEDict)
	}
	e.list(columnEncodingsID, tI32, len(encodings))
	for _, n := range encodings {
		e.b = appendVarint(e.b, n)
	}
	e.list(columnPathID, tBinary, len(c.leaf.Path))
	for _, name := range c.leaf.Path {
		e.string(name)
	}
	e.int(columnCodecID, tI32, int64(f.codecID))
	e.int(columnValuesID, tI64, c.total)
	e.int(columnUncompressedID, tI64, c.unpacked)
	e.int(columnCompressedID, tI64, f.sink.Bytes-at)
	e.int(columnDataPageID, tI64, at+dict)
	if dict > 0 {
		e.int(columnDictPageID, tI64, at)
	}
	stats := c.stats.thrift(c.leaf)
	e.field(columnStatisticsID, tStruct)
	e.b = stats.append(e.b)
	f.encodingStats(c, dict > 0)
	e.close()
	e.close()
}

// encodingStats tells how many pages of which kind a chunk holds.
func (f *ownFile) encodingStats(c *column, dict bool) {
	e := &f.groups
	entries := make([][3]int64, 0, 4)
	for kind, encoding := range [...]int64{plainPages: encodingPlain, deltaPages: c.delta, dictPages: encodingRLEDict} {
		if c.count[kind] > 0 {
			entries = append(entries, [3]int64{pageData, encoding, int64(c.count[kind])})
		}
	}
	if dict {
		entries = append(entries, [3]int64{pageDict, encodingPlain, 1})
	}
	e.list(columnEncodingStatsID, tStruct, len(entries))
	for _, entry := range entries {
		e.entry()
		for id, n := range entry {
			e.int(int16(id+1), tI32, n)
		}
		e.close()
	}
}

func (f *ownFile) footer(metadata map[string]string) ([]byte, error) {
	e := emitter{b: make([]byte, 0, 512+128*len(f.leaves)+len(f.groups.b))}
	e.int(1, tI32, 2) // version
	emitSchema(&e, f.schema)
	e.int(fileRowsID, tI64, f.rows)
	e.list(fileGroupsID, tStruct, f.count)
	e.b = append(e.b, f.groups.b...)
	if len(metadata) > 0 {
		e.list(fileMetadataID, tStruct, len(metadata))
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			e.entry()
			e.text(1, key)
			e.text(2, metadata[key])
			e.close()
		}
	}
	e.text(fileCreatedByID, createdBy(f.profile))
	e.list(fileOrdersID, tStruct, len(f.leaves))
	for range f.leaves {
		e.entry()
		e.empty(1) // the order of the type
		e.close()
	}
	e.close()
	return e.b, nil
}
