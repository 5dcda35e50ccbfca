package controller

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"sawlog/offsets"
)

// rewrite tells whether files in testdata are to be written anew; the flag is
// that of the scripts.
func rewrite() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// examples has every record type, each field with a value of its own.
func examples() []record {
	text, leader, recovering := "604800000", offsets.BrokerID(2), true
	replicas, isr, elr := []offsets.BrokerID{2, 3, 1}, []offsets.BrokerID{2}, []offsets.BrokerID{3, 1}
	topic := offsets.TopicID{0x11, 0x12, 15: 0x1f}
	return []record{
		&imageRecord{Index: 0x0102, Sequence: 0x0304},
		&clusterRecord{ID: "nAq1Zt5vQJ6w"},
		&formatRecord{Level: 1},
		&brokerRecord{Broker{
			ID: 2, Incarnation: UUID{0x21, 15: 0x22}, Directory: UUID{0x23, 15: 0x24}, Epoch: 0x25,
			Endpoints: []Endpoint{{"peer", "10.0.0.2", 9093}, {"plain", "kafka.example", 9092}}, Rack: "east", Fenced: true, ShuttingDown: true, Full: true,
		}},
		&brokerChangeRecord{ID: 2, Epoch: 0x25, Fenced: false, ShuttingDown: true, Full: true},
		&brokerRemovalRecord{ID: 2, Epoch: 0x25},
		&topicRecord{Name: "page.views", ID: topic, Internal: true},
		&topicRemovalRecord{ID: topic},
		&partitionRecord{topic, Partition{Index: 0, Leader: 2, Epoch: 3, PartitionEpoch: 4, Recovering: true, Replicas: replicas, ISR: isr, ELR: elr}},
		&partitionChangeRecord{Topic: topic, Index: 0, PartitionEpoch: 5},
		&partitionChangeRecord{Topic: topic, Index: 0, PartitionEpoch: 5, Leader: &leader, Replicas: &replicas, ISR: &isr, ELR: &elr, Recovering: &recovering},
		&configRecord{Resource{TopicResource, "page.views"}, "retention.ms", &text},
		&configRecord{Resource{BrokerResource, ""}, "num.partitions", nil},
		&producerIDsRecord{Broker: 2, BrokerEpoch: 0x25, Next: 3000},
		&nodeIDRecord{Next: 4},
		// of a reassignment that is under way
		&partitionRecord{topic, Partition{Index: 0, Leader: 2, Epoch: 3, PartitionEpoch: 4, Replicas: replicas, ISR: isr, Adding: []offsets.BrokerID{3}, Removing: []offsets.BrokerID{1}}},
		&partitionChangeRecord{Topic: topic, Index: 0, PartitionEpoch: 5, Adding: &isr, Removing: &elr},
		// of a broker that tells which format levels it knows
		&brokerRecord{Broker{ID: 2, Incarnation: UUID{0x21, 15: 0x22}, Directory: UUID{0x23, 15: 0x24}, Levels: Levels{1, 2}}},
	}
}

// golden compares bytes with a file of hex lines, each with a title.
func golden(t *testing.T, name string, titles []string, values [][]byte) {
	t.Helper()
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, "# %s\n%s\n", titles[i], hex.EncodeToString(v))
	}
	path := filepath.Join("testdata", name)
	if rewrite() {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s: the format has changed; is\n%swas\n%s", path, b.String(), want)
	}
}

// readGolden reads the values of a golden file.
func readGolden(t testing.TB, name string) (values [][]byte) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(src)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			v, err := hex.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
	}
	return values
}

func TestGoldenRecords(t *testing.T) {
	var titles []string
	var values [][]byte
	seen := make(map[recordType]bool)
	for _, r := range examples() {
		titles = append(titles, strings.TrimPrefix(fmt.Sprintf("%T", r), "*controller."))
		values = append(values, appendRecord(nil, r))
		seen[r.kind()] = true
	}
	for k := range recordType(255) {
		if _, known := newRecord(k); known != seen[k] {
			t.Errorf("record type %d: known %v, has an example %v", k, known, seen[k])
		}
	}
	golden(t, "records.hex", titles, values)
	for i, src := range readGolden(t, "records.hex") {
		r, err := decodeRecord(src)
		if err != nil || !reflect.DeepEqual(r, examples()[i]) {
			t.Errorf("%s: read as %+v, %v", titles[i], r, err)
		}
	}
}

func TestGoldenFiles(t *testing.T) {
	sum := sha256.Sum256([]byte("state"))
	e := entry{Term: 7, Sequence: 1024, Before: &sum}
	for _, r := range examples()[1:3] {
		e.add(appendRecord(nil, r))
	}
	values := map[string][]byte{"CurrentTerm": {0, 0, 0, 0, 0, 0, 0, 7}, "LastVoteCand": []byte("1.00ff")}
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: snapshotName(9, 7), Index: 9, Term: 7, ConfigurationIndex: 1,
		Configuration: raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: "1.00ff", Address: "1.00ff"}}},
	}
	body := encodeImage(emptyImage())
	meta.Size = int64(len(body))
	golden(t, "files.hex", []string{"entry", "image without anything", "stable", "snapshot"},
		[][]byte{e.encode(), body, encodeStable(values), encodeSnapshot(meta, body)})

	file := readGolden(t, "files.hex")
	got, records, err := decodeEntry(file[0])
	if err != nil || got.Term != 7 || got.Sequence != 1024 || *got.Before != sum || !reflect.DeepEqual(records, examples()[1:3]) {
		t.Errorf("entry: read as %+v %v, %v", got, records, err)
	}
	if im, err := decodeImage(file[1]); err != nil || im.Hash() != emptyImage().Hash() {
		t.Errorf("image: %v", err)
	}
	if v, err := decodeStable(file[2]); err != nil || !reflect.DeepEqual(v, values) {
		t.Errorf("stable: read as %v, %v", v, err)
	}
	if m, b, err := decodeSnapshot(file[3]); err != nil || !reflect.DeepEqual(m, meta) || !bytes.Equal(b, body) {
		t.Errorf("snapshot: read as %+v, %v", m, err)
	}
}

