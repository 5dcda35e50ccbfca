// Package vfs is the file system the broker sees. OS is the real one; Mem is
// one in memory that can lose power: only what was synced is sure to survive.
//
// Rules every caller may count on:
//
//   - bytes written to a File survive a power cut once Sync returned nil;
//   - a new, renamed or removed name survives once SyncDir of its folder did;
//   - Replace is the one way to replace a small file, and is atomic;
//   - an error of Sync is final: the pages it should have written are lost to
//     the kernel, and a second Sync would lie about them.
//
// The package persists nothing of its own but the process id in a lock file,
// which is text for the reader of an error message: "4711\n".
package vfs

import (
	"errors"
	"io"
	"os"
)

// ErrLocked is returned by FS.Lock when another process (or another holder in
// this one) has the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Names are slash-separated paths as the os package
// takes them.
type FS interface {
	OpenFile(name string, flag int, perm os.FileMode) (File, error)
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces to when it exists; it survives a power cut only after
	// SyncDir of both folders.
	Rename(from, to string) error
	Link(from, to string) error
	Mkdir(name string, perm os.FileMode) error
	MkdirAll(name string, perm os.FileMode) error
	ReadDir(name string) ([]os.DirEntry, error)
	Stat(name string) (os.FileInfo, error)
	// SyncDir makes the names in a folder survive a power cut.
	SyncDir(name string) error
	// Lock takes the exclusive lock of a file, creating it; closing gives it
	// back, and so does the death of the process.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Writev writes all buffers one after the other at off, in one system call
	// where that is possible; it changes the elements of bufs only when the
	// kernel took a part of them.
	Writev(bufs [][]byte, off int64) (int64, error)
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
	// Allocate reserves disk space for [off, off+n) without changing the size
	// of the file; a full disk shows here as ENOSPC. File systems that cannot
	// reserve succeed.
	Allocate(off, n int64) error
	// Fd is the descriptor for sendfile; ok is false for files in memory.
	Fd() (fd uintptr, ok bool)
}

// Region is a piece of an open file. Whoever holds it calls Release exactly
// once; until then the file stays open, whatever becomes of its name. Release
// may be nil.
type Region struct {
	File    File
	Pos     int64
	Len     int64
	Release func()
}

// Done calls Release when there is one.
func (r Region) Done() {
	if r.Release != nil {
		r.Release()
	}
}
