package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"sawlog/broker/record"
	"sawlog/loader"
)

// commitOf reads a ledger record.
func commitOf(t *testing.T, root string, number int64) loader.Record {
	t.Helper()
	var rec loader.Record
	if err := json.Unmarshal(mustRead(t, filepath.Join(root, loader.RecordPath(number))), &rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestProofRetentionPassedTheStart deletes records a data set has not loaded:
// an error until a person accepts it, and then the rest comes once.
func TestProofRetentionPassedTheStart(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.lines("gone", 200)
	path, root := n.job("gone", textJob)
	if o := n.outcome(0, "run", path, "--range", "gone/0=0..100"); o.Rows != 100 {
		t.Fatalf("%d rows of 100", o.Rows)
	}
	n.trim("gone", 150)
	before := treeOf(t, root)
	for range 2 { // it stays an error
		n.refused(8, []string{"gone/0", "100", "150", "--accept-gap"}, "run", path)
	}
	n.refused(8, []string{"gone/0"}, "plan", path)
	if err := sameTree(before, treeOf(t, root)); err != nil {
		t.Errorf("a refused run changed files: %v", err)
	}
	o := n.outcome(0, "run", path, "--accept-gap", "the disk was too small in November")
	if o.Rows != 50 || len(o.Ranges) != 1 || o.Ranges[0].Gap != 50 || o.Ranges[0].Data != 50 {
		t.Errorf("after the gap: %+v", o)
	}
	rec := commitOf(t, root, 1)
	if rec.Why != "the disk was too small in November" || rec.By == "" {
		t.Errorf("the ledger keeps by %q, why %q", rec.By, rec.Why)
	}
	if o := n.outcome(0, "run", path); o.Status != "covered" {
		t.Errorf("once more: %s", o.Status)
	}
	if rows, distinct := rowsOf(t, root); rows != 150 || distinct != 150 {
		t.Errorf("%d rows, %d different, want 150", rows, distinct)
	}
	n.clean(root)
	// What is gone cannot be made again, and nothing is written in its place.
	before = treeOf(t, root)
	n.refused(8, []string{"gone/0"}, "rerun", "0", "--root", root)
	if err := sameTree(before, treeOf(t, root)); err != nil {
		t.Errorf("a refused rerun changed files: %v", err)
	}
}

// sendRaw produces one batch as an old producer would write it.
func (n *node) sendRaw(topic string, records ...record.Record) {
	n.t.Helper()
	b := record.NewBuilder(record.None, 0)
	for _, r := range records {
		b.Append(r)
	}
	batch, err := b.Batch()
	if err != nil {
		n.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	c := n.client(kgo.MaxVersions(kversion.V2_8_0())) // names, not ids, of topics
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		n.t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
		n.t.Fatalf("produce: error code %d", p.ErrorCode)
	}
}

// TestProofNoTimestamp loads records without a timestamp: by a time of their
// own they are rows, by the record's they are bad records, never of 1969.
func TestProofNoTimestamp(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.run("topic", "create", "old", "--partitions", "1", "--config", "retention.ms=-1")
	n.sendRaw("old", record.Record{Timestamp: -1, Value: []byte(`{"at":"2026-11-28T10:30:00Z","n":1}`)})
	good := time.Date(2026, 11, 28, 11, 0, 0, 0, time.UTC)
	n.sendRaw("old", record.Record{Timestamp: good.UnixMilli(), Value: []byte(`{"at":"2026-11-28T10:31:00Z","n":2}`)})
	path, root := n.job("old", numbersJob+"metadata_columns: [_offset, _timestamp]\n")
	if o := n.outcome(0, "run", path); o.Rows != 2 || o.Quarantined != 0 {
		t.Errorf("by their own time: %+v", o)
	}
	var got [][]any
	duck(t, root, "select dt, hr, n, _timestamp is null from ROWS order by n", &got)
	if len(got) != 2 || got[0][0] != "2026-11-28" || got[0][1] != "10" || got[0][3] != true || got[1][3] != false {
		t.Errorf("rows %v", got)
	}
	other := filepath.Join(n.dir, "warehouse", "by-record")
	byRecord := n.write("by-record.yaml", "name: by-record\nsource: {topics: [old]}\noutput: {root: 'file://"+other+"'}\ndecode: {value: json}\n")
	o := n.outcome(0, "run", byRecord)
	if o.Rows != 1 || o.Quarantined != 1 || len(o.Hours) != 1 || !strings.HasPrefix(o.Hours[0].Hour, "2026-11-28T11") {
		t.Errorf("by the record's time: %+v", o)
	}
	bad := string(n.run("out", "head", "--root", other, "--quarantine"))
	if !strings.Contains(bad, `"reason":"time"`) || !strings.Contains(bad, `"offset":0`) {
		t.Errorf("quarantine: %s", bad)
	}
	n.clean(other)
}

// TestProofTombstones loads null values by both policies, and the empty value,
// which is none.
func TestProofTombstones(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.run("topic", "create", "graves", "--partitions", "1")
	at := time.Date(2026, 11, 29, 7, 30, 0, 0, time.UTC)
	n.send([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())},
		&kgo.Record{Topic: "graves", Key: []byte("a"), Value: []byte("alive"), Timestamp: at},
		&kgo.Record{Topic: "graves", Key: []byte("a"), Value: nil, Timestamp: at},
		&kgo.Record{Topic: "graves", Key: nil, Value: nil, Timestamp: at},
		&kgo.Record{Topic: "graves", Key: []byte(""), Value: []byte(""), Timestamp: at})
	path, root := n.job("graves", textJob)
	o := n.outcome(0, "run", path)
	if o.Rows != 2 || o.Skipped != 2 || o.Quarantined != 0 || o.Ranges[0].End != 4 {
		t.Errorf("skipping: %+v", o)
	}
	if o := n.outcome(0, "run", path); o.Status != "covered" {
		t.Errorf("once more: %s", o.Status)
	}
	n.clean(root)
	kept := filepath.Join(n.dir, "warehouse", "kept")
	keep := n.write("kept.yaml", "name: kept\nsource: {topics: [graves]}\noutput: {root: 'file://"+kept+
		"'}\ndecode: {value: text, tombstones: row}\nmetadata_columns: [_offset, _key, _tombstone]\n")
	if o := n.outcome(0, "run", keep); o.Rows != 4 || o.Skipped != 0 {
		t.Errorf("keeping: %+v", o)
	}
	var got [][]any
	duck(t, kept, "select _offset, value, _key is null, _tombstone, dt, hr from ROWS order by 1", &got)
	want := `[[0,"alive",false,false,"2026-11-29","07"],[1,null,false,true,"2026-11-29","07"],[2,null,true,true,"2026-11-29","07"],[3,"",false,false,"2026-11-29","07"]]`
	if raw, err := json.Marshal(got); err != nil || string(raw) != want {
		t.Errorf("rows %s, want %s", raw, want)
	}
}

// TestProofFramedBytes loads a JSON topic with Confluent-framed and other
// strange values: each is one bad record with its bytes and offset.
func TestProofFramedBytes(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "framed", "--partitions", "1")
	values := []string{
		`{"a":1}`, "\x00\x00\x00\x00\x01" + `{"a":1}`, "", "\x00\x00\x00\x01", `{"a":2}`, "[1]", "\xff\xfe", `{"a":3}`, `{"a":`,
	}
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: "framed", Value: []byte(v)})
	}
	n.send(nil, records...)
	path, root := n.job("framed", "decode: {value: json}\n")
	o := n.outcome(0, "run", path)
	if o.Rows != 3 || o.Quarantined != 6 {
		t.Errorf("%d rows, %d quarantined: %+v", o.Rows, o.Quarantined, o)
	}
	offsets := map[int]bool{}
	for line := range strings.Lines(string(n.run("out", "head", "--root", root, "--quarantine", "-n", "20"))) {
		var bad struct {
			Offset         int
			Reason, Detail string
		}
		if err := json.Unmarshal([]byte(line), &bad); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if bad.Reason == "" || bad.Detail == "" {
			t.Errorf("no reason: %s", line)
		}
		offsets[bad.Offset] = true
	}
	for _, at := range []int{1, 2, 3, 5, 6, 8} {
		if !offsets[at] {
			t.Errorf("offset %d is not in quarantine", at)
		}
	}
	n.clean(root)
}
