package replica

import (
	"math/rand/v2"
	"testing"

	"sawlog/offsets"
)

func assignment(leader offsets.BrokerID, epoch, partitionEpoch offsets.Epoch, minISR int, isr ...offsets.BrokerID) Assignment {
	return Assignment{Leader: leader, Epoch: epoch, PartitionEpoch: partitionEpoch, Replicas: []offsets.BrokerID{1, 2, 3}, ISR: isr, MinISR: minISR}
}

// noEpochs is a log that knows no leader epoch.
type noEpochs struct{}

func (noEpochs) EndOffsetFor(offsets.Epoch) (offsets.Epoch, offsets.Offset) {
	return offsets.NoEpoch, -1
}

// fetch is a follower's fetch in the present epoch, of a broker with epoch 1.
func fetch(s *State, follower offsets.BrokerID, at offsets.Offset) {
	_, _ = s.Serve(Fetch{Follower: follower, BrokerEpoch: 1, LeaderEpoch: s.assigned.Epoch, At: at, LastEpoch: offsets.NoEpoch}, noEpochs{})
}

func inService(offsets.BrokerID) (int64, bool) { return 1, true }

// lead is broker 1 leading in epoch 1 with a log of [0, 10).
func lead(minISR int, isr ...offsets.BrokerID) *State {
	s := NewState(1, 0, 10)
	s.Assign(assignment(1, 1, 1, minISR, isr...), 0)
	return s
}

func TestAloneEveryAppendIsCommitted(t *testing.T) {
	s := NewState(1, 3, 10)
	if s.highWatermark != 3 || s.Trusted() {
		t.Errorf("before it leads: high watermark %d, trusted %v", s.highWatermark, s.Trusted())
	}
	s.Assign(Assignment{Leader: 1, Epoch: 1, PartitionEpoch: 1, Replicas: []offsets.BrokerID{1}, ISR: []offsets.BrokerID{1}, MinISR: 2}, 0)
	if s.highWatermark != 10 || !s.Trusted() || s.UnderMinISR() {
		t.Errorf("leading alone: high watermark %d, under min ISR %v", s.highWatermark, s.UnderMinISR())
	}
	s.Appended(15, -1)
	if s.highWatermark != 15 || s.lastStable != 15 {
		t.Errorf("after an append: %d, %d", s.highWatermark, s.lastStable)
	}
	s.Appended(20, 17)
	if s.highWatermark != 20 || s.lastStable != 17 {
		t.Errorf("with a transaction open at 17: %d, %d", s.highWatermark, s.lastStable)
	}
}

func TestHighWatermarkIsTheLowestOfTheISR(t *testing.T) { // H1
	s := lead(2, 1, 2)
	s.Appended(20, -1)
	fetch(s, 2, 15)
	fetch(s, 3, 12) // a replica, but not in sync
	if s.highWatermark != 15 {
		t.Errorf("high watermark %d", s.highWatermark)
	}
	fetch(s, 3, 15)
	p, ok := s.Propose(500, inService, 1000)
	if !ok || len(p.ISR) != 3 {
		t.Fatalf("proposed %v, %v", p, ok)
	}
	fetch(s, 2, 18)
	if s.highWatermark != 15 { // 3 counts since it was proposed
		t.Errorf("with 3 proposed: %d", s.highWatermark)
	}
	s.Answered(p, Refused)
	fetch(s, 2, 18)
	if s.highWatermark != 18 {
		t.Errorf("proposal taken back: %d", s.highWatermark)
	}
	fetch(s, 2, 3) // a follower that starts anew takes nothing back
	if s.highWatermark != 18 {
		t.Errorf("went back to %d", s.highWatermark)
	}
	fetch(s, 9, 20)
	if s.follower(9) != nil {
		t.Error("a stranger's fetch counts")
	}
}

