package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/replica"
	"sawlog/offsets"
)

// A Fetch inside of a session: what it names is put into the session, the parts
// there may be something to tell of are looked at, and the reply names those of
// which there is.

// enter begins an incremental request and tells whether it goes on from here: it
// doesn't when the session refuses it, which is the reply, or when an earlier
// request of the session must be answered first.
func (st *fetchState) enter() bool {
	sessions := st.sessions()
	s, got := sessions.enter(st)
	switch got {
	case unknown:
		st.refuse(kerr.FetchSessionIDNotFound.Code)
		return false
	case repeated:
		st.refuse(kerr.InvalidFetchSessionEpoch.Code)
		return false
	case busy:
		if !st.waiting {
			st.waiting, st.session = true, s
			st.exchange.Park(st.deadline().Add(maxFetchWait), st)
		}
		return false
	}
	st.waiting, st.session = false, s
	if code := s.state.admit(st.sessionEpoch, st.version >= fetchIDs); code != 0 {
		st.refuse(code)
		return false
	}
	st.merge()
	if len(s.state.parts) == 0 {
		// Nothing is left of the session: the request is one without.
		sessions.closeID(s.slot.id)
		s.leave(st)
		st.session = nil
		return true
	}
	if !sessions.touch(s, nowMilli()) {
		sessions.close(s)
		st.refuse(kerr.FetchSessionIDNotFound.Code)
		return false
	}
	s.state.begin(st.version, st.isolation)
	return true
}

// refuse answers with an error of the session.
func (st *fetchState) refuse(code int16) {
	if st.session != nil {
		st.session.leave(st)
		st.session = nil
	}
	st.waiting = false
	st.code = code
	st.topics = st.topics[:0]
	st.reply()
}

// merge takes what the request says into its session.
func (st *fetchState) merge() {
	s := st.session
	for i := range st.topics {
		t := &st.topics[i]
		in := s.state.topic(t.id, t.name)
		for j := range t.parts {
			s.state.put(in, t.parts[j].ask())
		}
		s.state.prune(in)
	}
	for _, f := range st.forgotten {
		if p := s.state.forget(f.id, f.name, f.index); p != nil {
			s.follow(p, nil, 0)
		}
	}
}

func (part *fetchedPartition) ask() sessionAsk {
	return sessionAsk{index: part.index, epoch: part.epoch, lastEpoch: part.lastEpoch, maxBytes: part.maxBytes, offset: part.offset, start: part.start}
}

// collect makes the lists of the request from the session's live parts. Regions
// found earlier must have been given back.
func (st *fetchState) collect() {
	s := st.session
	s.drain()
	st.topics, st.names = st.topics[:0], st.names[:0]
	var last *sessionTopic
	var t *fetchedTopic
	var found bool
	for _, p := range s.state.ordered() {
		if p.topic != last {
			last = p.topic
			t = st.addTopic()
			t.id = p.topic.id
			if !s.state.byID {
				t.name = st.keepString(p.topic.name)
			}
			found = st.findOfSession(t, p.topic)
		}
		t.parts = append(t.parts, fetchedPartition{
			index: p.index, epoch: p.epoch, offset: p.offset, lastEpoch: p.lastEpoch, maxBytes: p.maxBytes, start: p.start, part: p,
		})
		part := &t.parts[len(t.parts)-1]
		switch {
		case s.state.byID && !found && !p.named:
			part.code, part.missing = kerr.UnknownTopicID.Code, true
		case t.found == nil:
			part.code, part.missing = kerr.UnknownTopicOrPartition.Code, true
		case s.state.byID && !found: // another topic of that name
			st.findPartition(t.found, part)
			if part.replica = nil; !part.missing {
				part.code = kerr.InconsistentTopicID.Code
			}
		default:
			p.named = s.state.byID
			st.findPartition(t.found, part)
		}
		if st.resumed && part.replica == nil && p.watch.replica != nil {
			part.missing = false // it was there when the request came
		}
		s.follow(p, part.replica, version(part.replica))
	}
}

