package offsets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	bolt "go.etcd.io/bbolt"
)

// The parts of bbolt's file format 2 that checkFile reads; integers are in the
// machine's byte order.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader   = 16 // id u64, flags u16, count u16, overflow u32
	pageElement  = 16 // branch: pos u32, key u32, page u64; leaf: flags u32, pos u32, key u32, value u32
	metaSize     = 64 // magic, version, page size, flags u32; root, sequence, freelist, pages, transaction, checksum u64
	bucketHeader = 16 // root u64, sequence u64

	branchPage = 0x01
	leafPage   = 0x02
	bucketLeaf = 0x01
	noFreelist = 1<<64 - 1
)

var errPage = errors.New("page makes no sense")

// fileCheck walks a bbolt file without bbolt.
//
// bbolt trusts its file: damage shows as a panic or a fault of the memory map,
// and since opening for writing looks for free pages partly on a goroutine of
// its own, as one that nobody can recover. So all that it relies on is proved
// first: every reachable page lies in the file, is what it says it is, is used
// once, and keys ascend within the bounds of the branches above.
type fileCheck struct {
	file     io.ReaderAt
	pageSize uint64
	pages    uint64 // ids from here on were never used
	used     map[uint64]bool
	applied  map[int32]Position
}

// checkFile reads every row of the file, and gives the positions it was applied
// to. A file that is not there, or empty, is as good as a new one.
func checkFile(path string) (applied map[int32]Position, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[int32]Position{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return map[int32]Position{}, err
	}
	c := &fileCheck{file: f, used: map[uint64]bool{}, applied: map[int32]Position{}}
	root, err := c.meta(info.Size())
	if err != nil {
		return nil, err
	}
	return c.applied, c.page(root, nil, nil, c.bucket)
}

// meta takes the newer of the two meta pages that are whole.
func (c *fileCheck) meta(size int64) (root uint64, err error) {
	found := false
	var newest uint64
	sizes := []uint64{uint64(os.Getpagesize())}
	for s := uint64(1024); s <= 64<<10; s *= 2 {
		sizes = append(sizes, s)
	}
	at := append([]uint64{0}, sizes...)
	for _, pos := range at {
		b := make([]byte, metaSize)
		if _, err := c.file.ReadAt(b, int64(pos+pageHeader)); err != nil {
			continue // beyond the end
		}
		u := binary.NativeEndian
		sum := fnv.New64a()
		_, _ = sum.Write(b[:56]) // a hash takes everything
		txid := u.Uint64(b[48:])
		if u.Uint32(b) != boltMagic || u.Uint32(b[4:]) != boltVersion || u.Uint64(b[56:]) != sum.Sum64() || found && txid <= newest {
			continue
		}
		found, newest = true, txid
		c.pageSize, c.pages, root = uint64(u.Uint32(b[8:])), u.Uint64(b[40:]), u.Uint64(b[16:])
		if free := u.Uint64(b[32:]); free != noFreelist {
			return root, fmt.Errorf("a stored list of free pages: %w", errPage)
		}
	}
	switch {
	case !found:
		return 0, fmt.Errorf("no whole meta page: %w", errPage)
	case c.pageSize < 1024 || c.pages < 2 || c.pages > uint64(size)/c.pageSize:
		return 0, fmt.Errorf("%d pages of %d bytes in a file of %d: %w", c.pages, c.pageSize, size, errPage)
	}
	return root, nil
}

// leafFunc gets each element of a leaf; bucket tells that the value is one.
type leafFunc func(key, value []byte, bucket bool) error

// page reads a page and what hangs below it; keys lie in [low, high).
func (c *fileCheck) page(id uint64, low, high []byte, fn leafFunc) error {
	head := make([]byte, pageHeader)
	if id < 2 || id >= c.pages {
		return fmt.Errorf("page %d of %d: %w", id, c.pages, errPage)
	}
	if _, err := c.file.ReadAt(head, int64(id*c.pageSize)); err != nil {
		return fmt.Errorf("page %d: %w", id, errors.Join(errPage, err))
	}
	more := uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head) != id || more >= c.pages-id {
		return fmt.Errorf("page %d calls itself %d and %d more: %w", id, binary.NativeEndian.Uint64(head), more, errPage)
	}
	for p := id; p <= id+more; p++ {
		if c.used[p] {
			return fmt.Errorf("page %d is used twice: %w", p, errPage)
		}
		c.used[p] = true
	}
	b := make([]byte, (more+1)*c.pageSize)
	if _, err := c.file.ReadAt(b, int64(id*c.pageSize)); err != nil {
		return fmt.Errorf("page %d: %w", id, errors.Join(errPage, err))
	}
	if err := c.elements(b, low, high, fn); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements walks the elements of one page, which may lie in a row.
