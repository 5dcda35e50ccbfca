package replica

import (
	"sync"
	"time"

	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Waiter is a request that waits for a partition. Wake is called when bytes
// more of the partition became readable, or with −1 when anything else changed;
// it must not block and may be called too often.
type Waiter interface {
	Wake(bytes int64)
}

// View is what of a partition may be seen at one moment. Version changes with
// every part of it.
type View struct {
	Leads         bool
	Epoch         offsets.Epoch
	Leader        offsets.BrokerID
	LogStart      offsets.Offset
	LastStable    offsets.Offset
	HighWatermark offsets.Offset
	Version       uint64
}

// Partition is one replica on this broker.
type Partition struct {
	log *log.Log

	// leading is held for reading by appends, and for writing while leadership
	// changes: no append straddles two epochs.
	leading sync.RWMutex

	mu       sync.Mutex
	state    *State
	version  uint64
	gone     bool
	waiters  []Waiter
	advanced func(offsets.Offset) // told every new high watermark; may be nil
}

// New makes the replica of a log. advanced, when not nil, is told the high
// watermark each time it moved, in no particular order between goroutines.
func New(self offsets.BrokerID, l *log.Log, advanced func(offsets.Offset)) *Partition {
	return &Partition{
		log:      l,
		state:    NewState(self, l.Start(), l.End()),
		advanced: advanced,
	}
}

// Log is the partition's log.
func (p *Partition) Log() *log.Log { return p.log }

// Assign takes over what the controller decided.
func (p *Partition) Assign(a Assignment) {
	p.leading.Lock()
	defer p.leading.Unlock()
	p.change(-1, func(s *State) {
		// Nothing is appended now, so the log's end is that of the epoch before.
		s.logStart, s.logEnd = p.log.Start(), p.log.End()
		s.Assign(a, time.Now().UnixMilli())
	})
}

// Gone tells that the partition was deleted: all who wait learn it.
func (p *Partition) Gone() {
	p.leading.Lock()
	defer p.leading.Unlock()
	p.change(-1, func(*State) { p.gone = true })
}

// Trimmed tells that the log start moved.
func (p *Partition) Trimmed() {
	p.change(-1, func(s *State) { s.Trimmed(p.log.Start()) })
}

// change runs one event and tells everybody who cares. bytes is how much became
// readable if the high watermark moves, −1 when that isn't known.
func (p *Partition) change(bytes int64, event func(*State)) {
	p.mu.Lock()
	before := *p.state
	event(p.state)
	p.version++
	moved := p.state.highWatermark != before.highWatermark
	// An append that moved nothing visible wakes nobody.
	if moved || bytes < 0 {
		for _, w := range p.waiters {
			w.Wake(bytes)
		}
	}
	high := p.state.highWatermark
	p.mu.Unlock()
	if moved && p.advanced != nil {
		p.advanced(high)
	}
}

// View is what may be seen now.
func (p *Partition) View() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view()
}

func (p *Partition) view() View {
	s := p.state
	return View{
		Leads:         s.Leads() && !p.gone,
		Epoch:         s.assigned.Epoch,
		Leader:        s.assigned.Leader,
		LogStart:      s.logStart,
		LastStable:    s.lastStable,
		HighWatermark: s.highWatermark,
		Version:       p.version,
	}
}

// check is View after the tests that stand before every request: the epoch the
// client knows (NoEpoch = none told) before leadership.
func (p *Partition) check(epoch offsets.Epoch) (View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view()
	switch {
	case p.gone:
		return v, ErrGone
	case epoch != offsets.NoEpoch && epoch < v.Epoch:
		return v, ErrFencedEpoch
	case epoch != offsets.NoEpoch && epoch > v.Epoch:
		return v, ErrUnknownEpoch
	case !v.Leads:
		return v, ErrNotLeader
	}
	return v, nil
}

// Append is what an append asks for.
type Append struct {
	All      bool           // acks=all: refuse when too few replicas are in sync
	Epoch    offsets.Epoch  // append only in this leader epoch; NoEpoch = any
	Now      int64          // milliseconds
	Internal bool           // written by the broker itself
	Into     []log.Appended // memory for the results; may be nil
}

