package replica

import (
	"sawlog/offsets"
)

// Assignment is what the controller decided about one partition, as of one
// image of the metadata: never put together from two.
type Assignment struct {
	Image          uint64 // index of the metadata it is from; 0 = not told
	Leader         offsets.BrokerID
	Epoch          offsets.Epoch
	PartitionEpoch offsets.Epoch
	Replicas       []offsets.BrokerID
	ISR            []offsets.BrokerID
	MinISR         int  // min.insync.replicas as configured
	Recovering     bool // the leader was elected uncleanly and hasn't said that it is done
}

// State is one partition as one of its replicas sees it, leader or follower.
// It is told what happened and answers what follows; `now` is in milliseconds
// and never goes back.
//
// Invariant: logStart ≤ lastStable ≤ highWatermark ≤ logEnd, kept by settle.
type State struct {
	self     offsets.BrokerID
	assigned Assignment

	// epochStart is the log end this broker began to lead with (H3).
	epochStart offsets.Offset
	// followers is what each follower's fetches told in this epoch.
	followers []follower
	// asked are the members of ISRs asked of the controller that may yet be
	// granted in this partition epoch (H1).
	asked  []offsets.BrokerID
	asking bool // an ask is in flight
	doubt  bool // the answer to an ask was lost
	now    int64
	// followed: a follower's log start has moved, and nobody was told.
	followed bool
	// stranded: this broker is cut off, and a member of the maximal ISR with it.
	stranded bool

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

// Assigned is what the controller decided last, as far as it is known here.
func (s *State) Assigned() Assignment { return s.assigned }

// LogStart is the first offset that may be read.
func (s *State) LogStart() offsets.Offset { return s.logStart }

// LastStable is the end of what read_committed may read (H6).
func (s *State) LastStable() offsets.Offset { return s.lastStable }

// HighWatermark is the end of what is known here to be committed.
func (s *State) HighWatermark() offsets.Offset { return s.highWatermark }

// LogEnd is the offset of the next record.
func (s *State) LogEnd() offsets.Offset { return s.logEnd }

// Assign takes over what the controller decided and tells whether it was news.
// An assignment of a lower partition epoch or an older image is old; one of the
// same partition epoch may differ by the configured MinISR only.
func (s *State) Assign(a Assignment, now int64) bool {
	was := s.assigned
	switch {
	case a.PartitionEpoch < was.PartitionEpoch || a.Epoch < was.Epoch || a.Image < was.Image:
		return false
	case a.PartitionEpoch == was.PartitionEpoch && a.MinISR == was.MinISR:
		s.assigned.Image = a.Image
		return false
	}
	s.now = max(s.now, now)
	s.assigned = a
	if a.PartitionEpoch != was.PartitionEpoch {
		s.asked, s.asking, s.doubt = nil, false, false // what was asked before is granted or void (I4)
		s.stranded = false                             // the controller reaches this broker
	}
	switch {
	case !s.Leads():
		s.followers = nil
	case a.Epoch != was.Epoch || was.Leader != a.Leader:
		s.lead()
	default:
		s.dismiss(was.ISR)
	}
	s.settle()
	return true
}

// Check tells whether a request that knows the given leader epoch (NoEpoch =
// none told) meets the leader it looks for (R1).
func (s *State) Check(epoch offsets.Epoch) error {
	switch {
	case epoch != offsets.NoEpoch && epoch < s.assigned.Epoch:
		return ErrFencedEpoch
	case epoch != offsets.NoEpoch && epoch > s.assigned.Epoch:
		return ErrUnknownEpoch
	case !s.Leads():
		return ErrNotLeader
	}
	return nil
}

// Appended tells the log end after an append, and the begin of the oldest open
// transaction or −1.
func (s *State) Appended(end, unstable offsets.Offset) {
	s.logEnd, s.unstable = end, unstable
	s.settle()
}

// Trimmed tells that records below start are gone.
func (s *State) Trimmed(start offsets.Offset) {
	s.logStart = start
	s.settle()
}

// settle moves the high watermark as far as the rules allow, and is the one
// place that keeps the invariant.
func (s *State) settle() {
	s.logEnd = max(s.logEnd, s.logStart)
	s.highWatermark = min(max(s.highWatermark, s.logStart), s.logEnd)
	if s.Leads() && !s.UnderMinISR() { // H2
		s.highWatermark = max(s.highWatermark, s.lowestEnd())
	}
	s.lastStable = s.highWatermark
	if s.unstable >= 0 {
		s.lastStable = max(s.logStart, min(s.highWatermark, s.unstable))
	}
}