func (c *fileCheck) elements(b, low, high []byte, fn leafFunc) error {
	u := binary.NativeEndian
	flags, count := u.Uint16(b[8:]), int(u.Uint16(b[10:]))
	leaf := flags == leafPage
	if !leaf && flags != branchPage || !leaf && count == 0 || pageHeader+count*pageElement > len(b) {
		return fmt.Errorf("flags %x, %d elements in %d bytes: %w", flags, count, len(b), errPage)
	}
	type child struct {
		id  uint64
		key []byte
	}
	var children []child
	last := low
	for i := range count {
		e := b[pageHeader+i*pageElement:]
		lengths := [3]uint64{uint64(u.Uint32(e)), uint64(u.Uint32(e[4:]))} // pos, key, value
		if leaf {
			lengths = [3]uint64{uint64(u.Uint32(e[4:])), uint64(u.Uint32(e[8:])), uint64(u.Uint32(e[12:]))}
		}
		pos, end := lengths[0], lengths[0]+lengths[1]+lengths[2]
		if end > uint64(len(e)) {
			return fmt.Errorf("element %d ends beyond its page: %w", i, errPage)
		}
		key, value := e[pos:pos+lengths[1]], e[pos+lengths[1]:end]
		order := bytes.Compare(last, key)
		if last != nil && (order > 0 || order == 0 && i > 0) || high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("key %x is out of order: %w", key, errPage)
		}
		if len(key) == 0 {
			return fmt.Errorf("element %d has no key: %w", i, errPage)
		}
		last = key
		if !leaf {
			children = append(children, child{u.Uint64(e[8:]), key})
			continue
		}
		if err := fn(key, value, u.Uint32(e)&bucketLeaf != 0); err != nil {
			return err
		}
	}
	for i, ch := range children {
		below := high
		if i+1 < len(children) {
			below = children[i+1].key
		}
		if err := c.page(ch.id, ch.key, below, fn); err != nil {
			return err
		}
	}
	return nil
}

// bucket walks one of the buckets of the file's root.
func (c *fileCheck) bucket(name, value []byte, bucket bool) error {
	if !bucket || len(value) < bucketHeader {
		return fmt.Errorf("bucket %x: %w", name, errRow)
	}
	fn := formatRows
	if string(name) != string(metaBucket) {
		if len(name) != 4 {
			return fmt.Errorf("bucket %x: %w", name, errRow)
		}
		fn = c.rows(int32(binary.BigEndian.Uint32(name)))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.page(root, nil, nil, fn)
	}
	if len(value) < bucketHeader+pageHeader {
		return fmt.Errorf("bucket %x: %w", name, errRow)
	}
	return c.elements(value[bucketHeader:], nil, nil, fn) // a small bucket lies in the row itself
}

// formatRows refuses a format that is not ours.
func formatRows(key, value []byte, bucket bool) error {
	if bucket || string(key) != string(formatRow) || len(value) != 1 || value[0] != storeFormat {
		return fmt.Errorf("format %x = %x: %w", key, value, errRow)
	}
	return nil
}

// rows checks the rows of one partition.
func (c *fileCheck) rows(partition int32) leafFunc {
	return func(key, value []byte, bucket bool) error {
		if bucket || len(key) > bolt.MaxKeySize {
			return fmt.Errorf("partition %d, key %x: %w", partition, key, errRow)
		}
		if err := checkRow(key, value); err != nil {
			return fmt.Errorf("partition %d, key %x: %w", partition, key, err)
		}
		if key[0] == rowApplied {
			c.applied[partition], _ = decodePosition(value) // checked just above
		}
		return nil
	}
}
