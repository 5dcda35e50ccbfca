package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// tryProduce appends a batch of five with a sequence and says what came of it.
func tryProduce(t *testing.T, l *Log, id int64, epoch int16, seq int32) string {
	t.Helper()
	out, err := l.Append([]record.Batch{producedBatch(t, 0, 5, id, epoch, seq)}, Append{Epoch: max(l.Epoch(), 1), Now: testNow})
	switch {
	case errors.Is(err, ErrOutOfOrderSequence):
		return "order"
	case errors.Is(err, ErrInvalidProducerEpoch):
		return "epoch"
	case err != nil:
		t.Fatal(err)
	case out[0].Duplicate:
		return fmt.Sprintf("dup %d", out[0].First)
	}
	return fmt.Sprintf("at %d", out[0].First)
}

// TestSequences plays the rules of idempotent producers.
func TestSequences(t *testing.T) {
	type step struct {
		id    int64
		epoch int16
		seq   int32
		want  string
	}
	for name, steps := range map[string][]step{
		"in order":                       {{1, 0, 0, "at 0"}, {1, 0, 5, "at 5"}, {1, 0, 10, "at 10"}},
		"gap":                            {{1, 0, 0, "at 0"}, {1, 0, 10, "order"}, {1, 0, 5, "at 5"}},
		"retry":                          {{1, 0, 0, "at 0"}, {1, 0, 0, "dup 0"}, {1, 0, 5, "at 5"}, {1, 0, 0, "dup 0"}},
		"new producer of a used log":     {{1, 0, 0, "at 0"}, {2, 0, 77, "at 5"}, {2, 0, 82, "at 10"}},
		"new producer of an empty log":   {{1, 0, 5, "order"}, {1, 0, 0, "at 0"}},
		"five are remembered":            {{1, 0, 0, "at 0"}, {1, 0, 5, "at 5"}, {1, 0, 10, "at 10"}, {1, 0, 15, "at 15"}, {1, 0, 20, "at 20"}, {1, 0, 0, "dup 0"}, {1, 0, 25, "at 25"}, {1, 0, 0, "order"}, {1, 0, 5, "dup 5"}},
		"new epoch begins at 0":          {{1, 0, 0, "at 0"}, {1, 1, 5, "order"}, {1, 1, 0, "at 5"}, {1, 1, 5, "at 10"}},
		"old epoch":                      {{1, 3, 0, "at 0"}, {1, 2, 5, "epoch"}, {1, 3, 5, "at 5"}, {1, 2, 0, "epoch"}},
		"old epoch's batch is no retry":  {{1, 0, 0, "at 0"}, {1, 1, 0, "at 5"}, {1, 0, 0, "epoch"}},
		"sequence wraps":                 {{9, 0, 0, "at 0"}, {1, 0, math.MaxInt32 - 4, "at 5"}, {1, 0, 0, "at 10"}, {1, 0, math.MaxInt32 - 4, "dup 5"}},
		"sequence wraps inside a batch":  {{9, 0, 0, "at 0"}, {1, 0, math.MaxInt32 - 2, "at 5"}, {1, 0, 2, "at 10"}, {1, 0, math.MaxInt32 - 2, "dup 5"}},
		"producers do not mix":           {{1, 0, 0, "at 0"}, {2, 0, 0, "at 5"}, {1, 0, 5, "at 10"}, {2, 0, 5, "at 15"}, {2, 0, 0, "dup 5"}},
		"without id nothing is compared": {{-1, -1, 7, "at 0"}, {-1, -1, 7, "at 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, d, l := onMem(t, DefaultConfig())
			for i, s := range steps {
				if got := tryProduce(t, l, s.id, s.epoch, s.seq); got != s.want {
					t.Fatalf("step %d: %s, want %s", i, got, s.want)
				}
			}
			must(t, d.Close())
		})
	}
}

