package log

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestCleanStress compacts while others append, read, look up, delete records
// and delete the log: readers always get on, and nothing of a key's last value
// is lost.
func TestCleanStress(t *testing.T) {
	d, err := OpenDisk(vfs.NewMem(), "data", testDisk())
	must(t, err)
	c := compacted()
	c.Delete, c.RetentionMs = true, -1
	l, err := d.Create(testTP, testID, c)
	must(t, err)
	other, err := d.Create(offsets.TopicPartition{Topic: "doomed"}, offsets.TopicID{7}, c)
	must(t, err)
	const batches, keys = 3000, 40
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // the only writer
		defer done.Store(true)
		for i := range batches {
			appendOne(t, l, keyed(t, record.Codec(i%5), put(fmt.Sprint("k", i%keys), fmt.Sprint(i)), put("all", fmt.Sprint(i))))
			if i < batches/2 {
				appendOne(t, other, keyed(t, record.None, put("a", fmt.Sprint(i))))
			}
			switch {
			case i == batches/2:
				must(t, d.Delete(other))
			case i%500 == 499:
				must(t, l.DeleteBefore(l.End()/3))
			case i%100 == 99:
				must(t, l.Flush())
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for !done.Load() {
				readThrough(t, l)
			}
		})
	}
	wg.Go(func() {
		for !done.Load() {
			_, _, _, _, err := l.MaxTimestampOffset(l.End())
			must(t, err)
			_, _, _, _, err = l.OffsetForTime(testNow, l.End())
			must(t, err)
		}
	})
	for !done.Load() {
		d.cleaner.round(testNow)
	}
	wg.Wait()
	roll(t, l)
	d.cleaner.round(testNow)
	last := map[string]string{}
	for _, b := range contents(t, l, l.Start()) {
		for _, r := range decode(t, b) {
			last[string(r.Key)] = string(r.Value)
		}
	}
	for i := batches - keys; i < batches; i++ {
		if k := fmt.Sprint("k", i%keys); last[k] != fmt.Sprint(i) {
			t.Errorf("%s is %q, want %d", k, last[k], i)
		}
	}
	// A run that meets a truncation or a deletion counts as a failure, and begins anew.
	if m := d.CleanMetrics(); m.Runs < 1 || m.Runs+m.Failures < 2 || last["all"] != fmt.Sprint(batches-1) {
		t.Errorf("%+v, all = %s", m, last["all"])
	}
	if d.failed.Load() {
		t.Error("the disk has failed")
	}
	must(t, d.Close())
}

// readThrough reads from the start to the end there was; offsets ascend.
func readThrough(t *testing.T, l *Log) {
	end := l.End()
	for at := l.Start(); at < end; {
		now := l.End()
		b, err := l.ReadBytes(at, 900, now)
		var gone *ErrOffsetOutOfRange
		if errors.As(err, &gone) {
			at = gone.Start
			continue
		}
		if err == nil && len(b) == 0 && l.End() > now {
			continue // all below now was compacted meanwhile, by what came after it
		}
		if err != nil || len(b) == 0 {
			t.Errorf("read at %d of %d: %d bytes, %v", at, now, len(b), err)
			return
		}
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			if err != nil || first.CheckCRC() != nil || first.LastOffset() < at {
				t.Errorf("read at %d: %v, batch %d..%d", at, err, first.BaseOffset(), first.LastOffset())
				return
			}
			at, b = first.LastOffset()+1, rest
		}
	}
}
