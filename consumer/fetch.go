package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// chunk is what one fetch brought: whole, checked batches that hold offsets of
// [at, end). After them nothing is stored below upTo.
type chunk struct {
	at      offsets.Offset
	upTo    offsets.Offset
	gapTo   offsets.Offset // offsets below it are gone; 0 = none
	batches []byte
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction // by first offset
	err     error
}

// fetcher reads ahead of a Reader, one chunk at a time. It alone talks to the
// cluster: it finds the leader, waits out elections and checks every batch.
type fetcher struct {
	c    Cluster
	tp   offsets.TopicPartition
	id   offsets.TopicID
	end  offsets.Offset
	opts Options

	leader   Requestor
	epoch    offsets.Epoch
	last     offsets.Epoch // of the last batch that came; NoEpoch at first
	rack     string        // "" = read from the leader
	near     Requestor     // the replica the leader sent us to, or nil
	farUntil time.Time     // the replica nearby failed: no other is asked for before
	size     int           // bytes to ask for; grows for a batch that does not fit
	damaged  int           // fetches in a row that brought a damaged batch
	routed   bool          // it knew a leader once; another time it asks
	lookPast bool
}

// run sends chunks from offset at on until end, or one chunk with an error, each
// against one token of wants. It fetches ahead of the token, but not after a
// chunk of more than twice the fetch size: two of such are too much to hold.
func (f *fetcher) run(ctx context.Context, at offsets.Offset, wants <-chan struct{}, out chan<- chunk) {
	wanted := func() bool {
		select {
		case <-wants:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for large := false; at < f.end; {
		if large && !wanted() {
			return
		}
		if f.opts.Pace.hold(ctx) != nil {
			return
		}
		ch := f.next(ctx, at)
		if !large && !wanted() {
			return
		}
		select {
		case out <- ch:
		case <-ctx.Done():
			return
		}
		if ch.err != nil {
			return
		}
		at, large = ch.upTo, len(ch.batches) > 2*f.opts.FetchBytes
	}
}

// next fetches at offset at until something comes, for opts.Patience at most.
func (f *fetcher) next(ctx context.Context, at offsets.Offset) chunk {
	deadline := time.Now().Add(f.opts.Patience)
	var doubted time.Time // when the first answer came that may be wrong
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		ch, err := f.fetch(ctx, at)
		if doubted.IsZero() && doubtful(err) {
			doubted = time.Now()
		}
		switch {
		case err == nil && ch.upTo > at:
			return ch
		case err == nil:
			err = fmt.Errorf("%w: %s: nothing at offset %d although the log goes on to %d", ErrUnavailable, f.tp, at, f.end)
		case errors.Is(err, errAgain):
			continue
		case doubtful(err) && !f.believed(ctx, err, time.Since(doubted)):
			f.leader, f.near = nil, nil
		case !errors.Is(err, ErrUnavailable):
			return chunk{at: at, err: err}
		case f.near != nil: // it may lag or have died; the leader knows
			f.near, f.farUntil = nil, time.Now().Add(farFor)
			continue
		default:
			f.leader = nil
		}
		if time.Now().Add(pause).After(deadline) {
			return chunk{at: at, err: err}
		}
		if wait(ctx, pause) != nil {
			return chunk{at: at, err: ctx.Err()}
		}
	}
}

// farFor is how long the leader is read from after a replica nearby has failed.
const farFor = 5 * time.Second

// errAgain asks for another fetch at once.
var errAgain = errors.New("fetch again")

// fetch does one fetch. A chunk that does not go beyond at holds nothing.
func (f *fetcher) fetch(ctx context.Context, at offsets.Offset) (chunk, error) {
	if f.leader == nil {
		if err := f.route(ctx); err != nil {
			return chunk{}, err
		}
	}
	p, err := f.ask(ctx, at)
	if err != nil {
		return chunk{}, err
	}
	f.opts.Pace.fetched(len(p.RecordBatches))
	switch code := kerr.ErrorForCode(p.ErrorCode); {
	case code == nil && p.DivergingEpoch.EndOffset >= 0 && f.near != nil:
		return chunk{}, fmt.Errorf("%w: %s: the replica nearby lacks what was read up to offset %d", ErrUnavailable, f.tp, at)
	case code == nil && p.DivergingEpoch.EndOffset >= 0:
		return chunk{}, &CutError{TopicPartition: f.tp, At: at, Epoch: f.last, End: offsets.Offset(p.DivergingEpoch.EndOffset)}
	case code == nil && f.near == nil && p.PreferredReadReplica >= 0 && len(p.RecordBatches) == 0:
		f.near = f.c.Broker(p.PreferredReadReplica)
		return chunk{}, errAgain
	case code == nil:
		return f.checked(at, p)
	case errors.Is(code, kerr.OffsetOutOfRange) && f.near != nil:
		return chunk{}, fmt.Errorf("%w: %s: offset %d is not at the replica nearby", ErrUnavailable, f.tp, at)
	case errors.Is(code, kerr.OffsetOutOfRange) && f.last != offsets.NoEpoch:
		// The epoch of what was read last may be forgotten by now.
		f.last = offsets.NoEpoch
		return chunk{}, errAgain
	case errors.Is(code, kerr.OffsetOutOfRange):
		return f.outOfRange(ctx, at)
	case errors.Is(code, kerr.UnknownTopicOrPartition), errors.Is(code, kerr.UnknownTopicID), errors.Is(code, kerr.InconsistentTopicID):
		// A broker that has just started may not know its topics yet; whether
		// the topic is gone is for the metadata to say.
		return chunk{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, f.tp, code)
	default:
		return chunk{}, fmt.Errorf("%s at offset %d: %w", f.tp, at, classify(code))
	}
}

// route finds the leader of the partition and sees that the topic is still the
// one that was planned.
func (f *fetcher) route(ctx context.Context) error {
	t, known := f.opts.Leaders.of(f.tp.Topic)
	if !known || f.routed {
		topics, _, err := metadata(ctx, f.c, []string{f.tp.Topic}, nil)
		if err != nil {
			return err
		}
		t = topics[0]
		f.opts.Leaders.Learn(t)
	}
	f.routed = true
	p, err := f.placed(&t)
	if err != nil {
		return err
	}
	if p.Leader == noLeader {
		return leaderless(f.tp)
	}
	f.leader, f.epoch = f.c.Broker(int32(p.Leader)), p.Epoch
	return nil
}

// ask sends a sessionless fetch for the one partition.
func (f *fetcher) ask(ctx context.Context, at offsets.Offset) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, int32(f.size)
	req.SessionID, req.SessionEpoch = 0, -1
	if f.opts.Isolation == ReadCommitted && !f.lookPast {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = f.tp.Topic, f.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.tp.Partition, int64(at), int32(f.size)
	p.CurrentLeaderEpoch, p.LastFetchedEpoch = int32(f.epoch), int32(f.last)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)

	from := f.leader
	switch {
	case f.near != nil:
		from, req.Rack = f.near, f.rack
	case f.rack != "" && time.Now().After(f.farUntil):
		req.Rack = f.rack
	}
	got, err := from.Request(ctx, req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", f.tp, classify(err))
	}
	resp, ok := got.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("fetch answered by %T", got)
	}
	if code := kerr.ErrorForCode(resp.ErrorCode); code != nil {
		return nil, fmt.Errorf("%s: fetch: %w", f.tp, classify(code))
	}
	if len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) == 1 && resp.Topics[0].Partitions[0].Partition == f.tp.Partition {
		return &resp.Topics[0].Partitions[0], nil
	}
	return nil, fmt.Errorf("%w: %s: fetch answered without the partition", ErrUnavailable, f.tp)
}

