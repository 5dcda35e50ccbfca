package log

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestFlushBeforeAck: with flush.messages=1 or flush.ms=0 what Append returned
// for is synced.
func TestFlushBeforeAck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"flush.messages=1": func(c *Config) { c.FlushMessages = 1 },
		"flush.ms=0":       func(c *Config) { c.FlushMs = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			_, d, l := onMem(t, c)
			for range 30 {
				out := appendOne(t, l, batch(t, int(l.End()), 5))
				if l.RecoveryPoint() <= out.Last {
					t.Fatalf("acknowledged %d, synced below %d", out.Last, l.RecoveryPoint())
				}
			}
			must(t, d.Close())
		})
	}
}

func TestFlushMessages(t *testing.T) {
	c := DefaultConfig()
	c.FlushMessages = 12
	_, d, l := onMem(t, c)
	for i, want := range []offsets.Offset{0, 0, 15, 15, 15, 30} {
		appendOne(t, l, batch(t, 5*i, 5))
		if l.RecoveryPoint() != want {
			t.Fatalf("after %d appends synced below %d, want %d", i+1, l.RecoveryPoint(), want)
		}
	}
	must(t, d.Close())
}

// TestFlushMs syncs in time, once for all that was appended meanwhile.
func TestFlushMs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.FlushMs = 1000
		fs, d, l := onMem(t, c)
		syncs := 0
		fs.Inject(func(op vfs.Op, name string) error {
			if op == vfs.OpSync && strings.HasSuffix(name, logSuffix) {
				syncs++
			}
			return nil
		})
		fill(t, l, 50)
		time.Sleep(749 * time.Millisecond)
		synctest.Wait()
		if l.RecoveryPoint() != 0 {
			t.Fatalf("synced below %d before its time", l.RecoveryPoint())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if l.RecoveryPoint() != 50 || syncs != 1 {
			t.Fatalf("synced below %d, %d syncs", l.RecoveryPoint(), syncs)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if syncs != 1 {
			t.Fatalf("%d syncs of an idle log", syncs)
		}
		fill(t, l, 60)
		time.Sleep(time.Second)
		synctest.Wait()
		if l.RecoveryPoint() != 60 {
			t.Fatalf("synced below %d the second time", l.RecoveryPoint())
		}
		must(t, d.Close())
	})
}

// TestClosedSegmentsAreSynced in the background, indexes included.
func TestClosedSegmentsAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, l := onMem(t, small())
		fill(t, l, 100)
		synctest.Wait()
		v := l.look()
		l.flushMu.Lock()
		for i, s := range v.segments[:len(v.segments)-1] {
			if !s.indexDone {
				t.Errorf("segment %d of %d is not synced", i, len(v.segments))
			}
		}
		l.flushMu.Unlock()
		if l.RecoveryPoint() < v.segments[len(v.segments)-1].base {
			t.Fatalf("synced below %d, active segment begins at %d", l.RecoveryPoint(), v.segments[len(v.segments)-1].base)
		}
		must(t, d.Close())
	})
}

// TestGroupCommit: appends that wait for a sync share the next one.
func TestGroupCommit(t *testing.T) {
	c := DefaultConfig()
	c.FlushMessages = 1
	fs, d, l := onMem(t, c)
	const writers = 8
	var mu sync.Mutex
	syncs, written := 0, 0
	waiting := make(chan struct{})
	fs.Inject(func(op vfs.Op, name string) error {
		if !strings.HasSuffix(name, logSuffix) {
			return nil
		}
		mu.Lock()
		first := false
		switch op {
		case vfs.OpWrite:
			if written++; written == writers {
				close(waiting)
			}
		case vfs.OpSync:
			syncs++
			first = syncs == 1
		}
		mu.Unlock()
		if first {
			<-waiting // the first sync lasts until all others have written
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			out, err := l.Append([]record.Batch{batch(t, i, 1)}, Append{Epoch: 1, Now: testNow})
			if err != nil || l.RecoveryPoint() <= out[0].Last {
				t.Errorf("%+v, %v, synced below %d", out, err, l.RecoveryPoint())
			}
		})
	}
	wg.Wait()
	if syncs != 2 {
		t.Fatalf("%d syncs for %d appends, want 2", syncs, writers)
	}
	fs.Inject(nil)
	must(t, d.Close())
}

