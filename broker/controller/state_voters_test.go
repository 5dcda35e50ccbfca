package controller

import (
	"math/rand/v2"
	"testing"

	"sawlog/offsets"
)

// settleVoters carries out plans until there is none, and fails when that
// takes too long, takes the active controller's vote or leaves no voter.
func settleVoters(t *testing.T, servers []quorumServer, ready, gone func(offsets.BrokerID) bool) (voters int) {
	t.Helper()
	for range 20 {
		c, ok := planVoters(servers, ready, gone)
		if !ok {
			for _, s := range servers {
				if s.Voter {
					voters++
				}
			}
			return voters
		}
		s := &servers[c.Server]
		if s.Voter == c.Promote || s.Self {
			t.Fatalf("plan %+v for %+v", c, servers)
		}
		if c.Promote && !ready(s.ID) {
			t.Fatalf("%d gets a vote and isn't ready", s.ID)
		}
		s.Voter = c.Promote
	}
	t.Fatalf("the plan never ends: %+v", servers)
	return 0
}

func TestVotersAreOdd(t *testing.T) {
	all, none := func(offsets.BrokerID) bool { return true }, func(offsets.BrokerID) bool { return false }
	for n, want := range []int{1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5, 7: 5} {
		if n == 0 {
			continue
		}
		servers := make([]quorumServer, n)
		for i := range servers {
			servers[i] = quorumServer{ID: offsets.BrokerID(i + 1), Voter: i == 0, Self: i == 0}
		}
		if got := settleVoters(t, servers, all, none); got != want {
			t.Errorf("%d nodes: %d vote, want %d", n, got, want)
		}
	}
}

// TestVotersAtRandom: whatever nodes come and go, plans come to an end, and
// with an odd number of voters as soon as all are ready.
func TestVotersAtRandom(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		servers := make([]quorumServer, 1+rnd.IntN(7))
		up, away := map[offsets.BrokerID]bool{1: true}, map[offsets.BrokerID]bool{}
		for i := range servers {
			id := offsets.BrokerID(i + 1)
			servers[i] = quorumServer{ID: id, Voter: i == 0 || i < 5 && rnd.IntN(2) == 0, Self: i == 0}
			if i > 0 {
				up[id] = rnd.IntN(3) > 0
				away[id] = !up[id] && rnd.IntN(2) == 0
			}
		}
		settleVoters(t, servers, func(id offsets.BrokerID) bool { return up[id] }, func(id offsets.BrokerID) bool { return away[id] })
		spare := false
		for _, s := range servers {
			spare = spare || !s.Voter && up[s.ID]
		}
		for _, s := range servers {
			if s.Voter && away[s.ID] && spare {
				t.Fatalf("seed %d: %d has a vote though it is long away and another could have it: %+v", seed, s.ID, servers)
			}
		}
		all := func(offsets.BrokerID) bool { return true }
		if n := settleVoters(t, servers, all, func(offsets.BrokerID) bool { return false }); n%2 == 0 || n > maxVoters {
			t.Fatalf("seed %d: %d vote", seed, n)
		}
	}
}
