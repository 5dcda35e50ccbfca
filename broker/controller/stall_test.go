package controller

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
)

// hang lets the disk of a node's Raft log hang until the time is up.
func (n *member) hang(d time.Duration) {
	until := time.Now().Add(d)
	var logged atomic.Bool
	n.fs.Inject(func(op vfs.Op, name string) error {
		if (op == vfs.OpSync || op == vfs.OpWrite) && strings.HasSuffix(name, ".log") {
			logged.Store(true)
			time.Sleep(time.Until(until))
		}
		return nil
	})
	n.t.Cleanup(func() {
		if !logged.Load() {
			n.t.Errorf("the disk of node %d didn't hang", n.id)
		}
	})
}

// TestLeaderDiskHangs: an active controller whose disk hangs, for longer and
// longer, is replaced within three seconds, and doesn't stand again for a while.
func TestLeaderDiskHangs(t *testing.T) {
	for _, hang := range []time.Duration{2 * time.Second, 10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes := clusterOf(t, 3)
			defer func() { stopAll(nodes) }()
			nodes[0].voters(3)
			old := leaderOf(t, nodes)
			rest := others(nodes, old)
			old.hang(hang)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := rest[0].CreateTopic(ctx, NewTopic{Name: "during", Partitions: 1, ReplicationFactor: 1})
			cancel()
			if took := time.Since(began); err != nil || took > 3*time.Second {
				t.Errorf("hangs for %v: after %v a change ends with %v", hang, took, err)
			}
			for i := range 100 {
				if _, err := rest[i%2].CreateTopic(t.Context(), NewTopic{Name: fmt.Sprint("t", i), Partitions: 1, ReplicationFactor: 1}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(hang / 100)
			}
			time.Sleep(time.Second)
			old.fs.Inject(nil)
			create(t, old.Controller, "after", 1)
			leaderOf(t, rest).kill()
			for _, n := range rest {
				if n.Controller == nil {
					time.Sleep(3 * time.Second)
					if old.leads() {
						t.Errorf("hung for %v: it leads again at once", hang)
					}
					n.start()
				}
			}
			time.Sleep(stallRest)
			equalImages(t, nodes)
		})
	}
}

// TestFollowerDiskHangs: a follower whose disk hung for ten seconds, under load,
// has all that was decided soon afterwards, without a change of leader.
func TestFollowerDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		leader := leaderOf(t, nodes)
		slow := others(nodes, leader)[0]
		slow.hang(10 * time.Second)
		began := time.Now()
		for i := 0; time.Since(began) < 10*time.Second; i++ {
			create(t, leader.Controller, fmt.Sprint("t", i), 1)
			time.Sleep(20 * time.Millisecond)
		}
		at := leader.Applied()
		began = time.Now()
		for slow.Applied() < at {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) > 3*time.Second {
				t.Fatalf("has %d of %d entries %v after its disk hung", slow.Applied(), at, time.Since(began))
			}
		}
		t.Logf("caught up after %v", time.Since(began))
		slow.fs.Inject(nil)
		if leaderOf(t, nodes) != leader {
			t.Error("another node leads")
		}
		equalImages(t, nodes)
	})
}
