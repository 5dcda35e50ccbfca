package replica

import (
	"slices"

	"sawlog/broker/log"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Ask is what a reader wants.
type Ask struct {
	At        offsets.Offset
	MaxBytes  int
	MinOne    bool          // at least one batch, however large
	Committed bool          // isolation: below the last stable offset only
	Epoch     offsets.Epoch // leader epoch the reader knows, or NoEpoch
	LastEpoch offsets.Epoch // epoch of the record before At, or NoEpoch
	Any       bool          // a follower may answer too, with what it knows to be committed (KIP-392)
}

// EpochEnd is the end of an epoch in this log.
type EpochEnd struct {
	Epoch offsets.Epoch
	End   offsets.Offset
}

// Read is what a reader gets.
type Read struct {
	View      View
	Regions   []vfs.Region
	Bytes     int
	Diverging *EpochEnd // the reader's log isn't ours: it must cut back to here
}

// Read finds whole batches for a reader. The view is filled in also with an
// error. *log.ErrOffsetOutOfRange tells that At isn't in the log, or that
// LastEpoch isn't known here.
func (p *Partition) Read(a Ask) (Read, error) {
	v, err := p.check(a.Epoch, a.Any)
	r := Read{View: v}
	if err != nil {
		return r, err
	}
	// What a follower has beyond its high watermark may yet be cut away, and what
	// it lacks may be committed: there it can't tell whether a reader has diverged.
	if a.LastEpoch != offsets.NoEpoch && (v.Leads || a.At <= v.HighWatermark) {
		last := p.EndOf(a.LastEpoch)
		switch {
		case last.Epoch == offsets.NoEpoch || a.At < v.LogStart:
			return r, &log.ErrOffsetOutOfRange{At: a.At, Start: v.LogStart, End: v.HighWatermark}
		case last.Epoch < a.LastEpoch || last.End < a.At:
			r.Diverging = &last
			return r, nil
		}
	}
	limit := v.HighWatermark
	if a.Committed {
		limit = v.LastStable
	}
	switch {
	case a.At == limit:
		return r, nil // at the end, as most reads of idle partitions
	case !v.Leads && a.At > v.HighWatermark && a.At <= p.log.End():
		return r, ErrOffsetNotAvailable // committed, perhaps, but not known here to be
	}
	got, err := p.log.Read(a.At, a.MaxBytes, limit, a.MinOne)
	if err != nil {
		return r, err
	}
	r.Regions, r.Bytes = got.Regions, got.Bytes
	return r, nil
}

// EndOf is where an epoch ends in this log, or the largest below it that is
// known: NoEpoch and −1 when none is, or when the asked one is still to come.
func (p *Partition) EndOf(epoch offsets.Epoch) EpochEnd {
	if epoch > p.log.Epoch() {
		return EpochEnd{Epoch: offsets.NoEpoch, End: -1}
	}
	known, end := p.log.EndOffsetFor(epoch)
	return EpochEnd{Epoch: known, End: end}
}

// Serve answers a follower's fetch: whole batches up to the log's end, and what
// the fetch tells of the follower counts from then on (R3). The view is filled in
// also with an error; *log.ErrOffsetOutOfRange tells it where the log begins and
// ends (R7).
func (p *Partition) Serve(f Fetch, maxBytes int, minOne bool) (Read, error) {
	p.mu.Lock()
	if p.gone != nil {
		defer p.mu.Unlock()
		return Read{View: p.view()}, p.gone
	}
	before := p.state.highWatermark
	diverging, err := p.state.Serve(f, leaderEpochs{p})
	member := slices.Contains(p.state.assigned.ISR, f.Follower)
	end := p.state.logEnd
	slow := p.slowLeading
	r := Read{Diverging: diverging}
	bytes := int64(unknown)
	if p.state.followed {
		bytes, p.state.followed = all, false
	}
	r.View = p.tell(bytes, before, end)
	if err != nil || diverging != nil {
		return r, err
	}
	if !member && p.wanted != nil {
		p.wanted(p) // it may be able to join
	}
	if f.At == end {
		return r, nil
	}
	if member {
		slow = nil
	}
	if slow != nil {
		room := slow.room()
		if room == 0 {
			return r, nil // it asks again
		}
		maxBytes = int(min(int64(maxBytes), room))
	}
	got, err := p.log.Read(f.At, maxBytes, end, minOne)
	if err != nil {
		return r, err
	}
	r.Regions, r.Bytes = got.Regions, got.Bytes
	if slow != nil {
		slow.moved(r.Bytes)
	}
	return r, nil
}

// leaderEpochs is the epochs of a leader's log, asked under mu. Its own epoch is the
// last there and needs no look at the log.
type leaderEpochs struct{ p *Partition }

func (l leaderEpochs) EndOffsetFor(epoch offsets.Epoch) (offsets.Epoch, offsets.Offset) {
	if s := l.p.state; s.Leads() && epoch == s.assigned.Epoch {
		return epoch, s.logEnd
	}
	return l.p.log.EndOffsetFor(epoch)
}

// Nearest is the replica that a consumer should ask which wants to read at an
// offset, of those that near picks (KIP-392); NoBroker is this one.
func (p *Partition) Nearest(at offsets.Offset, near func(offsets.BrokerID) bool) offsets.BrokerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Nearest(at, near)
}
