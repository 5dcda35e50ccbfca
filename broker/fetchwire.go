package broker

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/replica"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// fetchState is one Fetch request and what was found for it. States are used
// again, so a request costs no memory for its lists.
type fetchState struct {
	broker   *Broker
	exchange *wire.Exchange
	need     atomic.Int64 // bytes that must become readable before it is looked at again

	version      int16
	replica      int32  // the broker the sender says to be, −1 = none
	brokerEpoch  int64  // under which it is registered
	follower     bool   // it is that broker
	rack         []byte // where the sender is; in names
	maxWait      int32
	minBytes     int32
	maxBytes     int32
	isolation    int8
	sessionID    int32
	sessionEpoch int32
	names        []byte // memory of the topics' names
	topics       []fetchedTopic
	forgotten    []forgottenPart

	session *fetchSession // whose owner this is
	waiting bool          // for the session: an earlier request is to be answered first
	resumed bool          // it was looked at and parked
	hurried atomic.Bool   // the follower has sent another request: it is answered now
	fresh   bool          // there is something to tell a follower besides records

	code    int16
	rest    time.Duration // for which the reader is not to ask again
	bytes   int64
	failed  bool
	missing int // partitions that aren't there
}

// forgottenPart is a partition taken out of a session.
type forgottenPart struct {
	id    offsets.TopicID
	name  []byte // in fetchState.names
	index int32
}

type fetchedTopic struct {
	name  []byte
	id    offsets.TopicID
	found *topic
	parts []fetchedPartition
}

type fetchedPartition struct {
	index     int32
	epoch     int32
	offset    int64
	lastEpoch int32
	maxBytes  int32
	start     int64 // log start of a follower

	part    *sessionPart // of the session, inside of one
	silent  bool         // not in the answer: there is nothing new
	missing bool         // there is no such topic or partition
	meta    *controller.Partition
	nearer  offsets.BrokerID // the replica to ask instead; 0 = none (KIP-392)
	replica *replica.Partition
	code    int16
	err     error
	got     replica.Read
}

// Versions at which the form changes.
const (
	fetchSessioned    = 7
	fetchFlexible     = 12
	fetchIDs          = 13
	fetchRacks        = 11 // a reader may ask a follower
	fetchReplicaState = 15 // the sender's broker id moved into a tagged field
	fetchLeaders      = 16
)

// Session epochs with a meaning: no session, and a new one.
const (
	noSession   = -1
	openSession = 0
)

// decode reads the request. Names are copied: the request may outlive its
// memory.
func (st *fetchState) decode(version int16, body []byte) error {
	st.version = version
	flexible := version >= fetchFlexible
	b := kbin.Reader{Src: body}
	st.replica, st.brokerEpoch, st.follower, st.rack = -1, -1, false, nil
	if version < fetchReplicaState {
		st.replica = b.Int32()
	}
	st.maxWait, st.minBytes, st.maxBytes, st.isolation = b.Int32(), b.Int32(), b.Int32(), b.Int8()
	st.sessionID, st.sessionEpoch = 0, noSession
	if version >= fetchSessioned {
		st.sessionID, st.sessionEpoch = b.Int32(), b.Int32()
	}
	for n := readArrayLen(&b, flexible); n > 0 && b.Ok(); n-- {
		t := st.addTopic()
		if version >= fetchIDs {
			t.id = b.Uuid()
		} else {
			t.name = st.keep(readString(&b, flexible))
		}
		for m := readArrayLen(&b, flexible); m > 0 && b.Ok(); m-- {
			t.parts = append(t.parts, decodeFetched(&b, version))
		}
		if flexible {
			kmsg.SkipTags(&b)
		}
	}
	if version >= fetchSessioned {
		st.decodeForgotten(&b)
	}
	if version >= 11 {
		st.rack = st.keep(readString(&b, flexible))
	}
	if flexible {
		st.decodeTags(&b)
	}
	return b.Complete()
}

func decodeFetched(b *kbin.Reader, version int16) fetchedPartition {
	part := fetchedPartition{index: b.Int32(), epoch: -1, lastEpoch: -1}
	if version >= 9 {
		part.epoch = b.Int32()
	}
	part.offset = b.Int64()
	if version >= fetchFlexible {
		part.lastEpoch = b.Int32()
	}
	if version >= 5 {
		part.start = b.Int64()
	}
	part.maxBytes = b.Int32()
	if version >= fetchFlexible {
		kmsg.SkipTags(b)
	}
	return part
}