// TestTickFlushesWhatWaitsLong bounds recovery for topics that never flush.
func TestTickFlushesWhatWaitsLong(t *testing.T) {
	_, d, l := onMem(t, DefaultConfig())
	fill(t, l, 20)
	must(t, d.Tick(time.UnixMilli(testNow+59_999)))
	if l.RecoveryPoint() != 0 {
		t.Fatalf("synced below %d", l.RecoveryPoint())
	}
	must(t, d.Tick(time.UnixMilli(testNow+60_000)))
	if l.RecoveryPoint() != 20 || d.points[l.key()].recovery != 20 {
		t.Fatalf("synced below %d, checkpoint %+v", l.RecoveryPoint(), d.points[l.key()])
	}
	must(t, d.Close())
}

// TestReplica copies a log as a follower does, gaps and epochs included.
func TestReplica(t *testing.T) {
	_, leader, from := onMem(t, small())
	for epoch := range 10 {
		_, err := from.Append([]record.Batch{producedBatch(t, epoch*10, 10, 5, 0, int32(epoch*10))}, Append{Epoch: offsets.Epoch(epoch), Now: testNow})
		must(t, err)
	}
	fs, d, l := onMem(t, small())
	copyFrom := func() {
		t.Helper()
		for l.End() < from.End() {
			b, err := from.ReadBytes(l.End(), 1000, from.End())
			must(t, err)
			must(t, l.AppendReplica(append(b, b[:40]...))) // a cut-off batch at the end is left out
		}
	}
	copyFrom()
	if err := l.AppendReplica(batch(t, 0, 1)); err == nil {
		t.Fatal("a batch below the end was taken")
	}
	bent := batch(t, 100, 1)
	bent.Stamp(l.End(), 9)
	bent[len(bent)-1] ^= 1
	if err := l.AppendReplica(bent); err == nil {
		t.Fatal("a batch with a wrong crc was taken")
	}
	for ask := range offsets.Epoch(11) {
		e1, o1 := from.EndOffsetFor(ask)
		if e2, o2 := l.EndOffsetFor(ask); e1 != e2 || o1 != o2 {
			t.Fatalf("epoch %d ends at %d %d, leader says %d %d", ask, e2, o2, e1, o1)
		}
	}
	must(t, l.Truncate(42))
	copyFrom()
	out, err := l.Append([]record.Batch{producedBatch(t, 90, 10, 5, 0, 90)}, Append{Epoch: 9, Now: testNow})
	if err != nil || !out[0].Duplicate || out[0].First != 90 {
		t.Fatalf("retry at the new leader: %+v, %v", out, err)
	}
	gap := batch(t, 0, 1)
	gap.Stamp(150, 9)
	must(t, l.AppendReplica(gap))
	must(t, d.Close())
	d, l = reopen(t, fs)
	if r, err := l.Read(120, 1000, l.End(), true); err != nil || r.First != 150 || l.End() != 151 {
		t.Fatalf("read in the gap: %+v, %v", r, err)
	}
	must(t, d.Close())
	must(t, leader.Close())
}

// TestStray puts a folder aside and deletes it after the delay.
func TestStray(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 20)
	must(t, d.Stray(l))
	name := "data/" + asideName("clicks-0", testNow, straySuffix)
	if _, err := fs.Stat(name + "/" + partitionName); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(3); err == nil {
		t.Fatal("a log put aside was written")
	}
	other := testID
	other[0] = 99
	l2, err := d.Create(testTP, other, small())
	must(t, err)
	if l2.End() != 0 || len(d.Logs()) != 1 {
		t.Fatalf("the new topic has %d records", l2.End())
	}
	if _, err := d.Create(testTP, testID, small()); err == nil {
		t.Fatal("two topics in one folder")
	}
	must(t, d.Tick(time.UnixMilli(testNow).Add(7*24*time.Hour-1)))
	if _, err := fs.Stat(name); err != nil {
		t.Fatal(err)
	}
	must(t, d.Tick(time.UnixMilli(testNow).Add(7*24*time.Hour)))
	if _, err := fs.Stat(name); err == nil {
		t.Fatal("the stray folder is still there")
	}
	must(t, d.Delete(l2))
	must(t, d.Close())
	if d = openTest(t, fs, "data"); len(d.Logs()) != 0 {
		t.Fatalf("%d logs", len(d.Logs()))
	}
	must(t, d.Close())
}

