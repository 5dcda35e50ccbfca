package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
)

// inFlight is how many requests a connection has under way, as Kafka's Java
// producer by default.
const inFlight = 5

// frames reads replies; what it returns is valid until the next call.
type frames struct {
	in  *bufio.Reader
	buf []byte
}

func newFrames(c net.Conn) *frames { return &frames{in: bufio.NewReaderSize(c, 64<<10)} }

// next is the body of the next reply, after a flexible header.
func (f *frames) next() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(f.in, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < 5 || n > 256<<20 {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.in, f.buf); err != nil {
		return nil, err
	}
	if f.buf[4] != 0 {
		return nil, errors.New("tags in the header of a reply")
	}
	return f.buf[5:], nil
}

// acknowledged makes sure that a Produce reply of version 12 reports no error.
func acknowledged(body []byte) error {
	var r kmsg.ProduceResponse
	r.Version = 12
	if err := r.ReadFrom(body); err != nil {
		return err
	}
	for _, rt := range r.Topics {
		for _, rp := range rt.Partitions {
			if rp.ErrorCode != 0 {
				return fmt.Errorf("partition %d: error code %d", rp.Partition, rp.ErrorCode)
			}
		}
	}
	return nil
}

// replayProduce sends one frame over and over on several connections until the
// context ends or it was sent most times, and returns how often it was
// acknowledged.
func replayProduce(ctx context.Context, t testing.TB, addr string, frame []byte, conns int, most int64) int64 {
	t.Helper()
	var sent, acks atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 2*conns)
	for range conns {
		c := dial(t, addr)
		defer func() { _ = c.Close() }() // nothing is due on it
		window := make(chan struct{}, inFlight)
		wg.Go(func() {
			defer close(window)
			for ctx.Err() == nil && sent.Add(1) <= most {
				window <- struct{}{}
				if _, err := c.Write(frame); err != nil {
					errs <- err
					return
				}
			}
		})
		wg.Go(func() {
			in := newFrames(c)
			for range window {
				body, err := in.next()
				if err == nil {
					err = acknowledged(body)
				}
				if err != nil {
					errs <- err
					_ = c.Close() // the sender stops by it
					for range window {
					}
					return
				}
				acks.Add(1)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatalf("replay to %s: %v", addr, err)
	default:
	}
	return acks.Load()
}

// dial connects; the connection is closed with the test.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing is due on it any more
	return c
}

// fetcher reads partitions from the start, one Fetch after the other, each for
// all partitions, outside any session.
type fetcher struct {
	conn    net.Conn
	in      *frames
	request *kmsg.FetchRequest
	format  *kmsg.RequestFormatter
	frame   []byte
	// batch, when set, is told every batch as it was received.
	batch func(partition int32, b record.Batch, at time.Time)
}

// newFetcher asks as kgo does by default, but for the wait.
func newFetcher(t testing.TB, addr, topic string, partitions int32, wait time.Duration) *fetcher {
	t.Helper()
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = 12, int32(wait.Milliseconds()), 1, 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	for p := range partitions {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = p, 1<<20, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	r.Topics = append(r.Topics, rt)
	c := dial(t, addr)
	return &fetcher{conn: c, in: newFrames(c), request: r, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}
}

// rewind begins again at the first record.
func (f *fetcher) rewind() {
	for i := range f.request.Topics[0].Partitions {
		f.request.Topics[0].Partitions[i].FetchOffset = 0
	}
}

// once sends one request and returns how many records came.
func (f *fetcher) once() (records int64, err error) {
	f.frame = f.format.AppendRequest(f.frame[:0], f.request, 1)
	if _, err := f.conn.Write(f.frame); err != nil {
		return 0, err
	}
	body, err := f.in.next()
	if err != nil {
		return 0, err
	}
	at := time.Now()
	var r kmsg.FetchResponse
	r.Version = 12
	if err := r.ReadFrom(body); err != nil {
		return 0, err
	}
	if r.ErrorCode != 0 {
		return 0, fmt.Errorf("fetch: error code %d", r.ErrorCode)
	}
	for _, rt := range r.Topics {
		for _, rp := range rt.Partitions {
			if rp.ErrorCode != 0 {
				return 0, fmt.Errorf("fetch of partition %d: error code %d", rp.Partition, rp.ErrorCode)
			}
			n, err := f.take(rp.Partition, rp.RecordBatches, at)
			if err != nil {
				return 0, err
			}
			records += n
		}
	}
	return records, nil
}

// take walks over the batches of a partition.
func (f *fetcher) take(partition int32, b []byte, at time.Time) (records int64, err error) {
	part := &f.request.Topics[0].Partitions[partition]
	for len(b) > 0 {
		var batch record.Batch
		batch, b, err = record.Split(b)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // Kafka cuts the last one where the limit of bytes is
		}
		if err != nil {
			return records, err
		}
		if int64(batch.BaseOffset()) != part.FetchOffset {
			return records, fmt.Errorf("partition %d: a batch of offset %d after %d", partition, batch.BaseOffset(), part.FetchOffset)
		}
		part.FetchOffset = int64(batch.LastOffset()) + 1
		records += int64(batch.Count())
		if f.batch != nil {
			f.batch(partition, batch, at)
		}
	}
	return records, nil
}

// replayFetch reads all records there are, again and again, until the context
// ends, at least once, and returns how many came.
func replayFetch(ctx context.Context, t testing.TB, addr, topic string, partitions int32, there int64) int64 {
	t.Helper()
	f := newFetcher(t, addr, topic, partitions, 500*time.Millisecond)
	defer func() { _ = f.conn.Close() }() // nothing is due on it
	return f.again(ctx, t, there)
}

// again is replayFetch with a fetcher that may be of another kind.
func (f *fetcher) again(ctx context.Context, t testing.TB, there int64) int64 {
	t.Helper()
	var all int64
	for all == 0 || ctx.Err() == nil {
		f.rewind()
		for got := int64(0); got < there; {
			n, err := f.once()
			if err != nil {
				t.Fatalf("replay from %s: %v", f.conn.RemoteAddr(), err)
			}
			got += n
		}
		all += there
	}
	return all
}