// decodeForgotten reads the partitions taken out of a session.
func (st *fetchState) decodeForgotten(b *kbin.Reader) {
	flexible := st.version >= fetchFlexible
	for n := readArrayLen(b, flexible); n > 0 && b.Ok(); n-- {
		var f forgottenPart
		if st.version >= fetchIDs {
			f.id = b.Uuid()
		} else {
			f.name = st.keep(readString(b, flexible))
		}
		for m := readArrayLen(b, flexible); m > 0 && b.Ok(); m-- {
			f.index = b.Int32()
			st.forgotten = append(st.forgotten, f)
		}
		if flexible {
			kmsg.SkipTags(b)
		}
	}
}

// keep copies a name into the state's memory. If that moves on growing, earlier
// names keep the old memory.
func (st *fetchState) keep(name []byte) []byte {
	st.names = append(st.names, name...)
	return st.names[len(st.names)-len(name):]
}

// decodeTags reads the tagged fields of the request: of interest is the sender's
// broker id.
func (st *fetchState) decodeTags(b *kbin.Reader) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag, size := b.Uvarint(), b.Uvarint()
		value := kbin.Reader{Src: b.Span(int(size))}
		if tag == 1 && st.version >= fetchReplicaState {
			st.replica, st.brokerEpoch = value.Int32(), value.Int64()
		}
	}
}

// addTopic makes room for one more topic, with the lists of an earlier request.
func (st *fetchState) addTopic() *fetchedTopic {
	st.topics = slices.Grow(st.topics, 1)[:len(st.topics)+1]
	t := &st.topics[len(st.topics)-1]
	*t = fetchedTopic{parts: t.parts[:0]}
	return t
}

// free makes the state ready for another request. Regions still held are given
// back.
func (st *fetchState) free() {
	pool := &st.broker.fetches
	st.giveBack()
	parts := 0
	st.topics = st.topics[:cap(st.topics)] // also those of an earlier look
	for i := range st.topics {
		t := &st.topics[i]
		parts += cap(t.parts)
		clear(t.parts)
		*t = fetchedTopic{parts: t.parts[:0]}
	}
	if cap(st.topics)+parts+cap(st.forgotten) > keptLists || cap(st.names) > 64<<10 {
		return
	}
	clear(st.forgotten)
	st.broker, st.exchange, st.session, st.waiting, st.resumed = nil, nil, nil, false, false
	st.names, st.topics, st.forgotten = st.names[:0], st.topics[:0], st.forgotten[:0]
	st.code, st.bytes, st.failed, st.fresh = 0, 0, false, false
	st.hurried.Store(false)
	pool.Put(st)
}

// encode writes the reply. The regions go over to it; on an error too.
func (st *fetchState) encode() (*wire.Response, error) {
	flexible := st.version >= fetchFlexible
	room := 64 + len(st.names)
	topics := 0
	for i := range st.topics {
		if n := st.topics[i].said(); n > 0 {
			topics++
			room += 32 + 96*n
		}
	}
	r := st.exchange.NewResponse(room)
	r.Buf = kbin.AppendInt32(r.Buf, int32((st.rest + time.Millisecond - 1).Milliseconds())) // throttle
	if st.version >= fetchSessioned {
		r.Buf = kbin.AppendInt16(r.Buf, st.code)
		id := int32(0)
		if st.session != nil {
			id = st.session.slot.id
		}
		r.Buf = kbin.AppendInt32(r.Buf, id)
	}
	r.Buf = appendArrayLen(r.Buf, topics, flexible)
	leaders := false
	for i := range st.topics {
		t := &st.topics[i]
		n := t.said()
		if n == 0 {
			continue
		}
		if st.version >= fetchIDs {
			r.Buf = kbin.AppendUuid(r.Buf, t.id)
		} else {
			r.Buf = appendName(r.Buf, t.name, flexible)
		}
		r.Buf = appendArrayLen(r.Buf, n, flexible)
		for j := range t.parts {
			if t.parts[j].silent {
				continue
			}
			if err := st.encodePartition(r, &t.parts[j]); err != nil {
				return r, err
			}
			leaders = leaders || st.version >= fetchLeaders && st.hints(&t.parts[j])
		}
		if flexible {
			r.Buf = append(r.Buf, 0)
		}
	}
	if flexible {
		r.Buf = st.broker.appendEndpoints(r.Buf, leaders)
	}
	return r, nil
}

