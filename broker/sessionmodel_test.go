package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// naiveSession is what a session is said to be, kept without any cleverness:
// each answer is that of a full request without a session, less what the client
// was told already.
type naiveSession struct {
	byID      bool
	id, epoch int32
	isolation int8
	parts     []naivePart
}

type naivePart struct {
	want
	name  string // of an id: what it was named when it was found first
	told  [3]int64
	known bool // an answer told of it, and no error
}

// naiveWorld is a broker and what the model knows of its topics.
type naiveWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	version int16
	reader  *wire.Conn
	oracle  *wire.Conn
	topics  map[string][16]byte // those there are
	gone    [][16]byte
	s       naiveSession
}

const naivePartitions = 3

func (w *naiveWorld) topic() string { return string(rune('a' + w.rnd.IntN(4))) }

// some is a random partition, of a topic that needn't be there.
func (w *naiveWorld) some() want {
	p := want{topic: w.topic(), partition: w.rnd.Int32N(naivePartitions + 1), offset: w.rnd.Int64N(6)}
	if w.s.byID {
		id, there := w.topics[p.topic]
		if !there || w.rnd.IntN(6) == 0 {
			id = [16]byte{0xff, byte(w.rnd.IntN(3))}
			if len(w.gone) > 0 && w.rnd.IntN(2) == 0 {
				id = w.gone[w.rnd.IntN(len(w.gone))]
			}
		}
		p.topic, p.id = "", id
	}
	return p
}

func (w *naiveWorld) find(p want) int {
	return slices.IndexFunc(w.s.parts, func(have naivePart) bool {
		return have.topic == p.topic && have.id == p.id && have.partition == p.partition
	})
}

// change does something to the topics.
func (w *naiveWorld) change() {
	name := w.topic()
	_, there := w.topics[name]
	switch n := w.rnd.IntN(10); {
	case !there:
		w.topics[name] = createTopic(w.t, w.oracle, name, naivePartitions)
	case n == 0:
		deleteTopic(w.t, w.oracle, name)
		w.gone = append(w.gone, w.topics[name])
		delete(w.topics, name)
	case n < 3:
		deleteTo(w.t, w.oracle, name, w.rnd.Int64N(5)-1) // it may be out of range
	default:
		r := produceTo(name, w.rnd.Int32N(naivePartitions), 1, batchOf(w.t, record.None, now(), "x", "y"))
		if got := askAt[*kmsg.ProduceResponse](w.t, w.oracle, 9, r).Topics[0].Partitions[0]; got.ErrorCode != 0 {
			w.t.Fatalf("produce to %s: code %d", name, got.ErrorCode)
		}
	}
}

// expected is the answer due now, and takes note of it.
func (w *naiveWorld) expected(maxBytes int32, full bool) []string {
	ask := make([]want, 0, len(w.s.parts))
	for _, p := range w.s.parts {
		ask = append(ask, p.want)
	}
	r := fetchIn(0, -1, ask...)
	r.Version, r.MaxBytes, r.IsolationLevel = w.version, maxBytes, w.s.isolation
	m := askAt[*kmsg.FetchResponse](w.t, w.oracle, w.version, r)
	answers := map[string]kmsg.FetchResponseTopicPartition{}
	for _, topic := range m.Topics {
		for _, got := range topic.Partitions {
			answers[fmt.Sprint(topic.Topic, topic.TopicID, got.Partition)] = got
		}
	}
	var out, missing []string // what isn't there comes last
	var left, lost, served []naivePart
	for _, p := range w.s.parts {
		got := answers[fmt.Sprint(p.topic, p.id, p.partition)]
		w.byName(&p, &got)
		gone := got.ErrorCode == kerr.UnknownTopicOrPartition.Code || got.ErrorCode == kerr.UnknownTopicID.Code
		told := [3]int64{got.HighWatermark, got.LastStableOffset, got.LogStartOffset}
		switch news := full || got.ErrorCode != 0 || len(got.RecordBatches) > 0 || !p.known || told != p.told; {
		case gone:
			missing = append(missing, shownPart(p.topic, p.id, got))
		case news:
			out = append(out, shownPart(p.topic, p.id, got))
		}
		p.told, p.known = told, got.ErrorCode == 0
		switch {
		case gone && full: // a session begins in the order of its first answer
			lost = append(lost, p)
		case len(got.RecordBatches) > 0 && !full:
			served = append(served, p)
		default:
			left = append(left, p)
		}
	}
	w.s.parts = slices.Concat(left, lost, served)
	return append(out, missing...)
}

