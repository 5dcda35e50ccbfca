package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// dirtyHistory is a log with segments compacted before and many dirty ones,
// all of it synced.
func dirtyHistory(t *testing.T, seed uint64) *cleanHistory {
	t.Helper()
	h := newCleanHistory(t, rand.New(rand.NewPCG(seed, 13)))
	h.config.SegmentBytes, h.config.MinCleanableRatio, h.config.MinCompactionLagMs = 1500, 0, 0
	h.log.SetConfig(h.config)
	for range 60 {
		h.append()
	}
	h.disk.cleaner.round(h.now)
	h.now += 3000
	for range 60 {
		h.append()
	}
	must(t, h.log.Flush())
	must(t, h.disk.checkpoint())
	h.now += 10_000
	return h
}

// changes tells whether an operation may change what a crash leaves.
func changes(op vfs.Op) bool {
	return op != vfs.OpRead && op != vfs.OpStat && op != vfs.OpOpen && op != vfs.OpReadDir
}

// TestCleanCrash cuts the power before each operation of a run, and again
// before each of the recovery after it. What is found holds the youngest record
// of every key, and can be compacted again.
func TestCleanCrash(t *testing.T) {
	crashes, swaps := 0, 0
	for seed := range uint64(max(2, thin(*cleanSeeds)/20)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := dirtyHistory(t, seed)
			var left []crashed
			var mu sync.Mutex // the flusher works beside the cleaner
			h.fs.Inject(func(op vfs.Op, name string) error {
				if !changes(op) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				rnd := h.rnd
				if len(left)%16 == 0 {
					rnd = nil // killed only
				}
				left = append(left, crashed{fs: h.fs.CrashClone(rnd), when: fmt.Sprintf("%s %s", op, name)})
				return nil
			})
			h.disk.cleaner.round(h.now)
			h.fs.Inject(nil)
			if h.disk.failed.Load() || h.disk.CleanMetrics().Failures > 0 {
				t.Fatal("the run without a crash failed")
			}
			for i := 0; i < len(left); i += 8 / thin(8) {
				c := left[i]
				crashes++
				if h.recover(c.fs, c.when) {
					swaps++
				}
			}
			h.model.checkClean(t, h.log, "without a crash")
			must(t, h.disk.Close())
		})
	}
	if crashes < thin(200) || swaps < thin(20) {
		t.Errorf("%d crashes, %d in the middle of a swap, are too few", crashes, swaps)
	}
	t.Logf("%d crashes, %d of them in the middle of a swap", crashes, swaps)
}

// recover opens what a crash left, cuts the power once more at a step of that,
// compares, and compacts again. swapped tells that a swap was finished.
func (h *cleanHistory) recover(fs *vfs.Mem, when string) (swapped bool) {
	h.t.Helper()
	var twice []*vfs.Mem
	fs.Inject(func(op vfs.Op, name string) error {
		if strings.HasSuffix(name, swapSuffix) && op == vfs.OpRename {
			swapped = true
		}
		if changes(op) && h.rnd.IntN(20) == 0 && len(twice) < 1 {
			twice = append(twice, fs.CrashClone(h.rnd))
		}
		return nil
	})
	look := func(fs *vfs.Mem, when string) {
		d, l := reopen(h.t, fs)
		fs.Inject(nil)
		h.model.check(h.t, l, when)
		h.model.checkRetries(h.t, l, when)
		entries, err := fs.ReadDir(l.path)
		must(h.t, err)
		for _, e := range entries {
			if isStaged(e.Name()) {
				h.t.Fatalf("%s: %s is left", when, e.Name())
			}
		}
		l.SetConfig(h.config)
		d.cleaner.round(h.now + day)
		h.model.check(h.t, l, when+", compacted again")
		h.model.checkClean(h.t, l, when+", compacted again")
		must(h.t, d.Close())
	}
	look(fs, "crash before "+when)
	for _, fs := range twice {
		look(fs, "a second crash after one before "+when)
	}
	return swapped
}

