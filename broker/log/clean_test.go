package log

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

const day = 24 * 60 * 60 * 1000

// compacted is a config with small segments that are compacted at once.
func compacted() Config {
	c := small()
	c.Compact, c.Delete, c.RetentionMs, c.MinCleanableRatio = true, false, -1, 0
	return c
}

// kv is one record to write; a nil value is a tombstone.
type kv struct {
	key, value string
	null       bool
	time       int64
}

func put(key, value string) kv { return kv{key: key, value: value} }
func del(key string) kv        { return kv{key: key, null: true} }

// keyed makes a batch of records.
func keyed(t testing.TB, codec record.Codec, records ...kv) record.Batch {
	t.Helper()
	w := record.NewBuilder(codec, 0)
	for _, r := range records {
		w.Append(r.record())
	}
	b, err := w.Batch()
	must(t, err)
	return b
}

func (r kv) record() record.Record {
	out := record.Record{Timestamp: testNow + r.time, Key: []byte(r.key), Value: []byte(r.value)}
	if r.null {
		out.Value = nil
	}
	return out
}

// roll closes the active segment.
func roll(t testing.TB, l *Log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	must(t, l.roll())
}

// clean compacts all that is due, as of a time in ms after testNow.
func clean(d *Disk, after int64) { d.cleaner.round(testNow + after) }

// contents reads a log as a client does, from batch to batch, and returns the
// batches.
func contents(t testing.TB, l *Log, from offsets.Offset) []record.Batch {
	t.Helper()
	var out []record.Batch
	for at := from; at < l.End(); {
		b, err := l.ReadBytes(at, 700, l.End())
		must(t, err)
		if len(b) == 0 {
			t.Fatalf("read at %d of %d..%d: nothing", at, l.Start(), l.End())
		}
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			must(t, err)
			must(t, first.CheckCRC())
			if first.LastOffset() < at {
				t.Fatalf("read at %d: batch %d..%d lies before it", at, first.BaseOffset(), first.LastOffset())
			}
			out = append(out, first)
			at, b = first.LastOffset()+1, rest
		}
	}
	return out
}

// lines are the records of a log in text: offset key=value.
func lines(t testing.TB, l *Log) string {
	t.Helper()
	var out []string
	for _, b := range contents(t, l, l.Start()) {
		for _, r := range decode(t, b) {
			v := string(r.Value)
			if r.Value == nil {
				v = "∅"
			}
			out = append(out, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, v))
		}
	}
	return strings.Join(out, ", ")
}

func wantLines(t testing.TB, l *Log, want string) {
	t.Helper()
	if got := lines(t, l); got != want {
		t.Fatalf("the log holds\n%s\nwant\n%s", got, want)
	}
}

// TestCleanKeepsTheLatest of each key at its offset, merges what has become
// small, and leaves the active segment alone.
func TestCleanKeepsTheLatest(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			fs, d, l := onMem(t, compacted())
			appendOne(t, l, keyed(t, codec, put("a", "1"), put("b", "1"), put("c", "1")))
			roll(t, l)
			appendOne(t, l, keyed(t, codec, put("b", "2")))
			appendOne(t, l, keyed(t, codec, put("a", "2"), put("d", "1")))
			roll(t, l)
			appendOne(t, l, keyed(t, codec, put("a", "3"), put("d", "2")))
			clean(d, 0)
			wantLines(t, l, "2 c=1, 3 b=2, 4 a=2, 5 d=1, 6 a=3, 7 d=2")
			if n := len(l.look().segments); n != 2 {
				t.Errorf("%d segments, want 2", n)
			}
			for _, b := range contents(t, l, 0) {
				if b.Codec() != codec && b.Count() > 0 {
					t.Errorf("batch %d has codec %s", b.BaseOffset(), b.Codec())
				}
			}
			if b := contents(t, l, 0)[0]; b.BaseOffset() != 0 || b.LastOffset() != 2 || b.Count() != 1 || b.MaxTimestamp() != testNow {
				t.Errorf("first batch is %d..%d, %d records, time %d", b.BaseOffset(), b.LastOffset(), b.Count(), b.MaxTimestamp())
			}
			roll(t, l)
			clean(d, 0)
			wantLines(t, l, "2 c=1, 3 b=2, 6 a=3, 7 d=2")
			must(t, d.Close())
			d, l = reopen(t, fs)
			wantLines(t, l, "2 c=1, 3 b=2, 6 a=3, 7 d=2")
			if l.Start() != 0 || l.End() != 8 || l.RecoveryPoint() != 8 {
				t.Errorf("log %d..%d, synced %d", l.Start(), l.End(), l.RecoveryPoint())
			}
			must(t, d.Close())
		})
	}
}

