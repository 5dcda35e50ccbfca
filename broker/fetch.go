package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// Fetch, versions 4–18: whole batches below the high watermark, or below the
// last stable offset, sent from the segments' files. Topic ids instead of names
// since version 13 (KIP-516), diverging epochs since 12 (KIP-595), leader hints
// since 16 (KIP-951). A zstd topic needs version 10 (KIP-110).
//
// Sessions (KIP-227, version 7): session.go. Their requests name what changed,
// and fetchsession.go makes of one the same lists that others bring along.
//
// The first partition that has records gives at least one batch, however large
// (KIP-74), and no batch is ever cut. A request that finds less than its minimum
// parks until that much more became readable, something else changed, or its
// time is over; any error of reading a partition answers at once. Partitions that
// aren't there are no reason to: as in Kafka they are told of with the others,
// unless there are no others.
//
// A follower is known by its connection, which came in on the listener for peers;
// whoever else says that he is a broker is refused. It reads up to the log's end,
// what it asks for counts as what it holds, and it is answered when there are
// records, a high watermark it doesn't know, or another request of it.
//
// A reader in a rack is sent to a replica there (KIP-392). That answers with what
// it knows to be committed.
//
// Load tasks are a class of their own: batchclass.go.

const (
	maxFetchBytes = 55 << 20 // of one reply, as Kafka's fetch.max.bytes
	maxFetchWait  = 5 * time.Minute
)

func (b *Broker) fetch(e *wire.Exchange) {
	st, ok := b.fetches.Get().(*fetchState)
	if !ok {
		st = &fetchState{}
	}
	st.broker, st.exchange = b, e
	if err := st.decode(e.Version, e.Body); err != nil {
		st.free()
		e.Fail(fmt.Errorf("fetch version %d: %w", e.Version, err))
		return
	}
	st.follower = st.replica >= 0
	if !st.follower {
		b.metrics.fetchRequests.Add(1)
	}
	switch {
	case st.replica >= 0 && st.replica != int32(e.Client.Peer):
		st.sessionEpoch = noSession
		st.disown()
		st.reply()
		return
	case st.sessionEpoch == openSession || st.sessionEpoch == noSession:
		if st.sessionID != 0 {
			st.sessions().closeID(st.sessionID)
		}
	case !st.enter():
		return
	}
	st.look()
}

// look answers the request, or parks it.
func (st *fetchState) look() {
	if st.session == nil {
		for i := range st.topics {
			st.find(&st.topics[i])
		}
	} else {
		st.collect()
	}
	st.read()
	if st.satisfied() {
		st.reply()
		return
	}
	st.park()
}

// find looks up a topic of the request and its replicas.
func (st *fetchState) find(t *fetchedTopic) {
	missing := kerr.UnknownTopicOrPartition.Code
	if st.version >= fetchIDs {
		t.found = st.broker.topics.id(t.id)
		missing = kerr.UnknownTopicID.Code
	} else {
		t.found = st.broker.topics.name(t.name)
	}
	for i := range t.parts {
		if t.found == nil {
			t.parts[i].code, t.parts[i].missing = missing, true
			continue
		}
		st.findPartition(t.found, &t.parts[i])
	}
}

func (st *fetchState) findPartition(t *topic, part *fetchedPartition) {
	p, err := hosted(t, part.index)
	part.replica, part.code = p, codeOf(err)
	if part.index >= 0 && int(part.index) < len(t.meta.Partitions) {
		part.meta = &t.meta.Partitions[part.index]
	}
	part.missing = part.code == kerr.UnknownTopicOrPartition.Code
	if st.version < 10 && t.config.codec == record.Zstd {
		part.code = kerr.UnsupportedCompressionType.Code
	}
}

// read finds what there is for every partition. Earlier finds must have been
// given back.
func (st *fetchState) read() {
	st.bytes, st.failed, st.missing, st.fresh = 0, false, 0, false
	left, now := st.most(), nowMilli()
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			part := &parts[j]
			if part.replica != nil && part.code == 0 {
				st.readOne(part, left, now)
				part.code = st.codeOf(part)
				st.bytes += int64(part.got.Bytes)
				left = max(left-int64(part.got.Bytes), 0)
			}
			switch {
			case part.missing:
				st.missing++
			case part.code != 0 || part.got.Diverging != nil || part.nearer != 0:
				st.failed = true
			}
			if st.follower && part.part != nil && part.part.news(st.findOf(part)) {
				st.fresh = true
			}
		}
	}
}

