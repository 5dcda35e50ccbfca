package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// Produce, versions 3–13 (0 is advertised, see versions.go): one record batch for
// each partition, appended as received. Topic ids instead of names since version
// 13 (KIP-516), leader hints since 10 (KIP-951). Errors are per partition, and
// since version 8 say which record is to blame (KIP-467).
//
// acks 0 has no reply, and closes the connection on an error, so that the client
// looks for leaders anew; 1 is answered after the append; −1 (all) once the
// records are committed in the leader epoch they were written in. A transactional
// id, or a batch of a transaction, is refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
//
// The batches alias the request's memory, which is used again when Serve
// returns: nothing of it may be kept past that.

func (b *Broker) produce(e *wire.Exchange) {
	st, ok := b.produces.Get().(*produceState)
	if !ok {
		st = &produceState{}
	}
	st.broker, st.exchange = b, e
	if err := st.decode(e.Version, e.Body); err != nil {
		st.free()
		e.Fail(fmt.Errorf("produce version %d: %w", e.Version, err))
		return
	}
	b.metrics.produceRequests.Add(1)
	now := nowMilli()
	waits := false
	for i := range st.topics {
		t := &st.topics[i]
		b.findProduced(t)
		for j := range t.parts {
			part := &t.parts[j]
			err := st.check(t)
			if err == nil {
				err = st.append(t, part, now)
			}
			if err != nil {
				b.metrics.produceErrors.Add(1)
				st.refuse(part, err)
			}
			waits = waits || part.waits
		}
	}
	switch {
	case st.acks == 0:
		st.silent()
	case waits:
		st.park()
	default:
		st.reply()
	}
}

// findProduced looks a topic of the request up.
func (b *Broker) findProduced(t *producedTopic) {
	if t.name != nil {
		t.found = b.topics.name(t.name)
	} else {
		t.found = b.topics.id(t.id)
	}
}

// check finds what is wrong with the whole request, or with one of its topics.
func (st *produceState) check(t *producedTopic) error {
	switch {
	case st.transactional:
		return kerr.TransactionalIDAuthorizationFailed
	case t.found == nil && t.name == nil:
		return kerr.UnknownTopicID
	case t.found == nil:
		return kerr.UnknownTopicOrPartition
	case t.found.meta.Internal:
		return kerr.InvalidTopicException
	}
	return nil
}

// append takes one partition's batch into its log.
func (st *produceState) append(t *producedTopic, part *producedPartition, now int64) error {
	p, err := hosted(t.found, part.index)
	if part.index >= 0 && int(part.index) < len(t.found.meta.Partitions) {
		part.meta = &t.found.meta.Partitions[part.index]
	}
	if err != nil {
		return err
	}
	part.replica = p
	if st.acks < -1 || st.acks > 1 {
		return kerr.InvalidRequiredAcks
	}
	batch, err := st.validate(&t.found.config, part, now)
	if err != nil {
		return err
	}
	st.batch[0] = batch
	results, ticket, err := p.Append(st.batch[:], replica.Append{All: st.acks == -1, Epoch: offsets.NoEpoch, Now: now, Into: st.result[:]})
	if err != nil {
		return err
	}
	r := &results[0]
	part.base, part.appended = int64(r.First), r.Timestamp
	part.logStart = int64(p.Log().Start())
	if st.acks == -1 {
		committed, err := p.Committed(ticket)
		if err != nil {
			return err
		}
		part.ticket, part.waits = ticket, !committed
	}
	m := &st.broker.metrics
	m.produceBatches.Add(1)
	m.produceBytes.Add(int64(len(batch)))
	return nil
}

// validate takes the batch out of the record set and makes sure that it may be
// stored.
func (st *produceState) validate(c *topicConfig, part *producedPartition, now int64) (record.Batch, error) {
	batch, err := onlyBatch(part.records)
	switch {
	case err != nil:
		return nil, err
	case len(batch) > c.log.MaxBatchBytes:
		return nil, fmt.Errorf("%w: a batch of %d bytes, the topic's max.message.bytes is %d", kerr.MessageTooLarge, len(batch), c.log.MaxBatchBytes)
	}
	// The CRC comes first there: what is damaged has no meaning to judge.
	rules := c.rules
	rules.Now = now
	if _, err := record.Validate(batch, rules); err != nil {
		return nil, err
	}
	switch {
	case batch.BaseOffset() != 0: // the broker's to give, and Kafka refuses it
		return nil, fmt.Errorf("%w: base offset %d, it has to be 0", record.ErrInvalid, batch.BaseOffset())
	case rules.LogAppendTime && batch.LogAppendTime():
		return nil, fmt.Errorf("%w: the append time is the broker's to set", record.ErrTimestamp)
	case batch.IsTransactional():
		return nil, kerr.TransactionalIDAuthorizationFailed
	case batch.Codec() == record.Zstd && st.version < 7:
		return nil, kerr.UnsupportedCompressionType
	}
	if c.recode && batch.Codec() != c.codec {
		return record.Recode(batch, c.codec, c.level, 0)
	}
	return batch, nil
}

