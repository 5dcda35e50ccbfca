package controller

import "sawlog/offsets"

// maxVoters is how many nodes vote on the metadata at most.
const maxVoters = 5

// quorumServer is one node that takes part in the metadata.
type quorumServer struct {
	ID    offsets.BrokerID
	Voter bool
	Self  bool // the active controller
}

// quorumChange gives a node a vote or takes it.
type quorumChange struct {
	Server  int // its place in the list the plan was made for
	Promote bool
}

// planVoters says what to change next so that 1, 3 or 5 nodes vote: an even
// number outvotes no more failures than one less, and needs one more that
// works. ready tells which nodes are in service and know all that was decided,
// gone which have been away for so long that their vote is better given to
// another. A vote is given only while all who vote are ready, as one that
// doesn't know of it elects nobody whom it was given. One change at a time is
// made; those after it are planned anew.
func planVoters(servers []quorumServer, ready, gone func(offsets.BrokerID) bool) (quorumChange, bool) {
	voters, absent, spare, steady := 0, -1, -1, true
	var candidates []int
	for i, s := range servers {
		switch {
		case !s.Voter && ready(s.ID):
			candidates = append(candidates, i)
		case !s.Voter:
		default:
			voters++
			if s.Self {
				continue
			}
			if steady {
				spare = i
			}
			if !ready(s.ID) {
				steady, spare = false, i
			}
			if gone(s.ID) {
				absent = i
			}
		}
	}
	even := voters%2 == 0
	switch {
	case absent >= 0 && (even || len(candidates) > 0):
		return quorumChange{absent, false}, true
	case steady && voters < maxVoters && (even && len(candidates) > 0 || len(candidates) > 1):
		return quorumChange{candidates[0], true}, true
	case even && spare >= 0:
		return quorumChange{spare, false}, true
	}
	return quorumChange{}, false
}