// TestSequencesInOneCall takes all batches of a call or none.
func TestSequencesInOneCall(t *testing.T) {
	_, d, l := onMem(t, DefaultConfig())
	both := []record.Batch{producedBatch(t, 0, 5, 1, 0, 0), producedBatch(t, 5, 5, 1, 0, 5)}
	_, err := l.Append(append(both, producedBatch(t, 0, 5, 1, 0, 99)), Append{Epoch: 1, Now: testNow})
	if !errors.Is(err, ErrOutOfOrderSequence) || l.End() != 0 {
		t.Fatalf("%v, end %d", err, l.End())
	}
	out, err := l.Append(append(both, producedBatch(t, 0, 5, 1, 0, 0)), Append{Epoch: 1, Now: testNow})
	must(t, err)
	if out[1].First != 5 || !out[2].Duplicate || out[2].First != 0 || l.End() != 10 {
		t.Fatalf("%+v", out)
	}
	must(t, d.Close())
}

// TestProducersSurvive restarts, clean and by crash, deletion of the batches
// the state came from, and truncation.
func TestProducersSurvive(t *testing.T) {
	fs, d, l := onMem(t, small())
	for seq := int32(0); seq < 300; seq += 5 {
		tryProduce(t, l, 1, 0, seq)
	}
	tryProduce(t, l, 2, 4, 0)
	check := func(l *Log, after string) {
		t.Helper()
		for i := range int32(keptBatches) {
			if got, want := tryProduce(t, l, 1, 0, 295-5*i), fmt.Sprintf("dup %d", 295-5*i); got != want {
				t.Fatalf("%s: batch %d: %s, want %s", after, i, got, want)
			}
		}
		if got := tryProduce(t, l, 1, 0, 270); got != "order" {
			t.Fatalf("%s: sixth batch: %s", after, got)
		}
		if got := tryProduce(t, l, 2, 3, 0); got != "epoch" {
			t.Fatalf("%s: old epoch: %s", after, got)
		}
		if got := tryProduce(t, l, 2, 4, 0); got != "dup 300" {
			t.Fatalf("%s: second producer: %s", after, got)
		}
	}
	check(l, "at first")
	_, killed := reopen(t, fs.CrashClone(nil))
	check(killed, "kill")
	must(t, l.DeleteBefore(305))
	check(l, "deletion")
	_, killed = reopen(t, fs.CrashClone(nil))
	check(killed, "deletion and kill")
	must(t, d.Close())
	d, l = reopen(t, fs)
	if l.End() != 305 {
		t.Fatalf("end %d", l.End())
	}
	check(l, "clean restart")
	must(t, d.Close())
	_, l = reopen(t, fs)
	check(l, "second clean restart")
}

// TestProducersTruncate takes state back with the log.
func TestProducersTruncate(t *testing.T) {
	for _, to := range []offsets.Offset{295, 297, 200, 25, 5} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			_, d, l := onMem(t, small())
			for seq := int32(0); seq < 300; seq += 5 {
				tryProduce(t, l, 1, 0, seq)
			}
			must(t, l.Truncate(to))
			end := int32(l.End())
			if want := int32(to) / 5 * 5; end != want {
				t.Fatalf("end %d, want %d", end, want)
			}
			if got, want := tryProduce(t, l, 1, 0, end-5), fmt.Sprintf("dup %d", end-5); got != want {
				t.Fatalf("last batch: %s, want %s", got, want)
			}
			if got, want := tryProduce(t, l, 1, 0, end), fmt.Sprintf("at %d", end); got != want {
				t.Fatalf("next batch: %s, want %s", got, want)
			}
			must(t, d.Close())
		})
	}
}

func TestProducersExpire(t *testing.T) {
	_, d, l := onMem(t, DefaultConfig())
	tryProduce(t, l, 1, 0, 0)
	day := 24 * time.Hour
	must(t, d.Tick(time.UnixMilli(testNow).Add(day)))
	if got := tryProduce(t, l, 1, 0, 50); got != "order" {
		t.Fatalf("within a day: %s", got)
	}
	must(t, d.Tick(time.UnixMilli(testNow).Add(day+time.Millisecond)))
	if got := tryProduce(t, l, 1, 0, 50); got != "at 5" {
		t.Fatalf("after a day: %s", got)
	}
	must(t, d.Close())
}

