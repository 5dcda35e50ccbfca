package compat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// sentRecord is a record as the programs of testdata read and print it; nil
// bytes are null ones.
type sentRecord struct {
	Topic   string       `json:"topic,omitempty"` // in answers only
	Key     []byte       `json:"key"`
	Value   []byte       `json:"value"`
	Time    int64        `json:"time"` // ms since 1970
	Headers []sentHeader `json:"headers"`
}

type sentHeader struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// sixRecords are the corner cases of a record.
func sixRecords(now time.Time) []sentRecord {
	at := now.Truncate(time.Second).UnixMilli()
	long := bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz ABC"), 200) // 8,000 bytes, compressible
	return []sentRecord{
		{Key: []byte("two headers"), Value: []byte("of one name"), Time: at, Headers: []sentHeader{{"a", []byte("1")}, {"a", []byte("2")}}},
		{Key: nil, Value: []byte("null key"), Time: at + 1},
		{Key: []byte("tombstone"), Value: nil, Time: at + 2},
		{Key: []byte{}, Value: []byte{}, Time: at + 3, Headers: []sentHeader{{"empty", []byte{}}, {"null", nil}}},
		{Key: []byte("not UTF-8"), Value: []byte{0xff, 0xfe, 0x00, 0xc3, 0x28, 0x80}, Time: at - 3_600_000},
		{Key: []byte("long"), Value: long, Time: at + 5},
	}
}

// jsonLines is the records as programs take them.
func jsonLines(t testing.TB, records []sentRecord) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, r := range records {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
	return out.Bytes()
}

// byTopic is what a program printed, its records by topic.
func byTopic(t testing.TB, out []byte) map[string][]sentRecord {
	t.Helper()
	all := map[string][]sentRecord{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r sentRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("not a record: %v: %s", err, lines.Bytes())
		}
		all[r.Topic] = append(all[r.Topic], r)
	}
	return all
}

// difference is the first one between records sent and read, empty when there
// is none.
func difference(got, want []sentRecord) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		g.Topic = ""
		if len(g.Headers) == 0 && len(w.Headers) == 0 {
			g.Headers, w.Headers = nil, nil
		}
		if !reflect.DeepEqual(g, w) {
			return fmt.Sprintf("record %d: got %.300s, want %.300s", i, asJSON(g), asJSON(w))
		}
	}
	return ""
}

// asJSON shows null and empty apart.
func asJSON(r sentRecord) string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
