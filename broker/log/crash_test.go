package log

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

var crashSeeds = flag.Int("seeds", 120, "how many random histories the crash test plays")

// crashModel is what a crash may leave of the history so far.
type crashModel struct {
	mu       sync.Mutex
	allowed  map[offsets.Offset]map[string]bool
	now      map[offsets.Offset]string // as the log reads without a crash
	mustEnd  offsets.Offset            // acknowledged as synced
	minStart offsets.Offset            // acknowledged as deleted
	maxStart offsets.Offset
	maxEnd   offsets.Offset
	epoch    offsets.Epoch // acknowledged assignment
	produced map[int64]Appended
	nextSeq  map[int64]int32
}

func newCrashModel() *crashModel {
	return &crashModel{
		allowed: map[offsets.Offset]map[string]bool{}, now: map[offsets.Offset]string{},
		produced: map[int64]Appended{}, nextSeq: map[int64]int32{}, epoch: offsets.NoEpoch,
	}
}

// synced notes that everything below end was acknowledged as synced.
func (m *crashModel) synced(end offsets.Offset) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mustEnd = max(m.mustEnd, end)
	for o := range m.allowed {
		if o < end {
			m.allowed[o] = map[string]bool{m.now[o]: true}
		}
	}
}

// copy takes the model as it is at this step.
func (m *crashModel) copy() *crashModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crashModel{
		allowed: map[offsets.Offset]map[string]bool{}, produced: maps.Clone(m.produced), nextSeq: maps.Clone(m.nextSeq),
		mustEnd: m.mustEnd, minStart: m.minStart, maxStart: m.maxStart, maxEnd: m.maxEnd, epoch: m.epoch,
	}
	for o, values := range m.allowed {
		c.allowed[o] = maps.Clone(values)
	}
	return c
}

// check opens what a crash left and compares.
func (m *crashModel) check(t *testing.T, fs *vfs.Mem, when string) {
	t.Helper()
	d, err := OpenDisk(fs, "data", testDisk())
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	l, ok := d.Log(testTP, testID)
	if !ok {
		if m.mustEnd > 0 {
			t.Fatalf("%s: the log is gone, %d offsets were synced", when, m.mustEnd)
		}
		must(t, d.Close())
		return
	}
	start, end := l.Start(), l.End()
	if start < m.minStart || start > m.maxStart || end < m.mustEnd || end > m.maxEnd {
		t.Fatalf("%s: log %d..%d, want start in %d..%d, end in %d..%d", when, start, end, m.minStart, m.maxStart, m.mustEnd, m.maxEnd)
	}
	if l.Epoch() < m.epoch {
		t.Fatalf("%s: epoch %d, assigned %d; %v, log %d..%d", when, l.Epoch(), m.epoch, l.epochs, start, end)
	}
	m.checkRecords(t, l, when)
	for id, a := range m.produced {
		if a.Last < m.mustEnd && a.First >= start {
			dup := producedBatch(t, 0, int(a.Last-a.First)+1, id, 0, m.nextSeq[id]-int32(a.Last-a.First)-1)
			out, err := l.Append([]record.Batch{dup}, Append{Epoch: 1 << 20, Now: testNow})
			if err != nil || !out[0].Duplicate || out[0].First != a.First {
				t.Fatalf("%s: retry of producer %d's batch at %d: %+v, %v", when, id, a.First, out, err)
			}
		}
	}
	l.SetConfig(small())
	fill(t, l, int(l.End())+10)
	end = l.End()
	must(t, d.Close())
	d, l = reopen(t, fs)
	if !d.CleanStart() || l.End() != end {
		t.Fatalf("%s: after recovery and a clean stop: clean %v, end %d, want %d", when, d.CleanStart(), l.End(), end)
	}
	must(t, d.Close())
}

