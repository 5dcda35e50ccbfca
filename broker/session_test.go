package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// want is what a client asks of a partition inside of a session.
type want struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}

// fetchIn builds a request of a session, with limits that don't matter.
func fetchIn(id, epoch int32, parts ...want) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 12
	r.MaxBytes, r.SessionID, r.SessionEpoch = 50<<20, id, epoch
	for _, w := range parts {
		last := len(r.Topics) - 1
		if last < 0 || r.Topics[last].Topic != w.topic || r.Topics[last].TopicID != w.id {
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic, rt.TopicID = w.topic, w.id
			r.Topics = append(r.Topics, rt)
			last++
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = w.partition, w.offset, 50<<20
		r.Topics[last].Partitions = append(r.Topics[last].Partitions, rp)
	}
	return r
}

func forget(r *kmsg.FetchRequest, parts ...want) *kmsg.FetchRequest {
	for _, w := range parts {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.TopicID, f.Partitions = w.topic, w.id, []int32{w.partition}
		r.ForgottenTopics = append(r.ForgottenTopics, f)
	}
	return r
}

// fetchReply sends a request and checks the answer's own code.
func fetchReply(t testing.TB, c *wire.Conn, r *kmsg.FetchRequest, code *kerr.Error) *kmsg.FetchResponse {
	t.Helper()
	m := askAt[*kmsg.FetchResponse](t, c, r.Version, r)
	var want int16
	if code != nil {
		want = code.Code
	}
	if m.ErrorCode != want {
		t.Fatalf("session %d epoch %d: code %d, want %d", r.SessionID, r.SessionEpoch, m.ErrorCode, want)
	}
	if code != nil && (len(m.Topics) != 0 || m.SessionID != 0) {
		t.Errorf("with code %d: %d topics, session %d", want, len(m.Topics), m.SessionID)
	}
	return m
}

