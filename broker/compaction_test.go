package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/consumer"
	"sawlog/offsets"
)

// cell is a broker in a bubble, on a disk that outlives it.
type cell struct {
	t       *testing.T
	fs      vfs.FS
	dir     string
	network *brokertest.Network
	broker  *broker.Broker
}

// start starts the broker, after stop once more over the same disk.
func (c *cell) start() {
	c.network = brokertest.NewNetwork()
	b, err := broker.Open(c.t.Context(), broker.Config{FS: c.fs, Dir: c.dir, Listener: c.network, Advertise: "broker:9092"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.broker = b
}

func (c *cell) stop() { brokertest.Stop(c.t, c.broker) }

func (c *cell) dial() *wire.Conn {
	c.t.Helper()
	nc, err := c.network.Dial(c.t.Context(), "", "")
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := wire.NewConn(c.t.Context(), nc, "bubble")
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

func (c *cell) kgo(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("broker:9092"), kgo.Dialer(c.network.Dial)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// all reads a topic of one partition to its end with a client of others, and
// returns the records in order.
func (c *cell) all(topic string) []*kgo.Record {
	c.t.Helper()
	conn := c.dial()
	end := listed(c.t, conn, topic, -1).Offset
	_ = conn.Close()
	client := c.kgo(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}), kgo.KeepControlRecords())
	defer client.Close()
	var got []*kgo.Record
	for next := int64(0); next < end; {
		f := client.PollFetches(within(c.t))
		if err := f.Err(); err != nil {
			c.t.Fatal(err)
		}
		got = append(got, f.Records()...)
		if n := len(got); n > 0 {
			next = got[n-1].Offset + 1
		}
	}
	return got
}

// compactedCluster is what the loader's reader needs of a connection.
type compactedCluster struct{ *wire.Conn }

func (c compactedCluster) Broker(int32) consumer.Requestor { return c }

// view is the value of each key; deleted ones have none.
func view(records []*kgo.Record) map[string]string {
	out := map[string]string{}
	for _, r := range records {
		if r.Value == nil {
			delete(out, string(r.Key))
			continue
		}
		out[string(r.Key)] = string(r.Value)
	}
	return out
}

// TestCompactedTopic: of 10,000 updates of 100 keys one record a key is left,
// tombstones go in their time, and a restart changes nothing.
func TestCompactedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, fs: vfs.NewMem(), dir: "/data"}
		c.start()
		conn := c.dial()
		id := createTopic(t, conn, "states", 1, "cleanup.policy", "compact", "segment.bytes", "20000",
			"max.compaction.lag.ms", "60000", "delete.retention.ms", "3600000")
		const updates, keys = 10_000, 100
		want := map[string]string{}
		producer := c.kgo(kgo.DefaultProduceTopic("states"), kgo.ProducerBatchCompression(kgo.SnappyCompression()))
		for i := range updates {
			r := &kgo.Record{Key: fmt.Appendf(nil, "key %d", i*i%keys), Value: fmt.Appendf(nil, "update %d", i)}
			if i%7 == 0 {
				r.Value = nil
				delete(want, string(r.Key))
			} else {
				want[string(r.Key)] = string(r.Value)
			}
			producer.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if i%50 == 49 {
				if err := producer.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		producer.Close()
		time.Sleep(3 * time.Minute) // the last segment is closed, and compacted
		synctest.Wait()
		got := c.all("states")
		seen, tombstones := map[string]bool{}, 0
		for _, r := range got {
			if seen[string(r.Key)] {
				t.Errorf("%s comes again at %d", r.Key, r.Offset)
			}
			seen[string(r.Key)] = true
			if r.Value == nil {
				tombstones++
			}
		}
		if v := view(got); !maps.Equal(v, want) || tombstones == 0 {
			t.Errorf("%d records, %d tombstones: %v, want %v", len(got), tombstones, v, want)
		}
		if m := c.broker.Metrics(); m.CleanRuns == 0 || m.CleanRemoved < updates-int64(len(got)) || m.CleanFailures != 0 || m.DirtiestLog != 0 {
			t.Errorf("metrics %+v", m)
		}
		for _, end := range []int64{updates, updates / 2, 1, 9_950} { // what a plan of before may name
			n := int64(0)
			for _, r := range got {
				if r.Offset < end {
					n++
				}
			}
			loaded(t, conn, id, offsets.Offset(end), n)
		}
		between(t, conn)

		_ = conn.Close()
		time.Sleep(time.Hour)
		conn = c.dial()
		if got := put(t, conn, "states", keyedBatch(t, "more", "1")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		_ = conn.Close()
		want["more"] = "1"
		for _, restarted := range []bool{false, true} {
			if restarted {
				c.stop()
				c.start()
			} else {
				time.Sleep(3 * time.Minute)
				synctest.Wait()
			}
			got = c.all("states")
			if v := view(got); !maps.Equal(v, want) || len(got) != len(want) {
				t.Errorf("restarted %v: %d records, want %d: %v", restarted, len(got), len(want), v)
			}
		}
		c.stop()
	})
}

// loaded reads the topic as a load task does: all offsets are accounted for.
func loaded(t *testing.T, conn *wire.Conn, id [16]byte, end offsets.Offset, want int64) {
	t.Helper()
	tp := offsets.TopicPartition{Topic: "states"}
	for _, compact := range []bool{true, false} {
		r := consumer.NewReader(compactedCluster{conn}, tp, offsets.TopicID(id), offsets.Range{Start: 0, End: end}, consumer.Options{Compact: compact})
		var err error
		for err == nil {
			_, err = r.Next(t.Context())
		}
		n := r.Counts()
		var hole *consumer.HoleError
		switch {
		case compact && (!errors.Is(err, io.EOF) || n.Data != want || n.Data+n.Compacted != int64(end) || n.Gap != 0):
			t.Errorf("loaded %+v, %v; want %d records of %d offsets", n, err, want, end)
		case !compact && !errors.As(err, &hole):
			t.Errorf("holes of a topic that was never compacted: %v", err)
		}
		r.Close()
	}
}

// between fetches at every hundredth offset: in a hole with what follows it.
func between(t *testing.T, conn *wire.Conn) {
	t.Helper()
	for at := int64(0); at < 10_000; at += 100 {
		part := get(t, conn, "states", at)
		if part.ErrorCode != 0 {
			t.Fatalf("fetch at %d: code %d", at, part.ErrorCode)
		}
		first, _, err := record.Split(part.RecordBatches)
		if err != nil || int64(first.LastOffset()) < at {
			t.Fatalf("fetch at %d: %v, first batch %v", at, err, first)
		}
	}
}

// keyedBatch is a batch of one record; an empty key is none.
func keyedBatch(t *testing.T, key, value string) record.Batch {
	t.Helper()
	w := record.NewBuilder(record.None, 0)
	r := record.Record{Timestamp: now(), Key: []byte(key), Value: []byte(value)}
	if key == "" {
		r.Key = nil
	}
	w.Append(r)
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCompactedTopicRules: records need keys, and DeleteRecords a policy that
// deletes.
func TestCompactedTopicRules(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "compact", 1, "cleanup.policy", "compact")
		createTopic(t, c, "both", 1, "cleanup.policy", "compact,delete", "segment.bytes", "100", "min.cleanable.dirty.ratio", "0")
		for _, topic := range []string{"compact", "both"} {
			if got := put(t, c, topic, keyedBatch(t, "", "no key")); got.ErrorCode != kerr.InvalidRecord.Code {
				t.Errorf("%s: a record without key: code %d", topic, got.ErrorCode)
			}
			for i := range 5 {
				if got := put(t, c, topic, keyedBatch(t, fmt.Sprint("k", i%2), "v")); got.ErrorCode != 0 {
					t.Fatal(got.ErrorCode)
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := deleteTo(t, c, "compact", 2); got.ErrorCode != kerr.PolicyViolation.Code {
			t.Errorf("delete of a compacted topic's records: code %d", got.ErrorCode)
		}
		if got := deleteTo(t, c, "both", 3); got.ErrorCode != 0 || got.LowWatermark != 3 {
			t.Errorf("delete of records: code %d, low watermark %d", got.ErrorCode, got.LowWatermark)
		}
		for _, bad := range [][]string{
			{"min.cleanable.dirty.ratio", "1.5"},
			{"min.cleanable.dirty.ratio", "half"},
			{"max.compaction.lag.ms", "0"},
			{"min.compaction.lag.ms", "10", "max.compaction.lag.ms", "9"},
		} {
			if got := tryCreate(t, c, "bad", 1, bad...); got.ErrorCode != kerr.InvalidConfig.Code {
				t.Errorf("%v: code %d %s", bad, got.ErrorCode, deref(got.ErrorMessage))
			}
		}
	})
}

// TestHeldRecordsAreNotCompacted until the load job that needs them has moved on.
func TestHeldRecordsAreNotCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, fs: vfs.NewMem(), dir: "/data"}
		c.start()
		conn := c.dial()
		createTopic(t, conn, "t", 1, "cleanup.policy", "compact", "segment.bytes", "100", "min.cleanable.dirty.ratio", "0", "retention.hold.job", "0:5")
		for i := range 10 {
			if got := put(t, conn, "t", keyedBatch(t, "k", fmt.Sprint(i))); got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
		}
		values := func() string {
			var out []string
			for _, r := range c.all("t") {
				out = append(out, string(r.Value))
			}
			return strings.Join(out, " ")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := values(); got != "4 5 6 7 8 9" {
			t.Errorf("held from 5 on: %s", got)
		}
		if code := altered(t, conn, "t", "retention.hold.job", kmsg.IncrementalAlterConfigOpSet, "0:9"); code != 0 {
			t.Fatal(code)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := values(); got != "8 9" {
			t.Errorf("held from 9 on: %s", got)
		}
		_ = conn.Close()
		c.stop()
	})
}

