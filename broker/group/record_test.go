package group

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"sawlog/broker/record"
	"sawlog/offsets"
)

var update = flag.Bool("update", false, "write the golden files anew")

func exampleSnapshot() Snapshot {
	return Snapshot{
		ProtocolType: "consumer", Generation: 5, Protocol: "range", Leader: "a-1", Since: 1_700_000_000_000,
		Members: []SnapshotMember{
			{"a-1", "", "client", "/10.0.0.1", 60_000, 10_000, []byte{0, 1}, []byte{2}},
			{"i-1", "i", "client", "/10.0.0.2", 30_000, 6000, []byte{3}, nil},
		},
	}
}

// TestRecordGolden: keys and values are Kafka's, byte for byte.
func TestRecordGolden(t *testing.T) {
	tp := offsets.TopicPartition{Topic: "topic", Partition: 258}
	c := offsets.Committed{Offset: 0x0102030405060708, LeaderEpoch: 9, Metadata: "note", Time: 1_700_000_000_001, Expires: -1}
	withID, expiring := c, c
	withID.TopicID = offsets.TopicID{0xaa, 15: 0xbb}
	expiring.Expires = 1_800_000_000_000
	var out strings.Builder
	for _, r := range []struct {
		what string
		record.Record
	}{
		{"offset", offsetRecord(1, "group", tp, &c)},
		{"offset with a topic id", offsetRecord(1, "group", tp, &withID)},
		{"offset with an expiry", offsetRecord(1, "group", tp, &expiring)},
		{"deleted offset", offsetTombstone(1, "group", tp)},
		{"group", groupRecord(1, "group", exampleSnapshot())},
		{"empty group", groupRecord(1, "group", Snapshot{ProtocolType: "consumer", Generation: 6, Since: 7})},
		{"deleted group", groupTombstone(1, "group")},
	} {
		value := "null"
		if r.Value != nil {
			value = hex.EncodeToString(r.Value)
		}
		fmt.Fprintf(&out, "%s\n  key   %x\n  value %s\n", r.what, r.Key, value)
	}
	const file = "testdata/records.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(golden) {
		t.Errorf("records:\n%s\nwant\n%s", out.String(), golden)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	tp := offsets.TopicPartition{Topic: "t", Partition: 3}
	for _, c := range []offsets.Committed{
		{Offset: 5, LeaderEpoch: 7, Metadata: "m", Time: 8, Expires: -1},
		{Offset: 5, LeaderEpoch: offsets.NoEpoch, Time: 8, Expires: -1, TopicID: offsets.TopicID{1}},
		{Offset: 5, LeaderEpoch: offsets.NoEpoch, Time: 8, Expires: 99},
	} {
		r := offsetRecord(1, "g", tp, &c)
		change, ok, err := decodeRecord(&r)
		if err != nil || !ok || change.Group != "g" || change.Topic != "t" || change.Partition != 3 || *change.Commit != c {
			t.Errorf("%+v came back as %+v %v %v", c, change, ok, err)
		}
	}
	r := groupRecord(1, "g", exampleSnapshot())
	change, ok, err := decodeRecord(&r)
	if err != nil || !ok || change.Group != "g" || change.Topic != "" {
		t.Fatalf("%+v %v %v", change, ok, err)
	}
	back, err := decodeSnapshot(change.Meta)
	want := exampleSnapshot()
	want.Members[1].Assignment = []byte{}
	if back.Members[1].Assignment == nil {
		back.Members[1].Assignment = []byte{}
	}
	if err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%+v %v", back, err)
	}
}