// TestDeletedAndMadeAgain: a partition that comes back to a broker begins at 0,
// whatever the journal and the checkpoint remember of it.
func TestDeletedAndMadeAgain(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 100)
	must(t, l.DeleteBefore(60))
	must(t, d.Assign([]Assignment{{l, 9}}))
	must(t, d.Tick(time.UnixMilli(testNow)))
	must(t, d.Delete(l))
	if _, err := l.Read(60, 100, 100, true); !errors.Is(err, ErrClosed) {
		t.Fatalf("read of a deleted log: %v", err)
	}
	l, err := d.Create(testTP, testID, small())
	must(t, err)
	b := batch(t, 0, 5)
	_, err = l.Append([]record.Batch{b}, Append{Epoch: 10, Now: testNow})
	must(t, err)
	crashed := fs.CrashClone(nil)
	change(t, crashed, "data/clicks-0/"+offsetName(0, logSuffix), func(b []byte) []byte { return b[:len(b)-1] })
	_, l2 := reopen(t, crashed)
	if l2.Start() != 0 || l2.End() != 0 {
		t.Fatalf("after a torn append: %d..%d", l2.Start(), l2.End())
	}
	must(t, d.Close())
	d, l = reopen(t, fs)
	if epoch, end := l.EndOffsetFor(9); l.Start() != 0 || l.End() != 5 || epoch != 9 || end != 0 {
		t.Fatalf("%d..%d, epoch 9 ends at %d %d", l.Start(), l.End(), epoch, end)
	}
	must(t, d.Close())
}

