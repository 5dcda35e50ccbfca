package log

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

var cleanSeeds = flag.Int("cleanseeds", 40, "how many random histories the compaction test plays")

// original is a record as it was appended.
type original struct {
	key, value string
	null       bool // no value
	keyless    bool
	time       int64
	batch      offsets.Offset // base offset of its batch
}

// cleanModel is all that was ever appended to a log.
type cleanModel struct {
	records []original
	batches map[offsets.Offset]record.Batch // as appended, by base offset
	recent  map[int64][]record.Batch        // of a producer, the last five
	seq     map[int64]int32
	start   offsets.Offset
}

// check compares what a log holds with all that was appended.
func (m *cleanModel) check(t testing.TB, l *Log, when string) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s: %s", when, fmt.Sprintf(format, args...))
	}
	if int(l.End()) != len(m.records) || l.Start() < m.start {
		fail("log %d..%d, want %d..%d", l.Start(), l.End(), m.start, len(m.records))
	}
	kept := map[offsets.Offset]int64{} // time
	var order []offsets.Offset
	for _, b := range contents(t, l, l.Start()) {
		was := m.batches[b.BaseOffset()]
		if was == nil || was.LastOffset() != b.LastOffset() || was.ProducerID() != b.ProducerID() ||
			was.ProducerEpoch() != b.ProducerEpoch() || was.BaseSequence() != b.BaseSequence() || was.Epoch() != b.Epoch() {
			fail("batch %d..%d was never appended", b.BaseOffset(), b.LastOffset())
		}
		if e := l.EpochAt(b.LastOffset()); e != b.Epoch() {
			fail("batch %d..%d has epoch %d, the log says %d", b.BaseOffset(), b.LastOffset(), b.Epoch(), e)
		}
		latest := int64(record.NoTimestamp)
		for _, r := range decode(t, b) {
			o := m.records[r.Offset]
			if string(r.Key) != o.key || string(r.Value) != o.value || r.Value == nil != o.null || r.Timestamp != o.time || r.Offset < b.BaseOffset() {
				fail("offset %d reads %q=%q at %d, was %+v", r.Offset, r.Key, r.Value, r.Timestamp, o)
			}
			latest = max(latest, r.Timestamp)
			kept[r.Offset] = r.Timestamp
			order = append(order, r.Offset)
		}
		if b.Count() > 0 && b.MaxTimestamp() != latest {
			fail("batch %d has greatest time %d, its records %d", b.BaseOffset(), b.MaxTimestamp(), latest)
		}
	}
	m.checkView(l, kept, fail)
	m.checkTimes(l, kept, order, fail)
}

// checkView: from every offset on, the log holds of each key the youngest
// record, unless that is a tombstone: then it may hold none.
func (m *cleanModel) checkView(l *Log, kept map[offsets.Offset]int64, fail func(string, ...any)) {
	youngest := map[string]offsets.Offset{}
	older := map[string]offsets.Offset{} // the youngest kept one of a key whose tombstone is gone
	for at := l.End() - 1; at >= l.Start(); at-- {
		r := m.records[at]
		_, have := kept[at]
		last, known := youngest[r.key]
		switch {
		case r.keyless:
		case !known:
			youngest[r.key] = at
			if !have && !r.null {
				fail("offset %d, the last of %s, is gone", at, r.key)
			}
			if !have {
				older[r.key] = at
			}
		case have && older[r.key] > 0:
			fail("offset %d came back: the tombstone %d of %s is gone", at, last, r.key)
		}
	}
}

// checkTimes compares lookups by time with the records that are left.
func (m *cleanModel) checkTimes(l *Log, kept map[offsets.Offset]int64, order []offsets.Offset, fail func(string, ...any)) {
	if len(order) == 0 {
		return
	}
	greatest := int64(record.NoTimestamp)
	for _, at := range order {
		greatest = max(greatest, kept[at])
	}
	first := func(ts int64) offsets.Offset {
		for _, at := range order {
			if kept[at] >= ts {
				return at
			}
		}
		return -1
	}
	for _, o := range order {
		for _, ts := range []int64{kept[o], kept[o] + 1} {
			want := first(ts)
			at, got, _, found, err := l.OffsetForTime(ts, l.End())
			if err != nil || found != (want >= 0) || found && (at != want || got != kept[want]) {
				fail("time %d is at %d (%v, %v), want %d", ts, at, found, err, want)
			}
		}
	}
	if at, ts, _, found, err := l.MaxTimestampOffset(l.End()); err != nil || !found || ts != greatest || at != first(greatest) {
		fail("greatest time is %d at %d (%v, %v), want %d at %d", ts, at, found, err, greatest, first(greatest))
	}
}

