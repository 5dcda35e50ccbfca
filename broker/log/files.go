package log

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sawlog/broker/vfs"
)

// files keeps the number of open segment and index files within a budget.
//
// A slot is one such file. Its state is 0 closed, 1 open and idle, 1+n open
// with n holders; taking and giving back an open one is a compare-and-swap,
// only opening and closing take the lock. When the budget is used up the clock
// hand closes the first idle slot not used since it last passed.
type files struct {
	fs   vfs.FS
	max  int
	fail func(error)

	mu   sync.Mutex
	open []*slot
	hand int
}

// slot is one file that may be open. Its state becomes ≥ 1 only under mu of
// files, with file and release set.
type slot struct {
	state   atomic.Int32
	used    atomic.Bool
	doomed  atomic.Bool // the name is gone: close at the last release
	file    vfs.File
	release func()
}

// errGone tells that a segment was deleted while a reader was on its way.
var errGone = errors.New("segment is gone")

// defaultOpenFiles is half of what the process may open.
func defaultOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur == 0 {
		return 512
	}
	return int(min(max(limit.Cur/2, 64), 1<<17))
}

// take opens the slot's file, or finds it open; the holder calls s.release
// once.
func (fs *files) take(s *slot, name func() string, flag int) (vfs.File, error) {
	for {
		n := s.state.Load()
		if n == 0 {
			break
		}
		if s.state.CompareAndSwap(n, n+1) {
			if !s.used.Load() {
				s.used.Store(true)
			}
			return s.file, nil
		}
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if s.state.Load() > 0 { // opened meanwhile; closing needs the lock we hold
		s.state.Add(1)
		return s.file, nil
	}
	if s.doomed.Load() {
		return nil, errGone
	}
	for len(fs.open) >= fs.max && fs.evict() {
	}
	f, err := fs.fs.OpenFile(name(), os.O_RDWR|flag, 0o644)
	if err != nil {
		return nil, err
	}
	s.file = f
	if s.release == nil {
		s.release = func() { fs.give(s) }
	}
	s.used.Store(true)
	fs.open = append(fs.open, s)
	s.state.Store(2)
	return f, nil
}

// give ends one holding.
func (fs *files) give(s *slot) {
	if s.state.Add(-1) == 1 && s.doomed.Load() {
		fs.doom(s)
	}
}

// evict closes one idle file; mu is held.
func (fs *files) evict() bool {
	for range 2 * len(fs.open) {
		if fs.hand >= len(fs.open) {
			fs.hand = 0
		}
		s := fs.open[fs.hand]
		if s.used.Swap(false) || !s.state.CompareAndSwap(1, 0) {
			fs.hand++
			continue
		}
		fs.close(s, fs.hand)
		return true
	}
	return false
}

// through opens files by another way from here on, those that are open too.
func (fs *files) through(way vfs.FS) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.fs = way
	for fs.evict() {
	}
}

// doom closes the slot's file now when it is idle, else at its last release,
// and lets nobody open it again.
func (fs *files) doom(s *slot) {
	s.doomed.Store(true)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !s.state.CompareAndSwap(1, 0) {
		return
	}
	for i, other := range fs.open {
		if other == s {
			fs.close(s, i)
			return
		}
	}
}

// close closes the file of open[i]; mu is held and the state is 0.
func (fs *files) close(s *slot, i int) {
	last := len(fs.open) - 1
	fs.open[i] = fs.open[last]
	fs.open[last] = nil
	fs.open = fs.open[:last]
	if err := s.file.Close(); err != nil {
		fs.fail(err)
	}
	s.file = nil
}

// count is the number of files open.
func (fs *files) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.open)
}
