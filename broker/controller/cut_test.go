package controller

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/vfs"
)

// fill leaves the disk of a node's Raft log without room while full is set; tried
// counts what is refused.
func (n *member) fill() (full *atomic.Bool, tried *atomic.Int64) {
	full, tried = new(atomic.Bool), new(atomic.Int64)
	full.Store(true)
	n.fs.Inject(func(op vfs.Op, name string) error {
		if !full.Load() || op != vfs.OpWrite && op != vfs.OpAllocate || !strings.HasSuffix(name, ".log") {
			return nil
		}
		tried.Add(1)
		return syscall.ENOSPC
	})
	return full, tried
}

// diverge cuts the leader off while it is asked for changes, which it writes down
// and nobody else hears of, and has the others go on.
func diverge(t *testing.T, net *network, nodes []*member, changes int) (old *member) {
	t.Helper()
	old = leaderOf(t, nodes)
	net.isolate(old.addr)
	for i := range changes {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := old.CreateTopic(ctx, NewTopic{Name: fmt.Sprint("lost", i), Partitions: 1, ReplicationFactor: 1}); err == nil {
			t.Error("a leader without followers decides")
		}
		cancel()
	}
	rest := others(nodes, old)
	leaderOf(t, rest)
	for i := range 3 {
		create(t, rest[0].Controller, fmt.Sprint("kept", i), 1)
	}
	return old
}

// TestCutOnAFullDisk: a follower that has cut what another leader overwrites, and
// has no room for that one's entries, goes on once there is room.
func TestCutOnAFullDisk(t *testing.T) {
	for _, changes := range []int{1, 10, 40} {
		synctest.Test(t, func(t *testing.T) {
			net, nodes := clusterOf(t, 3)
			defer func() { stopAll(nodes) }()
			nodes[0].voters(3)
			old := diverge(t, net, nodes, changes)
			full, tried := old.fill()
			net.heal(old.addr)
			time.Sleep(3 * time.Minute) // so that the leader goes back beyond what it sends at a time
			at := leaderOf(t, others(nodes, old)).Applied()
			if tried.Load() == 0 || old.Applied() >= at {
				t.Fatalf("it has %d of %d entries on a disk without room, which refused %d writes", old.Applied(), at, tried.Load())
			}
			full.Store(false)
			began := time.Now()
			for old.Applied() < at {
				time.Sleep(10 * time.Millisecond)
				if time.Since(began) > 15*time.Second { // Raft asks again after up to 10
					t.Fatalf("it has %d of %d entries %v after there was room", old.Applied(), at, time.Since(began))
				}
			}
			t.Logf("%d changes lost: caught up after %v", changes, time.Since(began))
			equalImages(t, nodes)
		})
	}
}

// TestGuardAnswersForWhatIsCut: as long as nothing replaced them, entries that
// were cut are there for Raft, of a term nobody has; nothing of it is ever stored.
func TestGuardAnswersForWhatIsCut(t *testing.T) {
	c := logFolder(t, newDisk(t))
	g := &stallGuard{entries: c.entries, alone: func() bool { return true }}
	var logs []*raft.Log
	for i := range uint64(6) {
		logs = append(logs, &raft.Log{Index: i + 1, Term: 1, AppendedAt: time.UnixMilli(1)})
	}
	terms := func(want ...uint64) {
		t.Helper()
		for i, term := range want {
			var l raft.Log
			if err := g.GetLog(uint64(i+1), &l); err != nil || l.Index != uint64(i+1) || l.Term != term {
				t.Errorf("entry %d: %+v %v, want term %d", i+1, l, err, term)
			}
		}
		if err := g.GetLog(uint64(len(want)+1), new(raft.Log)); err != raft.ErrLogNotFound {
			t.Errorf("entry %d: %v", len(want)+1, err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(g.StoreLogs(logs))
	terms(1, 1, 1, 1, 1, 1)
	do(g.DeleteRange(4, 6))
	terms(1, 1, 1, 0, 0, 0)
	if err := g.StoreLogs([]*raft.Log{{Index: 4}}); err == nil {
		t.Error("an entry of no term is stored")
	}
	if err := g.StoreLogs([]*raft.Log{{Index: 7, Term: 2}}); err == nil {
		t.Error("a gap is stored")
	}
	terms(1, 1, 1, 0, 0, 0)
	do(g.DeleteRange(4, 6)) // nothing is there
	do(g.StoreLogs([]*raft.Log{{Index: 4, Term: 2}}))
	terms(1, 1, 1, 2)
	do(g.DeleteRange(1, 4)) // all of it
	terms(0, 0, 0, 0)
	do(g.StoreLogs([]*raft.Log{{Index: 1, Term: 3}, {Index: 2, Term: 3}, {Index: 3, Term: 3}}))
	do(g.DeleteRange(1, 2)) // a head, which a snapshot has
	if err := g.GetLog(2, new(raft.Log)); err != raft.ErrLogNotFound {
		t.Errorf("entry 2: %v", err)
	}
	do(c.disk.Close())
}