func version(p *replica.Partition) uint64 {
	if p == nil {
		return 0
	}
	return p.View().Version
}

func (st *fetchState) keepString(name string) []byte {
	st.names = append(st.names, name...)
	return st.names[len(st.names)-len(name):]
}

// findOfSession looks a session's topic up. By its id, a topic that was there
// and is gone is looked for by the name it had, as Kafka does; ok is false for
// that, since what is found then is another topic.
func (st *fetchState) findOfSession(t *fetchedTopic, in *sessionTopic) (ok bool) {
	topics := st.broker.topics
	if !st.session.state.byID {
		t.found = topics.name(t.name)
		return t.found != nil
	}
	if t.found = topics.id(t.id); t.found != nil {
		in.name = t.found.meta.Name
		return true
	}
	if in.name != "" {
		t.found = topics.name([]byte(in.name))
	}
	return false
}

// findOf is what the last look at a part found.
func (st *fetchState) findOf(part *fetchedPartition) sessionFind {
	f := sessionFind{sessionTold: part.told(), code: part.code, bytes: part.got.Bytes, diverging: part.got.Diverging != nil || part.nearer != 0}
	limit := part.got.View.HighWatermark
	switch {
	case st.follower:
		limit = part.got.View.LogEnd
	case st.isolation == 1:
		limit = part.got.View.LastStable
	}
	f.rest = offsets.Offset(part.offset) < limit
	return f
}

// parkInSession waits for the parts of the session, whose quiet ones are heard
// of without looking at them.
func (st *fetchState) parkInSession() {
	s := st.session
	s.need.Store(st.enough() - st.bytes)
	st.settle()
	s.parked.Store(st.exchange)
	if s.stirred() {
		st.exchange.Wake()
	}
	st.exchange.Park(st.deadline(), st)
}

// settle lets go of what was looked at without an answer.
func (st *fetchState) settle() {
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			parts[j].part.settle(st.findOf(&parts[j]))
		}
	}
	st.giveBack()
}

// resumeInSession looks again.
func (st *fetchState) resumeInSession(expired bool) {
	if st.waiting {
		switch {
		case expired:
			st.refuse(kerr.InvalidFetchSessionEpoch.Code)
		case st.enter():
			st.look()
		}
		return
	}
	s := st.session
	s.need.Store(st.enough())
	st.resumed = true
	st.collect()
	st.read()
	if !st.satisfied() && !expired {
		s.need.Add(-st.bytes)
		st.settle()
		return
	}
	st.reply()
}

// pick leaves out of the reply what is no news.
func (st *fetchState) pick() {
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			parts[j].silent = !parts[j].part.news(st.findOf(&parts[j]))
		}
	}
}

// open makes a session of a full request, when there is room for one.
func (st *fetchState) open() {
	n := 0
	for i := range st.topics {
		n += len(st.topics[i].parts)
	}
	s := st.sessions().open(st, n, nowMilli())
	if s == nil {
		return
	}
	st.session = s
	s.state.version, s.state.isolation = st.version, st.isolation
	for i := range st.topics {
		t := &st.topics[i]
		var name []byte
		if !s.state.byID {
			name = t.name
		}
		in := s.state.topic(t.id, name)
		if t.found != nil {
			in.name = t.found.meta.Name
		}
		for j := range t.parts {
			part := &t.parts[j]
			part.part = s.state.put(in, part.ask())
			part.part.named = s.state.byID && t.found != nil
			s.follow(part.part, part.replica, part.got.View.Version)
		}
		s.state.prune(in)
	}
}

// sent takes note of a reply that leaves, or that can't, and ends the work on
// the session.
func (st *fetchState) sent(leaves bool) {
	s := st.session
	if s == nil {
		return
	}
	if !leaves && st.sessionEpoch == openSession {
		st.sessions().closeID(s.slot.id)
	}
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			if !leaves {
				continue
			}
			p, f := parts[j].part, st.findOf(&parts[j])
			p.sent(f)
			if f.bytes > 0 && st.sessionEpoch != openSession {
				s.state.served(p)
			}
			p.settle(f)
		}
	}
	s.leave(st)
}
