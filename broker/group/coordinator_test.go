package group

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func want(t *testing.T, what, have, want string) {
	t.Helper()
	if have != want {
		t.Errorf("%s: %s, want %s", what, have, want)
	}
}

// TestJavaHash: the values are Java's, as Kafka places groups by them.
func TestJavaHash(t *testing.T) {
	for _, c := range []struct {
		group     string
		hash      int32
		partition int32
	}{
		{"", 0, 0},
		{"hello", 99162322, 22},
		{"Aa", 2112, 12},
		{"BB", 2112, 12},
		{"polygenelubricants", -2147483648, 0}, // the smallest int32
		{"ä", 228, 28},
		{"😀", 1772899, 49},
	} {
		if have := javaHash(c.group); have != c.hash {
			t.Errorf("hash of %q = %d, want %d", c.group, have, c.hash)
		}
		co := Coordinator{config: Config{Partitions: 50}}
		if have := co.PartitionFor(c.group); have != c.partition {
			t.Errorf("partition of %q = %d, want %d", c.group, have, c.partition)
		}
	}
}

// TestRebalance: a group's life by the clock.
func TestRebalance(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		began := time.Now()
		a := r.stable("g")
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("the first generation took %v, want the initial delay of 3s", waited)
		}
		second := begin(r.JoinGroup, joinRequest("g", "", 2))
		settle()
		want(t, "heartbeat during a rebalance", r.heartbeat(a), "REBALANCE_IN_PROGRESS")
		again := call(r.JoinGroup, joinRequest("g", a.id, 9))
		other := <-second
		if again.ErrorCode != 0 || len(again.Members) != 2 || other.ErrorCode != 0 || len(other.Members) != 0 {
			t.Fatalf("leader %v, follower %v", again, other)
		}
		a.generation = again.Generation
		b := member{"g", other.MemberID, other.Generation}
		waits := begin(r.SyncGroup, syncRequest("g", b.id, b.generation, nil))
		settle()
		if len(waits) > 0 {
			t.Fatal("follower answered before the leader has assigned")
		}
		call(r.SyncGroup, syncRequest("g", a.id, a.generation, map[string]string{a.id: "A", b.id: "B"}))
		if got := <-waits; string(got.MemberAssignment) != "B" {
			t.Fatalf("follower got %q", got.MemberAssignment)
		}
		// b stays silent for its session of 10 s; a does not.
		for range 3 {
			pass(4 * time.Second)
			_ = r.heartbeat(a)
		}
		want(t, "heartbeat of the one left out", r.heartbeat(b), "UNKNOWN_MEMBER_ID")
		want(t, "heartbeat of the other", r.heartbeat(a), "REBALANCE_IN_PROGRESS")
		want(t, "leave", r.leave(a), "OK")
		if m := r.Metrics(); m.Rebalances != 3 || m.Members != 0 || m.Groups != 1 {
			t.Errorf("metrics %+v, want 3 generations, 1 group, no member", m)
		}
	})
}

// TestMembersAreMissed: a session that runs out removes the member, a pending
// id is forgotten, and nothing is left in memory of a group nobody joined.
func TestMembersAreMissed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pending := call(r.JoinGroup, joinRequest("p", "", 9))
		pass(10*time.Second - time.Millisecond)
		if m := r.Metrics(); m.Groups != 1 {
			t.Errorf("%d groups, want the pending one", m.Groups)
		}
		pass(time.Millisecond)
		if m := r.Metrics(); m.Groups != 0 {
			t.Errorf("%d groups left", m.Groups)
		}
		late := call(r.JoinGroup, joinRequest("p", pending.MemberID, 9))
		want(t, "join with an id forgotten", codeName(late.ErrorCode), "UNKNOWN_MEMBER_ID")

		m := r.stable("g")
		pass(9 * time.Second)
		want(t, "commit as a sign of life", r.commit(m, "t", 0, 5), "OK")
		pass(9 * time.Second)
		want(t, "heartbeat", r.heartbeat(m), "OK")
		pass(10 * time.Second)
		want(t, "heartbeat too late", r.heartbeat(m), "UNKNOWN_MEMBER_ID")
	})
}