// said prints the partitions of an answer: topic/partition, a code, bytes.
func said(m *kmsg.FetchResponse) string {
	var out []string
	for _, topic := range m.Topics {
		name := topic.Topic
		if name == "" {
			name = fmt.Sprintf("%x", topic.TopicID[:2])
		}
		for _, p := range topic.Partitions {
			s := fmt.Sprintf("%s/%d", name, p.Partition)
			if p.ErrorCode != 0 {
				s += fmt.Sprintf(" code %d", p.ErrorCode)
			}
			if len(p.RecordBatches) > 0 {
				s += " records"
			}
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

func TestSessionTellsOnlyWhatChanged(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "a", 2)
	createTopic(t, c, "b", 1)
	a0, a1, b0 := want{topic: "a"}, want{topic: "a", partition: 1}, want{topic: "b"}
	m := fetchReply(t, c, fetchIn(0, 0, a0, a1, b0), nil)
	id := m.SessionID
	if id <= 0 || said(m) != "a/0, a/1, b/0" {
		t.Fatalf("session %d: %s", id, said(m))
	}
	step := func(epoch int32, expect string, r *kmsg.FetchRequest) {
		t.Helper()
		m := fetchReply(t, c, r, nil)
		if said(m) != expect || m.SessionID != id {
			t.Errorf("epoch %d: session %d: %q, want %q", epoch, m.SessionID, said(m), expect)
		}
	}
	step(1, "", fetchIn(id, 1))
	if got := put(t, c, "b", batchOf(t, record.None, now(), "x", "y")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	step(2, "b/0 records", fetchIn(id, 2))
	step(3, "b/0 records", fetchIn(id, 3)) // the client still asks from 0
	b0.offset = 2
	step(4, "", fetchIn(id, 4, b0))
	if got := deleteTo(t, c, "b", 1); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	step(5, "b/0", fetchIn(id, 5)) // its log start moved
	step(6, "", fetchIn(id, 6))
	b0.offset = 9
	step(7, "b/0 code 1", fetchIn(id, 7, b0))
	step(8, "b/0 code 1", fetchIn(id, 8)) // errors are said each time
	b0.offset = 2
	step(9, "b/0", fetchIn(id, 9, b0)) // and their end, too
	step(10, "", forget(fetchIn(id, 10), b0))
	if got := put(t, c, "b", batchOf(t, record.None, now(), "z")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	step(11, "", fetchIn(id, 11))
	step(12, "b/0 records", fetchIn(id, 12, b0)) // added again
	// A topic that isn't there, and comes.
	step(13, "b/0 records, later/0 code 3", fetchIn(id, 13, want{topic: "later"}))
	createTopic(t, c, "later", 1)
	step(14, "later/0, b/0 records", fetchIn(id, 14))
	step(15, "b/0 records", fetchIn(id, 15))
}

func TestSessionLife(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	topicID := createTopic(t, c, "t", 2)
	p0, p1 := want{topic: "t"}, want{topic: "t", partition: 1}
	open := func() int32 { return fetchReply(t, c, fetchIn(0, 0, p0), nil).SessionID }
	count := func(want int64) {
		t.Helper()
		if got := b.Metrics().FetchSessions; got != want {
			t.Errorf("%d sessions, want %d", got, want)
		}
	}
	if m := fetchReply(t, c, fetchIn(0, -1, p0), nil); m.SessionID != 0 || said(m) != "t/0" {
		t.Errorf("without a session: %d, %s", m.SessionID, said(m))
	}
	for version := int16(4); version < 7; version++ {
		r := fetchIn(0, 0, p0)
		r.Version = version
		if m := fetchReply(t, c, r, nil); said(m) != "t/0" {
			t.Errorf("version %d: %s", version, said(m))
		}
	}
	count(0)
	fetchReply(t, c, fetchIn(77, 1, p0), kerr.FetchSessionIDNotFound)
	fetchReply(t, c, fetchIn(0, 1, p0), kerr.FetchSessionIDNotFound)
	fetchReply(t, c, fetchIn(77, -2), kerr.FetchSessionIDNotFound)
	id := open()
	count(1)
	fetchReply(t, c, fetchIn(id, 2), kerr.InvalidFetchSessionEpoch)
	fetchReply(t, c, fetchIn(id, 1), nil) // which hurt nothing
	fetchReply(t, c, fetchIn(id, 1), kerr.InvalidFetchSessionEpoch)
	byID := fetchIn(id, 2)
	byID.Version = 13
	fetchReply(t, c, byID, kerr.FetchSessionTopicIDError)
	fetchReply(t, c, fetchIn(id, 2), nil)

	// Any connection may go on with it, and close it.
	other := wireClient(t, b)
	fetchReply(t, other, fetchIn(id, 3), nil)
	if m := fetchReply(t, other, fetchIn(id, -1, p1), nil); said(m) != "t/1" || m.SessionID != 0 {
		t.Errorf("closing: %d, %s", m.SessionID, said(m))
	}
	count(0)
	fetchReply(t, c, fetchIn(id, 4), kerr.FetchSessionIDNotFound)

	// A new one in place of the old.
	id = open()
	again := fetchReply(t, c, fetchIn(id, 0, p1), nil)
	if again.SessionID == id || again.SessionID == 0 || said(again) != "t/1" {
		t.Errorf("session %d after %d: %s", again.SessionID, id, said(again))
	}
	count(1)
	fetchReply(t, c, fetchIn(id, 1), kerr.FetchSessionIDNotFound)
	// One of which nothing is left ends.
	if m := fetchReply(t, c, forget(fetchIn(again.SessionID, 1), p1), nil); m.SessionID != 0 || len(m.Topics) != 0 {
		t.Errorf("emptied: session %d, %s", m.SessionID, said(m))
	}
	count(0)
	fetchReply(t, c, fetchIn(again.SessionID, 2), kerr.FetchSessionIDNotFound)
	// One that begins empty, by ids.
	r := fetchIn(0, 0)
	r.Version = 18
	id = fetchReply(t, c, r, nil).SessionID
	r = fetchIn(id, 1, want{id: topicID})
	r.Version = 18
	if m := fetchReply(t, c, r, nil); id == 0 || len(m.Topics) != 1 || m.Topics[0].TopicID != topicID {
		t.Errorf("begun empty: session %d, %s", id, said(m))
	}
	if got := b.Metrics(); got.FetchSessions != 1 || got.SessionParts != 1 {
		t.Errorf("%d sessions with %d partitions", got.FetchSessions, got.SessionParts)
	}
}

// A topic named by its id: unknown, made, deleted, and made again.
func TestSessionOfTopicIDs(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	first := createTopic(t, c, "again", 2)
	never := [16]byte{0xab, 0xcd}
	r := fetchIn(0, 0, want{id: never}, want{id: first}, want{id: first, partition: 1})
	r.Version = 13
	m := fetchReply(t, c, r, nil)
	id, epoch := m.SessionID, int32(0)
	name := fmt.Sprintf("%x", first[:2])
	if said(m) != name+"/0, "+name+"/1, abcd/0 code 100" {
		t.Fatalf("opened: %s", said(m))
	}
	step := func(what, expect string, parts ...want) {
		t.Helper()
		epoch++
		r := fetchIn(id, epoch, parts...)
		r.Version = 13 + int16(epoch)%6
		if m := fetchReply(t, c, r, nil); said(m) != expect {
			t.Errorf("%s: %q, want %q", what, said(m), expect)
		}
	}
	step("unknown ids are told each time", "abcd/0 code 100")
	deleteTopic(t, c, "again")
	step("deleted", name+"/0 code 3, "+name+"/1 code 3, abcd/0 code 100")
	second := createTopic(t, c, "again", 1)
	step("another of that name", name+"/0 code 103, "+name+"/1 code 3, abcd/0 code 100")
	new := fmt.Sprintf("%x", second[:2])
	step("by its id", name+"/0 code 103, "+new+"/0, "+name+"/1 code 3, abcd/0 code 100", want{id: second})
	full := fetchIn(0, -1, want{id: first}, want{id: second})
	full.Version = 17
	if m := fetchReply(t, c, full, nil); said(m) != new+"/0, "+name+"/0 code 100" {
		t.Errorf("without a session: %s", said(m))
	}
}

// A session of thousands of idle partitions waits for one of them.
func TestSessionIsWokenByOnePartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		reader, writer := dial(), dial()
		const n = 500
		createTopic(t, writer, "t", n)
		var all []want
		for i := range int32(n) {
			all = append(all, want{topic: "t", partition: i})
		}
		id := fetchReply(t, reader, fetchIn(0, 0, all...), nil).SessionID
		poll := func(epoch, minBytes int32) chan *kmsg.FetchResponse {
			r := fetchIn(id, epoch)
			r.MinBytes, r.MaxWaitMillis = minBytes, 60_000
			done := make(chan *kmsg.FetchResponse, 1)
			go func() {
				m, err := reader.Exchange(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				done <- m.(*kmsg.FetchResponse)
			}()
			synctest.Wait()
			return done
		}
		batch := batchOf(t, record.None, now(), "0123456789")
		done := poll(1, int32(2*len(batch)))
		for round, p := range []int32{100, 400} {
			time.Sleep(time.Second)
			if len(done) != 0 {
				t.Fatalf("answered after %d of 2 batches", round)
			}
			if got := askAt[*kmsg.ProduceResponse](t, writer, 9, produceTo("t", p, 1, slices.Clone(batch))).Topics[0].Partitions[0]; got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
			synctest.Wait()
		}
		if m := <-done; said(m) != "t/100 records, t/400 records" {
			t.Errorf("woken: %s", said(m))
		}
		all[100].offset, all[400].offset = 1, 1
		if m := fetchReply(t, reader, fetchIn(id, 2, all[100], all[400]), nil); said(m) != "" {
			t.Errorf("read to the end: %s", said(m))
		}
		// Nothing comes: the answer is empty, and due at its time.
		began := time.Now()
		if m := <-poll(3, 1); said(m) != "" || time.Since(began) != time.Minute {
			t.Errorf("after %v: %s", time.Since(began), said(m))
		}
		// An error is told at once, of as many partitions as have it by then.
		began = time.Now()
		done = poll(4, 1)
		deleteTopic(t, writer, "t")
		if m := <-done; !strings.HasPrefix(said(m), "t/0 code 3") || time.Since(began) != 0 {
			t.Errorf("after %v: %s", time.Since(began), said(m))
		}
		if m := <-poll(5, 1); len(m.Topics) != 1 || len(m.Topics[0].Partitions) != n {
			t.Errorf("%d topics", len(m.Topics))
		}
	})
}

// What a request that never was answered looked at is still to be told.
func TestSessionSurvivesADroppedRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		lost, c := dial(), dial()
		createTopic(t, c, "t", 1)
		if got := put(t, c, "t", batchOf(t, record.None, now(), "a", "b")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		id := fetchReply(t, c, fetchIn(0, 0, want{topic: "t", offset: 2}), nil).SessionID
		r := fetchIn(id, 1)
		r.MinBytes, r.MaxWaitMillis = 1<<20, 60_000
		answered := make(chan bool, 1)
		go func() {
			_, err := lost.Exchange(t.Context(), r)
			answered <- err == nil
		}()
		synctest.Wait()
		// The parked request sees the log start move, and looks, and waits on.
		if got := deleteTo(t, c, "t", 1); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		synctest.Wait()
		fetchReply(t, c, fetchIn(id, 1), kerr.InvalidFetchSessionEpoch) // sent twice
		if err := lost.Close(); err != nil {
			t.Fatal(err)
		}
		if <-answered {
			t.Fatal("the request was answered")
		}
		synctest.Wait()
		m := fetchReply(t, c, fetchIn(id, 2), nil)
		if said(m) != "t/0" || m.Topics[0].Partitions[0].LogStartOffset != 1 {
			t.Errorf("the move of the log start was lost: %s", said(m))
		}
		if m := fetchReply(t, c, fetchIn(id, 3), nil); said(m) != "" {
			t.Errorf("told twice: %s", said(m))
		}
	})
}

