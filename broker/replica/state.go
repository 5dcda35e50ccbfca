package replica

import (
	"slices"

	"sawlog/offsets"
)

// Assignment is what the controller decided about one partition.
type Assignment struct {
	Leader         offsets.BrokerID
	Epoch          offsets.Epoch
	PartitionEpoch offsets.Epoch
	Replicas       []offsets.BrokerID
	ISR            []offsets.BrokerID
	MinISR         int // min.insync.replicas as configured
}

// State is one partition as one of its replicas sees it.
//
// Invariant: logStart ≤ lastStable ≤ highWatermark ≤ logEnd, kept by settle.
type State struct {
	self     offsets.BrokerID
	assigned Assignment
	proposed []offsets.BrokerID // ISR asked of the controller and not answered yet

	// epochStart is the log end this broker began to lead with (H3).
	epochStart offsets.Offset
	// followers holds, for this epoch only, how far each follower has fetched.
	followers map[offsets.BrokerID]offsets.Offset

	unstable      offsets.Offset // first offset of an open transaction, or −1
	logStart      offsets.Offset
	lastStable    offsets.Offset
	highWatermark offsets.Offset
	logEnd        offsets.Offset
}

// NewState is a replica that was told nothing yet. Its high watermark begins at
// the log start: how far the log is committed is for a leader to say.
func NewState(self offsets.BrokerID, logStart, logEnd offsets.Offset) *State {
	return &State{
		self:          self,
		assigned:      Assignment{Leader: offsets.NoBroker, Epoch: offsets.NoEpoch, PartitionEpoch: offsets.NoEpoch},
		unstable:      -1,
		logStart:      logStart,
		lastStable:    logStart,
		highWatermark: logStart,
		logEnd:        logEnd,
	}
}

// Leads tells whether this broker leads the partition.
func (s *State) Leads() bool { return s.assigned.Leader == s.self }

// Assign takes over what the controller decided and tells whether it was news.
// An assignment of a partition epoch not higher than the one known is old, unless
// only the configured MinISR differs.
func (s *State) Assign(a Assignment) bool {
	if a.PartitionEpoch < s.assigned.PartitionEpoch || a.Epoch < s.assigned.Epoch {
		return false
	}
	if a.PartitionEpoch == s.assigned.PartitionEpoch && a.MinISR == s.assigned.MinISR {
		return false
	}
	if a.Epoch != s.assigned.Epoch {
		s.followers = nil
		s.epochStart = s.logEnd
	}
	s.assigned = a
	s.proposed = nil
	s.settle()
	return true
}

// Propose notes an ISR that is being asked of the controller: its members count
// for the high watermark at once (H1). nil takes it back.
func (s *State) Propose(isr []offsets.BrokerID) { s.proposed = isr }

// Appended tells the log end after an append, and the begin of the oldest open
// transaction or −1.
func (s *State) Appended(end, unstable offsets.Offset) {
	s.logEnd, s.unstable = end, unstable
	s.settle()
}

// Fetched notes that a follower holds all below end, by a fetch in this leader's
// epoch that didn't diverge.
func (s *State) Fetched(follower offsets.BrokerID, end offsets.Offset) {
	if !s.Leads() || !slices.Contains(s.assigned.Replicas, follower) {
		return
	}
	if s.followers == nil {
		s.followers = map[offsets.BrokerID]offsets.Offset{}
	}
	s.followers[follower] = min(end, s.logEnd)
	s.settle()
}

// Trimmed tells that records below start are gone.
func (s *State) Trimmed(start offsets.Offset) {
	s.logStart = start
	s.settle()
}

// MayJoin tells whether a follower may be proposed for the ISR: it holds all
// that is committed and all that this leader began its epoch with.
func (s *State) MayJoin(follower offsets.BrokerID) bool {
	end, ok := s.followers[follower]
	return ok && s.Leads() && end >= s.highWatermark && end >= s.epochStart
}

// EffectiveMinISR is min.insync.replicas, but never more than there are replicas.
func (s *State) EffectiveMinISR() int {
	return max(1, min(s.assigned.MinISR, len(s.assigned.Replicas)))
}

// UnderMinISR tells whether too few replicas are in sync for acks=all (H2, H4).
func (s *State) UnderMinISR() bool { return len(s.assigned.ISR) < s.EffectiveMinISR() }

// Trusted tells whether the high watermark is known to be true (H3).
func (s *State) Trusted() bool { return s.Leads() && s.highWatermark >= s.epochStart }

// settle moves the high watermark as far as the rules allow, and is the one
// place that keeps the invariant.
func (s *State) settle() {
	s.logEnd = max(s.logEnd, s.logStart)
	s.highWatermark = min(max(s.highWatermark, s.logStart), s.logEnd)
	if s.Leads() && !s.UnderMinISR() {
		s.highWatermark = max(s.highWatermark, s.lowestEnd())
	}
	s.lastStable = s.highWatermark
	if s.unstable >= 0 {
		s.lastStable = max(s.logStart, min(s.highWatermark, s.unstable))
	}
}

// lowestEnd is the lowest log end over the maximal ISR (H1).
func (s *State) lowestEnd() offsets.Offset {
	lowest := s.logEnd
	for _, isr := range [2][]offsets.BrokerID{s.assigned.ISR, s.proposed} {
		for _, id := range isr {
			if id != s.self {
				lowest = min(lowest, s.followers[id])
			}
		}
	}
	return lowest
}
