package broker

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// produceState is one Produce request and what becomes of it. States are used
// again, so a request costs no memory for its lists.
type produceState struct {
	broker   *Broker
	exchange *wire.Exchange
	batch    [1]record.Batch
	result   [1]log.Appended

	version       int16
	acks          int16
	timeout       int32
	transactional bool
	topics        []producedTopic
	undecided     atomic.Int32 // of the partitions that are waited for
}

type producedTopic struct {
	name  []byte // aliases the request; nil when it names ids
	id    offsets.TopicID
	found *topic
	parts []producedPartition
}

type producedPartition struct {
	index   int32
	records []byte // aliases the request

	replica  *replica.Partition
	meta     *controller.Partition
	ticket   replica.Ticket
	waits    bool // for the commit of ticket
	code     int16
	text     *string
	wrong    *record.RecordError // the record that is to blame, if one is
	base     int64
	appended int64 // LogAppendTime, or −1
	logStart int64
}

// Versions at which the form changes.
const (
	produceFlexible  = 9
	produceIDs       = 13
	produceErrorText = 8
	produceLeaders   = 10
)

// decode reads the request. Lists grow as their elements are met, never by the
// length somebody claims.
func (st *produceState) decode(version int16, body []byte) error {
	st.version = version
	flexible := version >= produceFlexible
	b := kbin.Reader{Src: body}
	st.transactional = readString(&b, flexible) != nil
	st.acks = b.Int16()
	st.timeout = b.Int32()
	for n := readArrayLen(&b, flexible); n > 0 && b.Ok(); n-- {
		t := st.addTopic()
		if version >= produceIDs {
			t.id = b.Uuid()
		} else if t.name = readString(&b, flexible); t.name == nil {
			t.name = []byte{}
		}
		for m := readArrayLen(&b, flexible); m > 0 && b.Ok(); m-- {
			part := producedPartition{index: b.Int32(), base: -1, appended: -1, logStart: -1}
			if flexible {
				part.records = b.CompactNullableBytes()
				kmsg.SkipTags(&b)
			} else {
				part.records = b.NullableBytes()
			}
			t.parts = append(t.parts, part)
		}
		if flexible {
			kmsg.SkipTags(&b)
		}
	}
	if flexible {
		kmsg.SkipTags(&b)
	}
	return b.Complete()
}

// addTopic makes room for one more topic, with the lists of an earlier request.
func (st *produceState) addTopic() *producedTopic {
	st.topics = slices.Grow(st.topics, 1)[:len(st.topics)+1]
	t := &st.topics[len(st.topics)-1]
	*t = producedTopic{parts: t.parts[:0]}
	return t
}

// keepNames makes the topics' names outlive the request's memory, and lets go
// of the records.
func (st *produceState) keepNames() {
	for i := range st.topics {
		t := &st.topics[i]
		if t.name != nil {
			t.name = append([]byte{}, t.name...)
		}
		for j := range t.parts {
			t.parts[j].records = nil
		}
	}
}

// keptLists bounds how much a state may carry to the next request.
const keptLists = 1024

// free makes the state ready for another request.
func (st *produceState) free() {
	pool := &st.broker.produces
	parts := 0
	for i := range st.topics {
		t := &st.topics[i]
		parts += cap(t.parts)
		clear(t.parts)
		*t = producedTopic{parts: t.parts[:0]}
	}
	*st = produceState{topics: st.topics[:0]}
	if cap(st.topics)+parts <= keptLists {
		pool.Put(st)
	}
}

// encode writes the reply.
func (st *produceState) encode() *wire.Response {
	flexible := st.version >= produceFlexible
	room, topics := 64, 0
	for i := range st.topics {
		if n := len(st.topics[i].parts); n > 0 {
			topics++
			room += 64 + len(st.topics[i].name) + 64*n
		}
	}
	r := st.exchange.NewResponse(room)
	dst := appendArrayLen(r.Buf, topics, flexible)
	leaders := false
	for i := range st.topics {
		t := &st.topics[i]
		if len(t.parts) == 0 { // as in Kafka
			continue
		}
		if st.version >= produceIDs {
			dst = kbin.AppendUuid(dst, t.id)
		} else {
			dst = appendName(dst, t.name, flexible)
		}
		dst = appendArrayLen(dst, len(t.parts), flexible)
		for j := range t.parts {
			part := &t.parts[j]
			dst = st.encodePartition(dst, part)
			leaders = leaders || st.hints(part)
		}
		if flexible {
			dst = append(dst, 0)
		}
	}
	dst = kbin.AppendInt32(dst, 0) // throttle
	if flexible {
		dst = st.broker.appendEndpoints(dst, leaders)
	}
	r.Buf = dst
	return r
}

// hints tells whether a partition's reply names the leader to go to.
func (st *produceState) hints(part *producedPartition) bool {
	return st.version >= produceLeaders && part.code == kerr.NotLeaderForPartition.Code && (part.replica != nil || part.meta != nil)
}

// leader is who leads the partition, by what is known here.
func (part *producedPartition) leader() (offsets.BrokerID, offsets.Epoch) {
	if part.replica == nil {
		return part.meta.Leader, part.meta.Epoch
	}
	v := part.replica.View()
	if part.meta != nil && part.meta.Epoch > v.Epoch {
		return part.meta.Leader, part.meta.Epoch
	}
	return v.Leader, v.Epoch
}

func (st *produceState) encodePartition(dst []byte, part *producedPartition) []byte {
	flexible := st.version >= produceFlexible
	dst = kbin.AppendInt32(dst, part.index)
	dst = kbin.AppendInt16(dst, part.code)
	dst = kbin.AppendInt64(dst, part.base)
	dst = kbin.AppendInt64(dst, part.appended)
	if st.version >= 5 {
		dst = kbin.AppendInt64(dst, part.logStart)
	}
	if st.version >= produceErrorText {
		dst = appendWrong(dst, part.wrong, flexible)
		dst = appendText(dst, part.text, flexible)
	}
	if flexible {
		if st.hints(part) {
			leader, epoch := part.leader()
			dst = append(dst, 1)
			dst = appendLeaderTag(dst, 0, leader, epoch)
		} else {
			dst = append(dst, 0)
		}
	}
	return dst
}

// appendWrong writes the list of wrong records (KIP-467): validation ends at the
// first.
func appendWrong(dst []byte, wrong *record.RecordError, flexible bool) []byte {
	if wrong == nil {
		return appendArrayLen(dst, 0, flexible)
	}
	text := wrong.Err.Error()
	dst = appendArrayLen(dst, 1, flexible)
	dst = kbin.AppendInt32(dst, int32(wrong.Index))
	dst = appendText(dst, &text, flexible)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

func appendText(dst []byte, text *string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactNullableString(dst, text)
	}
	return kbin.AppendNullableString(dst, text)
}