// Requests of one session that are sent without waiting for answers are
// answered one after the other.
func TestSessionRequestsMayBePipelined(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c, writer := dial(), dial()
		createTopic(t, writer, "t", 1)
		id := fetchReply(t, c, fetchIn(0, 0, want{topic: "t"}), nil).SessionID
		type reply struct {
			at   time.Duration
			said string
			code int16
		}
		replies := make([]chan reply, 5)
		began := time.Now()
		for i := range replies {
			replies[i] = make(chan reply, 1)
			r := fetchIn(id, int32(i)+1)
			r.MinBytes, r.MaxWaitMillis = 1, 1000
			go func() {
				m, err := c.Exchange(t.Context(), r)
				if err != nil {
					t.Error(err)
					close(replies[i])
					return
				}
				f := m.(*kmsg.FetchResponse)
				replies[i] <- reply{time.Since(began), said(f), f.ErrorCode}
			}()
			synctest.Wait()
		}
		time.Sleep(2500 * time.Millisecond)
		if got := put(t, writer, "t", batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		for i, want := range []reply{
			{time.Second, "", 0},
			{2 * time.Second, "", 0},
			{2500 * time.Millisecond, "t/0 records", 0},
			{2500 * time.Millisecond, "t/0 records", 0},
			{2500 * time.Millisecond, "t/0 records", 0},
		} {
			if got := <-replies[i]; got != want {
				t.Errorf("request %d: %+v, want %+v", i+1, got, want)
			}
		}
		// Closed under a parked request, which is answered as if it weren't.
		moved := fetchIn(id, 6, want{topic: "t", offset: 1})
		moved.MinBytes, moved.MaxWaitMillis = 1, 1000
		done := make(chan kmsg.Response, 1)
		go func() {
			m, err := c.Exchange(t.Context(), moved)
			if err != nil {
				t.Error(err)
			}
			done <- m
		}()
		synctest.Wait()
		fetchReply(t, writer, fetchIn(id, -1), nil)
		if m := (<-done).(*kmsg.FetchResponse); m.ErrorCode != 0 || m.SessionID != id {
			t.Errorf("closed under it: code %d, session %d", m.ErrorCode, m.SessionID)
		}
		if got := b.Metrics(); got.FetchSessions != 0 {
			t.Errorf("%d sessions are left", got.FetchSessions)
		}
	})
}

