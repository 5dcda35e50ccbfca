package log

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// ReadResult is what Read found: whole batches, in order. The first one may
// begin below the asked offset. Every region must be released.
type ReadResult struct {
	Regions []vfs.Region
	Bytes   int
	// First is the base offset of the first batch, or the asked one where
	// compaction left a hole between, Next the offset after the last batch; both
	// are the asked offset when there is nothing.
	First, Next offsets.Offset
}

// Release gives all regions back.
func (r *ReadResult) Release() {
	for _, region := range r.Regions {
		region.Done()
	}
	r.Regions = nil
}

// maxLooks is how often a read begins anew because the segments it had in view
// were deleted or found damaged under it.
const maxLooks = 100

// maxRegions bounds the files one read keeps open.
const maxRegions = 32

// Read returns whole batches from the one that holds offset at, all of them
// below end, up to maxBytes; with minOne the first batch is returned even when
// it is larger. At an offset where the log is damaged it returns a
// *CorruptError that says where to go on.
func (l *Log) Read(at offsets.Offset, maxBytes int, end offsets.Offset, minOne bool) (ReadResult, error) {
	for range maxLooks {
		r, err := l.read(at, maxBytes, end, minOne)
		if !errors.Is(err, errGone) {
			return r, l.wrap("read", err)
		}
	}
	return ReadResult{First: at, Next: at}, l.wrap("read", ErrClosed)
}

func (l *Log) read(at offsets.Offset, maxBytes int, end offsets.Offset, minOne bool) (ReadResult, error) {
	v := l.look()
	end = min(end, v.end)
	r := ReadResult{First: at, Next: at}
	if at < v.start || at > v.end {
		return r, &ErrOffsetOutOfRange{at, v.start, v.end}
	}
	if at >= end || maxBytes <= 0 && !minOne {
		return r, nil
	}
	for i := v.holder(at); i < len(v.segments) && len(r.Regions) < maxRegions; i++ {
		if v.segments[i].base >= end {
			break
		}
		more, err := l.readSegment(&v, i, &r, maxBytes, end, minOne && r.Bytes == 0)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) && r.Bytes > 0 {
			return r, nil // the next read meets it
		}
		if err != nil {
			r.Release()
			return r, err
		}
		if !more {
			break
		}
	}
	return r, nil
}

// readSegment adds the region of one segment; more tells that the next segment
// may follow.
func (l *Log) readSegment(v *view, i int, r *ReadResult, maxBytes int, end offsets.Offset, minOne bool) (more bool, err error) {
	s, limit := v.segments[i], v.limit(i)
	pos, base, found, err := l.locate(v, i, r.Next)
	if err != nil {
		return false, l.discover(err, s, limit, r.Next, v.endOf(i))
	}
	if !found {
		return true, nil
	}
	stop, next := limit, v.endOf(i)
	if end < next {
		p, b, ok, err := s.position(end, limit)
		if err != nil {
			return false, l.discover(err, s, limit, r.Next, v.endOf(i))
		}
		if ok {
			stop, next = p, b
		}
	}
	blocked := false
	for _, d := range v.damaged {
		if d.segment == s && pos < d.pos && d.pos <= stop {
			stop, next, blocked = d.pos, d.from, true
		}
	}
	if stop <= pos {
		return false, nil
	}
	room := int64(maxBytes - r.Bytes)
	whole := stop-pos <= room
	if !whole {
		cut, first, after, err := s.cutAt(pos, pos+room, stop)
		if err != nil {
			return false, l.discover(err, s, limit, r.Next, v.endOf(i))
		}
		if first-pos > room && !minOne {
			return false, nil
		}
		stop, next = cut, after
	}
	f, err := s.open(0)
	if err != nil {
		return false, err
	}
	if r.Bytes == 0 {
		r.First = base
	}
	r.Regions = append(r.Regions, vfs.Region{File: f, Pos: pos, Len: stop - pos, Release: s.data.release})
	r.Bytes += int(stop - pos)
	r.Next = next
	l.remember(v, s, next, stop)
	return whole && stop == limit && !blocked, nil
}