func TestHighWatermarkStandsWhileTheISRIsTooSmall(t *testing.T) { // H2, H4
	s := lead(2, 1, 2)
	fetch(s, 2, 10)
	s.Assign(assignment(1, 1, 2, 2, 1), 0)
	if !s.UnderMinISR() {
		t.Fatal("one of two isn't too few")
	}
	s.Appended(20, -1)
	if s.highWatermark != 10 {
		t.Errorf("moved to %d", s.highWatermark)
	}
	s.Assign(assignment(1, 1, 3, 1, 1), 0) // min.insync.replicas lowered
	if s.highWatermark != 20 {
		t.Errorf("after lowering: %d", s.highWatermark)
	}
	s.Assign(Assignment{Leader: 1, Epoch: 1, PartitionEpoch: 4, Replicas: []offsets.BrokerID{1}, ISR: []offsets.BrokerID{1}, MinISR: 3}, 0)
	if s.EffectiveMinISR() != 1 {
		t.Errorf("one replica needs %d in sync", s.EffectiveMinISR())
	}
}

func TestNewLeaderIsTrustedOnceItCommittedItsStart(t *testing.T) { // H3
	s := lead(2, 1, 2)
	if s.Trusted() {
		t.Error("trusted at once")
	}
	fetch(s, 2, 9)
	if s.Trusted() || s.mayJoin(3, 1) {
		t.Errorf("trusted at %d of 10", s.highWatermark)
	}
	fetch(s, 3, 9)
	if s.mayJoin(3, 1) {
		t.Error("3 joins without what this leader began with") // KAFKA-7128
	}
	fetch(s, 2, 10)
	fetch(s, 3, 10)
	if !s.Trusted() || !s.mayJoin(3, 1) {
		t.Errorf("trusted %v, 3 may join %v", s.Trusted(), s.mayJoin(3, 1))
	}
	s.Assign(assignment(1, 2, 2, 2, 1, 2), 0)
	if s.Trusted() != (s.highWatermark >= 10) || s.mayJoin(3, 1) {
		t.Error("a fetch of the epoch before counts")
	}
}

func TestOldAssignmentsChangeNothing(t *testing.T) {
	s := lead(2, 1, 2)
	s.Assign(assignment(1, 5, 7, 2, 1, 2), 0)
	for _, old := range []Assignment{assignment(2, 4, 8, 2, 2), assignment(2, 5, 6, 2, 2), assignment(2, 5, 7, 2, 2)} {
		if s.Assign(old, 0) || !s.Leads() || s.assigned.Epoch != 5 {
			t.Errorf("took %+v", old)
		}
	}
	if !s.Assign(assignment(1, 5, 7, 1, 1, 2), 0) || s.EffectiveMinISR() != 1 {
		t.Error("a new min.insync.replicas was not taken")
	}
}

// TestInvariant runs random events: the offsets keep their order, and the high
// watermark of a leader never goes back within an epoch.
func TestInvariant(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := NewState(1, 0, 0)
		end, start := offsets.Offset(0), offsets.Offset(0)
		var epoch, partitionEpoch offsets.Epoch
		for step := range 200 {
			before := s.highWatermark
			switch rnd.IntN(6) {
			case 0:
				partitionEpoch++
				if rnd.IntN(3) == 0 {
					epoch++
				}
				s.Assign(assignment(offsets.BrokerID(1+rnd.IntN(2)), epoch, partitionEpoch, 1+rnd.IntN(3), []offsets.BrokerID{1, 2, 3}[:1+rnd.IntN(3)]...), 0)
			case 1:
				end += offsets.Offset(rnd.IntN(10))
				s.Appended(end, offsets.Offset(rnd.IntN(30))-1)
			case 2:
				fetch(s, offsets.BrokerID(2+rnd.IntN(2)), offsets.Offset(rnd.IntN(int(end)+5)))
			case 3:
				if p, ok := s.Propose(int64(step), inService, 20); ok {
					s.Answered(p, Outcome(rnd.IntN(4)))
				}
			case 4:
				start = min(end, start+offsets.Offset(rnd.IntN(3)))
				s.Trimmed(start)
			}
			if s.logStart > s.lastStable || s.lastStable > s.highWatermark || s.highWatermark > s.logEnd {
				t.Fatalf("seed %d step %d: %d ≤ %d ≤ %d ≤ %d doesn't hold", seed, step, s.logStart, s.lastStable, s.highWatermark, s.logEnd)
			}
			if s.highWatermark < before {
				t.Fatalf("seed %d step %d: high watermark %d after %d", seed, step, s.highWatermark, before)
			}
		}
	}
}