func TestFirstUnstable(t *testing.T) {
	fs, d, l := onMem(t, DefaultConfig())
	txn := func(id int64, seq int32) record.Batch {
		w := record.NewBuilder(record.None, 0)
		w.Producer(id, 0, seq)
		w.Transactional(true)
		w.Append(record.Record{Timestamp: testNow, Value: []byte("v")})
		b, err := w.Batch()
		must(t, err)
		return b
	}
	end := func(id int64, commit bool) record.Batch {
		b, err := record.Marker(commit, id, 0, 3, testNow)
		must(t, err)
		return b
	}
	want := func(l *Log, at offsets.Offset, open bool) {
		t.Helper()
		if got, ok := l.FirstUnstable(); ok != open || got != at {
			t.Fatalf("first unstable %d %v, want %d %v", got, ok, at, open)
		}
	}
	want(l, 0, false)
	appendOne(t, l, batch(t, 0, 5))
	appendOne(t, l, txn(1, 0))
	appendOne(t, l, txn(2, 0))
	appendOne(t, l, txn(1, 1))
	want(l, 5, true)
	appendOne(t, l, end(1, true))
	want(l, 6, true)
	_, killed := reopen(t, fs.CrashClone(nil))
	want(killed, 6, true)
	must(t, d.Tick(time.UnixMilli(testNow+1<<40))) // open transactions do not expire
	want(l, 6, true)
	appendOne(t, l, end(2, false))
	want(l, 0, false)
	appendOne(t, l, txn(2, 1))
	want(l, 10, true)
	must(t, l.Truncate(10))
	want(l, 0, false)
	must(t, l.Truncate(9))
	want(l, 6, true)
	must(t, d.Close())
	_, l = reopen(t, fs)
	want(l, 6, true)
}

