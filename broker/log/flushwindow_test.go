package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestFlushWindow: what is older than flush.ms is on the disk, however many
// partitions are written to and however long a sync takes, up to a twelfth of the
// window: a flush is three of them when the log is new, and has a quarter.
func TestFlushWindow(t *testing.T) {
	for _, syncTakes := range []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond} {
		t.Run(syncTakes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { flushWindow(t, syncTakes) })
		})
	}
}

func flushWindow(t *testing.T, syncTakes time.Duration) {
	const (
		window = time.Second
		each   = 20 * time.Millisecond
	)
	c := DefaultConfig()
	c.FlushMs = window.Milliseconds()
	fs := vfs.NewMem()
	d := openTest(t, fs, "data")
	defer func() {
		fs.Inject(nil)
		must(t, d.Close())
	}()
	var logs []*Log
	for i := range 6 {
		l, err := d.Create(offsets.TopicPartition{Topic: fmt.Sprint("t", i)}, testID, c)
		must(t, err)
		logs = append(logs, l)
	}
	var syncs atomic.Int64
	fs.Inject(func(op vfs.Op, name string) error {
		// Those of the journal are waited for by a mutex, where the clock of a
		// bubble stands still.
		if op == vfs.OpSync && strings.HasSuffix(name, logSuffix) || op == vfs.OpSyncDir {
			syncs.Add(1)
			time.Sleep(syncTakes)
		}
		return nil
	})
	rng := rand.New(rand.NewPCG(1, uint64(syncTakes)))
	var ends [6][]offsets.Offset // of each log, after each round
	oldest := 0
	for range 10 * window / each {
		time.Sleep(each)
		for i, l := range logs {
			if rng.IntN(3) > 0 {
				appendOne(t, l, batch(t, int(l.End()), 2))
			}
			ends[i] = append(ends[i], l.End())
			// What stood when the window began, this very moment's left out.
			if old := len(ends[i]) - 1 - int(window/each); old >= 0 && l.RecoveryPoint() < ends[i][old] {
				t.Fatalf("log %d is synced below %d; %d is %s old", i, l.RecoveryPoint(), ends[i][old]-1, window)
			}
			for age := oldest + 1; age < len(ends[i]) && l.RecoveryPoint() < ends[i][len(ends[i])-1-age]; age++ {
				oldest = age
			}
		}
	}
	t.Logf("syncs of %s: the oldest record that wasn't synced had %s, %d syncs", syncTakes, time.Duration(oldest)*each, syncs.Load())
}

// TestFlushesEnd: a disk is closed while many flushes wait for each other, and
// one that fails meanwhile ends all writing.
func TestFlushesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.FlushMs = 100
		fs := vfs.NewMem()
		d := openTest(t, fs, "data")
		var logs []*Log
		for i := range 40 {
			l, err := d.Create(offsets.TopicPartition{Topic: fmt.Sprint("t", i)}, testID, c)
			must(t, err)
			appendOne(t, l, batch(t, 0, 2))
			logs = append(logs, l)
		}
		boom := errors.New("boom")
		fs.Inject(func(op vfs.Op, name string) error {
			if op == vfs.OpSync && strings.HasSuffix(name, logSuffix) {
				time.Sleep(time.Second)
				return boom
			}
			return nil
		})
		time.Sleep(time.Second)
		if err := d.Close(); err == nil {
			t.Error("closed well on a disk that failed")
		}
		if err := <-d.Failed(); !errors.Is(err, boom) {
			t.Error(err)
		}
		if _, err := logs[39].Append(nil, Append{}); err == nil {
			t.Error("a disk that failed takes appends")
		}
	})
}
