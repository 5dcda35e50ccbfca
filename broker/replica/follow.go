package replica

import (
	"sawlog/broker/record"
	"sawlog/offsets"
)

// Position is what a follower asks its leader for.
type Position struct {
	Epoch     offsets.Epoch  // it follows in
	At        offsets.Offset // its log end
	LastEpoch offsets.Epoch  // of its last record, NoEpoch = it has none
	Start     offsets.Offset // its log start
}

// Answer is what a leader told for a Position.
type Answer struct {
	Diverging     *EpochEnd      // cut back to here (R2)
	OutOfRange    bool           // the position isn't within [Start, End] of the leader (R7)
	Start, End    offsets.Offset // of the leader's log; End only when out of range
	HighWatermark offsets.Offset
	Records       []byte // whole batches; the memory stays the caller's
}

// Position tells what to ask for next; false when this replica follows nobody.
func (p *Partition) Position() (Position, bool) {
	p.leading.RLock()
	defer p.leading.RUnlock()
	p.mu.Lock()
	s := p.state
	at := Position{Epoch: s.assigned.Epoch, At: s.logEnd, Start: s.logStart}
	follows := p.gone == nil && !p.still && !s.Leads() && s.assigned.Leader != offsets.NoBroker
	p.mu.Unlock()
	at.LastEpoch = p.log.LastEpoch()
	return at, follows
}

// Follow takes in what a leader told. An answer that no longer fits is dropped.
// lost tells that something was cut off that was known to be committed. With
// an error nothing more was taken in than what the log holds.
func (p *Partition) Follow(asked Position, a Answer) (lost bool, err error) {
	p.leading.Lock()
	defer p.leading.Unlock()
	p.mu.Lock()
	takes := p.gone == nil && !p.still && p.state.Takes(asked.Epoch, asked.At)
	p.mu.Unlock()
	if !takes {
		return false, nil
	}
	// Nobody else changes the log's end now, nor who leads.
	switch {
	case a.Diverging != nil:
		return p.cut(p.state.TruncateTo(*a.Diverging, p.log))
	case a.OutOfRange:
		to, anew := p.state.OutOfRange(a.Start, a.End)
		if anew {
			return false, p.restart(to)
		}
		return p.cut(to)
	}
	if len(a.Records) > 0 {
		err = p.take(a.Records)
	}
	// What was written counts also with an error.
	end := p.log.End()
	if start := min(a.Start, end); err == nil && start > p.log.Start() {
		err = p.log.DeleteBefore(start)
	}
	p.change(int64(len(a.Records)), func(s *State) {
		if err == nil {
			s.FollowTo(end, p.unstable(), a.HighWatermark, a.Start)
		} else {
			s.Appended(end, p.unstable())
		}
	})
	return false, err
}

// take appends what a leader sent. Where the leader's log begins within a batch, as
// DeleteRecords leaves it, a log that begins anew there is sent the whole batch: it
// begins with that then (KAFKA-6975), and what is before the leader's start is
// deleted as it is there.
func (p *Partition) take(records []byte) error {
	end := p.log.End()
	first, _, err := record.Split(records)
	if err == nil && p.log.Start() == end && first.BaseOffset() < end && first.LastOffset() >= end && first.CheckCRC() == nil {
		if err := p.restart(first.BaseOffset()); err != nil {
			return err
		}
	}
	return p.log.AppendReplica(records)
}

// cut shortens a follower's log.
func (p *Partition) cut(to offsets.Offset) (lost bool, err error) {
	err = p.log.Truncate(to)
	p.change(all, func(s *State) { lost = s.Truncated(p.log.End(), p.unstable()) })
	return lost, err
}

// restart drops a follower's log, which begins anew at an offset.
func (p *Partition) restart(at offsets.Offset) error {
	if err := p.log.Reset(at); err != nil {
		return err
	}
	p.change(all, func(s *State) { s.Restarted(at) })
	return nil
}
