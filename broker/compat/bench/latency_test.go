package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/record"
)

// conns is how many connections of producers load a broker by replay.
const conns = 3

// quantiles of one open loop, in milliseconds from the time a batch was due to be
// sent until a consumer had it.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	N    int     `json:"n"` // batches
}

// tailRate is the rate, in bytes of values per second, at which batches of one
// partition each go through a broker to a consumer in a closed loop.
func (s *target) tailRate(t testing.TB, l load, topic string, d time.Duration) float64 {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	frames := oneEach(t, l, topic)
	var wg sync.WaitGroup
	for i := range conns {
		var mine []prebuilt
		for p := i; p < len(frames); p += conns {
			mine = append(mine, frames[p])
		}
		if len(mine) > 0 {
			wg.Go(func() { closedLoop(ctx, t, s.Addr, mine, func(time.Time) {}) })
		}
	}
	f := newFetcher(t, s.Addr, topic, l.Partitions, 500*time.Millisecond)
	defer func() { _ = f.conn.Close() }() // nothing is due on it
	from := time.Now()
	var records int64
	for ctx.Err() == nil {
		n, err := f.once()
		if err != nil {
			t.Fatalf("tail of %s: %v", s.Name, err)
		}
		records += n
	}
	rate := float64(records) * float64(l.Size) / time.Since(from).Seconds()
	wg.Wait()
	return rate
}

// oneEach are requests with a batch for one partition, for each of them.
func oneEach(t testing.TB, l load, topic string) []prebuilt {
	t.Helper()
	out := make([]prebuilt, l.Partitions)
	for p := range out {
		out[p] = produceFrame(t, topic, []int32{int32(p)}, l.Size, l.Codec, time.Now().UnixMilli())
	}
	return out
}

// dueBatch is a request and when it should go.
type dueBatch struct {
	frame []byte
	at    time.Time
}

// closedLoop sends requests in turn for as long as the context lasts.
func closedLoop(ctx context.Context, t testing.TB, addr string, frames []prebuilt, acked func(due time.Time)) {
	due := make(chan dueBatch)
	go func() {
		defer close(due)
		for i := 0; ; i++ {
			select {
			case due <- dueBatch{frame: frames[i%len(frames)].frame}:
			case <-ctx.Done():
				return
			}
		}
	}()
	sendDue(t, addr, due, acked)
}

// sendDue sends what is due on a connection of its own, a few requests at once,
// and tells of each that was acknowledged.
func sendDue(t testing.TB, addr string, due <-chan dueBatch, acked func(due time.Time)) {
	c := dial(t, addr)
	defer func() { _ = c.Close() }() // all was answered
	window := make(chan time.Time, inFlight)
	var wg sync.WaitGroup
	wg.Go(func() {
		in := newFrames(c)
		for at := range window {
			body, err := in.next()
			if err == nil {
				err = acknowledged(body)
			}
			if err != nil {
				t.Errorf("produce to %s: %v", addr, err)
				_ = c.Close() // the sender stops by it
				for range window {
				}
				return
			}
			acked(at)
		}
	})
	for next := range due {
		window <- next.at
		if _, err := c.Write(next.frame); err != nil {
			t.Errorf("produce to %s: %v", addr, err)
			for range due {
			}
			break
		}
	}
	close(window)
	wg.Wait()
}

// openLoop sends batches at a fixed rate, whether or not the broker keeps up,
// and follows them with one consumer. Each batch counts from when it was due, so
// one that waits for another counts its wait (no coordinated omission). The first
// part of the time is not counted.
func (s *target) openLoop(t testing.TB, l load, topic string, rate float64, warm, d time.Duration) quantiles {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	frames := oneEach(t, l, topic)
	each := time.Duration(float64(frames[0].bytes) / rate * float64(time.Second))
	total := int((warm + d) / each)
	queues := make([]chan dueBatch, min(conns, len(frames)))
	var wg sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan dueBatch, total+1)
		wg.Go(func() { sendDue(t, s.Addr, queues[i], func(time.Time) {}) })
	}
	begin := time.Now().Add(50 * time.Millisecond)
	wg.Go(func() {
		onTime(t, begin, each, total, func(i int) {
			p := i % len(frames)
			queues[p%len(queues)] <- dueBatch{frame: frames[p].frame}
		})
		for _, q := range queues {
			close(q)
		}
	})
	took := make([]float64, 0, total)
	seen := 0
	f := newFetcher(t, s.Addr, topic, l.Partitions, 500*time.Millisecond)
	defer func() { _ = f.conn.Close() }() // nothing is due on it
	f.batch = func(partition int32, b record.Batch, at time.Time) {
		i := int(b.BaseOffset())/frames[0].records*len(frames) + int(partition)
		due := begin.Add(time.Duration(i) * each)
		seen++
		if due.Sub(begin) >= warm {
			took = append(took, float64(at.Sub(due))/float64(time.Millisecond))
		}
	}
	for end := begin.Add(warm + d + time.Minute); seen < total && !t.Failed(); {
		if _, err := f.once(); err != nil {
			t.Fatalf("tail of %s: %v", s.Name, err)
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %d of %d batches came within a minute of the last", s.Name, seen, total)
		}
	}
	wg.Wait()
	slices.Sort(took)
	return quantiles{quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999), len(took)}
}

// onTime calls f for each number below n when it is due. It waits by a timer of
// the kernel's, which the poller wakes for: a sleeping goroutine may be a
// millisecond late.
func onTime(t testing.TB, begin time.Time, each time.Duration, n int, f func(int)) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		t.Errorf("timer: %v", err)
		return
	}
	timer := os.NewFile(uintptr(fd), "timer")
	defer func() { _ = timer.Close() }() // nothing is lost with it
	var expirations [8]byte
	for i := 0; i < n; {
		for i < n && time.Since(begin) >= time.Duration(i)*each {
			f(i)
			i++
		}
		wait := max(time.Until(begin.Add(time.Duration(i)*each)), time.Microsecond)
		set := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
		if err := unix.TimerfdSettime(fd, 0, &set, nil); err != nil {
			t.Errorf("timer: %v", err)
			return
		}
		if _, err := timer.Read(expirations[:]); err != nil || binary.NativeEndian.Uint64(expirations[:]) == 0 {
			t.Errorf("timer: %v, %v", err, expirations)
			return
		}
	}
}

func (q quantiles) String() string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms of %d batches", q.P50, q.P99, q.P999, q.N)
}
