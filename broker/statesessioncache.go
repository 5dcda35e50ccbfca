package broker

// sessionCache decides which fetch sessions are kept. A new one finds a free
// slot, or takes that of
//
//   - the one unused for the longest time, when that is longer than idle, or
//   - the one with the fewest partitions, when the new one has more and the old
//     one has lived for longer than idle,
//
// which are Kafka's rules (max.incremental.fetch.session.cache.slots,
// min.incremental.fetch.session.eviction.ms). Who gets none reads without a
// session. Beyond Kafka's rules their memory is bounded, since the partitions of
// a session need not exist.
type sessionCache struct {
	slots int
	idle  int64 // ms
	room  int64 // bytes

	byID map[int32]*sessionSlot
	held int64 // bytes
}

// sessionSlot is a session's place in the cache.
type sessionSlot struct {
	id      int32
	session *fetchSession
	created int64 // ms
	used    int64 // ms, when the last request began
	parts   int
	bytes   int64
}

func newSessionCache(slots int, idle, room int64) sessionCache {
	return sessionCache{slots: slots, idle: idle, room: room, byID: map[int32]*sessionSlot{}}
}

// open finds a place for a session. evicted lost theirs to it, also when it gets
// none. ids draws positive ids at random.
func (c *sessionCache) open(s *fetchSession, parts int, bytes, now int64, ids func() int32) (slot *sessionSlot, evicted []*fetchSession) {
	for len(c.byID) >= c.slots || c.held+bytes > c.room {
		victim := c.victim(parts, now)
		if victim == nil || bytes > c.room {
			return nil, evicted
		}
		c.remove(victim.id)
		evicted = append(evicted, victim.session)
	}
	slot = &sessionSlot{session: s, created: now, used: now, parts: parts, bytes: bytes}
	for slot.id = ids(); c.byID[slot.id] != nil; slot.id = ids() {
	}
	c.byID[slot.id] = slot
	c.held += bytes
	return slot, evicted
}

// victim is the session that gives way to a new one, or nil.
func (c *sessionCache) victim(parts int, now int64) *sessionSlot {
	var oldest, smallest *sessionSlot
	for _, s := range c.byID {
		if oldest == nil || s.used < oldest.used || s.used == oldest.used && s.id < oldest.id {
			oldest = s
		}
		if s.used-s.created <= c.idle {
			continue
		}
		if smallest == nil || s.parts < smallest.parts || s.parts == smallest.parts && s.id < smallest.id {
			smallest = s
		}
	}
	switch {
	case oldest != nil && now-oldest.used > c.idle:
		return oldest
	case smallest != nil && parts > smallest.parts:
		return smallest
	}
	return nil
}

// touch notes a request of a session and what it holds now. It returns false,
// and takes the session out, when there is no memory for it.
func (c *sessionCache) touch(s *sessionSlot, parts int, bytes, now int64) bool {
	if c.byID[s.id] != s {
		return true // it is closed already, and ends with this request
	}
	c.held += bytes - s.bytes
	s.parts, s.bytes, s.used = parts, bytes, now
	if c.held <= c.room {
		return true
	}
	c.remove(s.id)
	return false
}

// remove takes a session out; nil tells that there is none of that id.
func (c *sessionCache) remove(id int32) *fetchSession {
	s := c.byID[id]
	if s == nil {
		return nil
	}
	delete(c.byID, id)
	c.held -= s.bytes
	return s.session
}

func (c *sessionCache) find(id int32) *fetchSession {
	if s := c.byID[id]; s != nil {
		return s.session
	}
	return nil
}
