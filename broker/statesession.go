package broker

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/offsets"
)

// session is one fetch session (KIP-227): the partitions a client reads, and
// what it was told of each. The client names a partition once; after that its
// requests say only what changed, and so do the answers.
//
// A part is live when there may be something to tell of it, and quiet when the
// last look found nothing new and nothing to read: only an event of the
// partition makes it live again, so ten thousand idle parts cost a request
// nothing. What the client knows (told) changes by sent alone, which is called
// for answers that leave; all other looks change nothing the client would miss.
type session struct {
	epoch     int32 // that the next request must carry
	byID      bool  // topics are named by ids: requests since version 13
	version   int16 // of the last request; what is quiet for one may not be for another
	isolation int8  // of the last request, likewise

	topics map[sessionName]*sessionTopic
	parts  map[sessionPlace]*sessionPart
	live   []*sessionPart // the live ones, and some that no longer are
	turn   uint64         // the last one given
	bytes  int64          // memory held, by the estimates below
}

// sessionName is how requests of a session name a topic: by one of the two.
type sessionName struct {
	id   offsets.TopicID
	name string
}

type sessionPlace struct {
	topic *sessionTopic
	index int32
}

// sessionTopic is a topic of a session. One named by its id learns its name when
// it is found first, and keeps it when the topic is gone.
type sessionTopic struct {
	id    offsets.TopicID
	name  string
	parts int
}

// sessionPart is a partition of a session: what the client asked for last, and
// what it was told last.
type sessionPart struct {
	topic *sessionTopic
	sessionAsk
	told   sessionTold
	turn   uint64 // lower ones are served first
	named  bool   // the topic was found by its id once
	live   bool
	listed bool // in session.live
	watch  watch
}

// sessionAsk is what a request says of a partition.
type sessionAsk struct {
	index     int32
	epoch     int32
	lastEpoch int32
	maxBytes  int32
	offset    int64
	start     int64 // of a follower's log
}

// sessionTold is what an answer says of a partition besides records.
type sessionTold struct {
	high, stable, start offsets.Offset
}

// sessionFind is what a look at a partition found.
type sessionFind struct {
	sessionTold
	code      int16
	bytes     int  // of records
	rest      bool // there are records, whether or not this answer has room for them
	diverging bool // it has to go elsewhere: back in its log, or to another replica
}

// Memory that a part and a topic take, in bytes, with their places in maps and
// in the lists of who waits for a partition.
const (
	sessionPartBytes  = 256
	sessionTopicBytes = 256
)

func newSession(byID bool) session {
	return session{
		epoch:  1,
		byID:   byID,
		topics: map[sessionName]*sessionTopic{},
		parts:  map[sessionPlace]*sessionPart{},
	}
}

// admit tells whether a request may go on with the session, as an error code.
func (s *session) admit(epoch int32, byID bool) int16 {
	switch {
	case epoch != s.epoch:
		return kerr.InvalidFetchSessionEpoch.Code
	case byID != s.byID:
		return kerr.FetchSessionTopicIDError.Code
	}
	return 0
}

// begin notes that a request goes on. The epoch moves now, not when the answer
// leaves: a request whose answer was lost can't be repeated.
func (s *session) begin(version int16, isolation int8) {
	s.epoch = nextSessionEpoch(s.epoch)
	if version == s.version && isolation == s.isolation {
		return
	}
	s.version, s.isolation = version, isolation
	for _, p := range s.parts {
		s.wake(p)
	}
}

func nextSessionEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// topic finds a topic by its id or its name, and makes it when it is new.
func (s *session) topic(id offsets.TopicID, name []byte) *sessionTopic {
	if t := s.topics[sessionName{id, string(name)}]; t != nil {
		return t
	}
	t := &sessionTopic{id: id, name: string(name)}
	s.topics[sessionName{id, t.name}] = t
	s.bytes += sessionTopicBytes + int64(len(name))
	return t
}

// put adds a partition, or changes what is asked of it. It is live after that.
func (s *session) put(t *sessionTopic, ask sessionAsk) *sessionPart {
	p := s.parts[sessionPlace{t, ask.index}]
	if p == nil {
		s.turn++
		p = &sessionPart{topic: t, told: sessionTold{-1, -1, -1}, turn: s.turn}
		s.parts[sessionPlace{t, ask.index}] = p
		t.parts++
		s.bytes += sessionPartBytes
	}
	p.sessionAsk = ask
	s.wake(p)
	return p
}

// forget takes a partition out; nil tells that it wasn't in.
func (s *session) forget(id offsets.TopicID, name []byte, index int32) *sessionPart {
	key := sessionName{id, string(name)}
	t := s.topics[key]
	if t == nil {
		return nil
	}
	p := s.parts[sessionPlace{t, index}]
	if p == nil {
		return nil
	}
	delete(s.parts, sessionPlace{t, index})
	s.bytes -= sessionPartBytes
	p.live = false
	t.parts--
	s.prune(t)
	return p
}

// prune drops a topic without partitions.
func (s *session) prune(t *sessionTopic) {
	if t.parts > 0 {
		return
	}
	key := sessionName{id: t.id}
	if !s.byID {
		key.name = t.name
	}
	delete(s.topics, key)
	s.bytes -= sessionTopicBytes + int64(len(key.name))
}

// wake makes a part live that is still in the session.
func (s *session) wake(p *sessionPart) {
	if s.parts[sessionPlace{p.topic, p.index}] != p {
		return
	}
	p.live = true
	if !p.listed {
		p.listed = true
		s.live = append(s.live, p)
	}
}

// ordered are the live parts in the order they are to be served.
func (s *session) ordered() []*sessionPart {
	kept := s.live[:0]
	for _, p := range s.live {
		if p.listed = p.live; p.live {
			kept = append(kept, p)
		}
	}
	clear(s.live[len(kept):])
	s.live = kept
	slices.SortFunc(kept, func(a, b *sessionPart) int {
		if a.turn < b.turn {
			return -1
		}
		return 1 // turns differ
	})
	return kept
}

// news tells whether the answer must have the partition in it.
func (p *sessionPart) news(f sessionFind) bool {
	return f.code != 0 || f.bytes > 0 || f.diverging || f.sessionTold != p.told
}

// sent takes note of what an answer that leaves says of a part.
func (p *sessionPart) sent(f sessionFind) {
	if !p.news(f) {
		return
	}
	p.told = f.sessionTold
	if f.code != 0 {
		p.told.high = -1 // when the error goes, there is something to tell
	}
}

// served puts a part whose records an answer carries at the end of the line, so
// that those behind it come to their turn when answers are full.
func (s *session) served(p *sessionPart) {
	s.turn++
	p.turn = s.turn
}

// settle makes a part quiet when nothing is left to tell of it.
func (p *sessionPart) settle(f sessionFind) {
	if !p.news(f) && !f.rest {
		p.live = false
	}
}