// TestCommittedOffsetsAreCompacted: a million commits of a hundred partitions
// end in a log of a few segments, from which all of them are read again.
func TestCommittedOffsetsAreCompacted(t *testing.T) {
	if testing.Short() {
		t.Skip("a million commits")
	}
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, fs: vfs.NewMem(), dir: "/data"}
		c.start()
		conn := c.dial()
		const partitions = 100
		rounds := 10_000
		if raceEnabled {
			rounds = 1000
		}
		createTopic(t, conn, "t", partitions)
		commit := func(n int) {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.Generation = "g", -1
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = "t"
			for p := range int32(partitions) {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = p, int64(n)
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
			for _, p := range askAt[*kmsg.OffsetCommitResponse](t, conn, 8, r).Topics[0].Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("commit %d of partition %d: code %d", n, p.Partition, p.ErrorCode)
				}
			}
		}
		serving(t, conn, "g")
		if code := altered(t, conn, "__consumer_offsets", "segment.bytes", kmsg.IncrementalAlterConfigOpSet, "1048576"); code != 0 {
			t.Fatal(code)
		}
		for n := range rounds {
			commit(n)
			if n%(rounds/10) == rounds/10-1 {
				time.Sleep(31 * time.Second)
				synctest.Wait()
			}
		}
		_ = conn.Close()
		m := c.broker.Metrics()
		if m.CleanRemoved < int64(partitions*rounds*9/10) || m.LogBytes > 3<<20 {
			t.Errorf("%d records were removed, %d bytes are left", m.CleanRemoved, m.LogBytes)
		}
		t.Logf("%d runs read %d bytes and wrote %d; %d bytes are left", m.CleanRuns, m.CleanRead, m.CleanWritten, m.LogBytes)
		c.stop()
		c.start()
		conn = c.dial()
		serving(t, conn, "g")
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = "g"
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic = "t"
		for p := range int32(partitions) {
			rt.Partitions = append(rt.Partitions, p)
		}
		r.Topics = append(r.Topics, rt)
		for _, p := range askAt[*kmsg.OffsetFetchResponse](t, conn, 7, r).Topics[0].Partitions {
			if p.ErrorCode != 0 || p.Offset != int64(rounds)-1 {
				t.Errorf("partition %d: offset %d, code %d", p.Partition, p.Offset, p.ErrorCode)
			}
		}
		_ = conn.Close()
		c.stop()
	})
}

