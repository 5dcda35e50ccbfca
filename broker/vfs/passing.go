package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Passing reads a region for somebody who comes by once: what it brings into
// memory doesn't stay in the page cache, and what was there stays. A load that
// reads hours of old log so takes no memory from those who follow its end.
//
// Linux reads so since 6.14 on most file systems (RWF_DONTCACHE). Elsewhere the
// region is dropped in the end if most of it wasn't in memory at first, which is
// known since Linux 6.5; what the kernel reads ahead of it stays then.
//
// The price is CPU time of the broker: 2.1 times that of sendfile for what comes
// from disk, 0.8 times for what is in memory (TestClassCost of compat/bench, over
// loopback, where a copy costs no more than sendfile).
type Passing struct {
	region Region
	fd     int
	onDisk bool // it has a descriptor
	cold   bool // most of it wasn't in memory
}

// NewPassing looks at what of the region is in memory.
func NewPassing(r Region) *Passing {
	p := &Passing{region: r}
	fd, ok := r.File.Fd()
	if p.fd, p.onDisk = int(fd), ok; !ok {
		return p
	}
	var in unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(r.Pos), Len: uint64(r.Len)}, &in, 0)
	p.cold = err == nil && int64(in.Cache)*int64(os.Getpagesize()) < r.Len/2
	return p
}

// ReadAt reads from the file.
func (p *Passing) ReadAt(b []byte, pos int64) (int, error) {
	if !p.onDisk {
		return p.region.File.ReadAt(b, pos)
	}
	n := 0
	for n < len(b) {
		got, err := unix.Preadv2(p.fd, [][]byte{b[n:]}, pos+int64(n), unix.RWF_DONTCACHE)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
			more, err := p.region.File.ReadAt(b[n:], pos+int64(n))
			return n + more, err
		case err != nil:
			return n, fmt.Errorf("preadv2: %w", err)
		case got == 0:
			return n, io.EOF
		default:
			n += got
		}
	}
	return n, nil
}

// Done drops what the region left in memory.
func (p *Passing) Done() {
	if p.cold {
		// Only advice: where it isn't taken pages stay, as others' would.
		_ = unix.Fadvise(p.fd, p.region.Pos, p.region.Len, unix.FADV_DONTNEED)
	}
}
