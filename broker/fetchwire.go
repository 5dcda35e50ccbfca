package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

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
	replica      int32
	maxWait      int32
	minBytes     int32
	maxBytes     int32
	isolation    int8
	sessionEpoch int32
	names        []byte // memory of the topics' names
	topics       []fetchedTopic

	code   int16
	bytes  int64
	failed bool
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

	replica *replica.Partition
	code    int16
	err     error
	got     replica.Read
}

// Versions at which the form changes.
const (
	fetchFlexible     = 12
	fetchIDs          = 13
	fetchReplicaState = 15 // the sender's broker id moved into a tagged field
	fetchLeaders      = 16
)

// decode reads the request. Names are copied: the request may outlive its
// memory.
func (st *fetchState) decode(version int16, body []byte) error {
	st.version = version
	flexible := version >= fetchFlexible
	b := kbin.Reader{Src: body}
	st.replica = -1
	if version < fetchReplicaState {
		st.replica = b.Int32()
	}
	st.maxWait, st.minBytes, st.maxBytes, st.isolation = b.Int32(), b.Int32(), b.Int32(), b.Int8()
	if version >= 7 {
		b.Int32() // session id: none is ours
		st.sessionEpoch = b.Int32()
	}
	for n := readArrayLen(&b, flexible); n > 0 && b.Ok(); n-- {
		t := st.addTopic()
		if version >= fetchIDs {
			t.id = b.Uuid()
		} else {
			name := readString(&b, flexible)
			st.names = append(st.names, name...)
			// If names moves on growing, earlier slices keep the old memory.
			t.name = st.names[len(st.names)-len(name):]
		}
		for m := readArrayLen(&b, flexible); m > 0 && b.Ok(); m-- {
			t.parts = append(t.parts, decodeFetched(&b, version))
		}
		if flexible {
			kmsg.SkipTags(&b)
		}
	}
	if version >= 7 {
		skipForgotten(&b, version)
	}
	if version >= 11 {
		readString(&b, flexible) // rack: nothing is nearer than here
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
		b.Int64() // a follower's log start
	}
	part.maxBytes = b.Int32()
	if version >= fetchFlexible {
		kmsg.SkipTags(b)
	}
	return part
}

// skipForgotten passes over the partitions taken out of a session.
func skipForgotten(b *kbin.Reader, version int16) {
	flexible := version >= fetchFlexible
	for n := readArrayLen(b, flexible); n > 0 && b.Ok(); n-- {
		if version >= fetchIDs {
			b.Uuid()
		} else {
			readString(b, flexible)
		}
		for m := readArrayLen(b, flexible); m > 0 && b.Ok(); m-- {
			b.Int32()
		}
		if flexible {
			kmsg.SkipTags(b)
		}
	}
}

// decodeTags reads the tagged fields of the request: of interest is the sender's
// broker id.
func (st *fetchState) decodeTags(b *kbin.Reader) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag, size := b.Uvarint(), b.Uvarint()
		value := kbin.Reader{Src: b.Span(int(size))}
		if tag == 1 && st.version >= fetchReplicaState {
			st.replica = value.Int32()
		}
	}
}

// addTopic makes room for one more topic, with the lists of an earlier request.
func (st *fetchState) addTopic() *fetchedTopic {
	if len(st.topics) < cap(st.topics) {
		st.topics = st.topics[:len(st.topics)+1]
		t := &st.topics[len(st.topics)-1]
		*t = fetchedTopic{parts: t.parts[:0]}
		return t
	}
	st.topics = append(st.topics, fetchedTopic{})
	return &st.topics[len(st.topics)-1]
}

// free makes the state ready for another request. Regions still held are given
// back.
func (st *fetchState) free() {
	pool := &st.broker.fetches
	st.giveBack()
	parts := 0
	for i := range st.topics {
		t := &st.topics[i]
		parts += cap(t.parts)
		clear(t.parts)
		*t = fetchedTopic{parts: t.parts[:0]}
	}
	if cap(st.topics)+parts > keptLists || cap(st.names) > 64<<10 {
		return
	}
	st.broker, st.exchange = nil, nil
	st.names, st.topics = st.names[:0], st.topics[:0]
	st.sessionEpoch, st.code, st.bytes, st.failed = 0, 0, 0, false
	pool.Put(st)
}

// encode writes the reply. The regions go over to it; on an error too.
func (st *fetchState) encode() (*wire.Response, error) {
	flexible := st.version >= fetchFlexible
	room := 64 + len(st.names)
	for i := range st.topics {
		room += 32 + 96*len(st.topics[i].parts)
	}
	r := st.exchange.NewResponse(room)
	r.Buf = kbin.AppendInt32(r.Buf, 0) // throttle
	if st.version >= 7 {
		r.Buf = kbin.AppendInt16(r.Buf, st.code)
		r.Buf = kbin.AppendInt32(r.Buf, 0) // session id: none
	}
	r.Buf = appendArrayLen(r.Buf, len(st.topics), flexible)
	leaders := false
	for i := range st.topics {
		t := &st.topics[i]
		if st.version >= fetchIDs {
			r.Buf = kbin.AppendUuid(r.Buf, t.id)
		} else {
			r.Buf = appendName(r.Buf, t.name, flexible)
		}
		r.Buf = appendArrayLen(r.Buf, len(t.parts), flexible)
		for j := range t.parts {
			if err := st.encodePartition(r, &t.parts[j]); err != nil {
				return r, err
			}
			leaders = leaders || st.version >= fetchLeaders && t.parts[j].hints()
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

// hints tells whether a partition's reply names the leader to go to.
func (part *fetchedPartition) hints() bool {
	return part.replica != nil && (part.code == kerr.NotLeaderForPartition.Code || part.code == kerr.FencedLeaderEpoch.Code)
}

func (st *fetchState) encodePartition(r *wire.Response, part *fetchedPartition) error {
	flexible := st.version >= fetchFlexible
	v := part.got.View
	high, stable, start := v.HighWatermark, v.LastStable, v.LogStart
	if part.replica == nil || part.code != 0 && part.code != kerr.OffsetOutOfRange.Code {
		high, stable, start = -1, -1, -1
	}
	dst := kbin.AppendInt32(r.Buf, part.index)
	dst = kbin.AppendInt16(dst, part.code)
	dst = kbin.AppendInt64(dst, int64(high))
	dst = kbin.AppendInt64(dst, int64(stable))
	if st.version >= 5 {
		dst = kbin.AppendInt64(dst, int64(start))
	}
	switch { // aborted transactions: null unless asked for, and there are none
	case flexible:
		dst = kbin.AppendCompactNullableArrayLen(dst, 0, st.isolation != 1)
	default:
		dst = kbin.AppendNullableArrayLen(dst, 0, st.isolation != 1)
	}
	if st.version >= 11 {
		dst = kbin.AppendInt32(dst, -1) // preferred read replica
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
	diverging, hint := part.got.Diverging, part.hints()
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
		dst = appendLeaderTag(dst, 1, part.got.View.Leader, part.got.View.Epoch)
	}
	return dst
}