// byName is what an id that was found once means in a session: it is known by
// its name when it is gone.
func (w *naiveWorld) byName(p *naivePart, got *kmsg.FetchResponseTopicPartition) {
	if !w.s.byID {
		return
	}
	for name, id := range w.topics {
		if id == p.id {
			p.name = name
		}
	}
	if got.ErrorCode != kerr.UnknownTopicID.Code || p.name == "" {
		return
	}
	got.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if _, again := w.topics[p.name]; again && p.partition < naivePartitions {
		got.ErrorCode = kerr.InconsistentTopicID.Code
	}
}

func shownPart(topic string, id [16]byte, p kmsg.FetchResponseTopicPartition) string {
	return fmt.Sprintf("%s%x/%d code %d at %d %d %d: %d bytes", topic, id[:2], p.Partition, p.ErrorCode,
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset, len(p.RecordBatches))
}

func shownAll(m *kmsg.FetchResponse) (out []string) {
	for _, topic := range m.Topics {
		for _, p := range topic.Partitions {
			out = append(out, shownPart(topic.Topic, topic.TopicID, p))
		}
	}
	return out
}

// open begins a session anew.
func (w *naiveWorld) open() {
	w.s = naiveSession{byID: w.version >= 13, id: w.s.id}
	for range w.rnd.IntN(5) {
		if p := w.some(); w.find(p) < 0 {
			w.s.parts = append(w.s.parts, naivePart{want: p})
		}
	}
	ask := []want{}
	for _, p := range w.s.parts {
		ask = append(ask, p.want)
	}
	r := fetchIn(w.s.id, 0, ask...)
	r.Version = w.version
	want := w.expected(50<<20, true)
	m := fetchReply(w.t, w.reader, r, nil)
	if got := shownAll(m); m.SessionID == 0 || !slices.Equal(got, want) {
		w.t.Fatalf("opened %d:\n got %q\nwant %q", m.SessionID, got, want)
	}
	w.s.id, w.s.epoch = m.SessionID, 1
}

// poll is one incremental request.
func (w *naiveWorld) poll() {
	var ask []want
	for range w.rnd.IntN(3) {
		p := w.some()
		if len(w.s.parts) > 0 && w.rnd.IntN(2) == 0 {
			at := p.offset
			p = w.s.parts[w.rnd.IntN(len(w.s.parts))].want
			p.offset = at
		}
		if i := w.find(p); i >= 0 {
			w.s.parts[i].want = p
		} else {
			w.s.parts = append(w.s.parts, naivePart{want: p})
		}
		ask = append(ask, p)
	}
	r := fetchIn(w.s.id, w.s.epoch, ask...)
	for range w.rnd.IntN(2) {
		p := w.some()
		forget(r, p)
		if i := w.find(p); i >= 0 {
			w.s.parts = slices.Delete(w.s.parts, i, i+1)
		}
	}
	r.Version, r.MaxBytes = w.version, 50<<20
	if w.rnd.IntN(2) == 0 {
		r.MaxBytes = 1 // one batch
	}
	if w.rnd.IntN(8) == 0 {
		w.s.isolation = 1 - w.s.isolation
	}
	r.IsolationLevel = w.s.isolation
	if len(w.s.parts) == 0 {
		if m := fetchReply(w.t, w.reader, r, nil); m.SessionID != 0 {
			w.t.Fatalf("an empty session lives on as %d", m.SessionID)
		}
		w.s.id = 0
		w.open()
		return
	}
	want := w.expected(r.MaxBytes, false)
	m := fetchReply(w.t, w.reader, r, nil)
	if got := shownAll(m); m.SessionID != w.s.id || !slices.Equal(got, want) {
		w.t.Fatalf("session %d epoch %d:\n got %q\nwant %q", m.SessionID, w.s.epoch, got, want)
	}
	w.s.epoch++
}

// TestSessionModel runs random requests of a session against the naive one, while
// topics are written, trimmed, deleted and made again.
func TestSessionModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
				rnd := rand.New(rand.NewPCG(seed, 227))
				w := &naiveWorld{t: t, rnd: rnd, reader: dial(), oracle: dial(), topics: map[string][16]byte{}}
				w.version = []int16{7, 10, 12, 13, 15, 18}[seed%6]
				w.open()
				for range 300 {
					switch n := rnd.IntN(20); {
					case n < 9:
						w.change()
					case n == 9:
						fetchReply(t, w.reader, fetchIn(w.s.id, w.s.epoch+1+rnd.Int32N(3)), kerr.InvalidFetchSessionEpoch)
					case n == 10:
						w.open()
					default:
						w.poll()
					}
				}
			})
		})
	}
}
