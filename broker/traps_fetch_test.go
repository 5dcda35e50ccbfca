package broker_test

import (
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

// 24: at least one batch, whole, of the first partition that has any; and no more
// than was asked for over all of them.
func TestTrap24FetchSizes(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	const partitions = 200
	createTopic(t, c, "t", partitions)
	batch := batchOf(t, record.None, now(), strings.Repeat("x", 1000))
	for i := range int32(partitions) {
		if i == 0 {
			continue // empty: the first that has records isn't the first
		}
		for range 3 {
			r := produceTo("t", i, 1, append(record.Batch{}, batch...))
			if got := askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
		}
	}
	n := int32(len(batch))
	for _, tc := range []struct {
		name                string
		maxBytes, partBytes int32
		batches             int32 // in the answer
		partitions          int32 // that have some
	}{
		{"nothing fits", 1, 1, 1, 1},
		{"not even nothing", 0, 0, 1, 1},
		{"negative", -5, -5, 1, 1},
		{"one by one", 10 * n, n, 10, 10},
		{"a partition's limit", 10 * n, 2*n + 5, 10, 5},
		{"less than one more", 10*n + n/2, n, 10, 10},
		{"all", 1000 * n, 1000 * n, 3 * (partitions - 1), partitions - 1},
		{"over the partitions", 100 * n, 1000 * n, 100, 34},
	} {
		r := fetchFrom("t", 0, 0)
		for i := int32(1); i < partitions; i++ {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, fetchFrom("t", i, 0).Topics[0].Partitions...)
		}
		r.MaxBytes = tc.maxBytes
		for i := range r.Topics[0].Partitions {
			r.Topics[0].Partitions[i].PartitionMaxBytes = tc.partBytes
		}
		var batches, with int32
		for _, p := range askAt[*kmsg.FetchResponse](t, c, 12, r).Topics[0].Partitions {
			rest := p.RecordBatches
			if len(rest) > 0 {
				with++
			}
			for len(rest) > 0 {
				_, more, err := record.Split(rest)
				if err != nil {
					t.Fatalf("%s: partition %d: a batch is cut: %v", tc.name, p.Partition, err)
				}
				rest = more
				batches++
			}
		}
		if batches != tc.batches || with != tc.partitions {
			t.Errorf("%s: %d batches of %d partitions, want %d of %d", tc.name, batches, with, tc.batches, tc.partitions)
		}
	}
}

// 25: partitions are served in the order they are named; a session moves those
// that were served to the end.
func TestTrap25Rotation(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 4)
	var parts []want
	for i := range int32(4) {
		parts = append(parts, want{topic: "t", partition: i})
		r := produceTo("t", i, 1, batchOf(t, record.None, now(), "x"))
		if got := askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	r := fetchIn(0, -1, parts[2], parts[3], parts[1], parts[0])
	r.MaxBytes = 1
	if m := fetchReply(t, c, r, nil); said(m) != "t/2 records, t/3, t/1, t/0" {
		t.Errorf("in the order of the request: %s", said(m))
	}
	r = fetchIn(0, 0, parts...)
	r.MaxBytes = 1
	m := fetchReply(t, c, r, nil)
	for i, expect := range []string{"t/0 records", "t/1 records", "t/2 records", "t/3 records", "t/0 records"} {
		r := fetchIn(m.SessionID, int32(i)+1)
		r.MaxBytes = 1
		if got := said(fetchReply(t, c, r, nil)); got != expect {
			t.Errorf("request %d of a session: %s, want %s", i+1, got, expect)
		}
	}
}

