package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, fd: f.Fd()}, nil
}

func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFS) Link(from, to string) error                   { return os.Link(from, to) }
func (osFS) Mkdir(name string, perm os.FileMode) error    { return os.Mkdir(name, perm) }
func (osFS) MkdirAll(name string, perm os.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) ReadDir(name string) ([]os.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Stat(name string) (os.FileInfo, error)        { return os.Stat(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync error is the one that counts
		return err
	}
	return d.Close()
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		owner := lockOwner(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w%s", filepath.Clean(name), ErrLocked, owner)
		}
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err == nil {
			return &osLock{f}, nil
		}
		_ = f.Close() // the write error is the one that counts
		return nil, err
	}
	_ = f.Close() // the truncate error is the one that counts
	return nil, &os.PathError{Op: "lock", Path: name, Err: err}
}

// osLock is a lock that is held.
type osLock struct{ *os.File }

// Close lets go of the lock, not of this process's copy of it alone: a process that
// is being started has another until it has become another program.
func (l *osLock) Close() error {
	return errors.Join(unix.Flock(int(l.Fd()), unix.LOCK_UN), l.File.Close())
}

// lockOwner reads the process id its holder left in the lock file.
func lockOwner(f *os.File) string {
	var buf [32]byte
	n, _ := f.ReadAt(buf[:], 0) // a lock file without a pid only makes a shorter message
	if pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err == nil {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

type osFile struct {
	*os.File
	fd uintptr
}

// maxIovecs is the kernel's limit of buffers in one pwritev (IOV_MAX).
const maxIovecs = 1024

func (f *osFile) Writev(bufs [][]byte, off int64) (int64, error) {
	if len(bufs) == 1 {
		n, err := f.WriteAt(bufs[0], off)
		return int64(n), err
	}
	var written int64
	for len(bufs) > 0 {
		n, err := unix.Pwritev(int(f.fd), bufs[:min(len(bufs), maxIovecs)], off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return written, &os.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		}
		if n == 0 {
			return written, &os.PathError{Op: "pwritev", Path: f.Name(), Err: io.ErrShortWrite}
		}
		written += int64(n)
		off += int64(n)
		for len(bufs) > 0 && n >= len(bufs[0]) {
			n -= len(bufs[0])
			bufs = bufs[1:]
		}
		if n > 0 {
			bufs[0] = bufs[0][n:]
		}
	}
	return written, nil
}

func (f *osFile) Allocate(off, n int64) error {
	for {
		err := unix.Fallocate(int(f.fd), unix.FALLOC_FL_KEEP_SIZE, off, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil, errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
}

func (f *osFile) Fd() (uintptr, bool) { return f.fd, true }