// checked walks the batches of an answer: it drops what lies outside [at, end)
// and a truncated tail, and checks the CRC of the rest.
func (f *fetcher) checked(at offsets.Offset, p *kmsg.FetchResponseTopicPartition) (chunk, error) {
	look := f.lookPast
	f.lookPast = false
	ch := chunk{at: at, upTo: at, aborted: p.AbortedTransactions}
	rest := p.RecordBatches
	to := len(rest)
	from := to
	for len(rest) > 0 && ch.upTo < f.end {
		b, tail, err := record.Split(rest)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return f.truncated(ch, rest)
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return f.damage(ch.upTo, err)
		}
		if b.BaseOffset() >= f.end {
			ch.upTo = f.end
			break
		}
		if look {
			break // a look past the last stable offset serves nothing below end
		}
		if b.LastOffset() >= at {
			from = min(from, to-len(rest))
			ch.upTo = min(b.LastOffset()+1, f.end)
			f.last = b.Epoch()
		}
		rest = tail
		if b.LastOffset() >= at {
			ch.batches = p.RecordBatches[from : to-len(rest)]
		}
	}
	f.damaged = 0
	if ch.upTo == at && f.opts.Isolation == ReadCommitted && !look {
		f.lookPast = true
	}
	if err := f.hole(ch, p.LogStartOffset); err != nil {
		return chunk{}, err
	}
	return ch, nil
}

