package controller

import "sawlog/offsets"

// Beat is what a broker says of itself again and again, to stay in service.
type Beat struct {
	Broker       offsets.BrokerID
	Epoch        int64
	Applied      uint64 // index of the broker's image
	WantUnfence  bool   // it is ready to serve
	WantShutdown bool   // it wants to leave in good order
	Full         bool   // its disk is full
}

// Beaten is the answer to a Beat.
type Beaten struct {
	Fenced      bool // it is out of service
	MayShutdown bool // it leads nothing, and the others know
}

// sessions are what the active controller knows of brokers by their beats. It
// is in no log: who takes over begins with none, and gives everybody a whole
// session. All times are in ms by one clock.
type sessions struct {
	timeout int64
	brokers map[offsets.BrokerID]*session
	last    int64 // time of the last look
}

// session is one broker's.
type session struct {
	epoch int64
	heard int64
	beat  Beat // the last one; zero = none yet
	// left is the index of the first image seen in which the broker shuts down
	// and leads nothing; 0 = none.
	left uint64
	// fenced is since when it has been out of service, as far as is known;
	// −1 = it isn't. out is the index of the first image seen in which it is.
	fenced int64
	out    uint64
}

func newSessions(timeout, now int64) *sessions {
	return &sessions{timeout: timeout, brokers: map[offsets.BrokerID]*session{}, last: now}
}

// of finds the session of a broker as it is registered now, or begins it.
func (s *sessions) of(b *Broker, now int64, im *Image) *session {
	x := s.brokers[b.ID]
	if x == nil || x.epoch != b.Epoch {
		next := &session{epoch: b.Epoch, heard: now, fenced: -1}
		if x != nil {
			next.fenced, next.out = x.fenced, im.Index
		}
		x = next
		s.brokers[b.ID] = x
	}
	switch {
	case !b.Fenced:
		x.fenced = -1
	case x.fenced < 0:
		x.fenced, x.out = now, im.Index
	}
	return x
}

// beat takes a broker's beat.
func (s *sessions) beat(now int64, beat Beat, im *Image) (Beaten, error) {
	b, ok := im.Broker(beat.Broker)
	switch {
	case !ok:
		return Beaten{}, refuse(ErrUnknownBroker, "Broker ID %d is not currently registered", beat.Broker)
	case b.Epoch != beat.Epoch:
		return Beaten{}, refuse(ErrStaleBrokerEpoch, "broker %d beats with epoch %d, it has %d", beat.Broker, beat.Epoch, b.Epoch)
	}
	x := s.of(b, now, im)
	x.heard, x.beat = now, beat
	return Beaten{Fenced: b.Fenced, MayShutdown: beat.WantShutdown && s.mayShutdown(b, x, im)}, nil
}

// mayShutdown: the broker leads nothing, and all others in service that beat
// know it.
func (s *sessions) mayShutdown(b *Broker, x *session, im *Image) bool {
	switch {
	case !othersInService(im, b.ID):
		return true // nobody can take over
	case !b.ShuttingDown && !b.Fenced, im.Load(b.ID).Leading > 0:
		return false
	case x.left == 0:
		x.left = im.Index
	}
	for i := range im.Brokers {
		other := &im.Brokers[i]
		if other.ID == b.ID || !other.usable() {
			continue
		}
		if o := s.brokers[other.ID]; o == nil || o.epoch != other.Epoch || o.beat.Applied < x.left {
			return false
		}
	}
	return true
}

// othersInService tells whether there are brokers in service besides one.
func othersInService(im *Image, id offsets.BrokerID) bool {
	for i := range im.Brokers {
		if b := &im.Brokers[i]; b.ID != id && b.usable() {
			return true
		}
	}
	return false
}

// lost ends the session of a broker whose process has ended.
func (s *sessions) lost(id offsets.BrokerID, epoch int64) {
	if x := s.brokers[id]; x != nil && x.epoch == epoch {
		x.heard, x.beat = s.last-s.timeout-1, Beat{}
	}
}

// silent tells that a broker, the active controller's before this one, hasn't
// been heard of for some time already. It keeps a third of its session at least.
func (s *sessions) silent(b *Broker, since, now int64, im *Image) {
	x := s.of(b, now, im)
	x.heard = min(x.heard, max(since, now-s.timeout*2/3))
}

// due is what must be changed of the brokers by now: those not heard of are
// taken out of service, those that wish it, and know that they are out, come in,
// or begin to leave; those whose disks are full, or no longer are, are marked.
// When nobody has looked for long, the silence may be the controller's own, and
// everybody is given a whole session.
func (s *sessions) due(now int64, im *Image) (changes []BrokerChange) {
	if now-s.last > s.timeout/2 {
		for _, x := range s.brokers {
			x.heard = max(x.heard, now)
		}
	}
	s.last = now
	for i := range im.Brokers {
		b := &im.Brokers[i]
		x := s.of(b, now, im)
		alive := now-x.heard <= s.timeout
		c := BrokerChange{b.ID, b.Epoch, b.Fenced, b.ShuttingDown, b.Full}
		switch {
		case !b.Fenced && !alive:
			c.Fenced = len(im.Brokers) > 1 // a broker alone is never taken out
		case b.Fenced && alive && x.beat.WantUnfence && x.beat.Applied >= x.out:
			c.Fenced = false
		case !b.ShuttingDown && !b.Fenced && x.beat.WantShutdown:
			c.ShuttingDown = othersInService(im, b.ID)
		}
		if alive && x.beat.WantUnfence {
			c.Full = x.beat.Full && im.writes(fullLevel)
		}
		if c != (BrokerChange{b.ID, b.Epoch, b.Fenced, b.ShuttingDown, b.Full}) {
			changes = append(changes, c)
		}
	}
	return changes
}

// caughtUp tells whether a broker is in service and has an image not older than
// one of an index.
func (s *sessions) caughtUp(id offsets.BrokerID, im *Image, index uint64) bool {
	b, ok := im.Broker(id)
	x := s.brokers[id]
	return ok && b.usable() && x != nil && x.epoch == b.Epoch && x.beat.Applied >= index
}

// beating tells whether a broker, in service or not, was heard of less than a
// session ago.
func (s *sessions) beating(id offsets.BrokerID, now int64) bool {
	x := s.brokers[id]
	return x != nil && x.beat.Epoch != 0 && now-x.heard <= s.timeout
}

// applied is the index of a broker's image at its last beat.
func (s *sessions) applied(id offsets.BrokerID) (uint64, bool) {
	x := s.brokers[id]
	if x == nil || x.beat.Epoch == 0 {
		return 0, false
	}
	return x.beat.Applied, true
}

// fencedFor is how long a broker has been out of service, as far as is known.
func (s *sessions) fencedFor(id offsets.BrokerID, now int64) int64 {
	if x := s.brokers[id]; x != nil && x.fenced >= 0 {
		return now - x.fenced
	}
	return 0
}
