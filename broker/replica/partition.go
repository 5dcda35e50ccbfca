package replica

import (
	"sync"
	"time"

	"sawlog/broker/log"
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
	LogEnd        offsets.Offset
	Version       uint64
}

// Partition is one replica on this broker.
type Partition struct {
	log *log.Log

	// leading is held for reading by a leader's appends, and for writing while
	// leadership changes and while a follower works on its log: no append
	// straddles two epochs.
	leading sync.RWMutex
	still   bool // between Quiesce and Assign; under leading

	mu        sync.Mutex
	state     *State
	version   uint64
	gone      error                // why the replica is no more: ErrGone or ErrNotLeader; nil while it is
	waiters   []Waiter             // for what may be read
	followers []Waiter             // for the log's end
	commits   []commit             // appends that are not decided yet
	advanced  func(offsets.Offset) // told every new high watermark; may be nil
	wanted    func(*Partition)     // told when its ISR may have to change; may be nil
	// What holds it up while it, or who follows it, isn't in sync; nil = nothing.
	slowLeading, slowFollowing *Throttle
	pending                    bool // it is in the Keeper's list; under the Keeper's mu
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

// OnISR names who is told when the ISR may have to change: a Keeper. Called
// before the replica is used.
func (p *Partition) OnISR(wanted func(*Partition)) { p.wanted = wanted }

// Quiesce ends all appends until the next Assign: what is recorded of the log's
// end in between stays true.
func (p *Partition) Quiesce() {
	p.leading.Lock()
	p.still = true
	p.leading.Unlock()
}

// Assign takes over what the controller decided.
func (p *Partition) Assign(a Assignment) {
	p.leading.Lock()
	p.still = false
	p.change(all, func(s *State) {
		// Nothing is appended now, so the log's end is that of the epoch before.
		s.Trimmed(p.log.Start())
		s.Appended(p.log.End(), p.unstable())
		s.Assign(a, time.Now().UnixMilli())
	})
	if a.Leader != p.state.self && a.Leader != offsets.NoBroker {
		p.unhole()
	}
	p.leading.Unlock()
	if p.wanted != nil && a.Leader == p.state.self {
		p.wanted(p)
	}
}

// unhole cuts a follower's log where a power cut left the first hole in it: the
// leader has what was there, and whoever fetches from a log's end is taken to
// have all before it. A log that can't be cut ends the whole disk.
func (p *Partition) unhole() {
	holes := p.log.Damage()
	if len(holes) == 0 {
		return
	}
	first := holes[0].From
	for _, h := range holes {
		first = min(first, h.From)
	}
	_, _ = p.cut(first)
}

// Gone tells that the partition was deleted: all who wait learn it.
func (p *Partition) Gone() { p.end(ErrGone) }

// Left tells that the partition went on to other brokers: what waits here is to
// be asked for there.
func (p *Partition) Left() { p.end(ErrNotLeader) }

func (p *Partition) end(why error) {
	p.leading.Lock()
	defer p.leading.Unlock()
	p.change(all, func(*State) { p.gone = why })
}

// LowWatermark is below what no reader gets any records, see State.LowWatermark.
func (p *Partition) LowWatermark(alive func(offsets.BrokerID) bool) (offsets.Offset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.judge(offsets.NoEpoch, false); err != nil {
		return -1, err
	}
	return p.state.LowWatermark(alive), nil
}

// Trimmed tells that the log start moved.
func (p *Partition) Trimmed() {
	p.change(all, func(s *State) { s.Trimmed(p.log.Start()) })
}

// Strand tells that this broker is cut off from the silent ones, nil that it no
// longer is: who waits for what can't be committed then learns to look elsewhere.
func (p *Partition) Strand(silent func(offsets.BrokerID) bool) {
	p.mu.Lock()
	if !p.state.Strand(silent) {
		p.mu.Unlock()
		return
	}
	p.tell(all, p.state.highWatermark, p.state.logEnd)
}

// What change tells waiters when it isn't a number of bytes.
const (
	unknown = -1 // how much became readable isn't known
	all     = -2 // all who wait are to look again, whatever moved
)

// change runs one event and tells everybody who cares. bytes is how much became
// readable if the high watermark or the log's end moves, or one of the above.
func (p *Partition) change(bytes int64, event func(*State)) {
	p.mu.Lock()
	before, end := p.state.highWatermark, p.state.logEnd
	event(p.state)
	p.tell(bytes, before, end)
}

// tell ends a change that began with a high watermark and a log end, unlocks, and
// returns what may be seen after it.
func (p *Partition) tell(bytes int64, before, end offsets.Offset) View {
	high := p.state.highWatermark
	moved, grown := high != before, p.state.logEnd != end
	if moved || grown || bytes == all {
		p.version++
	}
	if moved || bytes == all { // an append that moved nothing visible wakes followers only
		for _, w := range p.waiters {
			w.Wake(max(bytes, unknown))
		}
		p.decide(bytes == all)
	}
	if moved || grown || bytes == all {
		if !grown {
			bytes = unknown // a high watermark is told to followers at once
		}
		for _, w := range p.followers {
			w.Wake(max(bytes, unknown))
		}
	}
	v := p.view()
	p.mu.Unlock()
	if moved && p.advanced != nil {
		p.advanced(high)
	}
	return v
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
		Leads:         s.Leads() && p.gone == nil,
		Epoch:         s.assigned.Epoch,
		Leader:        s.assigned.Leader,
		LogStart:      s.logStart,
		LastStable:    s.lastStable,
		HighWatermark: s.highWatermark,
		LogEnd:        s.logEnd,
		Version:       p.version,
	}
}

// check is View after the tests that stand before every request: the epoch the
// client knows (NoEpoch = none told) before leadership, which any makes no matter.
func (p *Partition) check(epoch offsets.Epoch, any bool) (View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judge(epoch, any)
}

// judge is check with mu held.
func (p *Partition) judge(epoch offsets.Epoch, any bool) (View, error) {
	v := p.view()
	switch {
	case p.gone != nil:
		return v, p.gone
	case epoch != offsets.NoEpoch && epoch < v.Epoch:
		return v, ErrFencedEpoch
	case epoch != offsets.NoEpoch && epoch > v.Epoch:
		return v, ErrUnknownEpoch
	case !v.Leads && !any:
		return v, ErrNotLeader
	}
	return v, nil
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

// WatchEnd is Watch for a follower, who reads up to the log's end.
func (p *Partition) WatchEnd(w Waiter, seen uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers = append(p.followers, w)
	if p.version != seen {
		w.Wake(-1)
	}
}

// Unwatch takes w off the lists.
func (p *Partition) Unwatch(w Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters = without(p.waiters, w)
	p.followers = without(p.followers, w)
}

// without takes w out of a list whose order doesn't matter.
func without(list []Waiter, w Waiter) []Waiter {
	for i, have := range list {
		if have == w {
			last := len(list) - 1
			list[i] = list[last]
			list[last] = nil
			return list[:last]
		}
	}
	return list
}

// Latest is the offset the next readable record will get.
func (p *Partition) Latest(epoch offsets.Epoch, committed bool) (offsets.Offset, offsets.Epoch, error) {
	v, err := p.check(epoch, false)
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
func (p *Partition) Check(epoch offsets.Epoch) (View, error) { return p.check(epoch, false) }
