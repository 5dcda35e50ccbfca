package broker_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestVectorsThroughTheBroker produces every record set that was collected from
// clients and brokers, and reads back what was taken. testdata/vectors.txt says
// what is answered: the codes are those that Apache Kafka 4.4 was seen to answer,
// but for zstd in messages of before 0.11, which is refused as what it is. A
// batch that is taken is kept bit for bit, but for its offset and leader epoch,
// or where its greatest timestamp was wrong.
func TestVectorsThroughTheBroker(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	root := realData(t, "kafka-vectors")
	files, err := filepath.Glob(filepath.Join(root, "*", "*.recordset.bin"))
	if err != nil || len(files) < 90 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var got strings.Builder
	kept := 0
	for i, file := range files {
		sent, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(root, file) // both come from one place
		name = strings.TrimSuffix(name, ".recordset.bin")
		topic := fmt.Sprintf("v%d", i)
		createTopic(t, c, topic, 1, "retention.ms", "-1")
		answer := put(t, c, topic, bytes.Clone(sent))
		end := listed(t, c, topic, -1).Offset
		stored := get(t, c, topic, 0).RecordBatches
		fate := "refused"
		switch {
		case answer.ErrorCode == 0 && bytes.Equal(stored[16:], sent[16:len(stored)]):
			kept++
			fate = "kept"
			if rest := len(sent) - len(stored); rest > 0 {
				fate = fmt.Sprintf("kept, %d bytes passed over", rest)
			}
		case answer.ErrorCode == 0:
			fate = "corrected"
			if record.Batch(stored).CheckCRC() != nil || !bytes.Equal(stored[61:], sent[61:len(stored)]) {
				t.Errorf("%s: what is stored isn't what was sent", name)
			}
		case end != 0 || len(stored) != 0:
			t.Errorf("%s: code %d, and %d records are stored", name, answer.ErrorCode, end)
		}
		fmt.Fprintf(&got, "%s %d %s\n", name, answer.ErrorCode, fate)
		if answer.ErrorCode == 0 {
			if n := record.Batch(stored).Count(); int64(n) != end {
				t.Errorf("%s: %d records, and the log ends at %d", name, n, end)
			}
		}
	}
	golden := filepath.Join("testdata", "vectors.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		wanted := strings.Split(string(want), "\n")
		for i, line := range strings.Split(got.String(), "\n") {
			if i >= len(wanted) || line != wanted[i] {
				t.Errorf("line %d: %q, want %q", i+1, line, wanted[min(i, len(wanted)-1)])
			}
		}
	}
	if kept < 20 {
		t.Errorf("%d batches kept bit for bit", kept)
	}
}

// What four clients made of the same six records is read back as those records,
// from every version of Fetch.
func TestCapturedRecordsAreReadBack(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	files, err := filepath.Glob(realData(t, "kafka-vectors/client-captured") + "/*.recordset.bin")
	if err != nil {
		t.Fatal(err)
	}
	var first string
	n := 0
	for _, file := range files {
		base := filepath.Base(file)
		if strings.Contains(base, ".txn.") {
			continue
		}
		n++
		topic := strings.TrimSuffix(base, ".recordset.bin")
		id := createTopic(t, c, topic, 1, "retention.ms", "-1")
		if got := put(t, c, topic, readData(t, "kafka-vectors/client-captured/"+base)); got.ErrorCode != 0 {
			t.Fatalf("%s: code %d", topic, got.ErrorCode)
		}
		for version := int16(4); version <= 18; version++ {
			if version < 10 && strings.Contains(topic, ".zstd") {
				continue // those clients can't read it, whatever the topic says
			}
			r := fetchFrom(topic, 0, 0)
			r.Topics[0].TopicID = id
			lines := recordsOf(t, askAt[*kmsg.FetchResponse](t, c, version, r).Topics[0].Partitions[0].RecordBatches)
			if first == "" {
				first = lines
			}
			if lines != first || strings.Count(lines, "\n") != 6 {
				t.Errorf("%s, version %d:\n%.1000s\nwant\n%.1000s", topic, version, lines, first)
			}
		}
	}
	if n != 20 {
		t.Errorf("%d batches, want 20", n)
	}
}

// recordsOf prints the records of batches, one a line.
func recordsOf(t *testing.T, set []byte) string {
	t.Helper()
	var out strings.Builder
	for len(set) > 0 {
		b, rest, err := record.Split(set)
		if err != nil {
			t.Fatal(err)
		}
		set = rest
		var it record.Iterator
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			r := it.Record()
			fmt.Fprintf(&out, "%d %d %v %x=%v %x", r.Offset, r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value)
			for _, h := range r.Headers {
				fmt.Fprintf(&out, " %s:%v%x", h.Key, h.Value == nil, h.Value)
			}
			out.WriteByte('\n')
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