// 26: what ends a wait. A partition that isn't there doesn't, while others are.
func TestTrap26DelayedFetch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c, admin := dial(), dial()
		id := createTopic(t, admin, "t", 2)
		for name, tc := range map[string]struct {
			change func(*kmsg.FetchRequest)
			took   time.Duration
		}{
			"no bytes wanted":        {func(r *kmsg.FetchRequest) { r.MinBytes = 0 }, 0},
			"no time":                {func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 0 }, 0},
			"negative time":          {func(r *kmsg.FetchRequest) { r.MaxWaitMillis = -1 }, 0},
			"its time":               {func(r *kmsg.FetchRequest) {}, time.Second},
			"no topics":              {func(r *kmsg.FetchRequest) { r.Topics = nil }, 0},
			"no topics in a session": {func(r *kmsg.FetchRequest) { r.Topics, r.SessionEpoch = nil, 0 }, 0},
			"nothing that is there":  {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 7 }, 0},
			"one that isn't there": {func(r *kmsg.FetchRequest) {
				r.Topics[0].Partitions = append(r.Topics[0].Partitions, fetchFrom("t", 7, 0).Topics[0].Partitions...)
			}, time.Second},
			"one past its end": {func(r *kmsg.FetchRequest) {
				r.Topics[0].Partitions = append(r.Topics[0].Partitions, fetchFrom("t", 1, 99).Topics[0].Partitions...)
			}, 0},
			"a newer epoch":          {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 99 }, 0},
			"more than there may be": {func(r *kmsg.FetchRequest) { r.MinBytes, r.MaxBytes = 1<<30, 0 }, 0},
		} {
			for _, version := range []int16{12, 15} {
				r := fetchFrom("t", 0, 0)
				r.MinBytes, r.MaxWaitMillis = 1, 1000
				r.Topics[0].TopicID = id
				tc.change(r)
				began := time.Now()
				askAt[*kmsg.FetchResponse](t, c, version, r)
				if took := time.Since(began); took != tc.took {
					t.Errorf("%s, version %d: after %v, want %v", name, version, took, tc.took)
				}
			}
		}
		// A topic that goes while a request waits for it and for others.
		createTopic(t, admin, "goes", 1)
		for _, session := range []bool{false, true} {
			r := fetchIn(0, -1, want{topic: "t"}, want{topic: "goes"})
			if session {
				m := fetchReply(t, c, fetchIn(0, 0, want{topic: "t"}, want{topic: "goes"}), nil)
				r = fetchIn(m.SessionID, 1)
			}
			r.MinBytes, r.MaxWaitMillis = 1, 60_000
			done := make(chan *kmsg.FetchResponse, 1)
			began := time.Now()
			go func() {
				m, err := c.Exchange(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				done <- m.(*kmsg.FetchResponse)
			}()
			synctest.Wait()
			deleteTopic(t, admin, "goes")
			if m := <-done; !strings.Contains(said(m), "goes/0 code 3") || time.Since(began) != 0 {
				t.Errorf("session %v: after %v: %s", session, time.Since(began), said(m))
			}
			createTopic(t, admin, "goes", 1)
		}
	})
}

// 27 is TestSession…: session_test.go, sessionmodel_test.go, statesession_test.go.