// TestCleanTombstones: they stay delete.retention.ms from the run that met them
// first, and what they delete never comes back.
func TestCleanTombstones(t *testing.T) {
	c := compacted()
	c.DeleteRetentionMs = 1000
	_, d, l := onMem(t, c)
	more := func() {
		t.Helper()
		appendOne(t, l, keyed(t, record.None, put("x", fmt.Sprint(l.End()))))
		roll(t, l)
	}
	appendOne(t, l, keyed(t, record.None, put("a", "1"), kv{key: "b", value: "1", time: 7}))
	appendOne(t, l, keyed(t, record.Zstd, del("a"), kv{key: "c", value: "1", time: 9}))
	more()
	clean(d, 500)
	wantLines(t, l, "1 b=1, 2 a=∅, 3 c=1, 4 x=4")
	for _, b := range contents(t, l, 0) {
		has := b.BaseOffset() == 2
		if b.HasDeleteHorizon() != has || has && b.BaseTimestamp() != testNow+1500 {
			t.Errorf("batch %d: horizon %v, base timestamp %d", b.BaseOffset(), b.HasDeleteHorizon(), b.BaseTimestamp()-testNow)
		}
		for _, r := range decode(t, b) {
			if want := map[offsets.Offset]int64{1: 7, 3: 9}[r.Offset]; r.Timestamp != testNow+want {
				t.Errorf("record %d has time %d, want %d", r.Offset, r.Timestamp-testNow, want)
			}
		}
	}
	more()
	clean(d, 1499)
	wantLines(t, l, "1 b=1, 2 a=∅, 3 c=1, 5 x=5")
	more()
	clean(d, 1500)
	wantLines(t, l, "1 b=1, 3 c=1, 6 x=6")
	for _, b := range contents(t, l, 0) {
		for _, r := range decode(t, b) {
			if r.Offset == 3 && (r.Timestamp != testNow+9 || b.MaxTimestamp() != testNow+9) {
				t.Errorf("record 3 has time %d, its batch %d", r.Timestamp-testNow, b.MaxTimestamp()-testNow)
			}
		}
	}
	must(t, d.Close())
}

// TestCleanLags: what is younger than min.compaction.lag.ms stays, what is
// older than max.compaction.lag.ms goes although the log is hardly dirty, and
// also when nobody appends any more.
func TestCleanLags(t *testing.T) {
	c := compacted()
	c.MinCompactionLagMs = 1000
	_, d, l := onMem(t, c)
	for _, at := range []int64{0, 500, 900} {
		appendOne(t, l, keyed(t, record.None, kv{key: "a", value: fmt.Sprint(at), time: at}))
		roll(t, l)
	}
	clean(d, 999)
	wantLines(t, l, "0 a=0, 1 a=500, 2 a=900")
	clean(d, 1500)
	wantLines(t, l, "1 a=500, 2 a=900")
	clean(d, 1900)
	wantLines(t, l, "2 a=900")
	c.MinCompactionLagMs, c.MaxCompactionLagMs, c.MinCleanableRatio = 0, 2000, 0.9
	l.SetConfig(c)
	appendOne(t, l, keyed(t, record.None, kv{key: "a", value: "b", time: 2000}))
	clean(d, 2000)
	wantLines(t, l, "2 a=900, 3 a=b")
	clean(d, 4000) // closes the active segment
	wantLines(t, l, "2 a=900, 3 a=b")
	clean(d, 4001)
	wantLines(t, l, "3 a=b")
	must(t, d.Close())
}

