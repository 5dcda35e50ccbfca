package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// reopened opens a node on what a crash left, hands over its image and closes it.
func reopened(t *testing.T, fs vfs.FS, what string) *Image {
	t.Helper()
	c, err := Open(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	im := c.Image()
	if err := c.Close(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return im
}

// act asks for one change of an endless, mixed row of them.
func act(t testing.TB, c *Controller, i int) error {
	ctx := t.Context()
	topics := c.Image().Topics()
	var err error
	switch {
	case i == 0:
		_, err = c.RegisterBroker(ctx, registration(1))
	case i%5 == 1 || len(topics) == 0:
		_, err = c.CreateTopic(ctx, NewTopic{Name: fmt.Sprint("t", i), Partitions: 3, ReplicationFactor: 1})
	case i%5 == 2:
		err = c.AlterConfigs(ctx, ConfigChange{Resource: Resource{TopicResource, topics[0].Name}, Ops: []ConfigOp{{Set, "k", fmt.Sprint(i)}}})
	case i%5 == 3:
		_, _, err = c.ProducerIDs(ctx)
	case i%10 == 4:
		err = c.DeleteTopic(ctx, topics[0].ID)
	default:
		_, err = c.RegisterBroker(ctx, registration(i))
	}
	return err
}

// TestCrashAfterEveryAnswer cuts the power after every answer, in many ways:
// the node that starts on what is left has exactly the image that was answered.
func TestCrashAfterEveryAnswer(t *testing.T) {
	fs := newDisk(t)
	c := open(t, testConfig(fs))
	for i := range 40 {
		if err := act(t, c, i); err != nil {
			t.Fatal(err)
		}
		want := c.Image()
		for seed := range uint64(4) {
			what := fmt.Sprintf("after answer %d, crash %d", i, seed)
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			if got := reopened(t, fs.CrashClone(rnd), what); got.Hash() != want.Hash() {
				t.Fatalf("%s:\n%sbefore it\n%s", what, describe(got), describe(want))
			}
		}
		if got := reopened(t, fs.CrashClone(nil), "killed"); got.Hash() != want.Hash() {
			t.Fatalf("killed after answer %d:\n%s", i, describe(got))
		}
	}
}

// TestCrashAtEveryStep cuts the power before the n-th operation on the disk,
// for every n: from the founding of the cluster on, what is left can be opened
// and holds at least all that was answered, and no more than was asked.
func TestCrashAtEveryStep(t *testing.T) {
	const answers = 6
	for seed := range uint64(2) {
		for step := int64(1); ; step++ {
			fs := newDisk(t)
			var crashed atomic.Pointer[vfs.Mem]
			var steps atomic.Int64
			rnd := rand.New(rand.NewPCG(seed, uint64(step)))
			fs.Inject(func(op vfs.Op, _ string) error {
				switch op {
				case vfs.OpRead, vfs.OpStat, vfs.OpReadDir, vfs.OpOpen, vfs.OpLock:
					return nil
				}
				if steps.Add(1) == step {
					crashed.Store(fs.CrashClone(rnd))
				}
				return nil
			})
			c, err := Open(t.Context(), testConfig(fs))
			if err != nil {
				t.Fatal(err)
			}
			answered, asked := emptyImage(), 0
			for i := 0; i < answers && crashed.Load() == nil; i++ {
				answered = c.Image()
				if err := act(t, c, i); err != nil {
					t.Fatal(err)
				}
				asked++
			}
			last := c.Image()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if crashed.Load() == nil {
				if step < 20 {
					t.Fatalf("only %d steps", step)
				}
				break
			}
			what := fmt.Sprintf("crash at step %d, seed %d, after %d requests", step, seed, asked)
			got := reopened(t, crashed.Load(), what)
			if got.Sequence < answered.Sequence || got.Sequence > max(last.Sequence, 1) {
				t.Fatalf("%s: %d entries are left, %d were answered, %d asked for", what, got.Sequence, answered.Sequence, last.Sequence)
			}
			if got.Sequence == last.Sequence && got.Hash() != last.Hash() && got.Index == last.Index {
				t.Fatalf("%s:\n%snot\n%s", what, describe(got), describe(last))
			}
		}
	}
}

// TestSnapshots: when enough was written a snapshot is taken by itself, the log
// before it goes, two are kept, and a node starts from it and the rest.
func TestSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newDisk(t)
		c := start(t, testConfig(fs))
		value := strings.Repeat("v", MaxConfigValue-1)
		written := 0
		grow := func() {
			t.Helper()
			ops := make([]ConfigOp, 7)
			for i := range ops {
				ops[i] = ConfigOp{Set, fmt.Sprint("k", i), value + fmt.Sprint(written%10)}
			}
			if err := c.AlterConfigs(t.Context(), ConfigChange{Resource: Resource{BrokerResource, ""}, Ops: ops}); err != nil {
				t.Fatal(err)
			}
			written++
			synctest.Wait()
		}
		for range 4 * snapshotBytes / (7 * MaxConfigValue) {
			grow()
		}
		create(t, c, "after", 3)
		snaps, err := fs.ReadDir("data/controller/snapshots")
		if err != nil || len(snaps) != snapshotsKept {
			t.Fatalf("%d snapshots, %v", len(snaps), err)
		}
		want := c.Image()
		if got := reopened(t, fs.CrashClone(rand.New(rand.NewPCG(1, 1))), "after snapshots"); got.Hash() != want.Hash() {
			t.Fatal("snapshot and log lead to another image")
		}
		if err := c.entries.DeleteRange(1, want.Index-3); err != nil {
			t.Fatal(err)
		}
		if first, err := c.entries.FirstIndex(); err != nil || first != want.Index-2 {
			t.Fatalf("the log begins at %d, %v", first, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), testConfig(fs))
		if err == nil || !strings.Contains(err.Error(), "the newest snapshot ends at") {
			t.Errorf("with a gap between snapshot and log: %v", err)
		}
	})
}