// readOne finds what there is for one partition now, of at most left bytes.
func (st *fetchState) readOne(part *fetchedPartition, left, now int64) {
	maxBytes := int(min(left, max(int64(part.maxBytes), 0)))
	if st.follower {
		part.got, part.err = part.replica.Serve(replica.Fetch{
			Follower:    offsets.BrokerID(st.replica),
			BrokerEpoch: st.brokerEpoch,
			LeaderEpoch: epochOrNone(part.epoch),
			At:          offsets.Offset(part.offset),
			LastEpoch:   epochOrNone(part.lastEpoch),
			Start:       offsets.Offset(part.start),
			Now:         now,
		}, maxBytes, st.bytes == 0)
		return
	}
	part.nearer = 0
	if len(st.rack) > 0 && part.offset >= 0 {
		if n := part.replica.Nearest(offsets.Offset(part.offset), st.near); n != offsets.NoBroker {
			part.nearer, maxBytes = n, 0
		}
	}
	part.got, part.err = part.replica.Read(replica.Ask{
		At:        offsets.Offset(part.offset),
		MaxBytes:  maxBytes,
		MinOne:    st.bytes == 0 && part.nearer == 0,
		Committed: st.isolation == 1,
		Epoch:     epochOrNone(part.epoch),
		LastEpoch: epochOrNone(part.lastEpoch),
		Any:       st.version >= fetchRacks,
	})
	if part.err != nil {
		part.nearer = 0
	}
}

// near tells whether a broker is where the reader is, and in service.
func (st *fetchState) near(id offsets.BrokerID) bool {
	br, ok := st.broker.controller.Image().Broker(id)
	return ok && br.Rack == string(st.rack) && !br.Fenced && !br.ShuttingDown && !br.Full
}

// epochOrNone reads an epoch as Fetch does: all negative ones say nothing.
func epochOrNone(epoch int32) offsets.Epoch { return max(offsets.Epoch(epoch), offsets.NoEpoch) }

// codeOf is the code of a partition's read. A damaged batch is logged: it is
// the one error here that tells of lost records.
func (st *fetchState) codeOf(part *fetchedPartition) int16 {
	var corrupt *log.CorruptError
	if errors.As(part.err, &corrupt) {
		st.broker.config.Logger.Error("a damaged batch was asked for", "error", part.err, "offset", part.offset)
	}
	return codeOf(part.err)
}

// satisfied tells whether the reply is due now.
func (st *fetchState) satisfied() bool {
	if st.follower && (st.fresh || st.missing > 0 || st.sessionEpoch == openSession || st.hurried.Load()) {
		return true // it waits for records only, and only while all is well
	}
	return st.failed || st.bytes >= st.enough() || st.maxWait <= 0 || st.missing == st.asked()
}

// sessions are those that the sender's are among: followers are not put out of
// theirs by clients.
func (st *fetchState) sessions() *fetchSessions {
	if st.follower {
		return st.broker.following
	}
	return st.broker.sessions
}

// asked is how many partitions the answer may be about.
func (st *fetchState) asked() int {
	if st.session != nil {
		return len(st.session.state.parts)
	}
	n := 0
	for i := range st.topics {
		n += len(st.topics[i].parts)
	}
	return n
}

// enough is how many bytes make the reply due: never more than it may have.
func (st *fetchState) enough() int64 {
	n := min(int64(st.minBytes), st.room())
	if n > st.most() {
		return 1 // batches are whole: all that fits may be less than that
	}
	return n
}

// room is how many bytes the request has room for.
func (st *fetchState) room() int64 { return min(int64(max(st.maxBytes, 0)), maxFetchBytes) }

// most is how many bytes the reply may have, but for a first batch that is longer.
func (st *fetchState) most() int64 {
	if st.batch() {
		return st.broker.batch.most(st.room())
	}
	return st.room()
}

// batch tells whether the reader is a load task.
func (st *fetchState) batch() bool { return st.exchange.Client.Batch && !st.follower }