// 28: fencing by the leader epoch, before anything else is looked at, and
// divergence by the epoch of the last record read (KIP-320, KIP-595).
func TestTrap28Epochs(t *testing.T) {
	dir := t.TempDir()
	var c *wire.Conn
	ends := []int64{} // of the epochs there were, by restart
	epochs := []int32{}
	for restart := range 3 {
		b := brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
		c = wireClient(t, b)
		if restart == 0 {
			createTopic(t, c, "t", 1)
		}
		for range restart + 1 {
			if got := put(t, c, "t", batchOf(t, record.None, now(), "a", "b")); got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
		}
		last := listed(t, c, "t", -1)
		epochs, ends = append(epochs, last.LeaderEpoch), append(ends, last.Offset)
		if restart < 2 {
			brokertest.Stop(t, b)
		}
	}
	if epochs[0] >= epochs[1] || epochs[1] >= epochs[2] {
		t.Fatalf("epochs %v: the broker's restart isn't a new leader", epochs)
	}
	present, end := epochs[2], ends[2]
	for _, tc := range []struct {
		name          string
		offset        int64
		current, last int32
		code          *kerr.Error
		diverging     []int64 // epoch, end
		records       bool
	}{
		{name: "no epochs", current: -1, last: -1, records: true},
		{name: "negative ones say nothing", current: -2, last: -7, records: true},
		{name: "the present one", current: present, last: -1, records: true},
		{name: "an older one", current: present - 1, last: -1, code: kerr.FencedLeaderEpoch},
		{name: "a newer one", current: present + 1, last: -1, code: kerr.UnknownLeaderEpoch},
		{name: "fenced before the offset is looked at", offset: 9999, current: present - 1, last: -1, code: kerr.FencedLeaderEpoch},
		{name: "last of the first epoch", offset: ends[0], current: -1, last: epochs[0], records: true},
		{name: "beyond the end of the first epoch", offset: ends[0] + 1, current: -1, last: epochs[0], diverging: []int64{int64(epochs[0]), ends[0]}},
		{name: "beyond the end of the second", offset: end, current: -1, last: epochs[1], diverging: []int64{int64(epochs[1]), ends[1]}},
		{name: "at the end in the present epoch", offset: end, current: -1, last: present},
		{name: "beyond the end in the present epoch", offset: end + 5, current: -1, last: present, diverging: []int64{int64(present), end}},
		{name: "an epoch still to come", offset: end, current: -1, last: present + 1, code: kerr.OffsetOutOfRange},
	} {
		r := fetchFrom("t", 0, tc.offset)
		r.Topics[0].Partitions[0].CurrentLeaderEpoch, r.Topics[0].Partitions[0].LastFetchedEpoch = tc.current, tc.last
		r.MinBytes, r.MaxWaitMillis = 1, 0
		got := askAt[*kmsg.FetchResponse](t, c, 12, r).Topics[0].Partitions[0]
		code := int16(0)
		if tc.code != nil {
			code = tc.code.Code
		}
		epoch, at := int64(-1), int64(-1)
		if tc.diverging != nil {
			epoch, at = tc.diverging[0], tc.diverging[1]
		}
		if got.ErrorCode != code || int64(got.DivergingEpoch.Epoch) != epoch || got.DivergingEpoch.EndOffset != at || (len(got.RecordBatches) > 0) != tc.records {
			t.Errorf("%s: code %d, diverging %d at %d, %d bytes", tc.name, got.ErrorCode, got.DivergingEpoch.Epoch, got.DivergingEpoch.EndOffset, len(got.RecordBatches))
		}
	}
	for _, tc := range []struct {
		name           string
		current, epoch int32
		code           *kerr.Error
		known          int32
		end            int64
	}{
		{"none", -1, -1, nil, -1, -1},
		{"the first", -1, epochs[0], nil, epochs[0], ends[0]},
		{"the second", -1, epochs[1], nil, epochs[1], ends[1]},
		{"the present", -1, present, nil, present, end},
		{"the present, known", present, present, nil, present, end},
		{"one to come", -1, present + 1, nil, -1, -1},
		{"fenced", present - 1, present, kerr.FencedLeaderEpoch, -1, -1},
		{"unknown", present + 1, present, kerr.UnknownLeaderEpoch, -1, -1},
	} {
		for version := int16(2); version <= 4; version++ {
			got := epochEnd(t, c, version, tc.current, tc.epoch)
			code := int16(0)
			if tc.code != nil {
				code = tc.code.Code
			}
			if got.ErrorCode != code || got.LeaderEpoch != tc.known || got.EndOffset != tc.end {
				t.Errorf("%s, version %d: %+v", tc.name, version, got)
			}
		}
	}
	// Records of the first epoch are deleted: what is before the start is out of
	// range, also for a reader of another history.
	if got := deleteTo(t, c, "t", ends[0]+1); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	r := fetchFrom("t", 0, ends[0])
	r.Topics[0].Partitions[0].LastFetchedEpoch = epochs[0]
	if got := askAt[*kmsg.FetchResponse](t, c, 12, r).Topics[0].Partitions[0]; got.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("below the start: %+v", got)
	}
	if got := epochEnd(t, c, 4, -1, epochs[0]); got.ErrorCode != 0 || got.LeaderEpoch != epochs[0] || got.EndOffset != ends[0]+1 {
		t.Errorf("an epoch before the start: %+v", got)
	}
	if got := listed(t, c, "t", -2); got.Offset != ends[0]+1 || got.LeaderEpoch != epochs[1] {
		t.Errorf("the start: %+v", got)
	}
}

// epochEnd asks where an epoch ends.
func epochEnd(t *testing.T, c *wire.Conn, version int16, current, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	t.Helper()
	r := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.CurrentLeaderEpoch, rp.LeaderEpoch = current, epoch
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return askAt[*kmsg.OffsetForLeaderEpochResponse](t, c, version, r).Topics[0].Partitions[0]
}

// 29: offsets outside of the log, and what is told when there is nothing to read.
func TestTrap29Offsets(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	for range 3 {
		if got := put(t, c, "t", batchOf(t, record.None, now(), "a", "b", "c")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	deleteTo(t, c, "t", 4) // inside of the second batch
	for _, tc := range []struct {
		at   int64
		code int16
		base int64 // of the first batch, or −1
	}{{-1, 1, -1}, {3, 1, -1}, {4, 0, 3}, {5, 0, 3}, {6, 0, 6}, {8, 0, 6}, {9, 0, -1}, {10, 1, -1}} {
		for version := int16(4); version <= 12; version++ {
			got := askAt[*kmsg.FetchResponse](t, c, version, fetchFrom("t", 0, tc.at)).Topics[0].Partitions[0]
			base := int64(-1)
			if len(got.RecordBatches) > 0 {
				base = int64(record.Batch(got.RecordBatches).BaseOffset())
			}
			if got.ErrorCode != tc.code || base != tc.base {
				t.Errorf("version %d at %d: code %d, from %d", version, tc.at, got.ErrorCode, base)
			}
			high, start := int64(9), int64(4)
			if tc.code != 0 {
				high, start = -1, -1
			}
			if version < 5 {
				start = -1
			}
			if got.HighWatermark != high || got.LastStableOffset != high || got.LogStartOffset != start {
				t.Errorf("version %d at %d: %+v", version, tc.at, got)
			}
		}
	}
}