// Ticket is an append whose acknowledgement is due once it is committed in the
// epoch it was written in.
type Ticket struct {
	Epoch offsets.Epoch
	End   offsets.Offset
}

// Append writes batches as the leader. The results are in the batches' order;
// with an error nothing was written.
func (p *Partition) Append(batches []record.Batch, a Append) ([]log.Appended, Ticket, error) {
	p.leading.RLock()
	defer p.leading.RUnlock()
	v, err := p.check(a.Epoch)
	if err != nil {
		return nil, Ticket{}, err
	}
	if a.All && p.underMinISR() {
		return nil, Ticket{}, ErrNotEnoughReplicas
	}
	results, err := p.log.Append(batches, log.Append{Epoch: v.Epoch, Now: a.Now, Internal: a.Internal, Into: a.Into})
	if err != nil {
		return nil, Ticket{}, err
	}
	ticket := Ticket{Epoch: v.Epoch}
	var bytes int64
	for i, r := range results {
		ticket.End = max(ticket.End, r.Last+1)
		if !r.Duplicate {
			bytes += int64(len(batches[i]))
		}
	}
	p.change(bytes, p.grown)
	return results, ticket, nil
}

// grown takes the log's end into the state. The log is asked under mu, so that
// of two appends the later end is never overwritten by the earlier.
func (p *Partition) grown(s *State) {
	unstable, ok := p.log.FirstUnstable()
	if !ok {
		unstable = -1
	}
	s.Appended(p.log.End(), unstable)
}

func (p *Partition) underMinISR() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.UnderMinISR()
}

// Committed tells whether an append is safe, or why it will not be known to be.
func (p *Partition) Committed(t Ticket) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s := p.state; {
	case p.gone:
		return false, ErrGone
	case !s.Leads() || s.assigned.Epoch != t.Epoch:
		return false, ErrNotLeader
	case s.UnderMinISR():
		return false, ErrNotEnoughAfterAppend
	default:
		return s.highWatermark >= t.End, nil
	}
}

// Watch registers w until Unwatch. If the partition changed since version seen,
// w is woken at once.
func (p *Partition) Watch(w Waiter, seen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters = append(p.waiters, w)
	if p.version != seen {
		w.Wake(-1)
	}
}

// Unwatch takes w off the list.
func (p *Partition) Unwatch(w Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, have := range p.waiters {
		if have == w {
			last := len(p.waiters) - 1
			p.waiters[i] = p.waiters[last]
			p.waiters[last] = nil
			p.waiters = p.waiters[:last]
			return
		}
	}
}

// Ask is what a reader wants.
type Ask struct {
	At        offsets.Offset
	MaxBytes  int
	MinOne    bool          // at least one batch, however large
	Committed bool          // isolation: below the last stable offset only
	Epoch     offsets.Epoch // leader epoch the reader knows, or NoEpoch
	LastEpoch offsets.Epoch // epoch of the record before At, or NoEpoch
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
	v, err := p.check(a.Epoch)
	r := Read{View: v}
	if err != nil {
		return r, err
	}
	if a.LastEpoch != offsets.NoEpoch {
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
	if a.At == limit {
		return r, nil // at the end, as most reads of idle partitions
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

// Latest is the offset the next readable record will get.
func (p *Partition) Latest(epoch offsets.Epoch, committed bool) (offsets.Offset, offsets.Epoch, error) {
	v, err := p.check(epoch)
	if err != nil {
		return 0, offsets.NoEpoch, err
	}
	p.mu.Lock()
	trusted := p.state.Trusted()
	p.mu.Unlock()
	switch {
	case !trusted:
		return 0, offsets.NoEpoch, ErrOffsetNotAvailable
	case committed:
		return v.LastStable, v.Epoch, nil
	default:
		return v.HighWatermark, v.Epoch, nil
	}
}

// Check tells whether a request may be served by this replica.
func (p *Partition) Check(epoch offsets.Epoch) (View, error) { return p.check(epoch) }