// checkRecords reads everything: each offset holds what was once written there,
// and below mustEnd nothing is missing or damaged.
func (m *crashModel) checkRecords(t *testing.T, l *Log, when string) {
	t.Helper()
	for at := l.Start(); at < l.End(); {
		b, err := l.ReadBytes(at, 2000, l.End())
		var corrupt *CorruptError
		if errors.As(err, &corrupt) && corrupt.Next > at {
			if at < m.mustEnd {
				t.Fatalf("%s: damage at %d below %d: %v", when, at, m.mustEnd, err)
			}
			at = corrupt.Next
			continue
		}
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: read at %d of %d..%d: %d bytes, %v", when, at, l.Start(), l.End(), len(b), err)
		}
		if first := record.Batch(b); first.Epoch() != l.EpochAt(first.LastOffset()) {
			t.Fatalf("%s: batch %d..%d has epoch %d, the log says %d", when, first.BaseOffset(), first.LastOffset(),
				first.Epoch(), l.EpochAt(first.LastOffset()))
		}
		for _, r := range decode(t, b) {
			switch {
			case r.Offset < at:
			case r.Offset > at:
				t.Fatalf("%s: offset %d is missing without a word", when, at)
			case !m.allowed[at][string(r.Value)]:
				t.Fatalf("%s: offset %d reads %q, want one of %v", when, at, r.Value, m.allowed[at])
			default:
				at++
			}
		}
	}
}

// thin is an eighth of what a test tries where tests are to be short, as they are
// under the race detector, which has nothing to find in most of them.
func thin(n int) int {
	if testing.Short() {
		return max(1, n/8)
	}
	return n
}

// TestCrash plays random histories, cuts the power at random steps in the
// middle of whatever runs, and compares what the next start finds with what was
// acknowledged.
func TestCrash(t *testing.T) {
	checks := 0
	for seed := range thin(*crashSeeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			h := newCrashHistory(t, rnd)
			for range 40 {
				h.step()
				h.verify()
			}
			h.fs.Inject(nil)
			h.model.check(t, h.fs.CrashClone(h.rnd), "at the end")
			must(t, h.disk.Close())
			h.model.synced(h.log.End())
			h.model.check(t, h.fs.CrashClone(h.rnd), "after a clean stop")
			h.verify()
			checks += h.checks
		})
	}
	if checks < thin(*crashSeeds)*20 {
		t.Errorf("%d crashes in %d histories are too few", checks, thin(*crashSeeds))
	}
	t.Logf("%d crashes", checks)
}

type crashHistory struct {
	t      *testing.T
	rnd    *rand.Rand
	fs     *vfs.Mem
	disk   *Disk
	log    *Log
	model  *crashModel
	config Config
	epoch  offsets.Epoch
	write  int // versions, so that no two writes of an offset are equal

	mu     sync.Mutex
	steps  *rand.Rand
	checks int
	doing  string
	left   []crashed
}

// crashed is what a power cut left, and the model at that step.
type crashed struct {
	fs    *vfs.Mem
	model *crashModel
	when  string
}

func newCrashHistory(t *testing.T, rnd *rand.Rand) *crashHistory {
	h := &crashHistory{t: t, rnd: rnd, model: newCrashModel(), config: small()}
	h.steps = rand.New(rand.NewPCG(rnd.Uint64(), 9))
	h.config.RetentionMs = -1
	if rnd.IntN(3) == 0 {
		h.config.FlushMessages = 1
	}
	h.fs, h.disk, h.log = onMem(t, h.config)
	h.fs.Inject(h.crash)
	return h
}

