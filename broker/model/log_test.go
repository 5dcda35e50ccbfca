package model

import (
	"slices"
	"sort"

	"sawlog/offsets"
)

// rec is one record: the leader epoch it was appended in, and what makes it
// differ from all others.
type rec struct {
	epoch offsets.Epoch
	id    int
}

// began is an epoch's entry in a log's history.
type began struct {
	epoch offsets.Epoch
	start offsets.Offset
}

// replicaLog is a log as broker/log keeps it, without bytes: records, the
// history of epochs (those that wrote nothing too), and how much of it survives
// a power cut.
type replicaLog struct {
	start  offsets.Offset
	recs   []rec // from start on
	epochs []began
	synced offsets.Offset
}

func (l *replicaLog) end() offsets.Offset { return l.start + offsets.Offset(len(l.recs)) }

func (l *replicaLog) holds(o offsets.Offset) bool { return o >= l.start && o < l.end() }

func (l *replicaLog) at(o offsets.Offset) rec { return l.recs[o-l.start] }

// lastEpoch is the epoch of the last record.
func (l *replicaLog) lastEpoch() offsets.Epoch {
	if len(l.recs) == 0 {
		return offsets.NoEpoch
	}
	return l.recs[len(l.recs)-1].epoch
}

// append takes a record. An epoch that was begun here and wrote nothing gives
// way to the record of a lower one that a later leader has at its place.
func (l *replicaLog) append(r rec) {
	if n := len(l.epochs); n > 0 && l.epochs[n-1].epoch > r.epoch {
		l.forget(l.end())
	}
	l.assign(r.epoch)
	l.recs = append(l.recs, r)
}

// assign begins an epoch at the log's end.
func (l *replicaLog) assign(epoch offsets.Epoch) {
	if n := len(l.epochs); n == 0 || l.epochs[n-1].epoch < epoch {
		l.epochs = append(l.epochs, began{epoch, l.end()})
	}
}

// truncate cuts as broker/log does: nothing at all happens at or after the end.
func (l *replicaLog) truncate(to offsets.Offset) {
	switch {
	case to >= l.end():
	case to < l.start:
		l.reset(to)
	default:
		l.recs = l.recs[:to-l.start]
		l.synced = min(l.synced, to)
		l.forget(to)
	}
}

// forget drops the epochs that begin at or after an offset.
func (l *replicaLog) forget(from offsets.Offset) {
	for n := len(l.epochs); n > 0 && l.epochs[n-1].start >= from; n = len(l.epochs) {
		l.epochs = l.epochs[:n-1]
	}
}

func (l *replicaLog) reset(to offsets.Offset) { *l = replicaLog{start: to, synced: to} }

// trim drops what lies before an offset.
func (l *replicaLog) trim(start offsets.Offset) {
	if start <= l.start {
		return
	}
	start = min(start, l.end())
	l.recs = slices.Clone(l.recs[start-l.start:])
	l.start, l.synced = start, max(l.synced, start)
	if i := sort.Search(len(l.epochs), func(i int) bool { return l.epochs[i].start > start }); i > 0 {
		l.epochs = slices.Clone(l.epochs[i-1:])
		l.epochs[0].start = max(l.epochs[0].start, start)
	}
}

// lose is a power cut: of what was not synced only what lies below keep is left.
func (l *replicaLog) lose(keep offsets.Offset) {
	keep = min(max(keep, l.synced, l.start), l.end())
	l.recs = l.recs[:keep-l.start]
	l.synced = keep
	l.forget(keep + 1)
}

// EndOffsetFor is broker/log's.
func (l *replicaLog) EndOffsetFor(epoch offsets.Epoch) (offsets.Epoch, offsets.Offset) {
	if len(l.epochs) == 0 || epoch == offsets.NoEpoch {
		return offsets.NoEpoch, -1
	}
	i := sort.Search(len(l.epochs), func(i int) bool { return l.epochs[i].epoch > epoch })
	switch i {
	case 0:
		return epoch, l.epochs[0].start
	case len(l.epochs):
		return l.epochs[i-1].epoch, l.end()
	}
	return l.epochs[i-1].epoch, l.epochs[i].start
}
