package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	var failed error
	g := guardOf(c, &failed)
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
	if err := g.StoreLogs([]*raft.Log{{Index: 7, Term: 2}}); err == nil || !errors.Is(failed, errMisled) {
		t.Errorf("a gap is stored: %v %v", err, failed)
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

func guardOf(c *Controller, failed *error) *stallGuard {
	return &stallGuard{
		entries: c.entries, alone: func() bool { return true }, stalled: func() {},
		covered: func() (uint64, uint64) { return 0, 0 }, fail: func(err error) { *failed = err },
	}
}

// TestGuardTellsOnlyWhatIsSynced: entries that were written in the place of others,
// and not synced yet, or not all of them, are none.
func TestGuardTellsOnlyWhatIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newDisk(t)
		c := logFolder(t, fs)
		var failed error
		g := guardOf(c, &failed)
		g.alone = func() bool { return false }
		store := func(term uint64, first, last uint64) error {
			var logs []*raft.Log
			for i := first; i <= last; i++ {
				logs = append(logs, &raft.Log{Index: i, Term: term, AppendedAt: time.UnixMilli(1)})
			}
			return g.StoreLogs(logs)
		}
		term := func(index uint64) uint64 {
			t.Helper()
			var l raft.Log
			if err := g.GetLog(index, &l); err != nil {
				t.Errorf("entry %d: %v", index, err)
			}
			return l.Term
		}
		if err := errors.Join(store(1, 1, 6), g.DeleteRange(4, 6)); err != nil {
			t.Fatal(err)
		}
		fs.Inject(func(op vfs.Op, name string) error {
			if op == vfs.OpSync && strings.HasSuffix(name, ".log") {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		if err := store(2, 4, 5); !errors.Is(err, errStalled) {
			t.Errorf("the disk hangs: %v", err)
		}
		var written raft.Log
		if err := c.entries.GetLog(4, &written); err != nil || written.Term != 2 {
			t.Fatalf("this tests nothing: %+v %v", written, err)
		}
		if got := []uint64{term(3), term(4), term(5), term(6)}; !slices.Equal(got, []uint64{1, 0, 0, 0}) {
			t.Errorf("while the disk hangs entries 3 to 6 are of terms %d", got)
		}
		if err := g.DeleteRange(4, 6); !errors.Is(err, errStalled) {
			t.Errorf("cut while the disk hangs: %v", err)
		}
		time.Sleep(10 * time.Second)
		fs.Inject(nil)
		if got := term(4); got != 0 {
			t.Errorf("nobody knows of entry 4 that it is synced, it is of term %d", got)
		}
		if err := errors.Join(g.DeleteRange(4, 6), store(2, 4, 5)); err != nil {
			t.Fatal(err)
		}
		if got := []uint64{term(3), term(4), term(5)}; !slices.Equal(got, []uint64{1, 2, 2}) || failed != nil {
			t.Errorf("entries 3 to 5 are of terms %d, %v", got, failed)
		}
		g.close()
		if err := c.disk.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestGuardBehindASnapshot: a snapshot took the place of the whole log, whose end
// Raft still believes in; what follows the snapshot is taken.
func TestGuardBehindASnapshot(t *testing.T) {
	c := logFolder(t, newDisk(t))
	var failed error
	g := guardOf(c, &failed)
	var logs []*raft.Log
	for i := range uint64(6) {
		logs = append(logs, &raft.Log{Index: i + 1, Term: 1, AppendedAt: time.UnixMilli(1)})
	}
	if err := errors.Join(g.StoreLogs(logs), g.DeleteRange(1, 6)); err != nil {
		t.Fatal(err)
	}
	g.covered = func() (uint64, uint64) { return 4, 2 }
	var l raft.Log
	if err := g.GetLog(3, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 3, which the snapshot covers: %+v %v", l, err)
	}
	if err := g.GetLog(4, &l); err != nil || l.Term != 2 {
		t.Errorf("its last entry: %+v %v", l, err)
	}
	if err := g.GetLog(5, &l); err != nil || l.Term != 0 {
		t.Errorf("entry 5: %+v %v", l, err)
	}
	if err := g.DeleteRange(5, 6); err != nil {
		t.Error(err)
	}
	if err := g.StoreLogs([]*raft.Log{{Index: 5, Term: 2}}); err != nil || failed != nil {
		t.Errorf("entry 5 of the leader: %v %v", err, failed)
	}
	if err := c.disk.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoTermIsNotFollowed: a message with an entry that nobody has cuts nothing.
func TestNoTermIsNotFollowed(t *testing.T) {
	for _, c := range []struct {
		terms []uint64
		want  bool
	}{{nil, true}, {[]uint64{1, 2}, true}, {[]uint64{0}, false}, {[]uint64{1, 0}, false}} {
		a := &raft.AppendEntriesRequest{LeaderCommitIndex: 100, PrevLogEntry: 7}
		for _, term := range c.terms {
			a.Entries = append(a.Entries, &raft.Log{Term: term})
		}
		if got := vouch(a); got != c.want || a.LeaderCommitIndex != 7+uint64(len(c.terms)) {
			t.Errorf("%d: %v, commits up to %d", c.terms, got, a.LeaderCommitIndex)
		}
	}
	if !vouch(&raft.RequestVoteRequest{}) {
		t.Error("votes are not asked for")
	}
}
