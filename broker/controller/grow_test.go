package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
