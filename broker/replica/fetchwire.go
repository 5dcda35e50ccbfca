package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"sawlog/offsets"
)

// Fetch version 17 as followers speak it, in both directions by hand: an answer
// of some MiB is taken from one buffer into the logs without a copy.
//
// One thing is Sawlog's own: an answer OFFSET_OUT_OF_RANGE says with its log
// start and its last stable offset where the leader's log begins and ends.

const fetchVersion = 17

// Bounds of one request.
const (
	fetchWait      = 500 * time.Millisecond
	fetchBytes     = 8 << 20
	fetchPartBytes = 1 << 20
	maxAnswer      = 1 << 30
	keptAnswer     = 16 << 20 // of memory kept from one answer to the next
	leastRead      = 64 << 10
)

// Error codes a follower tells apart.
const (
	codeNone           = 0
	codeOutOfRange     = 1
	codeUnknownTopic   = 3
	codeNotLeader      = 6
	codeUnknownSession = 70
	codeSessionEpoch   = 71
	codeFencedEpoch    = 74
	codeUnknownEpoch   = 75
	codeUnknownTopicID = 100
	codeSessionIDs     = 106
)

// passing are the codes of leader and follower not yet knowing the same
// metadata.
func passing(code int16) bool {
	switch code {
	case codeUnknownTopic, codeNotLeader, codeFencedEpoch, codeUnknownEpoch, codeUnknownTopicID:
		return true
	}
	return false
}

// fetchRequest is one request of a fetcher.
type fetchRequest struct {
	follower    offsets.BrokerID
	brokerEpoch int64
	session     int32
	epoch       int32
	named       []*followed
	leaving     map[partName]struct{}
}

func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// appendTo writes the request as a frame.
func (r *fetchRequest) appendTo(dst []byte, correlation int32) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 1, 0, fetchVersion)
	dst = kbin.AppendInt32(dst, correlation)
	dst = append(dst, 0xff, 0xff, 0) // no client id, no tags
	dst = kbin.AppendInt32(dst, int32(fetchWait.Milliseconds()))
	dst = kbin.AppendInt32(dst, 1)
	dst = kbin.AppendInt32(dst, fetchBytes)
	dst = append(dst, 0) // isolation
	dst = kbin.AppendInt32(dst, r.session)
	dst = kbin.AppendInt32(dst, r.epoch)
	dst = r.appendNamed(dst)
	dst = r.appendLeaving(dst)
	dst = append(dst, 1, 1, 1, 13) // no rack; one tag: number 1, of 13 bytes
	dst = kbin.AppendInt32(dst, int32(r.follower))
	dst = kbin.AppendInt64(dst, r.brokerEpoch)
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// appendNamed writes the partitions, those of one topic that come one after the
// other together.
func (r *fetchRequest) appendNamed(dst []byte) []byte {
	topics := 0
	for i, p := range r.named {
		if i == 0 || r.named[i-1].name.topic != p.name.topic {
			topics++
		}
	}
	dst = kbin.AppendCompactArrayLen(dst, topics)
	for i := 0; i < len(r.named); {
		topic := r.named[i].name.topic
		n := i
		for n < len(r.named) && r.named[n].name.topic == topic {
			n++
		}
		dst = kbin.AppendUuid(dst, topic)
		dst = kbin.AppendCompactArrayLen(dst, n-i)
		for ; i < n; i++ {
			p := r.named[i]
			dst = kbin.AppendInt32(dst, p.name.index)
			dst = kbin.AppendInt32(dst, int32(p.asked.Epoch))
			dst = kbin.AppendInt64(dst, int64(p.asked.At))
			dst = kbin.AppendInt32(dst, int32(p.asked.LastEpoch))
			dst = kbin.AppendInt64(dst, int64(p.asked.Start))
			dst = kbin.AppendInt32(dst, fetchPartBytes)
			dst = append(dst, 0)
		}
		dst = append(dst, 0)
	}
	return dst
}

func (r *fetchRequest) appendLeaving(dst []byte) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(r.leaving))
	for name := range r.leaving {
		dst = kbin.AppendUuid(dst, name.topic)
		dst = kbin.AppendCompactArrayLen(dst, 1)
		dst = kbin.AppendInt32(dst, name.index)
		dst = append(dst, 0)
	}
	return dst
}

// told reads an answer, piece by piece.
type told struct {
	frame  []byte
	in     kbin.Reader
	topics int32
	parts  int32
	topic  offsets.TopicID
}

// toldPart is what an answer says of one partition. Records lie in the frame.
type toldPart struct {
	name      partName
	code      int16
	high      offsets.Offset
	stable    offsets.Offset
	start     offsets.Offset
	diverging *EpochEnd
	records   []byte
}

var errAnswer = errors.New("a leader's answer makes no sense")

