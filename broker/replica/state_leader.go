package replica

import (
	"slices"

	"sawlog/broker/log"
	"sawlog/offsets"
)

// follower is what a leader knows of one follower, from fetches in its own
// epoch that didn't diverge (R3).
type follower struct {
	id          offsets.BrokerID
	fetched     bool           // false: nothing but the time it is given to begin
	brokerEpoch int64          // of its last fetch
	start, end  offsets.Offset // what its log held then
	caughtUp    int64          // when it last held all there was
	leaderEnd   offsets.Offset // our log end at its last fetch
	at          int64          // time of its last fetch
}

// Epochs is the history of leader epochs in a log. EndOffsetFor answers which
// epoch, not above the asked one, the log knows last, and where it ends;
// NoEpoch when it knows none.
type Epochs interface {
	EndOffsetFor(offsets.Epoch) (offsets.Epoch, offsets.Offset)
}

// Fetch is what a follower says of itself when it fetches.
type Fetch struct {
	Follower    offsets.BrokerID
	BrokerEpoch int64          // registration it runs under (KIP-903)
	LeaderEpoch offsets.Epoch  // the epoch it follows in; must be told (R1)
	At          offsets.Offset // its log end
	LastEpoch   offsets.Epoch  // epoch of its record before At, NoEpoch = it has none (R2)
	Start       offsets.Offset // its log start
	Now         int64
}

// lead begins an epoch as the leader: nothing that is known of followers counts
// any more, and all get their time to catch up (I1, I2).
func (s *State) lead() {
	s.epochStart = s.logEnd
	s.followers = nil
	for _, id := range s.assigned.Replicas {
		if id != s.self {
			s.followers = append(s.followers, follower{id: id, caughtUp: s.now})
		}
	}
}

// dismiss forgets followers that aren't replicas any more. Those that left the
// ISR are not waited for as if they were about to join it.
func (s *State) dismiss(was []offsets.BrokerID) {
	s.followers = slices.DeleteFunc(s.followers, func(f follower) bool { return !slices.Contains(s.assigned.Replicas, f.id) })
	for i := range s.followers {
		f := &s.followers[i]
		if slices.Contains(was, f.id) && !slices.Contains(s.assigned.ISR, f.id) {
			f.caughtUp = never
		}
	}
}

// Serve decides on a follower's fetch, before anything is read for it. With nil
// it may have what lies from At to the log end, and what it told counts. A
// diverging end tells it to cut back, an error that it gets nothing; then it
// told nothing either (R3). The log end must have been told by Appended before.
func (s *State) Serve(f Fetch, ours Epochs) (diverging *EpochEnd, err error) {
	if f.LeaderEpoch == offsets.NoEpoch {
		return nil, ErrUnknownEpoch
	}
	if err := s.Check(f.LeaderEpoch); err != nil {
		return nil, err
	}
	if f.Follower == s.self || !slices.Contains(s.assigned.Replicas, f.Follower) {
		return nil, ErrUnknownEpoch // it knows a later assignment than this broker
	}
	// R7. A log that ends where ours begins has nothing that could be compared
	// with ours; what it holds may be another leader's. It begins anew.
	if f.At < s.logStart || f.At == s.logStart && f.Start < f.At {
		return nil, &log.ErrOffsetOutOfRange{At: f.At, Start: s.logStart, End: s.logEnd}
	}
	if f.LastEpoch != offsets.NoEpoch {
		// An epoch that isn't known here diverges, it isn't out of range: else
		// a follower with an epoch that wrote nothing here would never get on.
		epoch, end := ours.EndOffsetFor(f.LastEpoch)
		if epoch != offsets.NoEpoch && (epoch < f.LastEpoch || end < f.At) { // R2
			return &EpochEnd{Epoch: epoch, End: min(end, s.logEnd)}, nil
		}
	}
	if f.At > s.logEnd {
		return nil, &log.ErrOffsetOutOfRange{At: f.At, Start: s.logStart, End: s.logEnd}
	}
	s.fetched(f)
	return nil, nil
}

// fetched notes that a follower holds all below f.At.
func (s *State) fetched(f Fetch) {
	s.now = max(s.now, f.Now)
	known := s.follower(f.Follower)
	if known == nil {
		s.followers = append(s.followers, follower{id: f.Follower})
		known = &s.followers[len(s.followers)-1]
	}
	if known.fetched && f.BrokerEpoch < known.brokerEpoch {
		return // sent before a restart: that broker may have lost what it had
	}
	switch {
	case f.At >= s.logEnd:
		known.caughtUp = s.now
	case known.fetched && f.At >= known.leaderEnd:
		known.caughtUp = max(known.caughtUp, known.at)
	}
	s.followed = s.followed || known.start != f.Start
	known.fetched, known.brokerEpoch = true, f.BrokerEpoch
	known.start, known.end = f.Start, f.At
	known.leaderEnd, known.at = s.logEnd, s.now
	s.settle()
}