// TestBarrierTimeout: members that do not join again within the rebalance
// timeout are dropped.
func TestBarrierTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := r.stable("g")
		second := begin(r.JoinGroup, joinRequest("g", "", 2))
		for range 14 {
			pass(4 * time.Second)
			want(t, "heartbeat", r.heartbeat(a), "REBALANCE_IN_PROGRESS")
		}
		if len(second) > 0 {
			t.Fatal("answered before the rebalance timeout")
		}
		pass(4 * time.Second)
		if got := <-second; got.ErrorCode != 0 || got.LeaderID != got.MemberID {
			t.Fatalf("the one that joined: %+v", got)
		}
		want(t, "heartbeat of the one dropped", r.heartbeat(a), "UNKNOWN_MEMBER_ID")
	})
}

// TestNotReady: nothing is answered for a partition that is not led, or not
// loaded yet, least of all UNKNOWN_MEMBER_ID.
func TestNotReady(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("g")
		p := r.PartitionFor("g")
		r.Resigned(p)
		check := func(code, beat, sync string) {
			t.Helper()
			want(t, "heartbeat", r.heartbeat(m), beat)
			want(t, "sync", codeName(call(r.SyncGroup, syncRequest("g", m.id, m.generation, nil)).ErrorCode), sync)
			want(t, "join", codeName(call(r.JoinGroup, joinRequest("g", m.id, 9)).ErrorCode), code)
			want(t, "commit", r.commit(m, "t", 0, 1), code)
			want(t, "fetch", codeName(r.fetch("g", "t", 0).ErrorCode), code)
			want(t, "leave", r.leave(m), code)
			want(t, "describe", codeName(call(r.DescribeGroups, describeRequest("g")).Groups[0].ErrorCode), code)
			want(t, "delete", codeName(call(r.DeleteGroups, deleteRequest("g")).Groups[0].ErrorCode), code)
			q := kmsg.NewPtrOffsetDeleteRequest()
			q.Group = "g"
			want(t, "offset delete", codeName(call(r.OffsetDelete, q).ErrorCode), code)
		}
		check("NOT_COORDINATOR", "NOT_COORDINATOR", "NOT_COORDINATOR")
		want(t, "list", codeName(call(r.ListGroups, kmsg.NewPtrListGroupsRequest()).ErrorCode), "OK")

		// Elected, but what was acknowledged may lie above the watermark known here.
		r.topic.mu.Lock()
		r.topic.calm[p] = true
		r.topic.mu.Unlock()
		r.Elected(p, 2)
		pass(time.Second)
		check("COORDINATOR_LOAD_IN_PROGRESS", "OK", "REBALANCE_IN_PROGRESS")
		want(t, "list", codeName(call(r.ListGroups, kmsg.NewPtrListGroupsRequest()).ErrorCode), "COORDINATOR_LOAD_IN_PROGRESS")

		r.topic.mu.Lock()
		r.topic.calm[p] = false
		r.topic.logs[p].epoch = 2
		r.topic.mu.Unlock()
		pass(time.Second)
		want(t, "heartbeat after the move", r.heartbeat(m), "OK")
	})
}

// TestNotLeased: a coordinator that was cut off shows no offsets, which another
// one may have moved on meanwhile.
func TestNotLeased(t *testing.T) {
	var lost atomic.Bool
	bubble(t, func(t *testing.T, r *rig) {
		want(t, "commit", r.commit(outsider("g"), "t", 0, 5), "OK")
		lost.Store(true)
		want(t, "fetch", codeName(r.fetch("g", "t", 0).ErrorCode), "NOT_COORDINATOR")
		lost.Store(false)
		if have := r.committed("g", "t", 0); have != 5 {
			t.Errorf("offset %d", have)
		}
	}, func(c *Config) { c.Leased = func() bool { return !lost.Load() } })
}

