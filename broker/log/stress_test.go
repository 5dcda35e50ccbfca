package log

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// TestConcurrently has everything happen at once: appends, reads of all parts,
// time lookups, flushes, ticks, deletion from the front and truncation at the
// end. What readers get below a bound that is never truncated must be whole, in
// order, and what was appended.
func TestConcurrently(t *testing.T) {
	c := small()
	c.RetentionMs = -1
	_, d, l := onMem(t, c)
	var safe atomic.Int64 // below it nothing is truncated
	stop := make(chan struct{})
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	var wg sync.WaitGroup
	var errs sync.Map
	start := func(name string, fn func(rnd *rand.Rand) error) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(len(name))))
			for running() {
				if err := fn(rnd); err != nil {
					errs.Store(name, err)
					return
				}
			}
		})
	}
	for i := range 3 {
		at := offsets.Offset(0)
		start(fmt.Sprint("reader", i), func(rnd *rand.Rand) error {
			next, err := readSome(l, at, offsets.Offset(safe.Load()))
			at = next
			if rnd.IntN(50) == 0 {
				at = l.Start()
			}
			return err
		})
	}
	start("times", func(rnd *rand.Rand) error {
		_, _, _, _, err := l.OffsetForTime(testNow+rnd.Int64N(max(1, int64(l.End()))), offsets.Offset(safe.Load()))
		return tolerate(err)
	})
	start("flush", func(*rand.Rand) error { return l.Flush() })
	start("tick", func(*rand.Rand) error { return d.Tick(time.UnixMilli(testNow)) })
	start("delete", func(*rand.Rand) error {
		if to := offsets.Offset(safe.Load()) - 2000; to > l.Start()+300 {
			return l.DeleteBefore(to)
		}
		return nil
	})
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		first := int(l.End())
		if _, err := l.Append([]record.Batch{batch(t, first, 5)}, Append{Epoch: 1, Now: testNow}); err != nil {
			t.Error(err)
			break
		}
		if i%20 == 0 {
			if err := l.Truncate(max(0, l.End()-offsets.Offset(rnd.IntN(40)))); err != nil {
				t.Error(err)
				break
			}
		}
		safe.Store(max(safe.Load(), int64(l.End())-60))
	}
	close(stop)
	wg.Wait()
	errs.Range(func(name, err any) bool {
		t.Errorf("%s: %v", name, err)
		return true
	})
	must(t, d.Close())
}

// tolerate lets pass what may happen to a reader whose records are deleted.
func tolerate(err error) error {
	var outside *ErrOffsetOutOfRange
	if errors.As(err, &outside) {
		return nil
	}
	return err
}

// readSome reads once below a bound and compares the values.
func readSome(l *Log, at, end offsets.Offset) (offsets.Offset, error) {
	r, err := l.Read(at, 3000, end, true)
	var outside *ErrOffsetOutOfRange
	if errors.As(err, &outside) {
		return outside.Start, nil
	}
	if err != nil {
		return at, err
	}
	defer r.Release()
	want := at
	for _, region := range r.Regions {
		buf := make([]byte, region.Len)
		if n, err := region.File.ReadAt(buf, region.Pos); n < len(buf) {
			return at, fmt.Errorf("%d of %d bytes: %w", n, len(buf), errors.Join(err, io.ErrUnexpectedEOF))
		}
		for len(buf) > 0 {
			b, rest, err := record.Split(buf)
			if err != nil {
				return at, err
			}
			var it record.Iterator
			if err := errors.Join(b.CheckCRC(), it.Reset(b)); err != nil {
				return at, err
			}
			for it.Next() {
				rec := it.Record()
				if rec.Offset < want {
					continue
				}
				if rec.Offset != want || rec.Offset >= end || string(rec.Value) != string(value(int(rec.Offset))) {
					return at, fmt.Errorf("offset %d below %d reads %q, want %d", rec.Offset, end, rec.Value, want)
				}
				want++
			}
			buf = rest
		}
	}
	if want != max(r.Next, at) {
		return at, fmt.Errorf("read %d..%d, result says %d", at, want, r.Next)
	}
	return want, nil
}