// LowWatermark is the lowest log start of the replicas on brokers that are alive:
// no reader gets what is below. −1: one of them hasn't told yet.
func (s *State) LowWatermark(alive func(offsets.BrokerID) bool) offsets.Offset {
	low := s.logStart
	for _, id := range s.assigned.Replicas {
		if id == s.self || !alive(id) {
			continue
		}
		f := s.follower(id)
		if f == nil || !f.fetched {
			return -1
		}
		low = min(low, f.start)
	}
	return low
}

func (s *State) follower(id offsets.BrokerID) *follower {
	for i := range s.followers {
		if s.followers[i].id == id {
			return &s.followers[i]
		}
	}
	return nil
}

// EffectiveMinISR is min.insync.replicas, but never more than there are replicas.
func (s *State) EffectiveMinISR() int {
	return max(1, min(s.assigned.MinISR, len(s.assigned.Replicas)))
}

// UnderMinISR tells whether too few replicas are in sync for acks=all (H2, H4).
func (s *State) UnderMinISR() bool { return len(s.assigned.ISR) < s.EffectiveMinISR() }

// Trusted tells whether the high watermark is known to be true (H3).
func (s *State) Trusted() bool { return s.Leads() && s.highWatermark >= s.epochStart }

// never is a time before all others.
const never = -1 << 60

// Committed tells whether what was appended up to an end in a leader epoch is
// safe: whether acks=all may be acknowledged, or why that will not be known. It
// is bound to the epoch, however far the high watermark is.
func (s *State) Committed(epoch offsets.Epoch, end offsets.Offset) (bool, error) {
	switch {
	case !s.Leads() || s.assigned.Epoch != epoch:
		return false, ErrNotLeader
	case s.stranded && s.highWatermark < end:
		return false, ErrNotLeader
	case s.UnderMinISR():
		return false, ErrNotEnoughAfterAppend // H4
	}
	return s.highWatermark >= end, nil
}

// Strand tells a leader that its broker is cut off from the cluster, and from
// which others; nil tells that it no longer is. While a replica that counts for
// the high watermark is among those, nothing can be committed here, and another
// broker may lead already: who asks for an append is to look for that one. What
// is committed already stays acknowledged. It answers whether that is news.
func (s *State) Strand(silent func(offsets.BrokerID) bool) bool {
	was := s.stranded
	s.stranded = silent != nil && s.Leads() && slices.ContainsFunc(s.assigned.Replicas, func(id offsets.BrokerID) bool {
		return id != s.self && s.Counts(id) && silent(id)
	})
	return s.stranded != was
}

// Stranded tells whether nothing can be committed here, see Strand.
func (s *State) Stranded() bool { return s.stranded }

// joinWait is how long, in milliseconds, the high watermark waits for the next
// fetch of a follower that is about to join: without it a follower slower than
// the others would never be seen at the high watermark while records come in.
const joinWait = 100

// Counts tells whether the high watermark waits for a broker as a member of the
// maximal ISR.
func (s *State) Counts(id offsets.BrokerID) bool {
	return slices.Contains(s.assigned.ISR, id) || slices.Contains(s.asked, id)
}

// lowestEnd is the lowest log end over the maximal ISR and those about to join
// it (H1).
func (s *State) lowestEnd() offsets.Offset {
	lowest := s.logEnd
	for _, isr := range [2][]offsets.BrokerID{s.assigned.ISR, s.asked} {
		for _, id := range isr {
			if id == s.self {
				continue
			}
			f := s.follower(id)
			if f == nil || !f.fetched {
				return s.highWatermark
			}
			lowest = min(lowest, f.end)
		}
	}
	for i := range s.followers {
		f := &s.followers[i]
		if f.fetched && f.end >= s.epochStart && s.now-f.at <= joinWait && s.now-f.caughtUp <= joinWait {
			lowest = min(lowest, f.end)
		}
	}
	return lowest
}

// Nearest is the replica a consumer that wants to read at an offset should ask
// instead of this leader: of those that near picks, the one in sync that holds
// the offset and most after it (E9). NoBroker: none is better than the leader.
func (s *State) Nearest(at offsets.Offset, near func(offsets.BrokerID) bool) offsets.BrokerID {
	best, end := offsets.NoBroker, offsets.Offset(-1)
	if !s.Leads() || near(s.self) {
		return best
	}
	for i := range s.followers {
		f := &s.followers[i]
		if f.fetched && f.end > end && f.start <= at && at <= f.end && slices.Contains(s.assigned.ISR, f.id) && near(f.id) {
			best, end = f.id, f.end
		}
	}
	return best
}