// giveBack drops what read found.
func (st *fetchState) giveBack() {
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			for _, region := range parts[j].got.Regions {
				region.Done()
			}
			parts[j].got = replica.Read{}
		}
	}
}

// park waits for more. The replicas tell how many bytes became readable, so the
// request is looked at again only when it may be answered.
func (st *fetchState) park() {
	st.broker.metrics.fetchParked.Add(1)
	if st.session != nil {
		st.parkInSession()
		return
	}
	st.need.Store(st.enough() - st.bytes)
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			if p := parts[j].replica; p != nil {
				seen := parts[j].got.View.Version
				if st.follower {
					p.WatchEnd(st, seen)
				} else {
					p.Watch(st, seen)
				}
			}
		}
	}
	st.giveBack()
	st.exchange.Park(st.deadline(), st)
}

func (st *fetchState) deadline() time.Time {
	return time.Now().Add(min(time.Duration(st.maxWait)*time.Millisecond, maxFetchWait))
}

// Wake is the replicas'.
func (st *fetchState) Wake(bytes int64) {
	if bytes < 0 || st.need.Add(-bytes) <= 0 {
		st.exchange.Wake()
	}
}

// Resume looks again, and replies when there is enough or the time is over.
func (st *fetchState) Resume(expired bool) {
	if st.session != nil || st.waiting {
		st.resumeInSession(expired)
		return
	}
	st.need.Store(st.enough())
	st.read()
	if !st.satisfied() && !expired {
		st.need.Add(-st.bytes)
		// What came between the two lines above is counted twice, which only
		// wakes too early.
		st.giveBack()
		return
	}
	st.unwatch()
	st.reply()
}

// Drop stops waiting.
func (st *fetchState) Drop() {
	if st.session != nil {
		st.session.leave(st)
	} else {
		st.unwatch()
	}
	st.free()
}

func (st *fetchState) unwatch() {
	for i := range st.topics {
		parts := st.topics[i].parts
		for j := range parts {
			if p := parts[j].replica; p != nil {
				p.Unwatch(st)
			}
		}
	}
}

// disown answers a replica that isn't one of any partition here.
func (st *fetchState) disown() {
	for i := range st.topics {
		t := &st.topics[i]
		st.find(t)
		for j := range t.parts {
			if t.parts[j].code == 0 {
				t.parts[j].code = kerr.NotLeaderForPartition.Code
			}
		}
	}
}

// sink moves the partitions that aren't there behind the others, where Kafka's
// answers have them.
func (st *fetchState) sink() {
	type sunk struct {
		topic int
		part  fetchedPartition
	}
	var missing []sunk
	last := -1 // the last topic of which partitions are left
	for i := range st.topics {
		t := &st.topics[i]
		kept := t.parts[:0]
		for _, part := range t.parts {
			if part.missing {
				missing = append(missing, sunk{i, part})
				continue
			}
			kept, last = append(kept, part), i
		}
		clear(t.parts[len(kept):])
		t.parts = kept
	}
	into := last
	for _, s := range missing {
		if s.topic != last {
			from := st.topics[s.topic]
			t := st.addTopic()
			t.name, t.id, t.found = from.name, from.id, from.found
			last, into = s.topic, len(st.topics)-1
		}
		st.topics[into].parts = append(st.topics[into].parts, s.part)
	}
}

// reply sends what read found.
func (st *fetchState) reply() {
	e, b := st.exchange, st.broker
	if !st.follower {
		b.metrics.fetchBytes.Add(st.bytes)
	}
	if st.rest = 0; st.batch() {
		st.rest = b.batch.sent(st.bytes)
		b.metrics.fetchBatchBytes.Add(st.bytes)
		b.metrics.fetchBatchRest.Add(int64(st.rest))
	}
	if st.missing > 0 {
		st.sink()
	}
	if st.sessionEpoch == openSession {
		st.open()
	} else if st.session != nil {
		st.pick()
	}
	r, err := st.encode()
	r.Passing, r.Rest = st.batch(), st.rest
	st.sent(err == nil)
	st.free()
	if err != nil {
		r.Drop()
		e.Fail(err)
		return
	}
	e.ReplyPieces(r)
}
