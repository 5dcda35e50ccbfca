package consumer

import (
	"context"
	"fmt"
	"io"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// Record is one record of a log; its bytes are valid until the next one.
type Record = record.Record

// Isolation says whether records of aborted transactions are seen.
type Isolation int8

// The isolations of a read.
const (
	ReadCommitted Isolation = iota
	ReadUncommitted
)

// Options of a Reader.
type Options struct {
	FetchBytes      int           // bytes of one fetch; 0 = 4 MiB
	MaxBatchBytes   int           // largest stored batch; 0 = 256 MiB
	MaxDecompressed int           // largest batch once decompressed; 0 = 256 MiB
	Patience        time.Duration // how long to wait for a leader that answers; 0 = 60 s
	Isolation       Isolation
	AcceptGap       bool     // step over offsets that retention removed, and count them
	Compact         bool     // the topic has or had cleanup.policy compact: holes are no error
	Pace            *Pace    // holds up fetches and counts their bytes; nil = neither
	Leaders         *Leaders // what readers before this one learned; nil = nothing
}

func (o Options) withDefaults() Options {
	set := func(n *int, to int) {
		if *n <= 0 {
			*n = to
		}
	}
	set(&o.FetchBytes, 4<<20)
	set(&o.MaxBatchBytes, 256<<20)
	set(&o.MaxDecompressed, 256<<20)
	if o.Pace == nil {
		o.Pace = NewPace(0)
	}
	o.FetchBytes = o.Pace.most(o.FetchBytes)
	o.MaxBatchBytes = max(o.MaxBatchBytes, o.FetchBytes)
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	return o
}

// Counts accounts for the offsets a Reader has passed; their sum is how far it
// has come from its start.
type Counts struct {
	Data      int64 // records returned
	Control   int64 // transaction markers
	Aborted   int64 // offsets of aborted transactions
	Compacted int64 // offsets compaction left empty
	Gap       int64 // offsets retention removed
}

// Reader reads the range [start, end) of one partition, once, in order. Its
// position is that of the fetches, not of the records: a range that ends with
// a marker, or inside a batch, ends exactly there. Not for concurrent use.
type Reader struct {
	tp     offsets.TopicPartition
	end    offsets.Offset
	opts   Options
	fetch  fetcher
	counts Counts

	pos     offsets.Offset // everything below it is accounted for
	chunk   chunk
	rest    []byte         // batches of the chunk not yet begun
	last    offsets.Offset // of the batch being read
	reading bool           // a batch is being read
	it      record.Iterator
	dropped map[int64]bool // producers inside an aborted transaction, in this chunk
	err     error

	chunks chan chunk
	wants  chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// NewReader makes a reader; it does nothing until Next is called, and holds a
// goroutine from then until Close.
func NewReader(c Cluster, tp offsets.TopicPartition, id offsets.TopicID, r offsets.Range, o Options) *Reader {
	o = o.withDefaults()
	rd := &Reader{
		tp: tp, end: r.End, opts: o, pos: r.Start, dropped: map[int64]bool{},
		fetch: fetcher{c: c, tp: tp, id: id, end: r.End, opts: o, size: o.FetchBytes, last: offsets.NoEpoch},
	}
	if c, ok := c.(interface{ Rack() string }); ok {
		rd.fetch.rack = c.Rack()
	}
	rd.it.MaxDecompressed = o.MaxDecompressed
	rd.chunk.upTo = r.Start
	return rd
}

// Counts accounts for all offsets below Position.
func (r *Reader) Counts() Counts { return r.counts }

// Position is the offset up to which the reader has come.
func (r *Reader) Position() offsets.Offset { return r.pos }

// Close stops fetching. The reader is of no use afterwards.
func (r *Reader) Close() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	<-r.done
}

// Next returns the next record, valid until the next call, or io.EOF once the
// position is the end of the range. An error is final.
func (r *Reader) Next(ctx context.Context) (*Record, error) {
	for r.err == nil {
		if r.reading {
			if rec := r.record(); rec != nil {
				return rec, nil
			}
			continue
		}
		if len(r.rest) > 0 {
			r.err = r.batch()
			continue
		}
		if r.err = r.pass(r.chunk.upTo); r.err != nil {
			break
		}
		if r.pos >= r.end {
			r.err = io.EOF
			break
		}
		r.err = r.receive(ctx)
	}
	return nil, r.err
}

// receive waits for the next chunk.
func (r *Reader) receive(ctx context.Context) error {
	if r.chunks == nil {
		var inner context.Context
		inner, r.cancel = context.WithCancel(ctx)
		r.chunks, r.wants, r.done = make(chan chunk), make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(r.done)
			r.fetch.run(inner, r.pos, r.wants, r.chunks)
		}()
	}
	r.chunk.batches, r.rest = nil, nil
	r.wants <- struct{}{} // never blocks: the chunk of the token before has come
	select {
	case r.chunk = <-r.chunks:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.chunk.err != nil {
		return r.chunk.err
	}
	if r.chunk.gapTo > r.pos {
		r.counts.Gap += int64(r.chunk.gapTo - r.pos)
		r.pos = r.chunk.gapTo
	}
	r.rest = r.chunk.batches
	clear(r.dropped)
	return nil
}

// pass moves the position to offset to, where no batch stands in between.
func (r *Reader) pass(to offsets.Offset) error {
	if to <= r.pos {
		return nil
	}
	if !r.opts.Compact {
		return &HoleError{TopicPartition: r.tp, Hole: offsets.Range{Start: r.pos, End: to}}
	}
	r.counts.Compacted += int64(to - r.pos)
	r.pos = to
	return nil
}

// batch begins the next batch of the chunk: it opens it for reading, or counts
// and steps over it whole.
func (r *Reader) batch() error {
	b, rest, err := record.Split(r.rest)
	if err != nil {
		return &CorruptError{TopicPartition: r.tp, Offset: r.pos, Err: err}
	}
	r.rest = rest
	if err := r.pass(b.BaseOffset()); err != nil {
		return err
	}
	next := min(b.LastOffset()+1, r.end)
	if r.opts.Isolation == ReadCommitted {
		r.abortUpTo(b.LastOffset())
	}
	switch {
	case b.IsControl():
		if err := r.marker(b); err != nil {
			return err
		}
		r.counts.Control += int64(next - r.pos)
		r.pos = next
	case b.IsTransactional() && r.dropped[b.ProducerID()]:
		r.counts.Aborted += int64(next - r.pos)
		r.pos = next
	default:
		if err := r.it.Reset(b); err != nil {
			return r.corrupt(b.BaseOffset(), err)
		}
		r.last, r.reading = b.LastOffset(), true
	}
	return nil
}

// record returns the next record of the batch inside the range; nil at the end
// of the batch, with the holes compaction left in it counted.
func (r *Reader) record() *Record {
	for r.it.Next() {
		rec := r.it.Record()
		if rec.Offset < r.pos {
			continue
		}
		if rec.Offset >= r.end || rec.Offset > r.last {
			break
		}
		r.counts.Compacted += int64(rec.Offset - r.pos)
		r.counts.Data++
		r.pos = rec.Offset + 1
		return rec
	}
	r.reading = false
	if err := r.it.Err(); err != nil {
		r.err = r.corrupt(r.pos, err)
		return nil
	}
	if next := min(r.last+1, r.end); next > r.pos {
		r.counts.Compacted += int64(next - r.pos)
		r.pos = next
	}
	return nil
}

// abortUpTo takes in the aborted transactions that begin at or before offset.
func (r *Reader) abortUpTo(offset offsets.Offset) {
	list := r.chunk.aborted
	for len(list) > 0 && list[0].FirstOffset <= int64(offset) {
		r.dropped[list[0].ProducerID] = true
		list = list[1:]
	}
	r.chunk.aborted = list
}

// marker reads a control batch: an abort marker ends its producer's aborted
// transaction.
func (r *Reader) marker(b record.Batch) error {
	if err := r.it.Reset(b); err != nil {
		return r.corrupt(b.BaseOffset(), err)
	}
	for r.it.Next() {
		commit, err := record.ParseControl(r.it.Record().Key)
		if err != nil {
			continue // another kind of control record, such as a leader change
		}
		if !commit {
			delete(r.dropped, b.ProducerID())
		}
	}
	if err := r.it.Err(); err != nil {
		return r.corrupt(b.BaseOffset(), err)
	}
	return nil
}

func (r *Reader) corrupt(at offsets.Offset, err error) error {
	return &CorruptError{TopicPartition: r.tp, Offset: at, Err: fmt.Errorf("records: %w", err)}
}