func TestSnapshotDamage(t *testing.T) {
	ps := &producers{}
	for seq := int32(0); seq < 40; seq += 5 {
		b := producedBatch(t, 0, 5, 7, 2, seq)
		b.Stamp(offsets.Offset(seq), 0)
		ps.apply(b, testNow)
	}
	good := encodeSnapshot(ps)
	back, err := decodeSnapshot(good, testNow)
	must(t, err)
	if p := back.byID[7]; p == nil || *p != *ps.byID[7] {
		t.Fatalf("%+v, want %+v", p, ps.byID[7])
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x10
		if _, err := decodeSnapshot(bad, 0); !errors.Is(err, errSnapshot) {
			t.Fatalf("flipped byte %d: %v", i, err)
		}
		if _, err := decodeSnapshot(good[:i], 0); !errors.Is(err, errSnapshot) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// TestSnapshotWithoutTimes reads what Kafka writes: nothing behind the entries.
func TestSnapshotWithoutTimes(t *testing.T) {
	ps := &producers{}
	for _, id := range []int64{7, 9} {
		b := producedBatch(t, 0, 5, id, 2, 0)
		b.Stamp(offsets.Offset(id), 0)
		ps.apply(b, testNow)
	}
	kafkas := encodeSnapshot(ps)
	kafkas = kafkas[:len(kafkas)-2*seenEntry]
	binary.BigEndian.PutUint32(kafkas[2:], crc32.Checksum(kafkas[6:], castagnoli))
	back, err := decodeSnapshot(kafkas, testNow+5)
	must(t, err)
	if len(back.byID) != 2 || back.byID[9].seen != testNow+5 || back.byID[9].batches[0].last != 13 {
		t.Fatalf("%+v", back.byID[9])
	}
}

// TestDamagedSnapshotIsPassedOver falls back to an older one and the batches.
func TestDamagedSnapshotIsPassedOver(t *testing.T) {
	fs, _, l := onMem(t, small())
	for seq := int32(0); seq < 300; seq += 5 {
		tryProduce(t, l, 1, 0, seq)
	}
	must(t, l.Flush())
	names, err := l.snapshots()
	must(t, err)
	last := l.file(offsetName(names[len(names)-1], snapshotSuffix))
	crashed := fs.CrashClone(nil)
	must(t, vfs.Replace(crashed, last, []byte("garbage")))
	_, l = reopen(t, crashed)
	if got := tryProduce(t, l, 1, 0, 295); got != "dup 295" {
		t.Fatal(got)
	}
	if got := tryProduce(t, l, 1, 0, 275); got != "dup 275" {
		t.Fatal(got)
	}
}

// TestProducersOutliveTheirBatches: what is remembered of producers does not go
// with their batches, whether retention takes them, DeleteRecords, or both at
// once with a power cut that leaves only what was synced (KAFKA-7190).
func TestProducersOutliveTheirBatches(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, d *Disk, l *Log){
		"records are deleted": func(t *testing.T, _ *Disk, l *Log) { must(t, l.DeleteBefore(l.End())) },
		"retention": func(t *testing.T, d *Disk, l *Log) {
			c := small()
			c.RetentionMs = 1
			l.SetConfig(c)
			must(t, d.Tick(time.UnixMilli(testNow+10_000)))
			if l.Start() != l.End() || l.Size() != 0 {
				t.Fatalf("log %d..%d, %d bytes", l.Start(), l.End(), l.Size())
			}
		},
		"snapshots are gone": func(t *testing.T, d *Disk, l *Log) {
			names, err := l.snapshots()
			must(t, err)
			for _, o := range names[1:] {
				must(t, d.fs.Remove(l.file(offsetName(o, snapshotSuffix))))
			}
			must(t, l.DeleteBefore(l.End()-5))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs, d, l := onMem(t, small())
			for seq := int32(0); seq < 300; seq += 5 {
				tryProduce(t, l, 1, 0, seq)
			}
			tryProduce(t, l, 2, 4, 0)
			remove(t, d, l)
			end := l.End()
			check := func(l *Log, after string) {
				t.Helper()
				if l.End() != end {
					t.Fatalf("%s: end %d, want %d", after, l.End(), end)
				}
				for i := range int32(keptBatches) {
					if got, want := tryProduce(t, l, 1, 0, 295-5*i), fmt.Sprintf("dup %d", 295-5*i); got != want {
						t.Fatalf("%s: batch %d: %s, want %s", after, i, got, want)
					}
				}
				if got := tryProduce(t, l, 1, 0, 270); got != "order" {
					t.Fatalf("%s: a batch of before: %s", after, got)
				}
				if got := tryProduce(t, l, 2, 3, 0); got != "epoch" {
					t.Fatalf("%s: old epoch: %s", after, got)
				}
			}
			check(l, "at first")
			for seed := range uint64(40) {
				_, cut := reopen(t, fs.CrashClone(rand.New(rand.NewPCG(seed, 3))))
				check(cut, fmt.Sprintf("power cut %d", seed))
			}
			_, cut := reopen(t, fs.CrashClone(nil))
			check(cut, "kill")
			must(t, d.Close())
			_, l = reopen(t, fs)
			check(l, "clean restart")
		})
	}
}

