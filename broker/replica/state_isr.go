package replica

import (
	"slices"

	"sawlog/offsets"
)

// Member is a replica in an ISR, with the broker epoch it is known under.
type Member struct {
	ID    offsets.BrokerID
	Epoch int64
}

// ISRProposal is an ISR a leader asks the controller for.
type ISRProposal struct {
	LeaderEpoch    offsets.Epoch
	PartitionEpoch offsets.Epoch
	ISR            []Member // the leader among them
	Recovering     bool
}

// Outcome is what became of a proposal.
type Outcome int8

// The outcomes. A granted one takes effect by the Assignment that follows.
const (
	Granted   Outcome = iota
	Refused           // nothing was changed, nor will be by this ask
	Lost              // no answer: it may have been granted, or be granted yet
	Overtaken         // the partition has changed; the news is on its way
)

// Propose tells which ISR to ask for, if another than the present one, and
// counts its members for the high watermark from now on (H1). usable gives the
// present epoch of a broker that may be a member. One ask at a time is in
// flight: each needs its Answered or a later Assign. Call it when a follower
// fetched and from time to time: it also lets go what waited for a joiner.
func (s *State) Propose(now int64, usable func(offsets.BrokerID) (brokerEpoch int64, ok bool), maxLag int64) (ISRProposal, bool) {
	if !s.Leads() {
		return ISRProposal{}, false
	}
	s.now = max(s.now, now)
	for i := range s.followers { // who holds all there is needn't fetch to say so
		if f := &s.followers[i]; f.fetched && f.end >= s.logEnd {
			f.caughtUp = s.now
		}
	}
	s.settle()
	own, ok := usable(s.self)
	if s.asking || !ok {
		return ISRProposal{}, false
	}
	p := ISRProposal{
		LeaderEpoch:    s.assigned.Epoch,
		PartitionEpoch: s.assigned.PartitionEpoch,
		ISR:            []Member{{s.self, own}},
	}
	// An ask whose answer was lost is repeated, or overtaken by a new one, even
	// if that changes nothing: only a new partition epoch makes it void.
	changed := s.doubt
	for _, id := range s.assigned.Replicas {
		if id == s.self {
			continue
		}
		epoch, alive := usable(id)
		member := slices.Contains(s.assigned.ISR, id)
		stays := alive && member && !s.lags(id, maxLag)
		joins := alive && !member && !s.assigned.Recovering && s.mayJoin(id, epoch)
		if stays || joins {
			p.ISR = append(p.ISR, Member{id, epoch})
		}
		changed = changed || stays != member || joins
	}
	if !changed && !s.assigned.Recovering {
		return ISRProposal{}, false
	}
	for _, m := range p.ISR {
		if !slices.Contains(s.asked, m.ID) {
			s.asked = append(s.asked, m.ID)
		}
	}
	s.asking = true
	s.settle()
	return p, true
}

// Answered tells what became of a proposal (I4). What may still be granted
// goes on counting for the high watermark.
func (s *State) Answered(p ISRProposal, o Outcome) {
	if !s.asking || p.LeaderEpoch != s.assigned.Epoch || p.PartitionEpoch != s.assigned.PartitionEpoch {
		return
	}
	switch o {
	case Refused:
		s.asking = false
		if !s.doubt {
			s.asked = nil
		}
	case Lost:
		s.asking, s.doubt = false, true
	case Granted, Overtaken: // the Assignment ends it
	}
	s.settle()
}

// mayJoin tells whether a follower may be proposed for the ISR (I1): in this
// leader epoch and under its present registration it was seen to hold all that
// is committed, and all that this leader began its epoch with.
func (s *State) mayJoin(id offsets.BrokerID, brokerEpoch int64) bool {
	f := s.follower(id)
	return f != nil && f.fetched && f.brokerEpoch == brokerEpoch && f.end >= s.highWatermark && f.end >= s.epochStart
}

// lags tells whether a member has been behind for too long (I2).
func (s *State) lags(id offsets.BrokerID, maxLag int64) bool {
	f := s.follower(id)
	if f == nil {
		return true
	}
	return s.now-f.caughtUp > maxLag
}
