package controller

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/peer"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// wipe gives a node that is stopped an empty disk, which it starts on as a new
// member.
func (n *member) wipe(generation int) {
	n.fs, n.dir = newDisk(n.t), incarnation(n.id, 100+generation)
	n.cluster, n.joined = "", false
}

// TestWipedDisk: a node whose disk was wiped is another member of the quorum: it
// takes the place of the old one, with or without the others' leader in between.
func TestWipedDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		create(t, nodes[1].Controller, "orders", 3)
		for round := range 4 {
			n := nodes[(round+1)%3]
			n.kill()
			n.wipe(round)
			n.join = []string{nodes[round%3].addr}
			n.start()
			n.inService(1, 2, 3)
			n.voters(3)
			q, err := n.Quorum()
			if err != nil || len(q.Observers) > 0 {
				t.Fatalf("round %d: %+v, %v", round, q, err)
			}
			for _, m := range q.Voters {
				if m.ID == n.id && m.Directory != n.dir {
					t.Errorf("round %d: the old disk votes", round)
				}
			}
		}
		equalImages(t, nodes)
		if nodes[0].Image().TopicCount() != 1 {
			t.Error("the topic is gone")
		}
	})
}

// TestJoinRefused: who can't be the node it says it is doesn't join.
func TestJoinRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		refused := func(what string, j JoinRequest, want string) {
			t.Helper()
			stranger := peer.Identity{Node: offsets.NoBroker}
			p, err := peer.Open(peer.Config{Dial: net.dialer(nodes[2].addr), Self: func() peer.Identity { return stranger }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			_, err = Join(ctx, p, []string{nodes[1].addr, nodes[0].addr}, j)
			if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) > 1500*time.Millisecond {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		refused("an id in service", JoinRequest{2, incarnation(9, 9), "node9:9093", LevelsTo(0)}, "in service with another data directory")
		refused("the id of the leader", JoinRequest{leaderOf(t, nodes).id, incarnation(9, 9), "node9:9093", LevelsTo(0)}, "in service with another data directory")
		refused("a disk of another node", JoinRequest{7, nodes[1].dir, "node9:9093", LevelsTo(0)}, "is that of node 2")
		refused("a voter without its metadata", JoinRequest{2, nodes[1].dir, nodes[1].addr, LevelsTo(0)}, "has lost its own")
		refused("no directory", JoinRequest{9, UUID{}, "node9:9093", LevelsTo(0)}, "can't join")
		refused("no address", JoinRequest{9, incarnation(9, 9), "", LevelsTo(0)}, "can't join")
		if q, err := nodes[0].Quorum(); err != nil || len(q.Voters) != 3 || len(q.Observers) != 0 {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

// TestVoterLosesMetadata: a voter whose metadata was removed, but not the rest
// of its data, doesn't start: it may have voted.
func TestVoterLosesMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		n := nodes[1]
		n.stop()
		if err := n.fs.RemoveAll("data/controller"); err != nil {
			t.Fatal(err)
		}
		n.join = []string{nodes[0].addr, nodes[2].addr}
		if err := n.open(t.Context()); err == nil || !strings.Contains(err.Error(), "has lost its own") {
			t.Fatalf("opened: %v", err)
		}
		n.wipe(1)
		n.start()
		n.voters(3)
	})
}

// TestJoinIsIdempotent: a node whose answer was lost joins again as the same
// one; a node without an id gets one nobody has.
func TestJoinIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 2)
		defer func() { stopAll(nodes) }()
		n := newMember(t, net, offsets.NoBroker)
		n.addr, n.dir = "node9:9093", incarnation(9, 9)
		n.join = []string{nodes[0].addr, nodes[1].addr}
		stranger := peer.Identity{Node: offsets.NoBroker, Directory: n.dir}
		p, err := peer.Open(peer.Config{Listener: net.listen(n.addr), Dial: net.dialer(n.addr), Self: func() peer.Identity { return stranger }})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			to, err := Join(t.Context(), p, n.join, JoinRequest{offsets.NoBroker, n.dir, n.addr, LevelsTo(0)})
			if err != nil || to != (Joined{testCluster, 3}) {
				t.Fatalf("%+v, %v", to, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		n.start()
		nodes[0].voters(3)
		nodes = append(nodes, n)
		nodes[1].inService(1, 2, 3)
		n.kill() // who was no node yet when it connected
		began := time.Now()
		nodes[1].inService(1, 2)
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("out of service after %v", took)
		}
	})
}

// TestMoved: nodes that start at other addresses, one alone and each of several,
// are found there.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork()
		alone := testConfig(newDisk(t))
		c, err := Open(t.Context(), alone) // without a network at all
		if err != nil {
			t.Fatal(err)
		}
		create := errors.Join(c.Barrier(t.Context()), c.Close())
		if create != nil {
			t.Fatal(create)
		}
		first := newMember(t, net, 1)
		first.fs, first.cluster = alone.FS.(*vfs.Mem), testCluster
		first.start()
		first.stop()
		first.addr = "node1:1"
		first.start()
		nodes := []*member{first}
		defer func() { stopAll(nodes) }()
		for id := range offsets.BrokerID(2) {
			n := newMember(t, net, id+2)
			n.join = []string{first.addr}
			n.start()
			nodes = append(nodes, n)
		}
		first.voters(3)
		for i, n := range nodes {
			n.stop()
			n.addr = "node" + string(rune('1'+i)) + ":2"
			n.start()
			n.inService(1, 2, 3)
		}
		equalImages(t, nodes)
	})
}

// TestMostMove: also when most voters start at other addresses, so that nobody
// can lead before they are found there, or all of them, who then know of each
// other what they were started with only. They stay found: a start of all at
// once on what the first left on their disks needs nothing more.
func TestMostMove(t *testing.T) {
	for _, moved := range []int{2, 3} {
		t.Run(strconv.Itoa(moved), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, nodes := clusterOf(t, 3)
				defer func() { stopAll(nodes) }()
				nodes[0].voters(3)
				stopAll(nodes[:moved])
				for i, n := range nodes[:moved] {
					n.addr = "moved" + string(rune('1'+i)) + ":2"
				}
				again := func(which []*member) {
					var opened sync.WaitGroup
					for _, n := range which {
						opened.Go(n.start)
					}
					opened.Wait()
					nodes[2].inService(1, 2, 3)
					equalImages(t, nodes)
				}
				if moved == len(nodes) {
					for i, n := range nodes {
						n.join = []string{nodes[(i+1)%3].addr}
					}
				}
				again(nodes[:moved])
				for range 2 {
					for _, n := range nodes {
						n.join = nil
						n.kill()
					}
					again(nodes)
				}
			})
		})
	}
}