// TestCleanRatio: a log is compacted when enough of it is dirty, the dirtiest
// one first.
func TestCleanRatio(t *testing.T) {
	var order []string
	config := testDisk()
	config.Logger = slog.New(logTo(func(message string, attrs map[string]any) {
		if message == "a log is compacted" {
			order = append(order, fmt.Sprint(attrs["log"]))
		}
	}))
	fs := vfs.NewMem()
	d, err := OpenDisk(fs, "data", config)
	must(t, err)
	c := compacted()
	c.MinCleanableRatio = 0.5
	var logs []*Log
	for i := range 3 {
		l, err := d.Create(offsets.TopicPartition{Topic: "t", Partition: int32(i)}, testID, c)
		must(t, err)
		appendOne(t, l, keyed(t, record.None, put("a", "1"), put("b", "1")))
		roll(t, l)
		logs = append(logs, l)
	}
	clean(d, 0)
	if len(order) != 3 {
		t.Fatalf("compacted %v", order)
	}
	order = nil
	for i, n := range []int{1, 2, 5} {
		for j := range n {
			appendOne(t, logs[i], keyed(t, record.None, put("a", fmt.Sprint(j))))
		}
		roll(t, logs[i])
	}
	clean(d, 0)
	if want := []string{"t/2", "t/1"}; !slices.Equal(order, want) {
		t.Errorf("compacted %v, want %v", order, want)
	}
	if m := d.CleanMetrics(); m.Runs != 5 || m.DirtiestRatio <= 0.3 || m.DirtiestRatio > 0.5 || m.RemovedRecords == 0 || m.WrittenBytes == 0 {
		t.Errorf("metrics %+v", m)
	}
	order = nil
	clean(d, 0)
	if len(order) > 0 {
		t.Errorf("compacted again: %v", order)
	}
	must(t, d.Close())
}

// logTo is a logger that calls a function.
type logTo func(message string, attrs map[string]any)

func (f logTo) Enabled(context.Context, slog.Level) bool { return true }
func (f logTo) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f logTo) WithGroup(string) slog.Handler            { return f }
func (f logTo) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]any{}
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.Any()
		return true
	})
	f(r.Message, attrs)
	return nil
}

// TestCleanBounds: nothing is compacted beyond what is committed, what a load
// job holds, or where a transaction is open.
func TestCleanBounds(t *testing.T) {
	bound := NoHold
	for name, change := range map[string]func(*DiskConfig){
		"committed": func(c *DiskConfig) { c.Committed = func(*Log) offsets.Offset { return bound } },
		"held":      func(c *DiskConfig) { c.Hold = func(*Log) offsets.Offset { return bound } },
	} {
		t.Run(name, func(t *testing.T) {
			config := testDisk()
			change(&config)
			d, err := OpenDisk(vfs.NewMem(), "data", config)
			must(t, err)
			l, err := d.Create(testTP, testID, compacted())
			must(t, err)
			for i := range 5 {
				appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
				roll(t, l)
			}
			for _, step := range []struct {
				bound offsets.Offset
				want  string
			}{
				{1, "0 a=0, 1 a=1, 2 a=2, 3 a=3, 4 a=4"},
				{3, "2 a=2, 3 a=3, 4 a=4"},
				{NoHold, "4 a=4"},
			} {
				bound = step.bound
				clean(d, 0)
				wantLines(t, l, step.want)
			}
			must(t, d.Close())
		})
	}
}

