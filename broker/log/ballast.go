package log

import (
	"errors"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"sawlog/broker/vfs"
)

// ballast is disk space kept for what must be written when the disk is full:
// the metadata log, the journal, checkpoints, group offsets. It is a file whose
// blocks are reserved and never written. The first append that finds the disk
// full lets it go, and from then on clients are refused until it could be
// reserved again, so that they cannot fill that room as well. Where there was no
// room for it before, they are refused until there is room for its margin.
type ballast struct {
	fs    vfs.FS
	path  string
	bytes int64

	full atomic.Bool // the disk was found full: clients are refused

	mu    sync.Mutex
	held  bool
	never bool // it was let go without having been held
	tried time.Time
}

// ballastMargin is how much more than the ballast must be free before it is
// taken back, in bytes, lest it be let go again at once.
const ballastMargin = 16 << 20

// ballastEvery is how often a refused append tries to take it back.
const ballastEvery = time.Second

// take reserves the space; a disk too small or too full for it goes without.
func (b *ballast) take(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes == 0 || b.held {
		return nil
	}
	b.tried = now
	err := b.reserve(b.bytes, max(ballastMargin, b.bytes/4))
	switch {
	case err == nil:
		b.held, b.never = true, false
	case !b.never || b.reserve(0, ballastMargin) != nil:
		return err
	}
	b.full.Store(false)
	return nil
}

// reserve makes the file, of some bytes, if there is room for it and a margin.
func (b *ballast) reserve(bytes, margin int64) error {
	f, err := b.fs.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = f.Allocate(0, bytes+margin)
	if err == nil {
		err = f.Truncate(0) // gives the margin back
	}
	if err == nil && bytes > 0 {
		err = f.Allocate(0, bytes)
	}
	if err = errors.Join(err, f.Close()); err != nil || bytes == 0 {
		err = errors.Join(err, b.fs.Remove(b.path))
	}
	return err
}

// release gives the space back and tells whether that made room.
func (b *ballast) release() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes == 0 {
		return false
	}
	if !b.full.Swap(true) {
		b.never = !b.held
	}
	was := b.held
	b.held = false
	return was && b.fs.Remove(b.path) == nil
}

// find looks whether a process before this one has reserved the space, and does
// so again: a copied directory has the file without it.
func (b *ballast) find() {
	if _, err := b.fs.Stat(b.path); err != nil || b.bytes == 0 {
		return
	}
	if f, err := b.fs.OpenFile(b.path, os.O_RDWR, 0); err == nil {
		_ = f.Allocate(0, b.bytes) // where that fails, less is let go
		_ = f.Close()              // nothing was written
		b.held = true
	}
}

// Full tells whether the disk was found full, and had no room since: clients
// are refused.
func (d *Disk) Full() bool { return d.ballast.full.Load() }

// Roomy tells whether clients may write, and looks for it where the disk was
// full, now and then.
func (d *Disk) Roomy() bool {
	b := d.ballast
	if !b.full.Load() {
		return true
	}
	now := d.config.Now()
	b.mu.Lock()
	soon := now.Sub(b.tried) < ballastEvery && !now.Before(b.tried)
	b.mu.Unlock()
	if soon || b.take(now) != nil {
		return false
	}
	d.config.Logger.Info("the disk has room again", "path", d.dir)
	return true
}

// Relieve makes room on a full disk for what must be written, once, and tells
// whether it did; until there is room for that again, clients are refused. It
// is for writers of the same disk beside the logs, through vfs.Relieved.
func (d *Disk) Relieve() bool {
	was := d.ballast.full.Load()
	if !d.ballast.release() {
		if d.Full() && !was {
			d.config.Logger.Error("the disk is full: clients are refused until there is room again", "path", d.dir)
		}
		return false
	}
	d.config.Logger.Error("the disk is full: the ballast is let go, and clients are refused until there is room again",
		"path", d.ballast.path, "bytes", d.ballast.bytes)
	return true
}

// reballast takes the ballast back when it can.
func (d *Disk) reballast(now time.Time) {
	if !d.Full() {
		_ = d.ballast.take(now) // a disk without room for it goes without
	} else if !d.Roomy() {
		d.config.Logger.Warn("the disk is still full", "path", d.dir)
	}
}

// newBallast is the ballast of a directory, not yet taken.
func newBallast(fs vfs.FS, dir string, bytes int64) *ballast {
	return &ballast{fs: fs, path: path.Join(dir, ballastName), bytes: bytes}
}
