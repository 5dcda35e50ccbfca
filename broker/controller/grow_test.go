package controller

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/offsets"
)

// voters waits until as many nodes vote as are wanted.
func (n *member) voters(want int) {
	n.t.Helper()
	for range 1000 {
		if q, err := n.Quorum(); err == nil && len(q.Voters) == want {
			time.Sleep(100 * time.Millisecond) // until all know it
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	q, err := n.Quorum()
	n.t.Fatalf("%d voters are wanted, these there are: %+v, %v", want, q, err)
}

// TestGrow: nodes join one that was alone, up to five; what is asked of any of
// them is known to all; one, three or five of them vote.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 1)
		defer func() { stopAll(nodes) }()
		for size := 2; size <= 5; size++ {
			n := newMember(t, net, nodes[len(nodes)-1].id+1)
			n.join = []string{nodes[len(nodes)-1].addr} // whoever is asked
			nodes = append(nodes, n)
			n.start()
			create(t, n.Controller, fmt.Sprint("by", n.id), 3)
			nodes[0].voters([]int{1, 1, 3, 3, 5}[size-1])
		}
		nodes[0].inService(1, 2, 3, 4, 5)
		for _, n := range nodes {
			create(t, n.Controller, fmt.Sprint("on", n.id), 3)
		}
		for _, n := range nodes {
			if err := n.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n.Image().Hash() != nodes[0].Image().Hash() || n.Image().TopicCount() != 9 {
				t.Errorf("node %d: %s", n.id, describe(n.Image()))
			}
		}
	})
}

// TestVoterReplaced: the vote of a node that is away for long is given to
// another; a node that is unregistered leaves the quorum, and one that was away
// for a short time keeps its vote.
func TestVoterReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 1)
		nodes[0].change = func(c *Config) { c.Defaults = map[string]string{voterReplacementKey: "5000"} }
		defer func() { stopAll(nodes) }()
		for id := range offsets.BrokerID(3) {
			n := newMember(t, net, id+2)
			n.join, n.change = []string{nodes[0].addr}, nodes[0].change
			nodes = append(nodes, n)
			n.start()
			nodes[0].voters([]int{1, 3, 3}[id])
		}
		nodes[0].inService(1, 2, 3, 4)
		votes := func() (ids []offsets.BrokerID) {
			q, err := nodes[0].Quorum()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range q.Voters {
				ids = append(ids, m.ID)
			}
			slices.Sort(ids)
			return ids
		}
		// The founder was started without the setting, which counts where the active controller is.
		nodes[0].stop()
		nodes[0].start()
		nodes[0].inService(1, 2, 3, 4)
		nodes[1].kill()
		time.Sleep(3 * time.Second)
		nodes[1].start()
		nodes[0].inService(1, 2, 3, 4)
		time.Sleep(5 * time.Second)
		if got := votes(); !slices.Equal(got, []offsets.BrokerID{1, 2, 3}) {
			t.Errorf("after a short absence %v vote", got)
		}
		nodes[1].kill()
		time.Sleep(10 * time.Second)
		if got := votes(); !slices.Equal(got, []offsets.BrokerID{1, 3, 4}) {
			t.Errorf("after a long absence %v vote", got)
		}
		gone := nodes[1]
		nodes = slices.Delete(nodes, 1, 2)
		if err := nodes[0].UnregisterBroker(t.Context(), gone.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		q, err := nodes[0].Quorum()
		if err != nil || len(q.Voters) != 3 || len(q.Observers) != 0 {
			t.Errorf("%+v, %v", q, err)
		}
		equalImages(t, nodes)
	})
}

// TestSnapshotsTravel: nodes that join, or were away, after the log was cut get
// the metadata as a snapshot, and go on from it after a restart.
func TestSnapshotsTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := clusterOf(t, 1)
		defer func() { stopAll(nodes) }()
		cut := func(n *member) {
			t.Helper()
			for range trailingLogs + 100 {
				if _, _, err := n.ProducerIDs(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			if first, err := n.entries.FirstIndex(); err != nil || first == 1 {
				t.Fatalf("the log begins at %d, %v", first, err)
			}
		}
		create(t, nodes[0].Controller, "orders", 3)
		cut(nodes[0])
		for id := range offsets.BrokerID(2) {
			n := newMember(t, net, id+2)
			n.join = []string{nodes[0].addr}
			nodes = append(nodes, n)
			n.start()
		}
		nodes[0].voters(3)
		equalImages(t, nodes)
		away := others(nodes, leaderOf(t, nodes))[0]
		var told []uint64
		for _, stop := range []func(){away.stop, away.kill, func() { net.isolate(away.addr) }} {
			stop()
			cut(leaderOf(t, others(nodes, away)))
			if away.Controller == nil {
				away.change = func(c *Config) {
					c.OnChange = func(old, next *Image) { told = append(told, old.Index, next.Index) }
				}
				away.start()
			} else {
				net.heal(away.addr)
			}
			away.inService(1, 2, 3)
			equalImages(t, nodes)
		}
		for i := 2; i < len(told); i += 2 {
			if told[i] != told[i-1] && told[i] != 0 {
				t.Fatalf("entry %d is told after %d", told[i+1], told[i-1])
			}
		}
		for _, n := range nodes {
			n.kill()
		}
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(n.start)
		}
		all.Wait()
		equalImages(t, nodes)
	})
}

// TestVotesSoon: as soon as there are three, all vote: the end of the founder is
// not the end of the cluster.
func TestVotesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer func() { stopAll(nodes) }()
		time.Sleep(500 * time.Millisecond)
		if n := nodes[2].Voters(); n != 3 {
			t.Fatalf("%d vote half a second after the third registered", n)
		}
		nodes[0].kill()
		nodes[1].inService(2, 3)
		create(t, nodes[2].Controller, "after", 1)
	})
}
