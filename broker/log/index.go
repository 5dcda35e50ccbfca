package log

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
)

// index is one sparse index of a segment: entries of a fixed width, written in
// order and both of whose fields grow. The newest entries wait in memory.
//
//	.index      { int32 relative last offset of a batch, int32 its position }
//	.timeindex  { int64 greatest timestamp so far, int32 relative offset }
type index struct {
	slot    slot
	mu      sync.Mutex
	time    bool
	known   bool  // written is known
	made    bool  // the file exists
	written int32 // entries in the file
	pending []byte
}

// indexPending is how many bytes of entries wait before they are written.
const indexPending = 1024

func (x *index) width() int {
	if x.time {
		return 12
	}
	return 8
}

// entry is one entry: of the offset index (relative offset, position), of the
// time index (timestamp, relative offset).
type entry struct{ key, value int64 }

func (x *index) decode(b []byte) entry {
	if x.time {
		return entry{int64(binary.BigEndian.Uint64(b)), int64(int32(binary.BigEndian.Uint32(b[8:])))}
	}
	return entry{int64(int32(binary.BigEndian.Uint32(b))), int64(int32(binary.BigEndian.Uint32(b[4:])))}
}

func (x *index) encode(b []byte, e entry) []byte {
	if x.time {
		b = binary.BigEndian.AppendUint64(b, uint64(e.key))
	} else {
		b = binary.BigEndian.AppendUint32(b, uint32(e.key))
	}
	return binary.BigEndian.AppendUint32(b, uint32(e.value))
}

// add appends an entry in memory; mu is held.
func (x *index) add(e entry) { x.pending = x.encode(x.pending, e) }

// pendingAt is the i-th entry in memory; mu is held.
func (x *index) pendingAt(i int) entry {
	w := x.width()
	return x.decode(x.pending[i*w : (i+1)*w])
}

// floor is the last entry whose key (or value, when byValue) is ≤ want.
func (x *index) floor(s *segment, want int64, byValue bool) (entry, bool, error) {
	field := func(e entry) int64 {
		if byValue {
			return e.value
		}
		return e.key
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.pending) / x.width(); n > 0 && field(x.pendingAt(0)) <= want {
		low, high := 0, n
		for high-low > 1 {
			if mid := (low + high) / 2; field(x.pendingAt(mid)) <= want {
				low = mid
			} else {
				high = mid
			}
		}
		return x.pendingAt(low), true, nil
	}
	f, err := x.open(s, 0)
	if err != nil || f == nil {
		return entry{}, false, err
	}
	defer x.slot.release()
	return x.search(f, func(e entry) bool { return field(e) <= want })
}

// search is the last entry of the file for which in is true.
func (x *index) search(f io.ReaderAt, in func(entry) bool) (entry, bool, error) {
	var buf [12]byte
	w := x.width()
	low, high := -1, int(x.written)
	var found entry
	for high-low > 1 {
		mid := (low + high) / 2
		if _, err := f.ReadAt(buf[:w], int64(mid*w)); err != nil {
			return entry{}, false, err
		}
		if e := x.decode(buf[:w]); in(e) {
			low, found = mid, e
		} else {
			high = mid
		}
	}
	return found, low >= 0, nil
}

// last is the youngest entry.
func (x *index) last(s *segment) (entry, bool, error) {
	return x.floor(s, int64(1)<<62, false)
}

// open opens the file; nil without an error means it does not exist. The
// caller holds mu and, after a file came back, gives the slot back.
func (x *index) open(s *segment, flag int) (io.ReaderAt, error) {
	if x.known && !x.made && flag == 0 {
		return nil, nil
	}
	f, err := s.log.disk.files.take(&x.slot, func() string { return s.name(x.suffix()) }, flag)
	switch {
	case errors.Is(err, os.ErrNotExist) && flag == 0:
		x.known, x.made, x.written = true, false, 0
		return nil, nil
	case err != nil:
		return nil, err
	}
	if !x.known {
		st, err := f.Stat()
		if err != nil {
			x.slot.release()
			return nil, err
		}
		x.known, x.written = true, int32(st.Size()/int64(x.width()))
	}
	x.made = true
	return f, nil
}

func (x *index) suffix() string {
	if x.time {
		return timeSuffix
	}
	return indexSuffix
}

// write puts the waiting entries in the file, making it when it is not there.
func (x *index) write(s *segment, sync bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.pending) == 0 && x.known && x.made && !sync {
		return nil
	}
	if _, err := x.open(s, os.O_CREATE); err != nil {
		return err
	}
	defer x.slot.release()
	if len(x.pending) > 0 {
		if _, err := x.slot.file.WriteAt(x.pending, int64(x.written)*int64(x.width())); err != nil {
			return err
		}
		x.written += int32(len(x.pending) / x.width())
		x.pending = nil
	}
	if sync {
		return x.slot.file.Sync()
	}
	return nil
}

// full tells whether another entry would exceed a size.
func (x *index) full(limit int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := int64(x.width())
	return int64(x.written)*w+int64(len(x.pending)) > limit-w
}

// waits tells whether entries are in memory only.
func (x *index) waits() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.pending) > 0
}

// cut drops the entries for which keep is false; they are the youngest.
func (x *index) cut(s *segment, keep func(entry) bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.width()
	n := len(x.pending) / w
	for n > 0 && !keep(x.pendingAt(n-1)) {
		n--
	}
	x.pending = x.pending[:n*w]
	if n > 0 {
		return nil
	}
	f, err := x.open(s, 0)
	if err != nil || f == nil {
		return err
	}
	defer x.slot.release()
	low, high := 0, int(x.written)
	var buf [12]byte
	for low < high {
		mid := (low + high) / 2
		if _, err := f.ReadAt(buf[:w], int64(mid*w)); err != nil {
			return err
		}
		if keep(x.decode(buf[:w])) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == int(x.written) {
		return nil
	}
	x.written = int32(low)
	return x.slot.file.Truncate(int64(low * w))
}