// TestSnapshotAlone: a node whose log was lost behind its snapshot goes on from
// the snapshot; one that stopped later is refused.
func TestSnapshotAlone(t *testing.T) {
	fs := newDisk(t)
	c := start(t, testConfig(fs))
	create(t, c, "orders", 3)
	if err := c.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	want := c.Image().Hash()
	killed := fs.CrashClone(nil)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := killed.RemoveAll("data/controller/log"); err != nil {
		t.Fatal(err)
	}
	if got := reopened(t, killed, "without log"); got.Hash() != want {
		t.Error("the snapshot leads to another image")
	}
	again := open(t, testConfig(killed))
	create(t, again, "more", 1)
	if _, ok := again.Image().TopicByName("orders"); !ok {
		t.Error("what was before is gone")
	}
}

// closed is a node's disk after a clean stop, with a snapshot and entries after it.
func closed(t *testing.T) *vfs.Mem {
	t.Helper()
	fs := newDisk(t)
	c, err := Open(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := act(t, c, i); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if err := c.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// files lists the files under a folder.
func files(t *testing.T, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := path.Join(dir, e.Name()); e.IsDir() {
			names = append(names, files(t, fs, name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// find is the one file whose path holds a text.
func find(t *testing.T, fs vfs.FS, text string) string {
	t.Helper()
	for _, name := range files(t, fs, "data/controller") {
		if strings.Contains(name, text) {
			return name
		}
	}
	t.Fatalf("no file with %q in its path", text)
	return ""
}

func overwrite(t *testing.T, fs vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	src, err := vfs.ReadFile(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.Replace(fs, name, change(src)); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFolder: whatever is damaged or missing stops Open with an error
// that names it.
func TestDamagedFolder(t *testing.T) {
	flip := func(at float64) func([]byte) []byte {
		return func(b []byte) []byte {
			b[int(at*float64(len(b)-1))] ^= 0x10
			return b
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	damage := func(file string, change func([]byte) []byte) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) { overwrite(t, fs, find(t, fs, file), change) }
	}
	remove := func(names ...string) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fs vfs.FS) {
			for _, name := range names {
				if err := fs.RemoveAll("data/controller/" + name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, vfs.FS)
		want   string
	}{
		{"stable store flipped", damage("controller/stable", flip(0.5)), "data/controller/stable"},
		{"stable store cut", damage("controller/stable", half), "data/controller/stable"},
		{"stable store empty", damage("controller/stable", func([]byte) []byte { return nil }), "data/controller/stable"},
		{"stable store gone", remove("stable"), "data/controller/stable is gone"},
		{"snapshot flipped", damage(snapshotSuffix, flip(0.5)), "data/controller/snapshots/0"},
		{"snapshot cut", damage(snapshotSuffix, half), "data/controller/snapshots/0"},
		{"snapshot of a newer build", damage(snapshotSuffix, func(b []byte) []byte {
			meta, body, err := decodeSnapshot(b)
			if err != nil {
				t.Fatal(err)
			}
			return encodeSnapshot(meta, append([]byte{entryFormat, 2, 3}, 200, 0, body[0]))
		}), "record type 200"},
		{"log and snapshots gone", remove("log", snapshotsDir), "are gone"},
		{"log gone", remove("log"), "ends at entry 0, but held"},
		{"all gone", remove("log", snapshotsDir, "stable"), ""},
		{"log cut", damage(".log", func(b []byte) []byte { return b[:len(b)-40] }), ""},
		{"log flipped near its end", damage(".log", flip(0.97)), ""},
		{"log flipped in its middle", damage(".log", flip(0.7)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := closed(t)
			c.damage(t, fs)
			config := testConfig(fs)
			config.Established = true
			o, err := Open(t.Context(), config)
			if err == nil {
				t.Fatal("opened all the same", errors.Join(errors.New(describe(o.Image())), o.Close()))
			}
			t.Log(err)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if _, again := Open(t.Context(), config); again == nil || again.Error() != err.Error() {
				t.Errorf("a second try says %v after %v", again, err)
			}
		})
	}
}

// TestDamageBeforeKill: a batch in the middle of the log that went bad while the
// node was killed stops Open as well: what follows it was answered.
func TestDamageBeforeKill(t *testing.T) {
	fs := newDisk(t)
	c := open(t, testConfig(fs))
	for i := range 12 {
		if err := act(t, c, i); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		killed := fs.CrashClone(nil)
		rnd := rand.New(rand.NewPCG(seed, 7))
		overwrite(t, killed, find(t, killed, ".log"), func(b []byte) []byte {
			at := 61 + rnd.IntN(len(b)*3/4) // any of the first entries but for the head of the first
			b[at] ^= 1 << rnd.IntN(8)
			return b
		})
		if o, err := Open(t.Context(), testConfig(killed)); err == nil {
			t.Errorf("seed %d: opened all the same, %v", seed, o.Close())
		} else if !strings.Contains(err.Error(), "raft") {
			t.Errorf("seed %d: %v", seed, err)
		} else {
			t.Log(err)
		}
	}
}

// TestForeignFolder: metadata of another cluster, node or disk is refused.
func TestForeignFolder(t *testing.T) {
	fs := closed(t)
	for name, change := range map[string]func(*Config){
		"cluster":   func(c *Config) { c.ClusterID = "another" },
		"node":      func(c *Config) { c.NodeID = 2 },
		"directory": func(c *Config) { c.Directory = incarnation(1, 9) },
		"no id":     func(c *Config) { c.ClusterID = "" },
		"no dir":    func(c *Config) { c.Dir = "" },
		"no disk":   func(c *Config) { c.Directory = UUID{} },
		"no node":   func(c *Config) { c.NodeID = offsets.NoBroker },
	} {
		config := testConfig(fs)
		change(&config)
		if o, err := Open(t.Context(), config); err == nil {
			t.Errorf("another %s: opened, %v", name, o.Close())
		}
	}
	if im := reopened(t, fs, "afterwards"); im.TopicCount() == 0 {
		t.Error("the topics are gone")
	}
}

// TestInterruptedFounding: a folder in which only the term was written, before
// there was any entry, is founded again; one that has voted is not.
func TestInterruptedFounding(t *testing.T) {
	fs := newDisk(t)
	if err := fs.MkdirAll("data/controller", 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := openStable(fs, "data/controller/stable")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetUint64([]byte(termKey), 1); err != nil {
		t.Fatal(err)
	}
	killed := fs.CrashClone(nil)
	if im := reopened(t, killed, "founded again"); im.ClusterID != testCluster {
		t.Errorf("cluster %q", im.ClusterID)
	}
	if err := s.SetUint64([]byte(voteKey), 1); err != nil {
		t.Fatal(err)
	}
	if o, err := Open(t.Context(), testConfig(fs)); err == nil {
		t.Errorf("a node that has voted begins anew: %v", o.Close())
	}
}

// TestDiskFails: the first failed sync of the log ends it: the proposal is not
// confirmed, and the process is told to stop.
func TestDiskFails(t *testing.T) {
	fs := newDisk(t)
	c, err := Open(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RegisterBroker(t.Context(), registration(1)); err != nil {
		t.Fatal(err)
	}
	fs.Inject(func(op vfs.Op, name string) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".log") {
			return syscall.EIO
		}
		return nil
	})
	_, err = c.CreateTopic(t.Context(), NewTopic{Name: "lost", Partitions: 1, ReplicationFactor: 1})
	if !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNotController) {
		t.Errorf("confirmed, or refused, with %v", err)
	}
	if err := <-c.Failed(); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed with %v", err)
	}
	if err := c.Close(); err == nil {
		t.Error("closed as if nothing had happened")
	}
}

// TestDiskFull: while the disk is full changes are refused or uncertain, never
// confirmed; when there is space again the node goes on by itself.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newDisk(t)
		c := start(t, testConfig(fs))
		fs.Inject(func(op vfs.Op, name string) error {
			if (op == vfs.OpWrite || op == vfs.OpAllocate) && strings.HasSuffix(name, ".log") {
				return syscall.ENOSPC
			}
			return nil
		})
		for range 3 {
			_, err := c.CreateTopic(t.Context(), NewTopic{Name: "full", Partitions: 1, ReplicationFactor: 1})
			time.Sleep(2 * electionTimeout)
			if !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNotController) {
				t.Fatal(err)
			}
		}
		fs.Inject(nil)
		time.Sleep(2 * electionTimeout) // by the clock of the test
		create(t, c, "again", 1)
		if got := reopened(t, fs.CrashClone(rand.New(rand.NewPCG(1, 1))), "after a full disk"); got.Hash() != c.Image().Hash() {
			t.Error("what was confirmed after it is lost")
		}
	})
}

// TestMachine: entries that were decided elsewhere are dropped, those that
// can't be applied stop the state for good.
func TestMachine(t *testing.T) {
	command := func(term uint64, e entry, records ...record) *raft.Log {
		for _, r := range records {
			e.add(appendRecord(nil, r))
		}
		return &raft.Log{Index: 9, Term: term, Data: e.encode()}
	}
	cluster := &clusterRecord{testCluster}
	var wrong [32]byte
	right := emptyImage().Hash()
	for _, c := range []struct {
		name    string
		log     *raft.Log
		applied bool
		dropped bool
	}{
		{"as decided", command(3, entry{Term: 3, Sequence: 1}, cluster), true, false},
		{"the hash fits", command(3, entry{Term: 3, Sequence: 1, Before: &right}, cluster), true, false},
		{"of another term", command(4, entry{Term: 3, Sequence: 1}, cluster), false, true},
		{"on another image", command(3, entry{Term: 3, Sequence: 2}, cluster), false, true},
		{"the hash differs", command(3, entry{Term: 3, Sequence: 1, Before: &wrong}, cluster), false, false},
		{"does not fit", command(3, entry{Term: 3, Sequence: 1}, cluster, cluster), false, false},
		{"no entry", &raft.Log{Index: 9, Term: 3, Data: []byte("?")}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var failure error
			m := newMachine(func(_, _ *Image) { t.Error("told while it starts") }, func(err error) { failure = err }, make(chan struct{}, 1), LevelsTo(0))
			a := m.Apply(c.log).(applied)
			if (m.image.Load().ClusterID != "") != c.applied || a.dropped != c.dropped || (failure == nil) != (c.applied || c.dropped) {
				t.Fatalf("%+v, failure %v", a, failure)
			}
			_, err := m.Snapshot()
			again := m.Apply(command(3, entry{Term: 3, Sequence: m.image.Load().Sequence + 1})).(applied)
			if failed := failure != nil; (err != nil) != failed || (again.err != nil) != failed {
				t.Errorf("after it: %+v, snapshot %v", again, err)
			}
		})
	}
}

// TestUnknownRecordInLog: an entry of a newer build in the log stops the start,
// with its place.
func TestUnknownRecordInLog(t *testing.T) {
	fs := closed(t)
	c, err := Open(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	e := entry{Term: c.raft.CurrentTerm(), Sequence: c.Image().Sequence + 1}
	e.add([]byte{200, 0, 0})
	if err := c.raft.Apply(e.encode(), 0).Error(); err != nil {
		t.Fatal(err)
	}
	failure := <-c.Failed()
	if !errors.Is(failure, errFormat) || !strings.Contains(failure.Error(), "record type 200") {
		t.Errorf("failed with %v", failure)
	}
	if _, _, err := c.ProducerIDs(t.Context()); !errors.Is(err, errFormat) {
		t.Errorf("goes on with %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if o, err := Open(t.Context(), testConfig(fs)); err == nil || !strings.Contains(err.Error(), "record type 200") {
		t.Errorf("opened: %v, %v", o, err)
	}
}

// TestStableVersion: a stable store of a newer build is refused, checksum or not.
func TestStableVersion(t *testing.T) {
	fs := closed(t)
	overwrite(t, fs, "data/controller/stable", func(b []byte) []byte {
		b[4]++
		body := b[:len(b)-4]
		return binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	})
	if _, err := Open(t.Context(), testConfig(fs)); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("opened: %v", err)
	}
}

// TestRealFiles: a node on the real file system.
func TestRealFiles(t *testing.T) {
	config := testConfig(vfs.OS)
	config.Dir = t.TempDir()
	c := start(t, config)
	want := create(t, c, "orders", 3)
	if err := c.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	create(t, c, "more", 3)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path.Join(config.Dir, "controller", "stable")); err != nil {
		t.Fatal(err)
	}
	again := open(t, config)
	if got, ok := again.Image().TopicByName("orders"); !ok || got.ID != want.ID || again.Image().TopicCount() != 2 {
		t.Errorf("after a restart: %s", describe(again.Image()))
	}
}
