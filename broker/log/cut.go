package log

import (
	"errors"
	"fmt"
	"os"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

func (r *recovery) damage(s *segment, pos, end int64, next offsets.Offset, why error) {
	r.log.disk.config.Logger.Error("damaged batch is kept: valid ones follow", "path", s.name(logSuffix),
		"pos", pos, "end", end, "from", r.end, "next", next, "err", why)
	r.damaged = append(r.damaged, damage{s, pos, end, r.end, next})
	r.end = next
}

// badTail decides what becomes of bytes behind which segment i holds no whole
// batch.
func (r *recovery) badTail(i int, scan *scanner, pos int64, why error) (stop bool, err error) {
	l := r.log
	s := l.view.segments[i]
	ok, err := l.follows(i + 1)
	if err != nil {
		return false, err
	}
	if ok {
		if next := l.view.segments[i+1]; r.end < next.base {
			r.damage(s, pos, scan.limit, next.base, why)
			s.size = scan.limit
		} else if err := s.cut(scan, pos); err != nil { // nothing is missing but rubbish
			return false, err
		}
		s.markTime()
		return false, s.writeIndexes(false)
	}
	l.disk.config.Logger.Warn("log is cut at a bad batch", "path", s.name(logSuffix), "pos", pos,
		"bytes", scan.limit-pos, "end", r.end, "err", why)
	if err := s.cut(scan, pos); err != nil {
		return false, err
	}
	s.size = pos
	return true, l.dropFrom(i + 1)
}

// follows tells whether there is a sound batch in segment i or a later one.
func (l *Log) follows(i int) (bool, error) {
	for ; i < len(l.view.segments); i++ {
		if ok, err := l.view.segments[i].alive(); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// dropFrom puts the segments from i on aside.
func (l *Log) dropFrom(i int) error {
	for j := len(l.view.segments) - 1; j >= i; j-- {
		if err := l.view.segments[j].putAside(); err != nil {
			return err
		}
	}
	l.view.segments = l.view.segments[:i:i]
	return l.disk.fs.SyncDir(l.path)
}

// alive tells whether there is a sound batch anywhere in the segment.
func (s *segment) alive() (bool, error) {
	if s.size == 0 {
		return false, nil
	}
	scan, err := s.scan(s.size, scanChunk)
	if err != nil {
		return false, err
	}
	defer scan.done()
	b, err := scan.batch(0)
	if err == nil && b.BaseOffset() >= s.base && b.CheckCRC() == nil {
		return true, nil
	}
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return false, err
	}
	_, ok, err := scan.resync(0, s.base)
	return ok, err
}

// errMissing stands for batches whose bytes are not there at all.
var errMissing = fmt.Errorf("%w: missing at the end of a segment", record.ErrCorrupt)

// cut saves the bytes from pos on, unless they are all zero, and cuts them off.
func (s *segment) cut(scan *scanner, pos int64) error {
	if err := s.save(scan, pos); err != nil {
		return err
	}
	f, ok := scan.file, pos < scan.limit
	if !ok {
		return nil
	}
	s.size = pos
	return errors.Join(f.Truncate(pos), f.Sync())
}

// save copies the bytes from pos on to a file with the suffix .cut.
func (s *segment) save(scan *scanner, pos int64) (err error) {
	var out vfs.File
	name := s.name(fmt.Sprintf("%s.%d%s", logSuffix, pos, cutSuffix))
	for at := pos; at < scan.limit; {
		n := int(min(recoveryChunk, scan.limit-at))
		b, err := scan.window(at, n)
		if err != nil {
			return err
		}
		if out == nil && !allZero(b) {
			if out, err = s.log.disk.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
				return err
			}
		}
		if out != nil {
			if _, err := out.WriteAt(b, at-pos); err != nil {
				return errors.Join(err, out.Close())
			}
		}
		at += int64(n)
	}
	if out == nil {
		return nil
	}
	return errors.Join(out.Sync(), out.Close())
}

// putAside keeps a whole segment that cannot be part of the log as a .cut file.
func (s *segment) putAside() error {
	s.doom()
	fs := s.log.disk.fs
	if s.size > 0 {
		if err := fs.Rename(s.name(logSuffix), s.name(logSuffix+".0"+cutSuffix)); err != nil {
			return err
		}
	}
	return s.remove()
}
