package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/offsets"
)

// ofLevel is a cluster of nodes that know format levels up to one.
func ofLevel(t *testing.T, size int, level int16) (*network, []*member) {
	t.Helper()
	net := newNetwork()
	var nodes []*member
	for i := range size {
		n := newMember(t, net, offsets.BrokerID(i+1))
		n.level = level
		if i > 0 {
			n.join = []string{nodes[0].addr}
		}
		n.start()
		nodes = append(nodes, n)
	}
	nodes[0].voters((size - 1) | 1)
	nodes[0].inService(idsOf(nodes)...)
	return net, nodes
}

// outdated tells whether an error says that the cluster has gone on.
func outdated(err error) bool {
	return errors.Is(err, ErrFormatLevel) && strings.Contains(err.Error(), "The cluster is at format level 2, this build knows 1 to 1")
}

// TestRollingUpgrade: nodes of a cluster are replaced one by one by those that
// know another format level, while it works; the level is raised when all know
// it and somebody says so, and what it brings is refused until then. From then
// on an older node neither starts nor joins, and says why.
func TestRollingUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, nodes := ofLevel(t, 3, 1)
		defer func() { stopAll(nodes) }()
		topic := create(t, nodes[0].Controller, "orders", 3)
		move := func(n *member) error {
			refusals, err := n.Reassign(t.Context(), []Reassignment{{"orders", 0, topic.Partitions[0].Replicas[:1]}})
			return errors.Join(append(refusals, err)...)
		}
		for i := range nodes {
			n := nodes[len(nodes)-1-i]
			if err := move(n); !errors.Is(err, ErrFormatLevel) || !strings.Contains(err.Error(), "sawlog cluster upgrade") {
				t.Errorf("%d nodes are new, and a reassignment is answered: %v", i, err)
			}
			if err := n.RaiseFormat(t.Context(), 2, false); !errors.Is(err, ErrFormatLevel) || !strings.Contains(err.Error(), "only supports versions 1-1") {
				t.Errorf("%d nodes are new, and a raise is answered: %v", i, err)
			}
			n.stop()
			n.level = 0
			n.start()
			nodes[0].inService(1, 2, 3)
			create(t, n.Controller, fmt.Sprint("by", n.id), 3)
			if level := n.Image().FormatLevel; level != 1 {
				t.Fatalf("%d nodes are new, the level is %d", i+1, level)
			}
		}
		for _, dry := range []bool{true, false} {
			if err := nodes[1].RaiseFormat(t.Context(), 2, dry); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(nodes[2].RaiseFormat(t.Context(), 2, false), move(nodes[2])); err != nil {
			t.Error(err)
		}
		for _, to := range []int16{-1, 1, 3} {
			if err := nodes[0].RaiseFormat(t.Context(), to, false); !errors.Is(err, ErrFormatLevel) {
				t.Errorf("level %d: %v", to, err)
			}
		}
		equalImages(t, nodes)
		older(t, net, nodes)
	})
}

// older starts older nodes in a cluster that has gone on.
func older(t *testing.T, net *network, nodes []*member) {
	t.Helper()
	back := nodes[2]
	for _, cut := range []bool{false, true} { // the log says it, and then a snapshot
		back.stop()
		back.level = 1
		if err := back.open(t.Context()); !outdated(err) {
			t.Errorf("an older node starts: %v", err)
		}
		net.kill(back.addr)
		back.level = 0
		back.start()
		if !cut {
			if err := back.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	joining := newMember(t, net, 4)
	joining.level, joining.join = 1, []string{nodes[0].addr}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := joining.open(ctx); !strings.Contains(fmt.Sprint(err), "this build knows 1 to 1") {
		t.Errorf("an older node joins: %v", err)
	}
	if _, observers := nodes[0].quorum(); len(observers) != 0 {
		t.Errorf("%v have joined", observers)
	}
}

// TestRaisedBeside: an older node that has joined and not registered yet doesn't
// keep the level down. It ends when it hears of the new one, in the log or, when
// it was away, in a snapshot, and says why.
func TestRaisedBeside(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net, nodes := ofLevel(t, 1, 1)
			defer func() { stopAll(nodes) }()
			first := nodes[0]
			old := newMember(t, net, 2)
			old.level, old.join = 1, []string{first.addr}
			first.stop()
			first.level = 0
			first.start()
			if err := old.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer old.stop()
			if away {
				net.isolate(old.addr)
			}
			if err := first.RaiseFormat(t.Context(), 2, false); err != nil {
				t.Fatal(err)
			}
			if away {
				for range trailingLogs + 100 {
					if _, _, err := first.ProducerIDs(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := first.raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
				net.heal(old.addr)
			}
			select {
			case err := <-old.Failed():
				if !outdated(err) {
					t.Errorf("away %v: it ends: %v", away, err)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("away %v: it goes on", away)
			}
		})
	}
}