// TestCleanEmptied: a producer's last batch and the last batch of a segment
// stay as headers; the former goes when the producer is forgotten.
func TestCleanEmptied(t *testing.T) {
	fs, d, l := onMem(t, compacted())
	appendOne(t, l, keyed(t, record.None, put("a", "0"))) // first, so that the producer may begin anywhere
	w := record.NewBuilder(record.Gzip, 0)
	for i := range 7 {
		w.Producer(9, 3, int32(2*i))
		w.Append(put("a", fmt.Sprint(i)).record())
		w.Append(put("b", fmt.Sprint(i)).record())
		b, err := w.Batch()
		must(t, err)
		w.Reset()
		appendOne(t, l, b)
	}
	appendOne(t, l, keyed(t, record.None, put("a", "x"), put("b", "x")))
	roll(t, l)
	appendOne(t, l, keyed(t, record.None, put("a", "y"), put("b", "y")))
	roll(t, l)
	clean(d, 0)
	wantLines(t, l, "17 a=y, 18 b=y")
	found := contents(t, l, 0)
	if len(found) != 2 || found[0].ProducerID() != 9 || found[0].Count() != 0 || found[0].BaseSequence() != 12 ||
		found[0].BaseOffset() != 13 || found[0].LastOffset() != 14 || found[0].ProducerEpoch() != 3 || len(found[0]) != record.HeaderSize {
		t.Fatalf("batches %v", found)
	}
	must(t, d.Close())
	d, l = reopen(t, fs)
	l.SetConfig(compacted())
	for i := range 5 { // the window, though its batches are gone
		w.Producer(9, 3, int32(2*(i+2)))
		w.Append(put("a", "").record())
		w.Append(put("b", "").record())
		b, err := w.Batch()
		must(t, err)
		w.Reset()
		if out := appendOne(t, l, b); !out.Duplicate || out.First != offsets.Offset(1+2*(i+2)) {
			t.Errorf("retry of sequence %d: %+v", 2*(i+2), out)
		}
	}
	must(t, l.tick(testNow+2*day))
	appendOne(t, l, keyed(t, record.None, del("a"), del("b")))
	roll(t, l)
	clean(d, 2*day)
	appendOne(t, l, keyed(t, record.None, put("c", "1")))
	roll(t, l)
	clean(d, 4*day)
	wantLines(t, l, "21 c=1")
	for _, b := range contents(t, l, 0) {
		if b.ProducerID() == 9 {
			t.Errorf("header of a forgotten producer: %d", b.BaseOffset())
		}
	}
	must(t, d.Close())
}

// TestCleanHoles: a read inside a hole answers with what follows, and an
// emptied log is read to its end.
func TestCleanHoles(t *testing.T) {
	c := compacted()
	c.DeleteRetentionMs = 0
	_, d, l := onMem(t, c)
	for i := range 40 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i)), put(fmt.Sprint("b", i), "1")))
	}
	for i := range 40 {
		appendOne(t, l, keyed(t, record.None, del(fmt.Sprint("b", i))))
	}
	appendOne(t, l, keyed(t, record.None, del("a")))
	roll(t, l)
	clean(d, 0)
	appendOne(t, l, keyed(t, record.None, put("z", "1")))
	roll(t, l)
	clean(d, 1)
	appendOne(t, l, keyed(t, record.None, del("z")))
	roll(t, l)
	clean(d, 1)
	for at := offsets.Offset(0); at < l.End(); at++ {
		contents(t, l, at)
	}
	if n := len(lines(t, l)); n > 20 {
		t.Errorf("left: %s", lines(t, l))
	}
	if at, _, _, found, err := l.MaxTimestampOffset(l.End()); err != nil || found && at != 122 {
		t.Errorf("greatest time at %d, %v, %v", at, found, err)
	}
	must(t, d.Close())
}

// TestCleanKeyless: produce refuses records without a key; found all the same,
// they go.
func TestCleanKeyless(t *testing.T) {
	_, d, l := onMem(t, compacted())
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Timestamp: testNow, Value: []byte("no key")})
	w.Append(record.Record{Timestamp: testNow, Key: []byte{}, Value: []byte("empty key")})
	b, err := w.Batch()
	must(t, err)
	appendOne(t, l, b)
	roll(t, l)
	clean(d, 0)
	wantLines(t, l, "1 =empty key")
	must(t, d.Close())
}

