package vfs

import (
	"errors"
	"io"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"time"
)

// pageSize is the piece of a file that survives a power cut as one, mostly.
const pageSize = 4096

// memFile is an open file of Mem.
type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	flag   int
	pos    int64
	closed atomic.Bool
}

func (f *memFile) ask(op Op) error {
	if f.closed.Load() {
		return &os.PathError{Op: string(op), Path: f.name, Err: os.ErrClosed}
	}
	return f.fs.ask(op, f.name)
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ask(OpRead); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off < 0 {
		return 0, &os.PathError{Op: "read", Path: f.name, Err: syscall.EINVAL}
	}
	if off >= int64(len(f.node.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	off := f.pos
	if f.flag&os.O_APPEND != 0 {
		f.fs.mu.Lock()
		off = int64(len(f.node.data))
		f.fs.mu.Unlock()
	}
	n, err := f.WriteAt(p, off)
	f.pos = off + int64(n)
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.Writev([][]byte{p}, off)
	return int(n), err
}

func (f *memFile) Writev(bufs [][]byte, off int64) (int64, error) {
	if f.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return 0, &os.PathError{Op: "write", Path: f.name, Err: syscall.EBADF}
	}
	err := f.ask(OpWrite)
	room := int64(1) << 62
	if err != nil {
		var part *PartialWrite
		if !errors.As(err, &part) {
			return 0, err
		}
		room = int64(part.N)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	var n int64
	for _, b := range bufs {
		b = b[:min(int64(len(b)), room-n)]
		f.node.writeAt(b, off+n)
		n += int64(len(b))
	}
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	if err := f.ask(OpTruncate); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.resize(size)
	return nil
}

func (f *memFile) Sync() error {
	if err := f.ask(OpSync); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.sync()
	return nil
}

func (f *memFile) Stat() (os.FileInfo, error) {
	if err := f.ask(OpStat); err != nil {
		return nil, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.stat(path.Base(f.name)), nil
}

func (f *memFile) Allocate(_, _ int64) error { return f.ask(OpAllocate) }

func (f *memFile) Fd() (uintptr, bool) { return 0, false }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return &os.PathError{Op: "close", Path: f.name, Err: os.ErrClosed}
	}
	return nil
}

func (n *memNode) writeAt(p []byte, off int64) {
	if end := off + int64(len(p)); end > int64(len(n.data)) {
		n.resize(end)
	}
	copy(n.data[off:], p)
	n.touch(off, off+int64(len(p)))
}

func (n *memNode) resize(size int64) {
	old := int64(len(n.data))
	if size <= old {
		n.data = n.data[:size]
	} else {
		if size > int64(cap(n.data)) {
			grown := make([]byte, old, size+size/4)
			copy(grown, n.data)
			n.data = grown
		}
		n.data = n.data[:size]
		clear(n.data[old:])
	}
	n.touch(min(old, size), max(old, size))
}

// touch marks the pages of [from, to) as not synced.
func (n *memNode) touch(from, to int64) {
	n.mod = time.Now()
	for page := from / pageSize; page*pageSize < to; page++ {
		n.dirty[page] = struct{}{}
	}
}

func (n *memNode) sync() {
	size := len(n.data)
	if size > cap(n.synced) {
		grown := make([]byte, len(n.synced), size+size/4)
		copy(grown, n.synced)
		n.synced = grown
	}
	n.synced = n.synced[:size]
	for page := range n.dirty {
		from := min(page*pageSize, int64(size))
		copy(n.synced[from:], n.data[from:min(from+pageSize, int64(size))])
	}
	clear(n.dirty)
}

func (n *memNode) stat(name string) os.FileInfo {
	return &memStat{name: name, size: int64(len(n.data)), mode: n.mode, mod: n.mod}
}

type memStat struct {
	name string
	size int64
	mode os.FileMode
	mod  time.Time
}

func (s *memStat) Name() string       { return s.name }
func (s *memStat) Size() int64        { return s.size }
func (s *memStat) Mode() os.FileMode  { return s.mode }
func (s *memStat) ModTime() time.Time { return s.mod }
func (s *memStat) IsDir() bool        { return s.mode.IsDir() }
func (s *memStat) Sys() any           { return nil }