// checkClean: below the point no two records have one key.
func (m *cleanModel) checkClean(t testing.TB, l *Log, when string) {
	t.Helper()
	point, ok := l.disk.cleaned.get(l.key())
	if !ok {
		return
	}
	seen := map[string]offsets.Offset{}
	for _, b := range contents(t, l, l.Start()) {
		for _, r := range decode(t, b) {
			if before, ok := seen[string(r.Key)]; ok && r.Offset < point {
				t.Fatalf("%s: %s is at %d and %d, compacted to %d", when, r.Key, before, r.Offset, point)
			}
			seen[string(r.Key)] = r.Offset
		}
	}
}

// checkRetries sends the last batches of each producer again.
func (m *cleanModel) checkRetries(t testing.TB, l *Log, when string) {
	t.Helper()
	for id, batches := range m.recent {
		for _, b := range batches {
			out, err := l.Append([]record.Batch{append(record.Batch(nil), b...)}, Append{Epoch: l.Epoch(), Now: testNow})
			if err != nil || !out[0].Duplicate || out[0].First != b.BaseOffset() || out[0].Last != b.LastOffset() {
				t.Fatalf("%s: retry of producer %d's batch at %d: %+v, %v", when, id, b.BaseOffset(), out, err)
			}
		}
	}
}

// TestCleanModel plays random histories of appends by producers of every kind,
// compaction at random times, restarts, kills and power cuts.
func TestCleanModel(t *testing.T) {
	for seed := range thin(*cleanSeeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := newCleanHistory(t, rand.New(rand.NewPCG(uint64(seed), 11)))
			for range 60 {
				h.step()
			}
			h.now += 100 * day
			h.disk.cleaner.round(h.now)
			h.model.check(t, h.log, "at the end")
			h.model.checkClean(t, h.log, "at the end")
			must(t, h.disk.Close())
		})
	}
}

type cleanHistory struct {
	t      *testing.T
	rnd    *rand.Rand
	fs     *vfs.Mem
	disk   *Disk
	log    *Log
	config Config
	model  *cleanModel
	epoch  offsets.Epoch
	now    int64
	keys   int
}

func newCleanHistory(t *testing.T, rnd *rand.Rand) *cleanHistory {
	h := &cleanHistory{t: t, rnd: rnd, config: compacted(), epoch: 1, now: testNow, keys: 3 + rnd.IntN(60)}
	h.model = &cleanModel{batches: map[offsets.Offset]record.Batch{}, recent: map[int64][]record.Batch{}, seq: map[int64]int32{}}
	h.config.SegmentBytes = int64(300 + rnd.IntN(4000))
	h.config.MinCleanableRatio = []float64{0, 0.3, 0.5}[rnd.IntN(3)]
	h.config.DeleteRetentionMs = []int64{0, 5000, day}[rnd.IntN(3)]
	h.config.MinCompactionLagMs = []int64{0, 0, 3000}[rnd.IntN(3)]
	if rnd.IntN(3) == 0 {
		h.config.MaxCompactionLagMs = 10_000
	}
	h.fs, h.disk, h.log = onMem(t, h.config)
	h.disk.config.CleanMemory = []int64{1, 128 << 20}[rnd.IntN(2)]
	return h
}

func (h *cleanHistory) step() {
	doing := ""
	h.now += int64(h.rnd.IntN(2000))
	what := h.rnd.IntN(12)
	if h.log.End() == 0 {
		what = 12 // a log without records need not survive
	}
	switch what {
	case 0, 1:
		doing = "compact"
		h.disk.cleaner.round(h.now)
	case 2:
		doing = "restart"
		must(h.t, h.disk.Close())
		h.reopen(h.fs)
	case 3:
		doing = "kill"
		h.reopen(h.fs.CrashClone(nil))
	case 4:
		doing = "power cut"
		must(h.t, h.log.Flush())
		h.reopen(h.fs.CrashClone(h.rnd))
	case 5:
		doing = "tick"
		must(h.t, h.disk.checkpoint())
		h.epoch++
		must(h.t, h.disk.Assign([]Assignment{{h.log, h.epoch}}))
	default:
		for range 1 + h.rnd.IntN(6) {
			h.append()
		}
		return
	}
	when := fmt.Sprintf("after %s at end %d", doing, h.log.End())
	h.model.check(h.t, h.log, when)
	h.model.checkClean(h.t, h.log, when)
	h.model.checkRetries(h.t, h.log, when)
}