// head reads what comes before the partitions.
func (t *told) head() (code int16, session int32, err error) {
	t.in.Src = t.frame
	t.in.Int32() // correlation, seen already
	tags := t.in.Uvarint()
	t.in.Int32() // throttle
	code, session = t.in.Int16(), t.in.Int32()
	t.topics = t.in.CompactArrayLen()
	if !t.in.Ok() || tags != 0 {
		return 0, 0, errAnswer
	}
	return code, session, nil
}

// next reads one partition; ok is false after the last.
func (t *told) next() (p toldPart, ok bool, err error) {
	for t.parts == 0 {
		if t.topics <= 0 {
			return p, false, nil
		}
		t.topics--
		t.topic = t.in.Uuid()
		t.parts = t.in.CompactArrayLen()
		if !t.in.Ok() || t.parts < 0 {
			return p, false, errAnswer
		}
		if t.parts == 0 {
			t.skipTags()
		}
	}
	b := &t.in
	p.name = partName{t.topic, b.Int32()}
	p.code = b.Int16()
	p.high, p.stable, p.start = offsets.Offset(b.Int64()), offsets.Offset(b.Int64()), offsets.Offset(b.Int64())
	for n := b.CompactArrayLen(); n > 0 && b.Ok(); n-- { // aborted transactions
		b.Int64()
		b.Int64()
		t.skipTags()
	}
	b.Int32() // preferred replica
	p.records = b.CompactNullableBytes()
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag, size := b.Uvarint(), b.Uvarint()
		value := kbin.Reader{Src: b.Span(int(size))}
		if tag == 0 {
			p.diverging = &EpochEnd{Epoch: offsets.Epoch(value.Int32()), End: offsets.Offset(value.Int64())}
			if !value.Ok() {
				return p, false, errAnswer
			}
		}
	}
	if t.parts--; t.parts == 0 {
		t.skipTags()
	}
	if !b.Ok() {
		return p, false, errAnswer
	}
	return p, true, nil
}

func (t *told) skipTags() {
	for n := t.in.Uvarint(); n > 0 && t.in.Ok(); n-- {
		t.in.Uvarint()
		t.in.Span(int(t.in.Uvarint()))
	}
}

// line is a connection to a leader.
type line struct {
	net      net.Conn
	deadline time.Time // of both directions
	out      []byte
	sent     []sentRequest // without an answer, oldest first

	in    []byte // what was read; begins with the frame that was handed out last
	taken int    // length of that frame and its size
}

// sentRequest is a request on its way.
type sentRequest struct {
	number  int64
	opening bool // of a session
}

func newLine(nc net.Conn) *line { return &line{net: nc} }

// send sends a request.
func (l *line) send(r *fetchRequest, number int64) error {
	l.out = r.appendTo(l.out[:0], int32(number))
	// Something is sent each second at least, so the deadline may stand in between.
	if now := time.Now(); l.deadline.Sub(now) < answerTime/2 {
		l.deadline = now.Add(answerTime)
		if err := l.net.SetDeadline(l.deadline); err != nil {
			return err
		}
	}
	if _, err := l.net.Write(l.out); err != nil {
		return err
	}
	l.sent = append(l.sent, sentRequest{number, r.epoch == 0})
	if cap(l.out) > 1<<20 {
		l.out = nil
	}
	return nil
}

// answered finds the request that a frame answers.
func (l *line) answered(frame []byte) (sentRequest, error) {
	if len(l.sent) == 0 || len(frame) < 4 || int32(binary.BigEndian.Uint32(frame)) != int32(l.sent[0].number) {
		return sentRequest{}, errAnswer
	}
	r := l.sent[0]
	l.sent = l.sent[:copy(l.sent, l.sent[1:])]
	return r, nil
}

// next reads a frame, which is valid until the next call.
func (l *line) next() ([]byte, error) {
	l.in = l.in[:copy(l.in, l.in[l.taken:])]
	l.taken = 0
	if cap(l.in) > keptAnswer {
		l.in = append(make([]byte, 0, max(len(l.in), leastRead)), l.in...)
	}
	if err := l.fill(4); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(l.in))
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("%w: %d bytes", errAnswer, size)
	}
	if err := l.fill(4 + int(size)); err != nil {
		return nil, err
	}
	l.taken = 4 + int(size)
	return l.in[4:l.taken], nil
}

// fill reads until n bytes are there.
func (l *line) fill(n int) error {
	if n > cap(l.in) {
		grown := make([]byte, len(l.in), max(n, min(2*cap(l.in), keptAnswer), leastRead))
		copy(grown, l.in)
		l.in = grown
	}
	for len(l.in) < n {
		got, err := l.net.Read(l.in[len(l.in):cap(l.in)])
		l.in = l.in[:len(l.in)+got]
		if err != nil && len(l.in) < n {
			return err
		}
	}
	return nil
}

// close ends the connection.
func (l *line) close() { _ = l.net.Close() } // it is of no more use, whatever that returns
