package controller

import (
	"testing"
	"testing/synctest"
)

// TestGrow: nodes join a node that was alone, which is asked on all of them.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := clusterOf(t, 3)
		defer stopAll(nodes)
		nodes[0].inService(1, 2, 3)
		for i, n := range nodes {
			create(t, n.Controller, string(rune('a'+i)), 3)
		}
		for _, n := range nodes {
			if err := n.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n.Image().Hash() != nodes[0].Image().Hash() || n.Image().TopicCount() != 3 {
				t.Errorf("node %d: %s", n.id, describe(n.Image()))
			}
		}
	})
}