// said is how many of the topic's partitions are in the answer.
func (t *fetchedTopic) said() int {
	n := 0
	for i := range t.parts {
		if !t.parts[i].silent {
			n++
		}
	}
	return n
}

// hints tells whether a partition's reply names the leader to go to. A follower
// hears of leaders from the metadata.
func (st *fetchState) hints(part *fetchedPartition) bool {
	return !st.follower && (part.replica != nil || part.meta != nil) &&
		(part.code == kerr.NotLeaderForPartition.Code || part.code == kerr.FencedLeaderEpoch.Code)
}

// told is where the partition is, as its reply says it: one with an error says
// nothing.
func (part *fetchedPartition) told() sessionTold {
	v := part.got.View
	if part.replica == nil || part.code != 0 {
		return sessionTold{-1, -1, -1}
	}
	return sessionTold{v.HighWatermark, v.LastStable, v.LogStart}
}

// outside is where the log ends and begins that a read was not within.
func (part *fetchedPartition) outside() (end, start offsets.Offset) {
	var e *log.ErrOffsetOutOfRange
	if errors.As(part.err, &e) {
		return e.End, e.Start
	}
	return -1, -1
}

func (st *fetchState) encodePartition(r *wire.Response, part *fetchedPartition) error {
	flexible := st.version >= fetchFlexible
	told := part.told()
	if st.follower && part.code == kerr.OffsetOutOfRange.Code { // where it has to go on
		told.stable, told.start = part.outside()
	}
	dst := kbin.AppendInt32(r.Buf, part.index)
	dst = kbin.AppendInt16(dst, part.code)
	dst = kbin.AppendInt64(dst, int64(told.high))
	dst = kbin.AppendInt64(dst, int64(told.stable))
	if st.version >= 5 {
		dst = kbin.AppendInt64(dst, int64(told.start))
	}
	// Aborted transactions: there are none, and where nobody asked for them the
	// list is null, except that Kafka has an empty one where nothing was read.
	none := st.isolation != 1 && !part.missing
	if flexible {
		dst = kbin.AppendCompactNullableArrayLen(dst, 0, none)
	} else {
		dst = kbin.AppendNullableArrayLen(dst, 0, none)
	}
	if st.version >= 11 {
		nearer := part.nearer
		if nearer == 0 {
			nearer = offsets.NoBroker
		}
		dst = kbin.AppendInt32(dst, int32(nearer))
	}
	// No records is the empty set: librdkafka takes null for a broken one.
	if flexible {
		dst = kbin.AppendUvarint(dst, uint32(part.got.Bytes)+1)
	} else {
		dst = kbin.AppendInt32(dst, int32(part.got.Bytes))
	}
	r.Buf = dst
	regions := part.got.Regions
	for len(regions) > 0 {
		region := regions[0]
		regions = regions[1:]
		part.got.Regions = regions // the reply's from here on
		if err := r.AddRegion(region); err != nil {
			return err
		}
	}
	if flexible {
		r.Buf = st.encodeTags(r.Buf, part)
	}
	return nil
}

// encodeTags writes a partition's tagged fields: 0 where the reader's log
// diverges, 1 the leader to go to.
func (st *fetchState) encodeTags(dst []byte, part *fetchedPartition) []byte {
	diverging, hint := part.got.Diverging, st.hints(part)
	var count byte
	if diverging != nil {
		count++
	}
	if hint {
		count++
	}
	dst = append(dst, count)
	if diverging != nil {
		dst = append(dst, 0, 13) // 13 bytes follow
		dst = kbin.AppendInt32(dst, int32(diverging.Epoch))
		dst = kbin.AppendInt64(dst, int64(diverging.End))
		dst = append(dst, 0)
	}
	if hint {
		leader, epoch := part.got.View.Leader, part.got.View.Epoch
		if m := part.meta; part.replica == nil || m != nil && m.Epoch > epoch {
			leader, epoch = m.Leader, m.Epoch
		}
		dst = appendLeaderTag(dst, 1, leader, epoch)
	}
	return dst
}