// crash cuts the power before one operation in some.
func (h *crashHistory) crash(op vfs.Op, name string) error {
	if op == vfs.OpRead || op == vfs.OpStat || op == vfs.OpOpen || op == vfs.OpReadDir {
		return nil // nothing has changed since the operation before
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps.IntN(4) == 0 {
		h.checks++
		model := h.model.copy() // before the clone: the model may only get stricter
		h.left = append(h.left, crashed{h.fs.CrashClone(h.steps), model, fmt.Sprintf("%s, before %s %s", h.doing, op, name)})
	}
	return nil
}

// verify looks at all that was left since the last time.
func (h *crashHistory) verify() {
	h.mu.Lock()
	left := h.left
	h.left = nil
	h.mu.Unlock()
	for _, c := range left {
		c.model.check(h.t, c.fs, c.when)
	}
}

func (h *crashHistory) step() {
	l, m := h.log, h.model
	doing := func(format string, args ...any) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.doing = fmt.Sprintf(format, args...)
		h.t.Logf("%s (log %d..%d, synced %d, epoch %d)", h.doing, l.Start(), l.End(), l.RecoveryPoint(), l.Epoch())
	}
	switch h.rnd.IntN(20) {
	case 0, 1:
		doing("flush")
		must(h.t, l.Flush())
		m.synced(l.End())
	case 2:
		to := l.Start() + offsets.Offset(h.rnd.Int64N(int64(l.End()-l.Start())+1))
		doing("delete before %d", to)
		m.mu.Lock()
		m.maxStart = max(m.maxStart, to)
		m.mu.Unlock()
		must(h.t, l.DeleteBefore(to))
		m.mu.Lock()
		m.minStart = max(m.minStart, to)
		m.mu.Unlock()
	case 3:
		h.truncate(doing)
	case 4:
		h.epoch++
		epoch := h.epoch
		doing("assign %d", epoch)
		must(h.t, h.disk.Assign([]Assignment{{l, epoch}}))
		if l.RecoveryPoint() >= l.End() { // else a shorter log may come back
			m.mu.Lock()
			m.epoch = epoch
			m.mu.Unlock()
		}
	case 5:
		doing("tick")
		must(h.t, h.disk.Tick(time.UnixMilli(testNow+int64(h.rnd.IntN(2))*90_000)))
	default:
		h.append(doing)
	}
}

func (h *crashHistory) truncate(doing func(string, ...any)) {
	l, m := h.log, h.model
	to := l.Start() + offsets.Offset(h.rnd.Int64N(int64(l.End()-l.Start())+1))
	if h.rnd.IntN(2) == 0 {
		to = max(to, l.End()-7)
	}
	doing("truncate to %d", to)
	m.mu.Lock()
	// A batch is cut whole: what is in it before to goes as well.
	low := to
	if to < l.End() {
		low = max(0, to-6)
	}
	m.mustEnd = min(m.mustEnd, low)
	m.minStart = min(m.minStart, low)
	m.epoch = offsets.NoEpoch
	clear(m.produced)
	m.mu.Unlock()
	must(h.t, l.Truncate(to))
	clear(m.nextSeq)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maxEnd = l.End()
	for o := range m.allowed {
		if o >= l.End() {
			delete(m.allowed, o)
			delete(m.now, o)
		}
	}
	m.minStart, m.maxStart = l.Start(), l.Start()
}

// append writes a batch or two, sometimes of an idempotent producer.
func (h *crashHistory) append(doing func(string, ...any)) {
	l, m := h.log, h.model
	id := int64(h.rnd.IntN(6)) - 3
	seq, known := m.nextSeq[id]
	if id < 0 || !known && l.End() == 0 {
		id, seq = max(id, -1), 0
	}
	if !known && id >= 0 {
		id += int64(h.write+1) * 10 // a new producer may begin anywhere
		seq = 0
	}
	w := record.NewBuilder(record.Codec(h.rnd.IntN(5)), 0)
	if id >= 0 {
		w.Producer(id, 0, seq)
	}
	first, count := l.End(), 1+h.rnd.IntN(6)
	m.mu.Lock()
	for i := range count {
		h.write++
		v := fmt.Sprintf("%d write %d %s", int(first)+i, h.write, strings.Repeat("y", h.rnd.IntN(90)))
		w.Append(record.Record{Timestamp: testNow + int64(h.write), Value: []byte(v)})
		o := first + offsets.Offset(i)
		if m.allowed[o] == nil {
			m.allowed[o] = map[string]bool{}
		}
		m.allowed[o][v] = true
		m.now[o] = v
	}
	m.maxEnd = max(m.maxEnd, first+offsets.Offset(count))
	m.mu.Unlock()
	b, err := w.Batch()
	must(h.t, err)
	doing("append %d..%d", first, first+offsets.Offset(count))
	out, err := l.Append([]record.Batch{b}, Append{Epoch: h.epoch, Now: testNow + int64(h.write)})
	must(h.t, err)
	if out[0].First != first || out[0].Duplicate {
		h.t.Fatalf("append: %+v, want %d", out[0], first)
	}
	if id >= 0 {
		m.mu.Lock()
		m.produced[id] = out[0]
		m.nextSeq[id] = seq + int32(count)
		m.mu.Unlock()
	}
	if h.config.FlushMessages == 1 {
		m.synced(l.End())
	}
}
