package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/offsets"
)

// leaderOf waits until the nodes agree on a leader and returns it.
func leaderOf(t testing.TB, nodes []*member) *member {
	t.Helper()
	for range 2000 {
		for _, n := range nodes {
			if n.Controller != nil && n.leads() {
				return n
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("no leader")
	return nil
}

func others(nodes []*member, but *member) []*member {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *member) bool { return n == but })
}

// TestLeaderKilled: when the active controller's process ends another one takes
// over and commits, and knows that the broker is gone, in less than a second;
// the killed node comes back and follows.
func TestLeaderKilled(t *testing.T) {
	for _, size := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes := clusterOf(t, size)
			defer func() { stopAll(nodes) }()
			nodes[0].voters(size)
			var slowest time.Duration
			for round := range 10 {
				old := leaderOf(t, nodes)
				old.kill()
				began := time.Now()
				create(t, others(nodes, old)[round%(size-1)].Controller, fmt.Sprint("t", round), 3)
				slowest = max(slowest, time.Since(began))
				for _, n := range others(nodes, old) {
					if b, _ := n.Image().Broker(old.id); !b.Fenced {
						n.inService(idsOf(others(nodes, old))...)
					}
				}
				if took := time.Since(began); took > 1200*time.Millisecond {
					t.Errorf("%d nodes, round %d: out of service after %v", size, round, took)
				}
				leader := leaderOf(t, others(nodes, old))
				old.start()
				old.inService(idsOf(nodes)...)
				time.Sleep(2 * time.Second)
				if now := leaderOf(t, nodes); now != leader {
					t.Errorf("%d nodes, round %d: node %d leads in place of %d without need", size, round, now.id, leader.id)
				}
			}
			if slowest > time.Second {
				t.Errorf("%d nodes: a change took %v", size, slowest)
			}
			t.Logf("%d nodes: at most %v", size, slowest)
			equalImages(t, nodes)
		})
	}
}

func idsOf(nodes []*member) (ids []offsets.BrokerID) {
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// equalImages waits until all nodes hold the same metadata.
func equalImages(t testing.TB, nodes []*member) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Barrier(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	for _, n := range nodes {
		if n.Image().Hash() != nodes[0].Image().Hash() {
			t.Errorf("node %d:\n%snode %d:\n%s", nodes[0].id, describe(nodes[0].Image()), n.id, describe(n.Image()))
		}
		checkImage(t, &world{image: n.Image(), settings: n.settings})
	}
}

// TestLeaderCutOff: an active controller that the others don't hear any more
// confirms nothing; they go on, and it follows when it is heard again.
func TestLeaderCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		for round := range 5 {
			old := leaderOf(t, nodes)
			rest := others(nodes, old)
			net.isolate(old.addr)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			var asking sync.WaitGroup
			asking.Go(func() {
				_, err := old.CreateTopic(ctx, NewTopic{Name: fmt.Sprint("alone", round), Partitions: 1, ReplicationFactor: 1})
				if !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNotController) {
					t.Errorf("round %d: one that is cut off says %v", round, err)
				}
				if err := old.DeleteTopic(ctx, offsets.TopicID{1}); !errors.Is(err, ErrNotController) {
					t.Errorf("round %d: one that is cut off says %v", round, err)
				}
			})
			began := time.Now()
			create(t, rest[0].Controller, fmt.Sprint("rest", round), 3)
			changed := time.Since(began)
			if changed > 2*time.Second { // a vote may be split once
				t.Errorf("round %d: a change took %v", round, changed)
			}
			rest[1].inService(idsOf(rest)...)
			if took := time.Since(began); took > changed+400*time.Millisecond {
				t.Errorf("round %d: out of service after %v, %v after the first change", round, took, took-changed)
			}
			asking.Wait()
			cancel()
			net.heal(old.addr)
			rest[0].inService(idsOf(nodes)...)
			create(t, old.Controller, fmt.Sprint("back", round), 3)
		}
		equalImages(t, nodes)
	})
}

// TestRandomKills asks at random on all nodes while nodes are killed, closed,
// cut off and started: what was confirmed is there, what was refused isn't, and
// all nodes end with the same metadata.
func TestRandomKills(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			net, nodes := clusterOf(t, 3)
			defer func() { stopAll(nodes) }()
			nodes[0].voters(3)
			rnd := rand.New(rand.NewPCG(seed, 9))
			made, maybe := map[string]bool{}, map[string]bool{}
			var noted sync.Mutex
			stop := make(chan struct{})
			var asking sync.WaitGroup
			for i := range 3 {
				asking.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(20 * time.Millisecond):
						}
						name := fmt.Sprintf("a%d-%d", i, n)
						c := nodes[i].live.Load()
						if c == nil {
							continue
						}
						ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
						_, err := c.CreateTopic(ctx, NewTopic{Name: name, Partitions: 2, ReplicationFactor: 1})
						cancel()
						noted.Lock()
						switch {
						case err == nil:
							made[name] = true
						case errors.Is(err, ErrUncertain) || errors.Is(err, ErrClosed):
							maybe[name] = true
						case !errors.Is(err, ErrNotController) && !errors.Is(err, ErrInvalidFactor):
							t.Errorf("%s: %v", name, err)
						}
						noted.Unlock()
					}
				})
			}
			for range 12 {
				time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond)
				n := nodes[rnd.IntN(3)]
				pause := time.Duration(rnd.IntN(2500)) * time.Millisecond
				switch rnd.IntN(3) {
				case 0:
					net.isolate(n.addr)
					time.Sleep(pause)
					net.heal(n.addr)
				case 1:
					n.kill()
					time.Sleep(pause)
					n.start()
				default:
					n.stop()
					time.Sleep(pause)
					n.start()
				}
			}
			close(stop)
			asking.Wait()
			equalImages(t, nodes)
			im := nodes[0].Image()
			for name := range made {
				if _, ok := im.TopicByName(name); !ok {
					t.Errorf("%s was confirmed and is gone", name)
				}
			}
			for _, topic := range im.Topics() {
				if !made[topic.Name] && !maybe[topic.Name] {
					t.Errorf("%s was refused and is there", topic.Name)
				}
			}
			t.Logf("seed %d: %d confirmed, %d unknown, term %d", seed, len(made), len(maybe), nodes[0].raft.CurrentTerm())
		})
	}
}

// TestAllRestart: nodes that were all stopped or killed go on together.
func TestAllRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		for round := range 4 {
			create(t, nodes[round%3].Controller, fmt.Sprint("t", round), 3)
			for _, n := range nodes {
				if round%2 == 0 {
					n.stop()
				} else {
					n.kill()
				}
			}
			var all sync.WaitGroup
			for _, n := range nodes {
				all.Go(n.start)
			}
			all.Wait()
			nodes[0].inService(1, 2, 3)
			if n := nodes[2].Image().TopicCount(); n != round+1 {
				t.Fatalf("round %d: %d topics are left", round, n)
			}
		}
		equalImages(t, nodes)
	})
}