// reopen goes on with what a file system holds.
func (h *cleanHistory) reopen(fs *vfs.Mem) {
	h.fs = fs
	h.disk, h.log = reopen(h.t, fs)
	h.disk.config.CleanMemory = 1
	h.log.SetConfig(h.config)
}

// append writes a batch of some codec, of an idempotent producer or of none.
func (h *cleanHistory) append() {
	m := h.model
	w := record.NewBuilder(record.Codec(h.rnd.IntN(5)), 0)
	id := int64(h.rnd.IntN(6)) - 2
	if _, known := m.seq[id]; !known && h.log.End() > 0 && h.rnd.IntN(4) == 0 {
		m.seq[id] = 1<<31 - 1 - int32(h.rnd.IntN(20)) // will wrap
	}
	seq := m.seq[id]
	if id >= 0 {
		w.Producer(id, 2, seq)
	}
	first := h.log.End()
	for range 1 + h.rnd.IntN(5) {
		o := original{key: randomKey(h.rnd, h.keys), batch: first, time: h.now - testNow + int64(h.rnd.IntN(5000)-2500)}
		o.value = fmt.Sprintf("%d %x", len(m.records), h.rnd.Uint64())
		switch h.rnd.IntN(10) {
		case 0, 1:
			o.null, o.value = true, ""
		case 2:
			o.value = ""
		}
		r := kv{o.key, o.value, o.null, o.time}.record()
		if h.rnd.IntN(20) == 0 {
			o.keyless, o.key, r.Key = true, "", nil
		}
		w.Append(r)
		o.time += testNow
		m.records = append(m.records, o)
	}
	b, err := w.Batch()
	must(h.t, err)
	out, err := h.log.Append([]record.Batch{b}, Append{Epoch: h.epoch, Now: h.now})
	must(h.t, err)
	if out[0].Duplicate || out[0].First != first {
		h.t.Fatalf("append at %d: %+v", first, out[0])
	}
	m.batches[first] = b
	if id >= 0 {
		m.seq[id] = int32((int64(seq) + int64(b.Count())) & 0x7fffffff)
		m.recent[id] = append(m.recent[id], b)
		if n := len(m.recent[id]); n > keptBatches {
			m.recent[id] = m.recent[id][n-keptBatches:]
		}
	}
}

// TestLatestMap compares the map with Go's own, at every size.
func TestLatestMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, bytes := range []int64{1, 100_000, 512 << 10, 64 << 20} {
		m, want := newLatestMap(bytes), map[string]offsets.Offset{}
		full := 0
		for i := range 60_000 {
			key := fmt.Sprint(rnd.IntN(40_000))
			if !m.put([]byte(key), offsets.Offset(i)) {
				if _, ok := want[key]; ok {
					t.Fatalf("no room for %s, which is there", key)
				}
				full++
				continue
			}
			want[key] = offsets.Offset(i)
		}
		if m.entries != len(want) || full > 0 != (bytes <= 512<<10) || m.occupied > max(bytes, latestShards*latestFirst*latestSlotSize) {
			t.Errorf("%d bytes: %d entries, want %d; %d not taken; %d bytes occupied", bytes, m.entries, len(want), full, m.occupied)
		}
		for key, at := range want {
			if got, ok := m.get([]byte(key)); !ok || got != at {
				t.Fatalf("%s is at %d (%v), want %d", key, got, ok, at)
			}
		}
		if _, ok := m.get([]byte("none")); ok {
			t.Error("a key that was never put is found")
		}
	}
	if m := newLatestMap(128 << 20); m.occupied != 0 {
		t.Errorf("an empty map occupies %d bytes", m.occupied)
	}
}

// TestCleanTick: Tick has the cleaner look around, and Close waits for it.
func TestCleanTick(t *testing.T) {
	compactedAt := make(chan string, 1)
	config := testDisk()
	config.Logger = slog.New(logTo(func(message string, attrs map[string]any) {
		if message == "a log is compacted" {
			compactedAt <- fmt.Sprint(attrs["to"])
		}
	}))
	d, err := OpenDisk(vfs.NewMem(), "data", config)
	must(t, err)
	l, err := d.Create(testTP, testID, compacted())
	must(t, err)
	for i := range 100 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
	}
	roll(t, l)
	must(t, d.Tick(time.UnixMilli(testNow)))
	if at := <-compactedAt; at != "100" {
		t.Errorf("compacted to %s", at)
	}
	wantLines(t, l, "99 a=99")
	must(t, d.Close())
}
