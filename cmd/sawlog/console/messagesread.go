package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

// message is a record with as much of it as a page may show.
type message struct {
	partition int32
	offset    int64
	millis    int64 // timestamp; below 0 = none
	key       piece
	value     piece
	headers   []header
	carried   int   // headers it has, whether they are shown or not
	skipped   int64 // offsets before it, of the page, that hold no record
}

type header struct{ key, value piece }

// piece is the beginning of some bytes.
type piece struct {
	head []byte // nil = null
	size int    // of all of them
}

// Limits of a page of records.
const (
	pieceBytes   = 64 << 10  // of a key or a value
	headersRead  = 100       // of a record
	headerBytes  = 4 << 10   // of the value of a header
	nameBytes    = 256       // of the key of a header
	headersBytes = 16 << 10  // of all headers of a record
	fetchBytes   = 256 << 10 // of a fetch, at most
	batchBytes   = 16 << 20  // of a batch
	partsAtATime = 8         // partitions that are read at once
	readBytes    = 8 << 20   // of keys, values and headers passed in a partition, at most
	sharedBy     = 32        // partitions that may have that much each; more of them share it
)

// pieceOf copies the beginning of some bytes.
func pieceOf(b []byte, most int) piece {
	if b == nil {
		return piece{}
	}
	return piece{head: bytes.Clone(b[:min(len(b), most)]), size: len(b)}
}

// weight is how many bytes of a record were read for it.
func weight(rec *consumer.Record) int {
	n := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		n += len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return n
}

// window is the part of a partition's log that was read, and all of it.
type window struct{ From, To, Start, End int64 }

// read is what a partition brought.
type read struct {
	records []message
	window  window
	large   bool // the records are so large that fewer were read
	err     error
}

// share is what each of so many partitions may have of most.
func share(most, partitions int) int { return most * sharedBy / max(sharedBy, partitions) }

// readAll reads several partitions, each from its start on or up to it.
func (m *messageRead) readAll(ctx context.Context, ps []*admin.Partition, starts []int64, backward bool) []read {
	out := make([]read, len(ps))
	leaders := admin.Leaders(ps)
	room := make(chan struct{}, partsAtATime)
	var wg sync.WaitGroup
	for i, p := range ps {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			r := partRead{c: m.c, p: p, most: m.ask.Count, leaders: leaders, fetch: share(fetchBytes, len(ps)), bytes: share(readBytes, len(ps))}
			if backward {
				out[i] = r.backward(ctx, starts[i])
			} else {
				out[i] = r.forward(ctx, starts[i])
			}
		})
	}
	wg.Wait()
	return out
}

// partRead reads records of one partition.
type partRead struct {
	c       consumer.Cluster
	p       *admin.Partition
	most    int // records
	fetch   int // bytes of a fetch
	bytes   int // passed
	leaders *consumer.Leaders
}

// forward reads from an offset on.
func (r *partRead) forward(ctx context.Context, from int64) read {
	from = min(max(from, r.p.Start), r.p.End)
	out := r.between(ctx, from, r.p.End, r.most, false)
	return out
}

// backward reads the last records before an offset. Where offsets hold no records,
// after compaction or of transactions, it looks further back, a few times; where
// records are so large that it doesn't reach the offset, less far.
func (r *partRead) backward(ctx context.Context, to int64) read {
	to = min(max(to, r.p.Start), r.p.End)
	out := read{window: window{From: to, To: to, Start: r.p.Start, End: r.p.End}}
	back := int64(r.most)
	for looks := 0; looks < looksBack && out.window.From > r.p.Start && len(out.records) < r.most; looks++ {
		back = min(back, farthest, out.window.From-r.p.Start)
		part := r.between(ctx, out.window.From-back, out.window.From, r.most-len(out.records), true)
		whole := part.err == nil && part.window.To == out.window.From
		switch {
		case whole:
			out.records = append(part.records, out.records...)
			out.window.From = part.window.From
			if back *= 16; out.large && len(out.records) > 0 {
				return out
			}
		case len(out.records) > 0:
			return out // what was found is the end of the log all the same
		case part.err != nil:
			return part
		default:
			back, out.large = max(1, back/2), true
		}
	}
	return out
}

// Bounds of the search for the last records, where most offsets hold none.
const (
	farthest  = 1 << 20 // offsets at a time
	looksBack = 20
)

// between reads the records of [from, to): the first ones, so many at most, or the
// last of all. The window of the answer is what was read.
func (r *partRead) between(ctx context.Context, from, to int64, most int, last bool) (out read) {
	out.window = window{From: from, To: from, Start: r.p.Start, End: r.p.End}
	if from >= to {
		return out
	}
	reader := consumer.NewReader(r.c, offsets.TopicPartition{Topic: r.p.Topic, Partition: r.p.Index}, r.p.TopicID,
		offsets.Range{Start: offsets.Offset(from), End: offsets.Offset(to)},
		consumer.Options{
			FetchBytes: r.fetch, MaxBatchBytes: batchBytes, MaxDecompressed: 2 * batchBytes, Patience: patience * 3 / 4,
			Isolation: consumer.ReadUncommitted, AcceptGap: true, Compact: true, Leaders: r.leaders,
		})
	defer reader.Close()
	for passed := 0; (last || len(out.records) < most) && passed < r.bytes; {
		rec, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			out.window.To = to
			return out
		}
		if err != nil {
			out.err = r.explain(err)
			return out
		}
		passed += weight(rec)
		m := r.take(rec)
		m.skipped = m.offset - out.window.To
		if len(out.records) == most {
			out.records = append(out.records[:0], out.records[1:]...)
			out.window.From, out.records[0].skipped = out.records[0].offset, 0
		}
		out.records = append(out.records, m)
		out.window.To = m.offset + 1
	}
	return out
}

// take copies what a page may show of a record.
func (r *partRead) take(rec *consumer.Record) message {
	m := message{
		partition: r.p.Index, offset: int64(rec.Offset), millis: rec.Timestamp, carried: len(rec.Headers),
		key: pieceOf(rec.Key, pieceBytes), value: pieceOf(rec.Value, pieceBytes),
	}
	for i, room := 0, headersBytes; i < min(len(rec.Headers), headersRead) && room > 0; i++ {
		h := header{pieceOf(rec.Headers[i].Key, nameBytes), pieceOf(rec.Headers[i].Value, min(headerBytes, room))}
		room -= len(h.key.head) + len(h.value.head)
		m.headers = append(m.headers, h)
	}
	return m
}

// explain says what a person can do about a log that can't be read.
func (r *partRead) explain(err error) error {
	var large *consumer.OversizeError
	var corrupt *consumer.CorruptError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%w: sawlog consume %s prints it", err, shell(r.p.Topic))
	case errors.As(err, &corrupt):
		return fmt.Errorf("%w: sawlog log dump, on the broker's machine, shows where the segment is damaged", err)
	}
	return err
}

// timeOf is when the first record at or behind an offset was written; false when
// it did not come in time.
func (r *partRead) timeOf(ctx context.Context, at int64) (time.Time, bool) {
	r.most = 1
	got := r.forward(ctx, at)
	if len(got.records) == 0 || got.records[0].millis < 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(got.records[0].millis).UTC(), true
}