// More consumers than slots: who gets none reads without.
func TestSessionSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "t", 3)
		const slots = 1000
		p := []want{{topic: "t"}, {topic: "t", partition: 1}, {topic: "t", partition: 2}}
		ids := map[int32]bool{}
		for range slots {
			ids[fetchReply(t, c, fetchIn(0, 0, p[:2]...), nil).SessionID] = true
		}
		if len(ids) != slots || ids[0] {
			t.Fatalf("%d sessions", len(ids))
		}
		if m := fetchReply(t, c, fetchIn(0, 0, p...), nil); m.SessionID != 0 || said(m) != "t/0, t/1, t/2" {
			t.Errorf("with all slots taken by young ones: session %d, %s", m.SessionID, said(m))
		}
		time.Sleep(119 * time.Second)
		for id := range ids {
			fetchReply(t, c, fetchIn(id, 1), nil)
		}
		time.Sleep(2 * time.Second)
		for id := range ids {
			fetchReply(t, c, fetchIn(id, 2), nil) // now none is young
		}
		if m := fetchReply(t, c, fetchIn(0, 0, p[:2]...), nil); m.SessionID != 0 {
			t.Error("one as large gave way")
		}
		if m := fetchReply(t, c, fetchIn(0, 0, p...), nil); m.SessionID == 0 {
			t.Error("none gave way to a larger one")
		}
		time.Sleep(121 * time.Second) // all are stale
		if m := fetchReply(t, c, fetchIn(0, 0, p[0]), nil); m.SessionID == 0 {
			t.Error("no stale one gave way")
		}
		if got := b.Metrics().FetchSessions; got != slots {
			t.Errorf("%d sessions", got)
		}
	})
}

// A session's connection may end with the broker: its id is unknown after that.
func TestSessionsEndWithTheBroker(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	c := wireClient(t, b)
	createTopic(t, c, "t", 1)
	id := fetchReply(t, c, fetchIn(0, 0, want{topic: "t"}), nil).SessionID
	brokertest.Stop(t, b)
	b = brokertest.Start(t, in)
	c = wireClient(t, b)
	fetchReply(t, c, fetchIn(id, 1), kerr.FetchSessionIDNotFound)
	if m := fetchReply(t, c, fetchIn(id, 0, want{topic: "t"}), nil); m.SessionID == 0 || said(m) != "t/0" {
		t.Errorf("session %d: %s", m.SessionID, said(m))
	}
}