// TestProducersExpireOverRestarts: a restart is no sign of life.
func TestProducersExpireOverRestarts(t *testing.T) {
	hour := int64(time.Hour / time.Millisecond)
	for _, clean := range []bool{true, false} {
		now := testNow
		c := testDisk()
		c.Now = func() time.Time { return time.UnixMilli(now) }
		fs := vfs.NewMem()
		d, err := OpenDisk(fs, "data", c)
		must(t, err)
		l, err := d.Create(testTP, testID, small())
		must(t, err)
		tryProduce(t, l, 1, 0, 0)
		for range 23 {
			now += hour
			must(t, l.roll())
			appendOne(t, l, batch(t, 0, 1))
			must(t, l.flush(l.End(), true))
			must(t, d.Tick(time.UnixMilli(now)))
			if clean {
				must(t, d.Close())
			} else {
				fs = fs.CrashClone(nil)
			}
			d, err = OpenDisk(fs, "data", c)
			must(t, err)
			l, _ = d.Log(testTP, testID)
		}
		if got := tryProduce(t, l, 1, 0, 0); got != "dup 0" {
			t.Fatalf("clean %v: within a day: %s", clean, got)
		}
		now += hour + 1
		must(t, d.Tick(time.UnixMilli(now)))
		if n := len(l.producers.byID); n != 0 {
			t.Fatalf("clean %v: %d producers after a day", clean, n)
		}
		fs = fs.CrashClone(nil)
		d, err = OpenDisk(fs, "data", c)
		must(t, err)
		l, _ = d.Log(testTP, testID)
		if n := len(l.producers.byID); n != 0 {
			t.Fatalf("clean %v: a restart brings %d producers back", clean, n)
		}
	}
}

// TestSnapshotsAreTidied: restarts in the middle of a segment leave no more
// than one snapshot beside those of the segments.
func TestSnapshotsAreTidied(t *testing.T) {
	fs, d, l := onMem(t, DefaultConfig())
	for i := range int32(10) {
		tryProduce(t, l, 1, 0, 5*i)
		must(t, d.Close())
		d, l = reopen(t, fs)
	}
	names, err := l.snapshots()
	must(t, err)
	if len(names) != 1 || names[0] != l.End() {
		t.Fatalf("snapshots %v, end %d", names, l.End())
	}
	l.SetConfig(small())
	for i := int32(10); i < 100; i++ {
		tryProduce(t, l, 1, 0, 5*i)
	}
	must(t, l.DeleteBefore(l.End()))
	if names, err = l.snapshots(); err != nil || len(names) != 1 || names[0] != l.view.segments[0].base {
		t.Fatalf("snapshots %v beside segment %d, %v", names, l.view.segments[0].base, err)
	}
	must(t, d.Close())
}

// TestDuplicateTellsItsTime: a retry is answered as the first time was, the
// time of the batch included (as Kafka does on every topic).
func TestDuplicateTellsItsTime(t *testing.T) {
	fs, d, l := onMem(t, small())
	first := producedBatch(t, 7, 5, 1, 0, 0)
	if out := appendOne(t, l, first); out.Timestamp != record.NoTimestamp {
		t.Fatalf("%+v", out)
	}
	for _, after := range []string{"at once", "restart"} {
		out, err := l.Append([]record.Batch{producedBatch(t, 7, 5, 1, 0, 0)}, Append{Epoch: 1, Now: testNow + 99_999})
		must(t, err)
		if want := (Appended{0, 4, testNow + 11, true}); out[0] != want {
			t.Fatalf("%s: %+v, want %+v", after, out[0], want)
		}
		must(t, d.Close())
		d, l = reopen(t, fs)
	}
	must(t, d.Close())
}

// TestMarkerBumpsEpoch: after a marker of a new epoch the producer begins at 0.
func TestMarkerBumpsEpoch(t *testing.T) {
	_, d, l := onMem(t, DefaultConfig())
	tryProduce(t, l, 1, 3, 0)
	marker, err := record.Marker(true, 1, 4, 9, testNow)
	must(t, err)
	appendOne(t, l, marker)
	for _, step := range []struct {
		epoch int16
		seq   int32
		want  string
	}{{3, 5, "epoch"}, {4, 5, "order"}, {4, 0, "at 6"}, {4, 5, "at 11"}} {
		if got := tryProduce(t, l, 1, step.epoch, step.seq); got != step.want {
			t.Fatalf("epoch %d sequence %d: %s, want %s", step.epoch, step.seq, got, step.want)
		}
	}
	must(t, d.Close())
}
