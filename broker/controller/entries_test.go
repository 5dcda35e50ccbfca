package controller

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/vfs"
)

// logFolder opens the Raft log of a node that has never run.
func logFolder(t *testing.T, fs vfs.FS) *Controller {
	t.Helper()
	c := &Controller{}
	var err error
	if c.stable, err = openStable(fs, "data/stable"); err != nil {
		t.Fatal(err)
	}
	if err := c.openEntries(testConfig(fs), "data/log"); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEntriesAsRaftMeansThem: whatever is stored, many entries at a time, stored
// over, cut at any entry from either end, and met again after a crash: the log
// holds what Raft's rules say, each entry under its index.
func TestEntriesAsRaftMeansThem(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			fs := newDisk(t)
			c := logFolder(t, fs)
			first, term := uint64(1), uint64(1)
			var want []raft.Log // want[i] has index first+i
			next := func() uint64 { return first + uint64(len(want)) }
			for step := range 120 {
				switch rnd.IntN(10) {
				default: // a few entries, perhaps over the tail of a leader that was replaced
					at := next()
					if len(want) > 0 && rnd.IntN(3) == 0 {
						at -= rnd.Uint64N(uint64(len(want)) + 1)
						term++
					}
					var logs []*raft.Log
					for i := range uint64(1 + rnd.IntN(16)) {
						if rnd.IntN(12) == 0 {
							term++
						}
						logs = append(logs, &raft.Log{
							Index: at + i, Term: term, Type: raft.LogCommand, AppendedAt: time.UnixMilli(int64(step) + 1),
							Data: bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(300)),
						})
					}
					if err := c.entries.StoreLogs(logs); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					want = want[:at-first]
					for _, l := range logs {
						want = append(want, *l)
					}
				case 0: // the tail
					if len(want) == 0 {
						continue
					}
					from := first + rnd.Uint64N(uint64(len(want)))
					if err := c.entries.DeleteRange(from, next()-1); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					if from == first {
						first = next() // an empty log goes on where it was
						want = nil
						continue
					}
					want = want[:from-first]
				case 1: // the head, which a snapshot covers
					if len(want) < 2 {
						continue
					}
					to := first + rnd.Uint64N(uint64(len(want)-1))
					if err := c.entries.DeleteRange(first, to); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					want = slices.Clone(want[to+1-first:])
					first = to + 1
				case 2: // kill -9, or a power cut
					var left *vfs.Mem
					if rnd.IntN(2) == 0 {
						left = fs.CrashClone(nil)
					} else {
						left = fs.CrashClone(rnd)
					}
					if err := c.disk.Close(); err != nil {
						t.Fatal(err)
					}
					fs = left
					c = logFolder(t, fs)
				}
				same(t, step, c.entries, first, want)
			}
			if err := c.disk.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// same compares a log with what should be in it.
func same(t *testing.T, step int, e *entries, first uint64, want []raft.Log) {
	t.Helper()
	last, err := e.LastIndex()
	begins, errFirst := e.FirstIndex()
	if err = errors.Join(err, errFirst); err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 {
		if last != 0 || begins != 0 {
			t.Fatalf("step %d: entries %d to %d in an empty log", step, begins, last)
		}
		return
	}
	if begins > first || last != first+uint64(len(want))-1 {
		t.Fatalf("step %d: entries %d to %d, want %d to %d", step, begins, last, first, first+uint64(len(want))-1)
	}
	for _, w := range want {
		var l raft.Log
		if err := e.GetLog(w.Index, &l); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if l.Index != w.Index || l.Term != w.Term || l.Type != w.Type || !bytes.Equal(l.Data, w.Data) || !l.AppendedAt.Equal(w.AppendedAt) {
			t.Fatalf("step %d: entry %d: %+v, want %+v", step, w.Index, l, w)
		}
	}
}