// onlyBatch takes the one batch out of a record set. As in Kafka, what follows it
// is passed over when it isn't a whole batch, and a set that only begins one is
// as empty as one without any.
func onlyBatch(set []byte) (record.Batch, error) {
	batch, rest, err := record.Split(set)
	switch {
	case err != nil && tooShort(set):
		return nil, fmt.Errorf("%w: a batch shorter than any", record.ErrCorrupt)
	case cutShort(err):
		return nil, fmt.Errorf("%w: no batch in %d bytes", kerr.InvalidRecord, len(set))
	case errors.Is(err, record.ErrMagic):
		return nil, oldFormat(set, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	switch _, _, err := record.Split(rest); {
	case cutShort(err) && !tooShort(rest):
		return batch, nil
	case (err == nil || errors.Is(err, record.ErrMagic)) && !tooShort(rest):
		return nil, fmt.Errorf("%w: more than one batch for a partition", kerr.InvalidRecord)
	default:
		return nil, fmt.Errorf("%w: after the batch: %w", record.ErrCorrupt, err)
	}
}

// tooShort tells that a batch claims fewer bytes than one of any format has.
func tooShort(set []byte) bool {
	const prefix, least = 12, 14 // offset and size; the shortest message
	return len(set) >= prefix && int32(binary.BigEndian.Uint32(set[8:])) < least
}

func cutShort(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// oldFormat refuses the message sets of before version 0.11. One compressed with
// zstd is refused as that: the codec came with the batches of today (KIP-110).
func oldFormat(set []byte, err error) error {
	const attributes = 17 // offset 8, size 4, CRC 4, magic 1
	if len(set) > attributes && record.Codec(set[attributes]&7) == record.Zstd {
		return fmt.Errorf("%w: %w", kerr.UnsupportedCompressionType, err)
	}
	return fmt.Errorf("%w: %w", kerr.InvalidRecord, err)
}

// refuse notes why a partition's records weren't taken.
func (st *produceState) refuse(part *producedPartition, err error) {
	part.code = appendCode(err)
	part.base, part.appended, part.logStart, part.waits = -1, -1, -1, false
	text := err.Error()
	part.text = &text
	if part.replica != nil && (errors.Is(err, record.ErrInvalid) || errors.Is(err, record.ErrTimestamp) || outOfSequence(part.code)) {
		part.logStart = int64(part.replica.Log().Start())
	}
	if errors.As(err, &part.wrong) && part.wrong.Kind != record.ErrInvalid {
		part.wrong = nil
	}
	if part.code == kerr.KafkaStorageError.Code {
		st.broker.config.Logger.Error("append", "error", err, "partition", part.index)
	}
}

// outOfSequence are the codes for a producer's order (KIP-98).
func outOfSequence(code int16) bool {
	return code == kerr.OutOfOrderSequenceNumber.Code || code == kerr.InvalidProducerEpoch.Code
}

// silent ends a request that gets no reply.
func (st *produceState) silent() {
	e := st.exchange
	for i := range st.topics {
		for j := range st.topics[i].parts {
			if part := &st.topics[i].parts[j]; part.code != 0 {
				err := fmt.Errorf("produce with acks 0: %s", *part.text)
				st.free()
				e.Fail(err)
				return
			}
		}
	}
	st.free()
	e.Silent()
}

func (st *produceState) reply() {
	e := st.exchange
	r := st.encode()
	st.free()
	e.ReplyPieces(r)
}

// park waits for the records to be committed.
func (st *produceState) park() {
	st.keepNames()
	waiting := int32(0)
	st.each(func(*producedPartition) { waiting++ })
	st.undecided.Store(waiting)
	st.each(func(part *producedPartition) { part.replica.Await(st, part.ticket) })
	st.exchange.Park(time.Now().Add(time.Duration(st.timeout)*time.Millisecond), st)
}

// each calls f for the partitions that are waited for.
func (st *produceState) each(f func(*producedPartition)) {
	for i := range st.topics {
		for j := range st.topics[i].parts {
			if part := &st.topics[i].parts[j]; part.waits {
				f(part)
			}
		}
	}
}

// Wake is the replicas'. A request is looked at when the last of its partitions
// is committed, not for each.
func (st *produceState) Wake(bytes int64) {
	if bytes < 0 || st.undecided.Add(-1) <= 0 {
		st.exchange.Wake()
	}
}

// Resume replies when all partitions are decided, or the time is over.
func (st *produceState) Resume(expired bool) {
	waits := false
	st.each(func(part *producedPartition) {
		done, err := part.replica.Committed(part.ticket)
		if !done && err == nil && expired {
			err = kerr.RequestTimedOut
		}
		if !done && err == nil {
			waits = true
			return
		}
		st.forgo(part)
		part.waits = false
		if err != nil {
			st.refuse(part, err)
		}
	})
	switch {
	case !waits:
		st.reply()
	case st.undecided.Load() <= 0: // the last one was decided meanwhile
		st.exchange.Wake()
	}
}

// forgo ends the wait for a partition.
func (st *produceState) forgo(part *producedPartition) {
	if part.replica.Unawait(st, part.ticket) {
		st.undecided.Add(-1)
	}
}

// Drop stops waiting.
func (st *produceState) Drop() {
	st.each(st.forgo)
	st.free()
}
