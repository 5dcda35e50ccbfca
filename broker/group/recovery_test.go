package group

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/offsets"
)

// TestRestart: a coordinator that starts again has the same members without a
// rebalance and the same offsets, which come from the store and not from the log.
func TestRestart(t *testing.T) {
	path := t.TempDir() + "/offsets.db"
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFakeTopic(), path)
		m := r.stable("g")
		for i := range int32(10) {
			want(t, "commit", r.commit(m, "t", i, int64(100+i)), "OK")
		}
		p := r.PartitionFor("g")
		r.stop()
		end := r.topic.log(p).end()
		for _, l := range r.topic.logs {
			l.epoch = 2
		}
		r.topic.reads = nil

		r = start(t, r.topic, path)
		defer r.stop()
		for _, from := range r.topic.reads {
			if from != end && from != end-1 && from != 0 {
				t.Errorf("read from %d, want only from the end %d on", from, end)
			}
		}
		want(t, "heartbeat", r.heartbeat(m), "OK")
		for i := range int32(10) {
			if have := r.committed("g", "t", i); have != int64(100+i) {
				t.Errorf("partition %d: %d", i, have)
			}
		}
		want(t, "sync", string(call(r.SyncGroup, syncRequest("g", m.id, m.generation, nil)).MemberAssignment), "assigned")
		if n := r.Metrics().Rebalances; n != 0 {
			t.Errorf("%d rebalances", n)
		}
		if n := r.Metrics().Rebuilds; n != 0 {
			t.Errorf("%d partitions applied anew", n)
		}
		pass(10 * time.Second)
		want(t, "heartbeat after the session", r.heartbeat(m), "UNKNOWN_MEMBER_ID")
	})
}

// TestFollowerBecomesLeader: what a follower has applied makes it ready at once.
func TestFollowerBecomesLeader(t *testing.T) {
	topic := newFakeTopic()
	one, two := t.TempDir()+"/one.db", t.TempDir()+"/two.db"
	synctest.Test(t, func(t *testing.T) {
		leader := start(t, topic, one)
		store := openStore(t, two)
		co, err := New(topic.config(store))
		if err != nil {
			t.Fatal(err)
		}
		follower := &rig{co, t, topic, store, two}
		defer follower.stop()
		m := leader.stable("g")
		want(t, "commit", leader.commit(m, "t", 1, 42), "OK")
		p := leader.PartitionFor("g")
		follower.Advance(p, topic.log(p).high)
		settle()
		leader.stop()
		if at := store.Applied(p); at.Offset != topic.log(p).high || at.Epoch != 1 {
			t.Fatalf("the follower applied up to %+v", at)
		}
		topic.log(p).epoch = 2
		follower.Elected(p, 2)
		settle()
		want(t, "heartbeat", follower.heartbeat(m), "OK")
		if have := follower.committed("g", "t", 1); have != 42 {
			t.Errorf("offset %d", have)
		}
	})
}

// TestLogAndStoreDisagree: whatever happened to the log below the applied
// offset, the partition is applied anew and the log is right.
func TestLogAndStoreDisagree(t *testing.T) {
	path := t.TempDir() + "/offsets.db"
	change := map[string]func(l *fakeLog){
		"cut and rewritten in a new epoch": func(l *fakeLog) {
			last := l.batches[len(l.batches)-1]
			keep := l.batches[len(l.batches)-2]
			rewritten := append([]byte(nil), keep...)
			l.batches[len(l.batches)-1] = rewritten // the commit before, said again
			l.batches[len(l.batches)-1].Stamp(last.BaseOffset(), 2)
		},
		"cut": func(l *fakeLog) {
			l.batches = l.batches[:len(l.batches)-1]
			l.high = l.end()
		},
	}
	for name, fn := range change {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := path + strings.ReplaceAll(name, " ", "-")
				r := start(t, newFakeTopic(), path)
				want(t, "commit", r.commit(outsider("g"), "t", 1, 10), "OK")
				want(t, "commit", r.commit(outsider("g"), "t", 1, 20), "OK")
				p := r.PartitionFor("g")
				r.stop()
				l := r.topic.log(p)
				fn(l)
				l.epoch = 3
				r = start(t, r.topic, path)
				defer r.stop()
				if have := r.committed("g", "t", 1); have != 10 {
					t.Errorf("offset %d, want the 10 the log holds", have)
				}
				if n := r.Metrics().Rebuilds; n != 1 {
					t.Errorf("%d partitions applied anew", n)
				}
			})
		})
	}
}

// TestCutWhileRunning: a follower whose log is cut below what it has applied
// finds out by the new epoch that follows.
func TestCutWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want(t, "commit", r.commit(outsider("g"), "t", 1, 10), "OK")
		want(t, "commit", r.commit(outsider("g"), "t", 1, 20), "OK")
		p := r.PartitionFor("g")
		r.Resigned(p)
		settle()
		l := r.topic.log(p)
		l.batches = l.batches[:1]
		for i := range 2 {
			b := append([]byte(nil), l.batches[0]...)
			l.batches = append(l.batches, b)
			l.batches[len(l.batches)-1].Stamp(offsets.Offset(1+i), 5)
		}
		l.high = l.end()
		r.Advance(p, l.high)
		settle()
		if n := r.Metrics().Rebuilds; n != 1 {
			t.Errorf("%d partitions applied anew", n)
		}
		c, ok, err := r.store.Offset(p, "g", offsets.TopicPartition{Topic: "t", Partition: 1})
		if err != nil || !ok || c.Offset != 10 {
			t.Errorf("offset %+v %v %v, want 10", c, ok, err)
		}
	})
}

