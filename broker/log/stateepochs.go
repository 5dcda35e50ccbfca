package log

import (
	"sort"

	"sawlog/offsets"
)

// epochStart tells from which offset on a leader epoch wrote.
type epochStart struct {
	Epoch offsets.Epoch
	Start offsets.Offset
}

// epochs is the history of a log's leaders: epochs strictly ascending, starts
// ascending. Two epochs with one start are kept apart: the first wrote nothing,
// and a follower that knows it must not be sent away.
type epochs []epochStart

// latest is the youngest epoch.
func (e epochs) latest() offsets.Epoch {
	if len(e) == 0 {
		return offsets.NoEpoch
	}
	return e[len(e)-1].Epoch
}

// assign begins an epoch at an offset; changed is false when it, or a younger
// one, is known.
func (e epochs) assign(epoch offsets.Epoch, start offsets.Offset) (_ epochs, changed bool) {
	if epoch <= e.latest() {
		return e, false
	}
	for len(e) > 0 && e[len(e)-1].Start > start {
		e = e[:len(e)-1]
	}
	return append(e, epochStart{epoch, start}), true
}

// cutEnd drops the epochs that begin at or after a new log end.
func (e epochs) cutEnd(end offsets.Offset) epochs {
	for len(e) > 0 && e[len(e)-1].Start >= end {
		e = e[:len(e)-1]
	}
	return e
}

// cutStart drops the epochs that ended before a new log start; the one that
// was in force there begins there.
func (e epochs) cutStart(start offsets.Offset) epochs {
	i := sort.Search(len(e), func(i int) bool { return e[i].Start > start })
	if i == 0 {
		return e
	}
	out := append(epochs(nil), e[i-1:]...)
	out[0].Start = max(out[0].Start, start)
	return out
}

// endFor answers OffsetForLeaderEpoch: the youngest epoch not above the asked
// one and the offset after its last record. An epoch older than all known ones
// ends where the first of them begins; NoEpoch and -1 tell that none is known.
func (e epochs) endFor(epoch offsets.Epoch, logEnd offsets.Offset) (offsets.Epoch, offsets.Offset) {
	if len(e) == 0 || epoch == offsets.NoEpoch {
		return offsets.NoEpoch, -1
	}
	i := sort.Search(len(e), func(i int) bool { return e[i].Epoch > epoch })
	switch i {
	case 0:
		return epoch, e[0].Start
	case len(e):
		return e[i-1].Epoch, logEnd
	}
	return e[i-1].Epoch, e[i].Start
}

// at is the epoch in force at an offset.
func (e epochs) at(o offsets.Offset) offsets.Epoch {
	i := sort.Search(len(e), func(i int) bool { return e[i].Start > o })
	if i == 0 {
		return offsets.NoEpoch
	}
	return e[i-1].Epoch
}

// within cuts a history read from the journal to what the log holds. An epoch
// that begins at the very end stays: it has written nothing yet.
func (e epochs) within(start, end offsets.Offset) epochs {
	return e.cutEnd(end + 1).cutStart(start)
}

// merge joins the history of the journal with that found in the batches, which
// is right where they differ.
func (e epochs) merge(scanned epochs) epochs {
	var out epochs
	i := 0
	for _, s := range scanned {
		for i < len(e) && e[i].Epoch < s.Epoch {
			if e[i].Start <= s.Start {
				out, _ = out.assign(e[i].Epoch, e[i].Start)
			}
			i++
		}
		if i < len(e) && e[i].Epoch == s.Epoch {
			s.Start = min(s.Start, e[i].Start)
			i++
		}
		out, _ = out.assign(s.Epoch, s.Start)
	}
	for ; i < len(e); i++ {
		if len(out) == 0 || e[i].Start >= out[len(out)-1].Start {
			out, _ = out.assign(e[i].Epoch, e[i].Start)
		}
	}
	return out
}
