package compat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
)

// The tests here are of the differential test itself: a comparison that finds
// nothing proves nothing unless it can find something.

func TestCompareFindsWhatDiffers(t *testing.T) {
	kafka := answer{"A": "1", "T": "array", "T[a]": "present", "T[a].X": "1", "T[b]": "present", "T[b].X": "2", "U": "null"}
	sawlog := answer{"A": "2", "T": "array", "T[a]": "present", "T[a].X": "1", "T[c]": "present", "U": "array", "U[a]": "present"}
	var got []string
	for _, d := range compare(kafka, sawlog) {
		got = append(got, d.path+": "+d.kafka+" / "+d.sawlog)
	}
	want := []string{"A: 1 / 2", "T[b]: present / (absent)", "T[c]: (absent) / present", "U: null / array"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	if d := compare(kafka, kafka); d != nil {
		t.Errorf("of one and the same answer: %v", d)
	}
}

func TestExceptionsCoverWhatTheyName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exceptions.txt")
	if err := os.WriteFile(file, []byte("# no row\n* | Fetch | *Epoch: -1 / * | why\nproduce | * | A[*] | why\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := readExceptions(t, file)
	for _, c := range []struct {
		d    difference
		want bool
	}{
		{difference{scenario: "a", api: "Fetch", path: "X.Epoch", kafka: "-1", sawlog: "7"}, true},
		{difference{scenario: "a", api: "Fetch", path: "X.Epoch", kafka: "-10", sawlog: "7"}, false},
		{difference{scenario: "a", api: "Produce", path: "X.Epoch", kafka: "-1", sawlog: "7"}, false},
		{difference{scenario: "produce", api: "Produce", path: "A[x]"}, true},
		{difference{scenario: "produce", api: "Produce", path: "A[x].B"}, false},
		{difference{scenario: "produce-2", api: "Produce", path: "A[x]"}, false},
	} {
		if got := x.covers(c.d); got != c.want {
			t.Errorf("%+v: covered %v", c.d, got)
		}
	}
	for _, row := range x.rows {
		if !row.used {
			t.Errorf("row %+v was not used", row)
		}
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"a": "1", "b-2": "x${a}", "n": "10"}
	for text, want := range map[string]string{"${a}": "1", "${b-2}y": "x1y", "${n+5}${n+-5}": "155", "plain": "plain"} {
		if got, err := expand(text, vars); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${none}", "${b-2+1}"} {
		if got, err := expand(text, vars); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got, err := expand("${a}", map[string]string{"a": "${a}"}); err == nil {
		t.Errorf("a variable within itself: %q", got)
	}
}

// parse reads JSON as scenarios do.
func parse(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Batches written by hand are right unless they are told to be wrong.
func TestBatchesAreRight(t *testing.T) {
	for _, text := range []string{
		`{"batch": {"ts": 1000, "records": [["k", "v"], [null, null, "h", "x", "i", null]]}}`,
		`{"batch": {"ts": 1000, "n": 20, "pad": 50, "codec": 1, "pid": 5, "epoch": 0, "seq": 9}}`,
		`{"batch": {"ts": 1000, "n": 20, "pad": 50, "codec": 4}}`,
	} {
		b, err := bytesOf(parse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		batch, rest, err := record.Split(b)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %d bytes over", text, err, len(rest))
		}
		if _, err := record.Validate(batch, record.Rules{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	b, err := bytesOf(parse(t, `{"batch": {"ts": 1000, "records": [["k", "v"]], "crc": 1}}`))
	if err != nil || record.Batch(b).CheckCRC() == nil {
		t.Errorf("a CRC that should be wrong is right: %v", err)
	}
	if _, err := bytesOf(parse(t, `{"batch": {"nonsense": 1}}`)); err == nil {
		t.Error("a field no batch has was taken")
	}
}

func TestRequestsFromJSON(t *testing.T) {
	req, err := newRequest(int16(kmsg.Metadata), 12, parse(t, `{"Topics": [{"Topic": null, "TopicID": "000102030405060708090a0b0c0d0e0f"}], "AllowAutoTopicCreation": false}`))
	if err != nil {
		t.Fatal(err)
	}
	m := req.(*kmsg.MetadataRequest)
	if len(m.Topics) != 1 || m.Topics[0].Topic != nil || m.Topics[0].TopicID[15] != 15 || m.Version != 12 {
		t.Errorf("%+v", m)
	}
	for _, text := range []string{`{"Topic": 1}`, `{"Topics": 1}`, `{"Topics": [{"TopicID": "00"}]}`, `{"AllowAutoTopicCreation": 1}`} {
		if _, err := newRequest(int16(kmsg.Metadata), 12, parse(t, text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// Two answers that differ in ids, order and times only are one.
func TestNormaliser(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	at := func(id byte, port int32, when int64, names ...string) answer {
		m := kmsg.NewPtrMetadataResponse()
		m.Version = 12
		m.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: port}}
		for _, name := range names {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.TopicID = &name, [16]byte{id}
			m.Topics = append(m.Topics, topic)
		}
		y := newSymbols(start)
		a := y.normal(m)
		a["time"] = y.number(when)
		return a
	}
	one := at(1, 9092, 1_000_005, "a", "b")
	if d := compare(one, at(2, 1234, 1_000_999, "b", "a")); d != nil {
		t.Errorf("differences where there are none: %+v", d)
	}
	if d := compare(one, at(2, 1234, 999_999, "a", "c")); len(d) != 3 {
		t.Errorf("want the time and two topics: %+v", d)
	}
}
