package log

import (
	"errors"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

func (l *Log) readSnapshot(at offsets.Offset) (producers, error) {
	b, err := vfs.ReadFile(l.disk.fs, l.file(offsetName(at, snapshotSuffix)))
	if err != nil {
		return producers{}, err
	}
	return decodeSnapshot(b, l.disk.config.Now().UnixMilli())
}

// reloadProducers makes the producers' state that of an offset again: from the
// youngest snapshot below it and the batches after that. mu is held.
func (l *Log) reloadProducers(end offsets.Offset) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	seen := l.producers
	l.producers, l.snapped = producers{}, -1
	from := l.view.segments[0].base
	for i := len(snapshots) - 1; i >= 0; i-- {
		if snapshots[i] > end {
			continue
		}
		if ps, err := l.readSnapshot(snapshots[i]); err == nil {
			l.producers, from = ps, max(from, snapshots[i])
			break
		}
	}
	now := l.disk.config.Now().UnixMilli()
	for i := l.view.holder(from); i < len(l.view.segments); i++ {
		err := l.view.segments[i].walk(from, l.view.limit(i), func(b header) error {
			if b.ProducerID() >= 0 && b.BaseOffset() >= from {
				l.producers.apply(b.Batch, now)
			}
			return nil
		})
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
	}
	for id, p := range l.producers.byID { // reading again is no sign of life
		if was := seen.byID[id]; was != nil {
			p.seen = was.seen
		}
	}
	return nil
}
