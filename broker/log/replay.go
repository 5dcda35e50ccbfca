package log

import (
	"errors"
	"fmt"
	"slices"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// readSnapshot reads the producers as of an offset, but for those whose time is
// over.
func (l *Log) readSnapshot(at offsets.Offset) (producers, error) {
	b, err := vfs.ReadFile(l.disk.fs, l.file(offsetName(at, snapshotSuffix)))
	if err != nil {
		return producers{}, err
	}
	now := l.disk.config.Now().UnixMilli()
	ps, err := decodeSnapshot(b, now)
	ps.expire(now - l.disk.config.ProducerExpiry.Milliseconds())
	return ps, err
}

// reloadProducers makes the producers' state that of an offset again; mu is
// held.
func (l *Log) reloadProducers(end offsets.Offset) error {
	ps, err := l.producersAt(end)
	if err != nil {
		return err
	}
	l.producers, l.snapped = ps, -1
	return nil
}

// producersAt is what was known of producers at an offset: from the youngest
// sound snapshot below it and the batches after that. mu is held.
func (l *Log) producersAt(end offsets.Offset) (producers, error) {
	var ps producers
	snapshots, err := l.snapshots()
	if err != nil {
		return ps, err
	}
	from := l.view.segments[0].base
	for _, at := range slices.Backward(snapshots) {
		if at > end {
			continue
		}
		if found, err := l.readSnapshot(at); err == nil {
			ps, from = found, max(from, at)
			break
		}
	}
	now := l.disk.config.Now().UnixMilli()
	for i := l.view.holder(from); i < len(l.view.segments) && l.view.segments[i].base < end; i++ {
		err := l.view.segments[i].walk(from, l.view.limit(i), func(b header) error {
			if b.ProducerID() >= 0 && b.BaseOffset() >= from && b.BaseOffset() < end {
				ps.apply(b.Batch, now)
			}
			return nil
		})
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return ps, err
		}
	}
	for id, p := range ps.byID { // reading again is no sign of life
		if was := l.producers.byID[id]; was != nil {
			p.seen = was.seen
		}
	}
	return ps, nil
}

// keepProducers makes sure that what is known of producers survives when all
// batches below an offset, the base of a segment, go (KAFKA-7190). mu is held.
func (l *Log) keepProducers(at offsets.Offset) error {
	if len(l.producers.byID) == 0 {
		return nil
	}
	name := l.file(offsetName(at, snapshotSuffix))
	if _, err := l.readSnapshot(at); err != nil {
		ps, err := l.producersAt(at)
		if err == nil {
			err = vfs.Replace(l.disk.vital, name, encodeSnapshot(&ps))
		}
		if vfs.Full(err) { // deleting makes room; a retry after the next crash may be taken twice
			l.disk.config.Logger.Warn("no room to keep what is known of producers", "path", name, "err", err)
			return nil
		}
		return err
	}
	if err := syncFile(l.disk.fs, name); err != nil {
		return fmt.Errorf("sync snapshot: %w", err)
	}
	return l.disk.fs.SyncDir(l.path)
}

// tidySnapshots removes what restarts have left: snapshots that are neither at
// the base of a segment nor the youngest. names are in ascending order.
func (l *Log) tidySnapshots(names []offsets.Offset) error {
	if len(names) < 2 {
		return nil
	}
	bases := make(map[offsets.Offset]bool, len(l.view.segments))
	for _, s := range l.view.segments {
		bases[s.base] = true
	}
	for _, o := range names[:len(names)-1] {
		if bases[o] {
			continue
		}
		if err := l.disk.fs.Remove(l.file(offsetName(o, snapshotSuffix))); err != nil {
			return err
		}
	}
	return nil
}
