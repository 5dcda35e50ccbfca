package broker

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"sawlog/broker/replica"
	"sawlog/broker/wire"
)

// The shell of the fetch sessions: who works on one, and what wakes its parts.
// The rules are in statesession.go and statesessioncache.go.

const (
	sessionSlots = 1000
	sessionIdle  = 120_000   // ms
	sessionRoom  = 128 << 20 // bytes of all sessions
)

// fetchSessions is the sessions of a broker.
type fetchSessions struct {
	mu    sync.Mutex
	cache sessionCache
}

func newFetchSessions() *fetchSessions {
	return &fetchSessions{cache: newSessionCache(sessionSlots, sessionIdle, sessionRoom)}
}

// fetchSession is one session. Whoever is its owner works on state; the
// replicas' events come in by woken.
type fetchSession struct {
	slot     *sessionSlot // nil until it has its place
	state    session
	follower bool // its parts are heard of when their logs grow

	mu     sync.Mutex
	owner  *fetchState   // the request that is being answered
	queue  []*fetchState // requests that came before its answer left
	closed bool

	parked atomic.Pointer[wire.Exchange] // of the owner, when it waits
	need   atomic.Int64                  // bytes that must become readable before it is looked at again

	waking sync.Mutex
	woken  []*sessionPart
}

// watch is a part's ear at its partition.
type watch struct {
	session *fetchSession
	part    *sessionPart
	replica *replica.Partition
	woken   atomic.Bool // part is in session.woken
}

// Wake is the replica's: it holds its lock, so little is done here.
func (w *watch) Wake(bytes int64) {
	s := w.session
	if !w.woken.Swap(true) {
		s.waking.Lock()
		s.woken = append(s.woken, w.part)
		s.waking.Unlock()
	}
	if e := s.parked.Load(); e != nil && (bytes < 0 || s.need.Add(-bytes) <= 0) {
		e.Wake()
	}
}

// follow makes a part hear of another replica, or of none. seen is the version
// of it that was looked at.
func (s *fetchSession) follow(p *sessionPart, r *replica.Partition, seen uint64) {
	if p.watch.replica == r {
		return
	}
	if p.watch.replica != nil {
		p.watch.replica.Unwatch(&p.watch)
	}
	p.watch.session, p.watch.part, p.watch.replica = s, p, r
	switch {
	case r != nil && s.follower:
		r.WatchEnd(&p.watch, seen)
	case r != nil:
		r.Watch(&p.watch, seen)
	}
}

// drain makes the parts live that something happened to.
func (s *fetchSession) drain() {
	s.waking.Lock()
	defer s.waking.Unlock()
	for i, p := range s.woken {
		p.watch.woken.Store(false) // before the look: what comes after it wakes again
		s.state.wake(p)
		s.woken[i] = nil
	}
	s.woken = s.woken[:0]
}

// stirred tells whether something happened since the last drain.
func (s *fetchSession) stirred() bool {
	s.waking.Lock()
	defer s.waking.Unlock()
	return len(s.woken) > 0
}

// entry is what enter decided.
type entry int

const (
	entered  entry = iota
	unknown        // there is no such session
	repeated       // the request is under way already: an answer got lost
	busy           // an earlier request is still to be answered; Wake tells when
)

// enter makes st the owner of the session it names.
func (f *fetchSessions) enter(st *fetchState) (*fetchSession, entry) {
	f.mu.Lock()
	s := f.cache.find(st.sessionID)
	f.mu.Unlock()
	if s == nil {
		return nil, unknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, unknown
	case s.owner == nil:
		s.owner = st
		s.queue = slices.DeleteFunc(s.queue, func(q *fetchState) bool { return q == st })
		return s, entered
	case s.owner.sessionEpoch == st.sessionEpoch:
		return nil, repeated
	case !slices.Contains(s.queue, st):
		s.queue = append(s.queue, st)
	}
	if s.follower { // it has news that don't wait for records
		s.owner.hurried.Store(true)
		s.owner.exchange.Wake()
	}
	return s, busy
}

// leave ends an ownership.
func (s *fetchSession) leave(st *fetchState) {
	s.mu.Lock()
	s.queue = slices.DeleteFunc(s.queue, func(q *fetchState) bool { return q == st })
	if s.owner != st {
		s.mu.Unlock()
		return
	}
	s.parked.Store(nil)
	s.owner = nil
	for _, next := range s.queue {
		next.exchange.Wake()
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.deafen()
	}
}

// close ends the sessions, which are in the cache no more. One with an owner
// ends when that is answered.
func (f *fetchSessions) close(sessions ...*fetchSession) {
	for _, s := range sessions {
		s.mu.Lock()
		again := s.closed
		s.closed = true
		owned := s.owner != nil
		s.mu.Unlock()
		if !owned && !again {
			s.deafen()
		}
	}
}

// closeID ends the session of an id, if there is one.
func (f *fetchSessions) closeID(id int32) {
	f.mu.Lock()
	s := f.cache.remove(id)
	f.mu.Unlock()
	if s != nil {
		f.close(s)
	}
}

// deafen takes all parts off the lists of who waits.
func (s *fetchSession) deafen() {
	for _, p := range s.state.parts {
		s.follow(p, nil, 0)
	}
}

// open makes a session with room for so many partitions, owned by st; nil tells
// that there is no room.
func (f *fetchSessions) open(st *fetchState, parts int, now int64) *fetchSession {
	s := &fetchSession{state: newSession(st.version >= fetchIDs), owner: st, follower: st.follower}
	f.mu.Lock()
	slot, evicted := f.cache.open(s, parts, int64(parts)*sessionPartBytes, now, randomSessionID)
	s.slot = slot
	f.mu.Unlock()
	f.close(evicted...)
	if slot == nil {
		return nil
	}
	return s
}

func randomSessionID() int32 { return 1 + rand.Int32N(math.MaxInt32-1) }

// touch notes that a request of the session goes on; false tells that it has
// grown too large and was closed.
func (f *fetchSessions) touch(s *fetchSession, now int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cache.touch(s.slot, len(s.state.parts), s.state.bytes, now)
}

// count tells how many sessions there are, with how many partitions.
func (f *fetchSessions) count() (sessions, parts int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, slot := range f.cache.byID {
		parts += int64(slot.parts)
	}
	return int64(len(f.cache.byID)), parts
}