// TestResign: what waits is answered at once when the partition moves, also
// where the append that it waits for never returns.
func TestResign(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("g")
		join := begin(r.JoinGroup, joinRequest("g", "", 2))
		r.topic.mu.Lock()
		r.topic.hold = make(chan struct{})
		r.topic.mu.Unlock()
		first := begin(r.OffsetCommit, commitRequest(m, "t", 0, 1))
		settle()
		second := begin(r.OffsetCommit, commitRequest(m, "t", 0, 2)) // still in the queue
		settle()
		r.Resigned(r.PartitionFor("g"))
		settle()
		if len(join) != 1 || len(first) != 1 || len(second) != 1 {
			t.Fatalf("left waiting: join %d, commits %d %d", len(join), len(first), len(second))
		}
		want(t, "join", codeName((<-join).ErrorCode), "NOT_COORDINATOR")
		want(t, "commit", codeName((<-first).Topics[0].Partitions[0].ErrorCode), "NOT_COORDINATOR")
		want(t, "commit", codeName((<-second).Topics[0].Partitions[0].ErrorCode), "NOT_COORDINATOR")
	})
}

// TestAckIsBoundToTheEpoch: an append that ends up in another epoch than the one
// the shard was elected for is not acknowledged.
func TestAckIsBoundToTheEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p := r.PartitionFor("g")
		r.topic.mu.Lock()
		r.topic.logs[p].epoch = 9
		r.topic.mu.Unlock()
		want(t, "the log is in another epoch", r.commit(outsider("g"), "t", 0, 1), "NOT_COORDINATOR")
		if end := r.topic.logs[p].end(); end != 0 {
			t.Errorf("the log goes to %d all the same", end)
		}

		// Committed, as far as Append knows; but by the time it is applied the
		// log holds another leader's record there.
		r.topic.mu.Lock()
		r.topic.logs[p].epoch = 1
		r.topic.hold = make(chan struct{})
		hold := r.topic.hold
		r.topic.mu.Unlock()
		waits := begin(r.OffsetCommit, commitRequest(outsider("g"), "t", 0, 2))
		settle()
		r.topic.mu.Lock()
		l := r.topic.logs[p]
		l.batches[len(l.batches)-1].Stamp(l.batches[len(l.batches)-1].BaseOffset(), 10)
		r.topic.mu.Unlock()
		close(hold)
		want(t, "replaced in the log", codeName((<-waits).Topics[0].Partitions[0].ErrorCode), "NOT_COORDINATOR")
	})
}

// TestAppendErrors: what the log says and what a client is told.
func TestAppendErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{kerr.NotEnoughReplicas, "COORDINATOR_NOT_AVAILABLE"},
		{kerr.NotEnoughReplicasAfterAppend, "COORDINATOR_NOT_AVAILABLE"},
		{kerr.UnknownTopicOrPartition, "COORDINATOR_NOT_AVAILABLE"},
		{kerr.RequestTimedOut, "COORDINATOR_NOT_AVAILABLE"},
		{fmt.Errorf("append: %w", kerr.NotLeaderForPartition), "NOT_COORDINATOR"},
		{kerr.KafkaStorageError, "NOT_COORDINATOR"},
		{kerr.MessageTooLarge, "UNKNOWN_SERVER_ERROR"},
		{context.DeadlineExceeded, "COORDINATOR_NOT_AVAILABLE"},
	} {
		t.Run(c.want+" "+c.err.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				m := r.stable("g")
				r.topic.mu.Lock()
				r.topic.fail = c.err
				r.topic.mu.Unlock()
				want(t, "commit", r.commit(m, "t", 0, 1), c.want)
				// A new generation cannot be written: its leader is told, and
				// everybody joins again.
				joined := call(r.JoinGroup, joinRequest("g", m.id, 9))
				synced := call(r.SyncGroup, syncRequest("g", m.id, joined.Generation, nil))
				want(t, "sync", codeName(synced.ErrorCode), c.want)
				m.generation = joined.Generation
				want(t, "heartbeat", r.heartbeat(m), "REBALANCE_IN_PROGRESS")
			})
		})
	}
}

// TestCommitTimeout: a commit nobody replicates is answered after five seconds.
func TestCommitTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.topic.mu.Lock()
		r.topic.hold = make(chan struct{})
		r.topic.mu.Unlock()
		began := time.Now()
		want(t, "commit", r.commit(outsider("g"), "t", 0, 1), "COORDINATOR_NOT_AVAILABLE")
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}