// TestForeignRecords: other groups' keys and senseless records are passed over,
// and what comes after them is still applied.
func TestForeignRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p := r.PartitionFor("g")
		b := record.NewBuilder(record.None, 0)
		b.Append(record.Record{Key: []byte{0, 3, 0, 1, 'g'}, Value: []byte{0, 0}}) // a group of another type
		b.Append(record.Record{Key: []byte{0}, Value: []byte{1}})
		b.Append(record.Record{Key: offsetRecordKey("g", offsets.TopicPartition{Topic: "t"}), Value: []byte{0, 99}})
		b.Append(record.Record{Key: groupRecordKey("g"), Value: []byte{0, 3, 0}})
		b.Append(record.Record{Value: []byte("no key")})
		good := offsets.Committed{Offset: 5, Expires: -1}
		b.Append(offsetRecord(1, "g", offsets.TopicPartition{Topic: "t", Partition: 1}, &good))
		batch, err := b.Batch()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.topic.append(t.Context(), p, 1, batch); err != nil {
			t.Fatal(err)
		}
		r.Advance(p, r.topic.log(p).high)
		settle()
		if have := r.committed("g", "t", 1); have != 5 {
			t.Errorf("offset %d", have)
		}
		if n := r.Metrics().Skipped; n != 4 {
			t.Errorf("%d records passed over, want 4", n)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	tp := offsets.TopicPartition{Topic: "t", Partition: 3}
	for _, r := range []record.Record{
		offsetRecord(1, "g", tp, &offsets.Committed{Offset: 5, Expires: -1, TopicID: offsets.TopicID{1}}),
		offsetRecord(1, "g", tp, &offsets.Committed{Offset: 5, Expires: 4}),
		groupRecord(1, "g", exampleSnapshot()),
	} {
		f.Add(r.Key, r.Value)
	}
	f.Add([]byte{0, 2, 0, 1, 'g'}, []byte{0, 3, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, ok, err := decodeRecord(&record.Record{Key: key, Value: value})
		if err != nil || !ok {
			return
		}
		if c.Commit != nil {
			tp := offsets.TopicPartition{Topic: c.Topic, Partition: c.Partition}
			r := offsetRecord(1, c.Group, tp, c.Commit)
			again, ok, err := decodeRecord(&r)
			// An expiry takes the place of epoch and id; a negative one is none.
			if err != nil || !ok || again.Commit.Offset != c.Commit.Offset || again.Commit.Metadata != c.Commit.Metadata {
				t.Errorf("%+v came back as %+v %v", c.Commit, again.Commit, err)
			}
		}
		if c.Meta != nil {
			s, err := decodeSnapshot(c.Meta)
			if err != nil {
				t.Fatalf("kept, yet not readable: %v", err)
			}
			g := Restore("g", Rules{}, 1, s)
			if err := g.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// BenchmarkLoad elects a coordinator over a log of 100,000 offsets it has to
// apply from the beginning.
func BenchmarkLoad(b *testing.B) {
	topic := newFakeTopic()
	for i := range 1000 {
		w := record.NewBuilder(record.None, 0)
		for j := range 100 {
			group := fmt.Sprint("group-", (i*100+j)%5000)
			w.Append(offsetRecord(1, group, offsets.TopicPartition{Topic: "t", Partition: int32(i % 20)}, &offsets.Committed{Offset: offsets.Offset(j), Expires: -1}))
		}
		batch, err := w.Batch()
		if err != nil {
			b.Fatal(err)
		}
		batch.Stamp(offsets.Offset(i*100), 1)
		topic.log(0).batches = append(topic.log(0).batches, batch)
	}
	topic.log(0).high = 100_000
	for b.Loop() {
		store, err := offsets.OpenStore(offsets.StoreConfig{Path: filepath.Join(b.TempDir(), "offsets.db"), Mmap: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		co, err := New(topic.config(store))
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan int16, 1)
		s := co.shards[0]
		s.mu.Lock()
		s.applied.waiting = append(s.applied.waiting, applyWait{99_999, 1, done})
		s.mu.Unlock()
		co.Advance(0, 100_000)
		if code := <-done; code != 0 {
			b.Fatal(code)
		}
		b.StopTimer()
		if err := co.Close(); err != nil {
			b.Fatal(err)
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// TestLoadIsNoWait keeps the applied state's promise: an election over a log of
// any size that is applied already needs two reads of its end.
func TestLoadIsNoWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 50 {
			if code := r.commit(outsider("g"), "t", 0, int64(i)); code != "OK" {
				t.Fatal(code)
			}
		}
		p := r.PartitionFor("g")
		r.Resigned(p)
		settle()
		r.topic.reads = nil
		r.topic.log(p).epoch = 2
		r.Elected(p, 2)
		synctest.Wait()
		end := r.topic.log(p).end()
		for _, from := range r.topic.reads {
			if from < end-1 {
				t.Errorf("read from %d of %d", from, end)
			}
		}
		if have := r.committed("g", "t", 0); have != 49 {
			t.Errorf("offset %d", have)
		}
	})
}