// TestPutAsideAtOneMoment: a partition is deleted, made again and deleted again
// before the clock moves on.
func TestPutAsideAtOneMoment(t *testing.T) {
	fs, d, l := onMem(t, small())
	must(t, d.Stray(l))
	for n := range int64(3) {
		again, err := d.Create(testTP, testID, small())
		must(t, err)
		must(t, d.Stray(again))
		if _, err := fs.Stat("data/" + asideName("clicks-0", testNow+n+1, straySuffix)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, d.Close())
}

// TestStartMarker tells a clean stop, a killed process and a power cut apart.
func TestStartMarker(t *testing.T) {
	fs, d, _ := onMem(t, small())
	if !d.CleanStart() || d.PreviousBrokerEpoch() != -1 {
		t.Fatal("first start")
	}
	must(t, d.SetBrokerEpoch(7))
	start := func(fs vfs.FS, boot string) *Disk {
		c := testDisk()
		c.BootID = boot
		d, err := OpenDisk(fs, "data", c)
		must(t, err)
		return d
	}
	for _, c := range []struct {
		name, boot string
		fs         vfs.FS
		clean      bool
		same       bool
		epoch      int64
	}{
		{"kill", "boot-1", fs.CrashClone(nil), false, true, 7},
		{"power cut", "boot-2", fs.CrashClone(nil), false, false, -1},
		{"unknown kernel", "", fs.CrashClone(nil), false, false, -1},
	} {
		if c.boot == "" {
			c.boot = "no such boot"
		}
		got := start(c.fs, c.boot)
		if got.CleanStart() != c.clean || got.SameBoot() != c.same || got.PreviousBrokerEpoch() != c.epoch {
			t.Errorf("%s: clean %v same %v epoch %d", c.name, got.CleanStart(), got.SameBoot(), got.PreviousBrokerEpoch())
		}
		must(t, got.Close())
	}
	must(t, d.Close())
	got := start(fs, "boot-2")
	if !got.CleanStart() || got.SameBoot() || got.PreviousBrokerEpoch() != 7 {
		t.Errorf("clean stop: clean %v epoch %d", got.CleanStart(), got.PreviousBrokerEpoch())
	}
	must(t, got.Close())
}

func TestMeta(t *testing.T) {
	fs, d, _ := onMem(t, small())
	if m := d.Meta(); m.ClusterID != "" || m.NodeID != offsets.NoBroker || m.Format != MetaFormat {
		t.Fatalf("%+v", m)
	}
	want := Meta{Format: MetaFormat, ClusterID: "a=b", NodeID: 5, DirectoryID: "d"}
	must(t, d.SetMeta(want))
	must(t, d.Close())
	d = openTest(t, fs, "data")
	if d.Meta() != want {
		t.Fatalf("%+v", d.Meta())
	}
	must(t, d.Close())
	sound := string(want.encode())
	for _, text := range []string{
		"format=3\nnode.id=1\n", "format=2\nnode.id=1\n", "format=x\n", "rubbish", "format=1\nnode.id=\n", "",
		strings.Replace(sound, "id=5", "id=4", 1), strings.Replace(sound, "a=b", "a=c", 1), sound[:len(sound)-3],
	} {
		must(t, vfs.Replace(fs, "data/"+metaName, []byte(text)))
		if _, err := OpenDisk(fs, "data", testDisk()); err == nil || !strings.Contains(err.Error(), metaName) {
			t.Errorf("%q: %v", text, err)
		}
	}
	must(t, vfs.Replace(fs, "data/"+metaName, []byte("format=1\ncluster.id=a=b\nnode.id=5\ndirectory.id=d\njoined=true\n")))
	d = openTest(t, fs, "data")
	if got := d.Meta(); got.NodeID != 5 || got.ClusterID != "a=b" || !got.Joined {
		t.Errorf("of format 1: %+v", got)
	}
	must(t, d.Close())
}

func TestConfigDefaults(t *testing.T) {
	c := DefaultConfig()
	if c.RetentionMs != 604800000 || c.SegmentBytes != 1<<30 || c.FlushMs != math.MaxInt64 || !c.Delete || c.Codec != "producer" || c.flushNow() {
		t.Fatalf("%+v", c)
	}
}

// TestFlushPolicy cuts the power after every acknowledgement and counts what
// each policy may lose, and how many syncs it costs.
func TestFlushPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		messages, ms int64
		wait         time.Duration   // after each append
		loses        offsets.Offset  // at most
		syncs        func(n int) int // for n appends, closed segments aside
	}{
		"flush.messages=1":  {1, math.MaxInt64, 0, 0, func(n int) int { return n }},
		"flush.ms=0":        {math.MaxInt64, 0, 0, 0, func(n int) int { return n }},
		"flush.messages=20": {20, math.MaxInt64, 0, 19, func(n int) int { return n / 4 }},
		"flush.ms=1000":     {math.MaxInt64, 1000, 300 * time.Millisecond, 15, func(n int) int { return n/3 + 1 }},
		"both":              {20, 1000, 300 * time.Millisecond, 19, func(n int) int { return n / 2 }},
		"never":             {math.MaxInt64, math.MaxInt64, 0, 1 << 20, func(int) int { return 0 }},
	} {
		for _, replica := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replica %v", name, replica), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					config := DefaultConfig()
					config.FlushMessages, config.FlushMs = c.messages, c.ms
					fs, d, l := onMem(t, config)
					syncs := 0
					fs.Inject(func(op vfs.Op, name string) error {
						if op == vfs.OpSync && strings.HasSuffix(name, logSuffix) {
							syncs++
						}
						return nil
					})
					const appends = 60
					lost := offsets.Offset(0)
					for i := range appends {
						b := batch(t, 5*i, 5)
						if replica {
							b.Stamp(l.End(), 1)
							must(t, l.AppendReplica(b))
						} else {
							appendOne(t, l, b)
						}
						acked := l.End()
						cut := fs.CrashClone(rand.New(rand.NewPCG(uint64(i), 2)))
						end := offsets.Offset(0)
						d, err := OpenDisk(cut, "data", testDisk())
						must(t, err)
						if l, ok := d.Log(testTP, testID); ok {
							values, _ := readAll(t, l, 0) // up to the first hole
							wantValues(t, values, 0, len(values))
							end = offsets.Offset(len(values))
						}
						must(t, d.Close())
						lost = max(lost, acked-end)
						time.Sleep(c.wait)
						synctest.Wait()
					}
					if lost > c.loses {
						t.Errorf("%d acknowledged records were lost, %d may be", lost, c.loses)
					}
					if c.loses > 0 && lost == 0 {
						t.Error("nothing was lost: the power cuts are not in earnest")
					}
					if most := c.syncs(appends); syncs > most {
						t.Errorf("%d syncs for %d appends, want %d at most", syncs, appends, most)
					}
					fs.Inject(nil)
					must(t, d.Close())
				})
			})
		}
	}
}