// TestCleanFullMap: with room for a few keys a log is compacted in steps.
func TestCleanFullMap(t *testing.T) {
	config := testDisk()
	config.CleanMemory = 1 // the least there is: 16 slots a shard
	d, err := OpenDisk(vfs.NewMem(), "data", config)
	must(t, err)
	l, err := d.Create(testTP, testID, compacted())
	must(t, err)
	const keys, rounds = 2000, 3
	for i := range rounds * keys / 20 {
		var records []kv
		for j := range 20 {
			records = append(records, put(fmt.Sprint("key ", (20*i+j)%keys), fmt.Sprint(i)))
		}
		appendOne(t, l, keyed(t, record.Codec(i%5), records...))
	}
	roll(t, l)
	clean(d, 0)
	if runs := d.CleanMetrics().Runs; runs < 5 {
		t.Errorf("%d runs", runs)
	}
	seen := map[string]int{}
	for _, b := range contents(t, l, 0) {
		for _, r := range decode(t, b) {
			seen[string(r.Key)]++
			if r.Offset < (rounds-1)*keys {
				t.Fatalf("offset %d is left", r.Offset)
			}
		}
	}
	if len(seen) != keys {
		t.Errorf("%d keys, want %d", len(seen), keys)
	}
	must(t, d.Close())
}

// TestCleanKeepsOpenFiles: who holds a region reads on from the old file.
func TestCleanKeepsOpenFiles(t *testing.T) {
	_, d, l := onMem(t, compacted())
	for i := range 50 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
	}
	roll(t, l)
	r, err := l.Read(0, 1<<20, l.End(), true)
	must(t, err)
	before := regionBytes(t, r)
	clean(d, 0)
	wantLines(t, l, "49 a=49")
	if after := regionBytes(t, r); !bytes.Equal(before, after) || len(after) < 40*61 {
		t.Errorf("%d bytes before, %d after", len(before), len(after))
	}
	r.Release()
	if n := d.files.count(); n > 7 {
		t.Errorf("%d files open", n)
	}
	must(t, d.Close())
}

func regionBytes(t testing.TB, r ReadResult) []byte {
	t.Helper()
	var out []byte
	for _, region := range r.Regions {
		b := make([]byte, region.Len)
		_, err := region.File.ReadAt(b, region.Pos)
		must(t, err)
		out = append(out, b...)
	}
	return out
}

// TestCleanDelete: retention goes on after compaction, and DeleteRecords.
func TestCleanDelete(t *testing.T) {
	c := compacted()
	c.Delete, c.RetentionMs = true, 10_000
	_, d, l := onMem(t, c)
	for i := range 30 {
		appendOne(t, l, keyed(t, record.None, kv{key: fmt.Sprint("k", i%7), value: fmt.Sprint(i), time: int64(i) * 1000}))
		roll(t, l)
	}
	clean(d, 0)
	wantLines(t, l, "23 k2=23, 24 k3=24, 25 k4=25, 26 k5=26, 27 k6=27, 28 k0=28, 29 k1=29")
	must(t, l.DeleteBefore(25))
	wantLines(t, l, "25 k4=25, 26 k5=26, 27 k6=27, 28 k0=28, 29 k1=29")
	must(t, d.Tick(time.UnixMilli(testNow+29_000+10_001)))
	if l.Start() != 30 {
		t.Errorf("log start %d, want 30", l.Start())
	}
	must(t, d.Close())
}

// TestCleanAppendTime: the broker's time stays that of the records.
func TestCleanAppendTime(t *testing.T) {
	c := compacted()
	c.LogAppendTime = true
	_, d, l := onMem(t, c)
	appendOne(t, l, keyed(t, record.LZ4, kv{key: "a", value: "1", time: -50}, kv{key: "b", null: true, time: -40}))
	appendOne(t, l, keyed(t, record.None, put("a", "2")))
	roll(t, l)
	clean(d, 10)
	wantLines(t, l, "1 b=∅, 2 a=2")
	b := contents(t, l, 0)[0]
	if r := decode(t, b)[0]; !b.LogAppendTime() || !b.HasDeleteHorizon() || r.Timestamp != testNow || b.MaxTimestamp() != testNow {
		t.Errorf("append time %v, horizon %v, time %d", b.LogAppendTime(), b.HasDeleteHorizon(), r.Timestamp)
	}
	must(t, d.Close())
}

// randomKey is one of a few, the first ones far more often.
func randomKey(rnd *rand.Rand, keys int) string {
	return fmt.Sprint("key-", min(rnd.IntN(keys), rnd.IntN(keys), rnd.IntN(keys)))
}