// TestCleanDiskErrors fails each operation of a run once. Nothing is lost;
// after a full disk the log is compacted in the next run, after an error of the
// disk at the next start.
func TestCleanDiskErrors(t *testing.T) {
	for _, why := range []error{unix.ENOSPC, unix.EIO} {
		for at := 0; ; at += 8 / thin(8) {
			h := dirtyHistory(t, 3)
			n := 0
			op, name := vfs.Op(""), ""
			var mu sync.Mutex
			h.fs.Inject(func(o vfs.Op, file string) error {
				if why == unix.ENOSPC && o != vfs.OpWrite && o != vfs.OpCreate {
					return nil
				}
				mu.Lock() // the disk's other goroutine syncs meanwhile
				defer mu.Unlock()
				if n++; n-1 != at {
					return nil
				}
				op, name = o, file
				return why
			})
			h.disk.cleaner.round(h.now)
			h.fs.Inject(nil)
			if op == "" {
				if at < 15 {
					t.Errorf("%d operations can fail with %v", at, why)
				}
				must(t, h.disk.Close())
				break
			}
			when := fmt.Sprintf("%v in %s %s", why, op, name)
			h.model.check(t, h.log, when)
			if failed := h.disk.failed.Load(); failed && (why == unix.ENOSPC || op == vfs.OpRead) {
				t.Errorf("%s: the disk has failed", when)
			}
			if h.disk.failed.Load() {
				if err := h.disk.Close(); !errors.Is(err, ErrFailed) {
					t.Errorf("%s: close: %v", when, err)
				}
				h.reopen(h.fs)
			}
			h.disk.cleaner.round(h.now)
			h.model.check(t, h.log, when+", later")
			h.model.checkClean(t, h.log, when+", later")
			v := h.log.look()
			if at, _ := h.disk.cleaned.get(h.log.key()); at != v.active().base {
				t.Errorf("%s: compacted to %d later, want %d", when, at, v.active().base)
			}
			must(t, h.disk.Close())
		}
	}
}

// TestCleanDamage: what is damaged is kept, with all that follows it, and what
// lies before it is compacted.
func TestCleanDamage(t *testing.T) {
	fs, d, l := onMem(t, compacted())
	for i := range 30 {
		appendOne(t, l, keyed(t, 0, put("a", fmt.Sprint(i)), put(fmt.Sprint("b", i), "x")))
		if i%10 == 9 {
			roll(t, l)
		}
	}
	must(t, l.Flush())
	f, err := fs.OpenFile(l.file(offsetName(20, logSuffix)), osReadWrite, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0x55}, 130) // in the second batch, where 0xff stood
	must(t, err)
	clean(d, 0) // finds it
	clean(d, 0) // knows it
	if got := l.Damage(); len(got) != 1 || got[0].From != 22 || got[0].Next != 24 {
		t.Fatalf("damage %+v", got)
	}
	if segments := l.look().segments; len(segments) != 4 {
		t.Errorf("%d segments", len(segments))
	}
	values, err := readSparse(t, l)
	must(t, err)
	if len(values) != 11+18+20 {
		t.Errorf("%d records are left: %v", len(values), values)
	}
	must(t, d.Close())
	d, l = reopen(t, fs)
	l.SetConfig(compacted())
	clean(d, 0)
	if values, err = readSparse(t, l); err != nil || len(values) != 49 {
		t.Errorf("after a restart %d records, %v", len(values), err)
	}
	must(t, d.Close())
}

// readSparse reads all records, stepping over damage.
func readSparse(t testing.TB, l *Log) (values []string, err error) {
	t.Helper()
	for at := l.Start(); at < l.End(); {
		b, err := l.ReadBytes(at, 500, l.End())
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			at = corrupt.Next
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range decode(t, b) {
			values = append(values, string(r.Key)+"="+string(r.Value))
		}
		for len(b) > 0 {
			at, b = nextBatch(t, b)
		}
	}
	return values, nil
}

func nextBatch(t testing.TB, b []byte) (offsets.Offset, []byte) {
	t.Helper()
	first, rest, err := record.Split(b)
	must(t, err)
	return first.LastOffset() + 1, rest
}
