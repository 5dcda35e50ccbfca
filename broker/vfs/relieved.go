package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Full tells whether an error says that the disk is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Relieved is a file system whose writers come first on a full disk: relieve is
// asked to make room and, when it did, what failed is done once more. A failed
// Sync is not: nobody knows what it left out.
func Relieved(under FS, relieve func() bool) FS { return &relieved{under, relieve} }

type relieved struct {
	FS
	relieve func() bool
}

// again does something a second time when the disk was full and is no more.
func (r *relieved) again(do func() error) error {
	err := do()
	if Full(err) && r.relieve() {
		err = do()
	}
	return err
}

func (r *relieved) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	var f File
	err := r.again(func() (err error) {
		f, err = r.FS.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &relievedFile{f, r}, nil
}

func (r *relieved) Rename(from, to string) error {
	return r.again(func() error { return r.FS.Rename(from, to) })
}

func (r *relieved) Link(from, to string) error {
	return r.again(func() error { return r.FS.Link(from, to) })
}

func (r *relieved) Mkdir(name string, perm os.FileMode) error {
	return r.again(func() error { return r.FS.Mkdir(name, perm) })
}

func (r *relieved) MkdirAll(name string, perm fs.FileMode) error {
	return r.again(func() error { return r.FS.MkdirAll(name, perm) })
}

type relievedFile struct {
	File
	fs *relieved
}

func (f *relievedFile) Write(p []byte) (int, error) {
	n := 0
	err := f.fs.again(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	return n, err
}

func (f *relievedFile) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	err := f.fs.again(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *relievedFile) Writev(bufs [][]byte, off int64) (int64, error) {
	var n int64
	err := f.fs.again(func() (err error) {
		eaten := append([][]byte(nil), bufs...)
		n, err = f.File.Writev(eaten, off)
		return err
	})
	return n, err
}

func (f *relievedFile) Allocate(off, n int64) error {
	return f.fs.again(func() error { return f.File.Allocate(off, n) })
}