// TestLeft: a broker that hosts a partition no more drops what it stored of it,
// and one that hosts it again makes it from the log.
func TestLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want(t, "commit", r.commit(outsider("g"), "t", 1, 10), "OK")
		p := r.PartitionFor("g")
		host := func(gone bool) {
			r.topic.mu.Lock()
			defer r.topic.mu.Unlock()
			r.topic.gone[p] = gone
		}
		stored := func() offsets.Offset {
			c, _, err := r.store.Offset(p, "g", offsets.TopicPartition{Topic: "t", Partition: 1})
			if err != nil {
				t.Fatal(err)
			}
			return c.Offset
		}
		r.Left(p) // an image that was overtaken: it is hosted all the same
		settle()
		if stored() != 10 {
			t.Error("dropped while it was hosted")
		}
		host(true)
		r.Left(p)
		settle()
		if at := r.store.Applied(p); stored() != 0 || at.Offset != 0 {
			t.Errorf("kept, applied up to %+v", at)
		}
		host(false)
		r.Advance(p, 0)
		settle()
		if stored() != 10 {
			t.Error("not made again")
		}
		if n := r.Metrics().Rebuilds; n != 0 {
			t.Errorf("%d partitions applied anew for a disagreement", n)
		}
	})
}

// TestFlush: what is applied reaches the file half a second later, or at once
// when it is much, and never before the ack of anybody.
func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		dirty := func() int {
			rows, _ := r.store.Dirty()
			return rows
		}
		want(t, "commit", r.commit(outsider("g"), "t", 0, 1), "OK")
		pass(400 * time.Millisecond)
		want(t, "commit", r.commit(outsider("g"), "t", 1, 1), "OK")
		if n := dirty(); n != 2 {
			t.Errorf("%d rows wait after 400 ms, want 2", n)
		}
		pass(100 * time.Millisecond)
		if n := dirty(); n != 0 {
			t.Errorf("%d rows wait after 500 ms", n)
		}
		for i := range int32(8) {
			want(t, "commit", r.commit(outsider("g"), "t", i, 1), "OK")
		}
		settle()
		if n := dirty(); n != 0 {
			t.Errorf("%d rows wait, though there were 8", n)
		}
	}, func(c *Config) { c.Settings.FlushRows = 8 })
}

// TestFullOverlay: what is led is applied up to twice the overlay's bound, and
// past that by flushing first.
func TestFullOverlay(t *testing.T) {
	path := t.TempDir() + "/offsets.db"
	synctest.Test(t, func(t *testing.T) {
		topic := newFakeTopic()
		store, err := offsets.OpenStore(offsets.StoreConfig{Path: path, Mmap: 1 << 20, MaxOverlay: 1000})
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, topic, "", func(c *Config) { c.Store = store })
		for i := range int32(10) {
			want(t, "commit", r.commit(outsider("g"), "t", i, 5), "OK")
			if _, size := store.Dirty(); size > 2500 {
				t.Fatalf("%d bytes in memory", size)
			}
		}
		r.stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFailingStore: an error of the disk ends the process by Fail; what was
// acknowledged stays readable from memory meanwhile.
func TestFailingStore(t *testing.T) {
	path := t.TempDir() + "/offsets.db"
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		failed := make(chan error, 10)
		r := start(t, newFakeTopic(), "", func(c *Config) {
			c.Store = store
			c.Fail = func(err error) { failed <- err }
		})
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if code := codeName(call(r.OffsetCommit, commitRequest(outsider("g"), "t", 0, 5)).Topics[0].Partitions[0].ErrorCode); code != "OK" {
			t.Errorf("commit: %s", code)
		}
		pass(time.Second)
		if err := <-failed; !strings.Contains(err.Error(), path) {
			t.Errorf("the error names no path: %v", err)
		}
		if have := r.committed("g", "t", 0); have != 5 {
			t.Errorf("offset %d", have)
		}
		if err := r.Close(); err == nil {
			t.Error("closed without an error though nothing could be flushed")
		}
	})
}

// TestKilled: the process is killed at some moment; the disk has the store as
// of some earlier flush, down to none at all. Whatever it is, the offsets and
// the members are those that were acknowledged.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFakeTopic(), dir+"/offsets.db")
		copies := []string{dir + "/none.db"}
		keep := func(name string) {
			b, err := os.ReadFile(r.path)
			if err := errors.Join(err, os.WriteFile(dir+name, b, 0o600)); err != nil {
				t.Fatal(err)
			}
			copies = append(copies, dir+name)
		}
		keep("/empty.db")
		m := r.stable("g")
		want(t, "commit", r.commit(m, "t", 0, 1), "OK")
		keep("/unflushed.db")
		pass(time.Second)
		keep("/flushed.db")
		want(t, "commit", r.commit(m, "t", 0, 2), "OK")
		want(t, "commit", r.commit(m, "t", 1, 3), "OK")
		keep("/between.db")
		want(t, "commit", r.commit(outsider("h"), "t", 0, 9), "OK")
		want(t, "delete", codeName(call(r.DeleteGroups, deleteRequest("h")).Groups[0].ErrorCode), "OK")
		pass(time.Second)
		keep("/last.db")
		r.stop()
		for i, path := range copies {
			for _, l := range r.topic.logs {
				l.epoch = offsets.Epoch(2 + i)
			}
			again := start(t, r.topic, path)
			want(t, path+": heartbeat", again.heartbeat(m), "OK")
			if a, b, c := again.committed("g", "t", 0), again.committed("g", "t", 1), again.committed("h", "t", 0); a != 2 || b != 3 || c != -1 {
				t.Errorf("%s: offsets %d %d %d, want 2 3 -1", path, a, b, c)
			}
			if n := again.Metrics().Rebuilds; n != 0 {
				t.Errorf("%s: %d partitions applied anew", path, n)
			}
			again.stop()
		}
	})
}
