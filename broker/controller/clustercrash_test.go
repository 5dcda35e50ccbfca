package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
)

// dieAt ends a node before the n-th operation that changes its disk from now
// on: its disk is what a power cut leaves, and nothing it says after that
// arrives. It returns what tells whether that has happened.
func (n *member) dieAt(step int64, rnd *rand.Rand) (died func() *vfs.Mem) {
	var left atomic.Pointer[vfs.Mem]
	var steps atomic.Int64
	fs := n.fs
	fs.Inject(func(op vfs.Op, _ string) error {
		switch op {
		case vfs.OpRead, vfs.OpStat, vfs.OpReadDir, vfs.OpOpen, vfs.OpLock:
			return nil
		}
		if steps.Add(1) == step {
			left.Store(fs.CrashClone(rnd))
			n.net.kill(n.addr)
		}
		return nil
	})
	return left.Load
}

// TestClusterCrashAtEveryStep cuts the power of one of three nodes before the
// n-th operation on its disk, for every n, while changes are made on the others:
// of a node that joins and comes to vote, and of the active controller. What was
// confirmed stays, and the node goes on with what was left to it.
func TestClusterCrashAtEveryStep(t *testing.T) {
	for _, leads := range []bool{false, true} {
		whole := false
		for step := int64(1); !whole; step += 1 + step/16 {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(step), 5))
				net, nodes := clusterOf(t, 2)
				last := newMember(t, net, 3)
				last.join = []string{nodes[0].addr}
				nodes = append(nodes, last)
				defer func() { stopAll(nodes) }()
				victim := last
				var died func() *vfs.Mem
				if leads {
					last.start()
					nodes[0].voters(3)
					victim = leaderOf(t, nodes)
					died = victim.dieAt(step, rnd)
				} else {
					died = victim.dieAt(step, rnd)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					err := last.open(ctx)
					cancel()
					if err == nil {
						last.register()
					} else if died() == nil {
						t.Fatal(err)
					}
				}
				confirmed := changesOn(t, others(nodes, victim), died)
				if died() == nil {
					whole = true
					if step < 20 {
						t.Errorf("only %d steps", step)
					}
					return
				}
				victim.bury()
				victim.fs = died()
				victim.start()
				nodes[0].voters(3)
				victim.inService(1, 2, 3)
				equalImages(t, nodes)
				for _, name := range confirmed {
					if _, ok := victim.Image().TopicByName(name); !ok {
						t.Errorf("step %d, of the leader %v: %s is gone", step, leads, name)
					}
				}
			})
		}
	}
}

// changesOn makes changes on nodes for a while, and returns those confirmed.
func changesOn(t *testing.T, nodes []*member, died func() *vfs.Mem) (confirmed []string) {
	for i := range 12 {
		name := fmt.Sprint("t", i)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := nodes[i%len(nodes)].CreateTopic(ctx, NewTopic{Name: name, Partitions: 2, ReplicationFactor: 1})
		cancel()
		switch {
		case err == nil:
			confirmed = append(confirmed, name)
		case !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNotController) && !errors.Is(err, ErrInvalidFactor):
			t.Errorf("%s: %v", name, err)
		}
		time.Sleep(250 * time.Millisecond)
		if died() != nil && i > 8 {
			break
		}
	}
	return confirmed
}