// locate finds where reading of segment i at an offset begins: where another
// reader has stopped, or by the index.
func (l *Log) locate(v *view, i int, at offsets.Offset) (pos int64, base offsets.Offset, found bool, err error) {
	for _, d := range v.damaged {
		if d.segment == v.segments[i] && d.from <= at && at < d.next {
			return 0, 0, false, &CorruptError{d.segment.name(logSuffix), d.pos, d.next, record.ErrCorrupt}
		}
	}
	s, limit := v.segments[i], v.limit(i)
	l.pub.Lock()
	for _, h := range [...]hint{l.tail, l.hint[0], l.hint[1], l.hint[2], l.hint[3]} {
		if h.segment == s && h.at == at && h.pos < limit {
			l.pub.Unlock()
			return h.pos, at, true, nil
		}
	}
	l.pub.Unlock()
	return s.position(at, limit)
}

// remember leaves a hint for the next read of the same reader.
func (l *Log) remember(v *view, s *segment, at offsets.Offset, pos int64) {
	l.pub.Lock()
	defer l.pub.Unlock()
	if l.view.gen != v.gen {
		return
	}
	for i := range l.hint {
		if l.hint[i].segment == s && l.hint[i].at == at {
			return
		}
	}
	l.hint[l.next] = hint{s, at, pos}
	l.next = (l.next + 1) % hints
}

// discover turns damage met while reading into damage that is known, with the
// offset where reading can go on.
func (l *Log) discover(err error, s *segment, limit int64, at, end offsets.Offset) error {
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Next > 0 {
		return err
	}
	d, derr := s.explore(corrupt.Pos, limit, end)
	if derr != nil {
		return errors.Join(err, derr)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.view.segments, s) {
		return errGone // compacted or deleted meanwhile
	}
	known := false
	for _, have := range l.view.damaged {
		known = known || have.segment == d.segment && have.pos == d.pos
	}
	if !known && s.log == l {
		l.disk.config.Logger.Error("damaged batch", "path", s.name(logSuffix), "pos", d.pos, "from", d.from, "next", d.next)
		l.publish(func(v *view) { v.damaged = append(v.damaged[:len(v.damaged):len(v.damaged)], d) })
	}
	if at < d.from || at >= d.next {
		return errGone // look again, knowing what to step over
	}
	return &CorruptError{corrupt.Path, d.pos, d.next, corrupt.Err}
}

// explore measures the damage around pos: from the end of the last good batch
// to the next one.
func (s *segment) explore(pos, limit int64, end offsets.Offset) (damage, error) {
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return damage{}, err
	}
	defer scan.done()
	d := damage{segment: s, pos: 0, end: limit, from: s.base, next: end}
	damaged := s.log.look().damaged
	for d.pos < pos {
		d.pos = s.skipDamage(damaged, d.pos)
		head, err := scan.header(d.pos)
		if err != nil || d.pos+int64(head.Size()) > pos {
			break
		}
		d.pos += int64(head.Size())
		d.from = head.LastOffset() + 1
	}
	next, ok, err := scan.resync(d.pos, d.from)
	if err != nil || !ok {
		return d, err
	}
	head, err := scan.header(next)
	if err != nil {
		return d, err
	}
	d.end, d.next = next, head.BaseOffset()
	return d, nil
}

// skipDamage steps over damage that pos lies in.
func (s *segment) skipDamage(damaged []damage, pos int64) int64 {
	for _, d := range damaged {
		if d.segment == s && d.pos <= pos && pos < d.end {
			return d.end
		}
	}
	return pos
}

// ReadBytes is Read into memory, for readers in this process. At least one
// batch is returned when there is one below end.
func (l *Log) ReadBytes(at offsets.Offset, maxBytes int, end offsets.Offset) ([]byte, error) {
	r, err := l.Read(at, maxBytes, end, true)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	out := make([]byte, r.Bytes)
	n := 0
	for _, region := range r.Regions {
		got, err := region.File.ReadAt(out[n:n+int(region.Len)], region.Pos)
		if got < int(region.Len) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, l.wrap("read", fmt.Errorf("%d of %d bytes at %d: %w", got, region.Len, region.Pos, err))
		}
		n += got
	}
	return out, nil
}
