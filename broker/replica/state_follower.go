package replica

import "sawlog/offsets"

// Takes tells whether the answer to a fetch that was sent in an epoch, at an
// offset, still fits: its records follow the log's last one (R6), its word on
// where to cut is about the log as it is. Else it is dropped.
func (s *State) Takes(epoch offsets.Epoch, at offsets.Offset) bool {
	return !s.Leads() && s.assigned.Leader != offsets.NoBroker && epoch == s.assigned.Epoch && at == s.logEnd
}

// TruncateTo is where a follower cuts its log when its fetch diverged: where
// the leader's epoch ends there or here, whatever is lower (R2). That may not be
// far enough; the next fetch will tell. The high watermark has no say in it (R5).
func (s *State) TruncateTo(d EpochEnd, own Epochs) offsets.Offset {
	to := min(d.End, s.logEnd)
	if epoch, end := own.EndOffsetFor(d.Epoch); epoch != offsets.NoEpoch {
		to = min(to, end)
	}
	return max(to, 0)
}

// Truncated tells the log end after a cut, and the begin of the oldest open
// transaction or −1. lost: what had been committed, as far as was known here,
// was cut off; only an unclean election explains that.
func (s *State) Truncated(end, unstable offsets.Offset) (lost bool) {
	lost = end < s.highWatermark
	s.logEnd, s.unstable = end, unstable
	s.logStart = min(s.logStart, end)
	s.settle()
	return lost
}

// OutOfRange tells what a follower does whose log isn't within the leader's
// (R7): begin anew, empty, at the leader's start, or cut back to the leader's
// end. to is its log end when nothing is to be done but fetch again.
func (s *State) OutOfRange(leaderStart, leaderEnd offsets.Offset) (to offsets.Offset, anew bool) {
	if s.logEnd < leaderStart || s.logEnd == leaderStart && s.logStart < s.logEnd {
		return leaderStart, true
	}
	return min(s.logEnd, leaderEnd), false
}

// Restarted tells that the log was dropped and begins anew at an offset: all
// that is known of it moves together (R4).
func (s *State) Restarted(at offsets.Offset) {
	s.logStart, s.logEnd, s.highWatermark, s.unstable = at, at, at, -1
	s.settle()
}

// FollowTo tells the log end after the records of an answer were appended, the
// begin of the oldest open transaction or −1, and what the leader said of its
// high watermark and log start. Only for answers that Takes let in and that
// didn't diverge: a cut comes before the leader's word is taken (R3). The high
// watermark known here doesn't go back but by a cut: a leader fresh in office
// knows less than was committed (H3).
func (s *State) FollowTo(end, unstable, leaderHW, leaderStart offsets.Offset) {
	s.logEnd, s.unstable = end, unstable
	s.logStart = max(s.logStart, min(leaderStart, end))
	s.highWatermark = max(s.highWatermark, min(leaderHW, end))
	s.settle()
}