// TestUnknownIsRefused: what a newer build might write stops this one.
func TestUnknownIsRefused(t *testing.T) {
	valid := appendRecord(nil, &clusterRecord{"c"})
	tagged := append(slices.Clone(valid[:len(valid)-1]), 1, 0, 0)
	change := appendRecord(nil, &partitionChangeRecord{})
	for name, src := range map[string][]byte{
		"type":           {200, 0, 0},
		"type zero":      {0, 0, 0},
		"version":        {byte(clusterType), 1, 2, 'c', 0},
		"tag":            tagged,
		"tag of change":  append(slices.Clone(change[:len(change)-1]), 1, 9, 0),
		"tags unordered": append(slices.Clone(change[:len(change)-1]), 2, 4, 1, 1, 0, 4, 0, 0, 0, 1),
		"tag twice":      append(slices.Clone(change[:len(change)-1]), 2, 4, 1, 1, 4, 1, 1),
		"tag too long":   append(slices.Clone(change[:len(change)-1]), 1, 4, 2, 1, 1),
		"flags":          {byte(brokerChangeType), 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 8, 0},
		"boolean":        append(append(append([]byte{byte(topicType), 0, 2, 'a'}, make([]byte, 16)...), 2), 0),
		"null string":    {byte(clusterType), 0, 0, 0},
		"long varint":    {byte(clusterType), 0, 0x82, 0x00, 'c', 0},
		"left over":      append(slices.Clone(valid), 0),
		"empty":          {},
		"huge length":    {byte(clusterType), 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if r, err := decodeRecord(src); !errors.Is(err, errFormat) {
			t.Errorf("%s: read as %+v, %v", name, r, err)
		}
	}
	for i, src := range readGolden(t, "files.hex") {
		src[0]++
		_, _, err1 := decodeEntry(src)
		_, err2 := decodeImage(src)
		_, err3 := decodeStable(src)
		_, _, err4 := decodeSnapshot(src)
		for j, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, errFormat) {
				t.Errorf("file %d read as %d: %v", i, j, err)
			}
		}
	}
}

// TestDamage: any bit flipped and any cut is noticed where a checksum stands.
func TestDamage(t *testing.T) {
	file := readGolden(t, "files.hex")
	check := func(name string, src []byte, decode func([]byte) error) {
		for i := range len(src) * 8 {
			bad := slices.Clone(src)
			bad[i/8] ^= 1 << (i % 8)
			if err := decode(bad); !errors.Is(err, errFormat) {
				t.Errorf("%s, bit %d flipped: %v", name, i, err)
			}
		}
		for n := range src {
			if err := decode(src[:n]); !errors.Is(err, errFormat) {
				t.Errorf("%s, cut at %d: %v", name, n, err)
			}
		}
	}
	check("stable", file[2], func(b []byte) error { _, err := decodeStable(b); return err })
	check("snapshot", file[3], func(b []byte) error { _, _, err := decodeSnapshot(b); return err })
}

func FuzzRecord(f *testing.F) {
	for _, r := range examples() {
		f.Add(appendRecord(nil, r))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := decodeRecord(src)
		if err != nil {
			return
		}
		if again := appendRecord(nil, r); !bytes.Equal(again, src) {
			t.Fatalf("%x is read as %+v, which is %x", src, r, again)
		}
		w := newWorld()
		w.join(t, 2)
		if im, err := w.image.apply(3, []record{r}); err == nil {
			if copied, err := decodeImage(encodeImage(im)); err != nil || copied.Hash() != im.Hash() {
				t.Fatalf("%+v leads to an image that can't be kept: %v", r, err)
			}
		}
	})
}

func FuzzEntry(f *testing.F) {
	for _, src := range readGolden(f, "files.hex") {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if e, records, err := decodeEntry(src); err == nil {
			again := entry{Term: e.Term, Sequence: e.Sequence, Before: e.Before}
			for _, r := range records {
				again.add(appendRecord(nil, r))
			}
			if !bytes.Equal(again.encode(), src) {
				t.Fatalf("%x is written again as %x", src, again.encode())
			}
		}
		if im, err := decodeImage(src); err == nil {
			if copied, err := decodeImage(encodeImage(im)); err != nil || copied.Hash() != im.Hash() {
				t.Fatalf("an image can't be kept: %v", err)
			}
		}
		if values, err := decodeStable(src); err == nil && len(values) > len(src) {
			t.Fatal("more values than bytes")
		}
	})
}