// serving waits until the group has a coordinator that has read its
// offsets.
func serving(t *testing.T, conn *wire.Conn, group string) {
	t.Helper()
	for ctx, cancel := context.WithTimeout(t.Context(), time.Minute); ; {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = group
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = group
		if askAt[*kmsg.FindCoordinatorResponse](t, conn, 3, find).ErrorCode == 0 &&
			askAt[*kmsg.OffsetFetchResponse](t, conn, 7, r).ErrorCode == 0 {
			cancel()
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no coordinator")
		}
	}
}

// TestJournalIsCompacted: what the broker's own journal says stays the same.
func TestJournalIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, fs: vfs.NewMem(), dir: "/data"}
		c.start()
		conn := c.dial()
		const name = "__sawlog_jobs"
		j, err := c.broker.Journal(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if code := altered(t, conn, name, "segment.bytes", kmsg.IncrementalAlterConfigOpSet, "1048576"); code != 0 {
			t.Fatal(code)
		}
		want := map[string]string{}
		const entries, keys = 6000, 30
		for i := range entries {
			key, value := fmt.Sprint("run ", i%keys), strings.Repeat(fmt.Sprint(i, " "), 100)
			if i%keys == 7 {
				value = ""
			}
			entry := []byte(value)
			if want[key] = value; value == "" {
				entry = nil
				delete(want, key)
			}
			if err := j.Append(t.Context(), []byte(key), entry); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for range 2 {
			got, n := map[string]string{}, 0
			err := j.Replay(t.Context(), func(key, value []byte) error {
				n++
				if got[string(key)] = string(value); value == nil {
					delete(got, string(key))
				}
				return nil
			})
			if err != nil || !maps.Equal(got, want) || n > entries/2 {
				t.Errorf("%d entries are left, %d keys of %d, %v", n, len(got), len(want), err)
			}
			c.stop()
			c.start()
			if j, err = c.broker.Journal(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		c.stop()
	})
}