// hole finds out whether the first batch of a chunk starts beyond at because
// retention removed what was before it.
func (f *fetcher) hole(ch chunk, logStart int64) error {
	if len(ch.batches) == 0 || f.opts.Compact || f.opts.AcceptGap {
		return nil
	}
	if base := record.Batch(ch.batches).BaseOffset(); base > ch.at && offsets.Offset(logStart) > ch.at {
		return &GapError{TopicPartition: f.tp, Asked: ch.at, LogStart: offsets.Offset(logStart)}
	}
	return nil
}

// truncated handles an answer cut off inside a batch: what is whole before it
// is served; if nothing is, the fetch is repeated with room for the batch.
func (f *fetcher) truncated(ch chunk, tail []byte) (chunk, error) {
	if len(ch.batches) > 0 {
		return ch, nil
	}
	need := 2 * f.size
	if len(tail) >= 12 {
		need = max(need, 12+int(int32(binary.BigEndian.Uint32(tail[8:]))))
	}
	if f.size >= f.opts.MaxBatchBytes {
		return chunk{}, &OversizeError{TopicPartition: f.tp, Offset: ch.upTo, Bytes: int64(need), Limit: int64(f.opts.MaxBatchBytes)}
	}
	f.size = min(need, f.opts.MaxBatchBytes)
	return chunk{}, errAgain
}

// damage asks a second time for a batch that came damaged, in case the network
// did it, and then gives up with the batch named.
func (f *fetcher) damage(at offsets.Offset, err error) (chunk, error) {
	f.damaged++
	if f.damaged < 2 {
		return chunk{}, errAgain
	}
	return chunk{}, &CorruptError{TopicPartition: f.tp, Offset: at, Err: err}
}

// outOfRange says why the log has no such offset, or steps over the gap.
func (f *fetcher) outOfRange(ctx context.Context, at offsets.Offset) (chunk, error) {
	tps := []offsets.TopicPartition{f.tp}
	starts, err := ListOffsets(ctx, f.c, tps, Earliest, false)
	if err != nil {
		return chunk{}, err
	}
	start, ok := starts[f.tp]
	if ok && at < start {
		if f.opts.AcceptGap {
			to := min(start, f.end)
			return chunk{at: at, upTo: to, gapTo: to}, nil
		}
		return chunk{}, &GapError{TopicPartition: f.tp, Asked: at, LogStart: start}
	}
	ends, err := ListOffsets(ctx, f.c, tps, Latest, false)
	if err != nil {
		return chunk{}, err
	}
	if end, ok := ends[f.tp]; ok && at >= end {
		return chunk{}, &ShortError{TopicPartition: f.tp, Asked: at, LogEnd: end}
	}
	return chunk{}, fmt.Errorf("%w: %s: offset %d refused, log is %d..%d", ErrUnavailable, f.tp, at, starts[f.tp], ends[f.tp])
}
