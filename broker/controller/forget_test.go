package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/peer"
	"sawlog/offsets"
)

// grown is a cluster in which as many nodes vote as can.
func grown(t *testing.T, size int) (*network, []*member) {
	t.Helper()
	net, nodes := clusterOf(t, size)
	nodes[0].voters((size - 1) | 1)
	nodes[0].inService(idsOf(nodes)...)
	return net, nodes
}

// quorum is who votes and who doesn't, as a node sees it.
func (n *member) quorum() (voters, observers []offsets.BrokerID) {
	n.t.Helper()
	q, err := n.Quorum()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, m := range q.Voters {
		voters = append(voters, m.ID)
	}
	for _, m := range q.Observers {
		observers = append(observers, m.ID)
	}
	slices.Sort(voters)
	return voters, observers
}

// follower is a node of some that doesn't lead.
func follower(t *testing.T, nodes []*member, votes bool) *member {
	t.Helper()
	leader := leaderOf(t, nodes)
	voters, _ := leader.quorum()
	for _, n := range nodes {
		if n != leader && slices.Contains(voters, n.id) == votes {
			return n
		}
	}
	t.Fatalf("%v vote, none other than the leader: %v", voters, votes)
	return nil
}

// TestForget: a broker that is gone for good leaves the quorum with its
// registration, whether it voted or not, and an odd number of the others votes;
// one that runs is not forgotten.
func TestForget(t *testing.T) {
	for _, c := range []struct {
		size  int
		votes bool // whether who is forgotten does
		want  int  // voters after it
	}{{2, false, 1}, {3, true, 1}, {4, false, 3}, {4, true, 3}, {5, true, 3}, {6, true, 5}, {6, false, 5}} {
		t.Run(fmt.Sprintf("%d votes=%v", c.size, c.votes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, nodes := grown(t, c.size)
				defer func() { stopAll(nodes) }()
				gone := follower(t, nodes, c.votes)
				rest := others(nodes, gone)
				if err := rest[0].UnregisterBroker(t.Context(), gone.id); !errors.Is(err, ErrDuplicateBroker) {
					t.Errorf("forgotten while in service: %v", err)
				}
				gone.kill()
				rest[0].inService(idsOf(rest)...)
				for i, n := range rest { // by way of whoever is asked, once
					err := n.UnregisterBroker(t.Context(), gone.id)
					if i == 0 && err != nil || i > 0 && !errors.Is(err, ErrUnknownBroker) {
						t.Errorf("asked %d times: %v", i+1, err)
					}
				}
				began := time.Now()
				rest[0].voters(c.want)
				if took := time.Since(began); took > time.Second {
					t.Errorf("%d voters after %v", c.want, took)
				}
				voters, observers := rest[0].quorum()
				if slices.Contains(append(voters, observers...), gone.id) || len(voters)+len(observers) != c.size-1 {
					t.Errorf("the quorum is %v and %v", voters, observers)
				}
				create(t, rest[0].Controller, "after", 1)
				equalImages(t, rest)
				comesBack(t, gone)
				gone.wipe(7)
				gone.start()
				rest[0].inService(idsOf(nodes)...)
			})
		})
	}
}

// comesBack starts a node that was forgotten on the data it had: it is told that
// it may not go on, and what to do.
func comesBack(t *testing.T, gone *member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	err := gone.open(ctx)
	gone.net.kill(gone.addr)
	if err == nil || !strings.Contains(err.Error(), "is not a member of the cluster: it was forgotten") || !strings.Contains(err.Error(), "empty data directory") {
		t.Errorf("node %d is back and is told: %v", gone.id, err)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it is told after %v", took)
	}
}

// TestForgottenWhileCutOff: who is forgotten while nobody hears of it is told as
// soon as it hears of the others again.
func TestForgottenWhileCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := grown(t, 4)
		defer func() { stopAll(nodes) }()
		gone := follower(t, nodes, true)
		rest := others(nodes, gone)
		net.isolate(gone.addr)
		rest[0].inService(idsOf(rest)...)
		time.Sleep(2 * time.Second)
		if err := rest[0].UnregisterBroker(t.Context(), gone.id); err != nil {
			t.Fatal(err)
		}
		net.heal(gone.addr)
		select {
		case err := <-gone.Failed():
			if !strings.Contains(err.Error(), "is not a member of the cluster") {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it goes on")
		}
		rest[0].voters(3)
		equalImages(t, rest)
	})
}

// TestForgetHalfDone: a node that left the quorum and kept its registration, as
// when the active controller ends in between, is forgotten by asking again; so
// is one of the quorum whose broker never registered. One that is out of
// service and beats is not.
func TestForgetHalfDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := grown(t, 4)
		defer func() { stopAll(nodes) }()
		gone := follower(t, nodes, true)
		rest := others(nodes, gone)
		leader := leaderOf(t, nodes)
		gone.kill()
		rest[0].inService(idsOf(rest)...)
		if err := leader.raft.RemoveServer(leader.serverOf(gone.id).ID, 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		if err := rest[0].UnregisterBroker(t.Context(), gone.id); err != nil {
			t.Error(err)
		}
		if _, ok := leader.Image().Broker(gone.id); ok {
			t.Error("it is registered")
		}

		stranger := JoinRequest{9, incarnation(9, 9), "node9:9093", LevelsTo(0)}
		p, err := peer.Open(peer.Config{Dial: net.dialer(rest[0].addr), Self: func() peer.Identity { return peer.Identity{Node: offsets.NoBroker} }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Join(t.Context(), p, []string{rest[0].addr}, stranger); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(rest[0].UnregisterBroker(t.Context(), 9), p.Close()); err != nil {
			t.Error(err)
		}
		rest[0].voters(3)
		if voters, observers := rest[0].quorum(); len(voters) != 3 || len(observers) != 0 {
			t.Errorf("the quorum is %v and %v", voters, observers)
		}

		idle := follower(t, rest, true)
		idle.quiet()
		others(rest, idle)[0].inService(idsOf(others(rest, idle))...)
		if _, err := idle.Heartbeat(t.Context(), Beat{Broker: idle.id, Epoch: idle.epoch}); err != nil {
			t.Fatal(err)
		}
		if err := leader.UnregisterBroker(t.Context(), idle.id); !errors.Is(err, ErrDuplicateBroker) || !strings.Contains(err.Error(), "stop it first") {
			t.Errorf("one that beats is forgotten: %v", err)
		}
	})
}
