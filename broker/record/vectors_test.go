package record

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// vectorDir finds the byte vectors, or skips the test by their name.
func vectorDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("SAWLOG_TEST_DATA")
	if dir == "" {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared", "data")
	}
	dir = filepath.Join(dir, "kafka-vectors")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatalf("kafka-vectors are required: %v", err)
		}
		t.Skipf("kafka-vectors are absent: %v", err)
	}
	return dir
}

// vector is one line of the index.
type vector struct {
	File     string
	Trailing int `json:"trailing_partial_bytes"`
	Entries  []struct {
		Pos, Size, Magic int
		CRCOk            bool `json:"crc_ok"`
		Codec            string
		BaseOffset       int64 `json:"base_offset"`
		BaseTS           int64 `json:"base_ts"`
		MaxTS            int64 `json:"max_ts"`
		PID              int64
		PEpoch           int16 `json:"pepoch"`
		BaseSeq          int32 `json:"base_seq"`
		Count            int32
		Attributes       int16
		Records          []vectorRecord
	}
}

type vectorRecord struct {
	Offset     int64
	TS         int64
	Key, Value *string
	Headers    [][2]*string
}

func readVectors(t testing.TB, dir, index string) []vector {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, index))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	var out []vector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s line %d: %v", index, len(out)+1, err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// shown prints bytes as the index does.
func shown(b []byte) string {
	switch {
	case b == nil:
		return "<null>"
	case !utf8.Valid(b):
		return "base64:" + base64.StdEncoding.EncodeToString(b)
	}
	return string(b)
}

func shownPtr(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// TestVectors decodes every batch of version 2 of the four client families and
// refuses every entry of an older format.
func TestVectors(t *testing.T) {
	dir := vectorDir(t)
	batches, records, old := 0, 0, 0
	for _, v := range append(readVectors(t, dir, "index.jsonl"), readVectors(t, dir, "index-client-captured.jsonl")...) {
		raw, err := os.ReadFile(filepath.Join(dir, v.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range v.Entries {
			name := fmt.Sprintf("%s at %d", v.File, e.Pos)
			b, _, err := Split(raw[e.Pos:])
			if e.Magic < 2 {
				old++
				if !errors.Is(err, ErrMagic) {
					t.Errorf("%s: magic %d: %v", name, e.Magic, err)
				}
				continue
			}
			if err != nil || len(b) != e.Size {
				t.Errorf("%s: %d bytes, want %d: %v", name, len(b), e.Size, err)
				continue
			}
			batches++
			if err := b.CheckCRC(); (err == nil) != e.CRCOk {
				t.Errorf("%s: crc ok must be %v: %v", name, e.CRCOk, err)
			}
			if strings.Contains(v.File, "v0_recordbatch_zstd") {
				continue // its codec bits lie: TestVectorsRefused
			}
			records += checkVectorRecords(t, name, b, e.Records)
			if b.Codec().String() != e.Codec || b.Count() != e.Count || b.ProducerID() != e.PID ||
				b.BaseSequence() != e.BaseSeq || b.Attributes() != e.Attributes || b.BaseTimestamp() != e.BaseTS || b.MaxTimestamp() != e.MaxTS {
				t.Errorf("%s: header differs: %+v", name, e)
			}
		}
		checkVectorTail(t, v, raw)
	}
	if batches < 80 || records < 1000 || old < 90 {
		t.Errorf("%d batches, %d records, %d old entries: too few were looked at", batches, records, old)
	}
	t.Logf("%d batches, %d records compared, %d old entries refused", batches, records, old)
}

func checkVectorRecords(t *testing.T, name string, b Batch, want []vectorRecord) int {
	var it Iterator
	if err := it.Reset(b); err != nil {
		t.Errorf("%s: %v", name, err)
		return 0
	}
	n := 0
	for it.Next() {
		got := it.Record()
		if n >= 40 || n >= len(want) { // the index keeps the first 40 and the last
			n++
			continue
		}
		w := want[n]
		n++
		if int64(got.Offset) != w.Offset || got.Timestamp != w.TS || shown(got.Key) != shownPtr(w.Key) || shown(got.Value) != shownPtr(w.Value) {
			t.Errorf("%s: record %d: got %d %d %.40s=%.40s, want %d %d %.40s=%.40s", name, n-1, got.Offset, got.Timestamp,
				shown(got.Key), shown(got.Value), w.Offset, w.TS, shownPtr(w.Key), shownPtr(w.Value))
		}
		if len(got.Headers) != len(w.Headers) {
			t.Errorf("%s: record %d: %d headers, want %d", name, n-1, len(got.Headers), len(w.Headers))
			continue
		}
		for i, h := range got.Headers {
			if shown(h.Key) != shownPtr(w.Headers[i][0]) || shown(h.Value) != shownPtr(w.Headers[i][1]) {
				t.Errorf("%s: record %d header %d: %s=%s", name, n-1, i, shown(h.Key), shown(h.Value))
			}
		}
	}
	if err := it.Err(); err != nil || n != int(b.Count()) {
		t.Errorf("%s: %d of %d records: %v", name, n, b.Count(), err)
	}
	return n
}

// checkVectorTail splits the record set to its end: what trails must be told
// from a whole batch.
func checkVectorTail(t *testing.T, v vector, raw []byte) {
	for _, e := range v.Entries {
		if e.Magic < 2 {
			return
		}
	}
	rest := raw
	for {
		b, next, err := Split(rest)
		if err != nil {
			if len(rest) != v.Trailing || len(rest) > 0 && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMagic) {
				t.Errorf("%s: %d bytes trail, want %d: %v", v.File, len(rest), v.Trailing, err)
			}
			return
		}
		if len(b)+len(next) != len(rest) {
			t.Fatalf("%s: split lost bytes", v.File)
		}
		rest = next
	}
}

// TestVectorsClientsAgree validates the batches four clients made of the same
// six records and compares what comes out.
func TestVectorsClientsAgree(t *testing.T) {
	dir := vectorDir(t)
	var first []string
	n := 0
	for _, v := range readVectors(t, dir, "index-client-captured.jsonl") {
		raw, err := os.ReadFile(filepath.Join(dir, v.File))
		if err != nil {
			t.Fatal(err)
		}
		b, rest, err := Split(raw)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s: %v, %d bytes left", v.File, err, len(rest))
		}
		facts, err := Validate(b, Rules{})
		if err != nil || facts.Corrected || facts.MaxTimestamp != b.MaxTimestamp() {
			t.Errorf("%s: %+v, %v", v.File, facts, err)
		}
		if b.IsTransactional() {
			continue
		}
		n++
		var lines []string
		var it Iterator
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			lines = append(lines, printRecord(it.Record()))
		}
		if first == nil {
			first = lines
		}
		if got, want := strings.Join(lines, "\n"), strings.Join(first, "\n"); got != want || len(lines) != 6 {
			t.Errorf("%s:\n%.2000s\nwant\n%.2000s", v.File, got, want)
		}
	}
	if n != 20 {
		t.Errorf("%d batches, want 20", n)
	}
}

func printRecord(r *Record) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %s=%s", r.Offset, r.Timestamp, shown(r.Key), shown(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s:%s", shown(h.Key), shown(h.Value))
	}
	return b.String()
}

// TestVectorsRefused states for each odd vector what a broker answers.
func TestVectorsRefused(t *testing.T) {
	dir := vectorDir(t)
	for file, want := range map[string]error{
		"kafkajs/v0_recordbatch_zstd.recordset.bin":                                   ErrInvalid,
		"sarama/empty-v2-count0.recordset.bin":                                        ErrInvalid,
		"sarama/control-v2-count0.recordset.bin":                                      ErrInvalid,
		"kafka-python/v2-control-abort.recordset.bin":                                 ErrCorrupt,
		"sarama/v1-zstd-2.recordset.bin":                                              ErrMagic,
		"sarama/v0-gzip-2.recordset.bin":                                              ErrMagic,
		"sarama/v2-truncated-batch.recordset.bin":                                     io.ErrUnexpectedEOF,
		"kafka-python/corrupt-length3.recordset.bin":                                  nil, // any error
		"kafkajs/fetch-v2_response_partial_messages_many_partitions.p0.recordset.bin": nil,
	} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := Split(raw)
		if err == nil {
			_, err = Validate(b, Rules{})
		}
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", file, err, want)
		}
	}
}

// TestVectorsCorrected has the greatest timestamp of sarama's batches, wrong on
// purpose, put right under a new CRC.
func TestVectorsCorrected(t *testing.T) {
	dir := vectorDir(t)
	for _, name := range []string{"v2-none", "v2-gzip", "v2-snappy-raw", "v2-lz4"} {
		raw, err := os.ReadFile(filepath.Join(dir, "sarama", name+".recordset.bin"))
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := Split(raw)
		if err != nil {
			t.Fatal(err)
		}
		before := b.CRC()
		facts, err := Validate(b, Rules{})
		if err != nil || !facts.Corrected || facts.MaxTimestamp != 1479847795005 {
			t.Errorf("%s: %+v, %v", name, facts, err)
		}
		if b.MaxTimestamp() != 1479847795005 || b.CRC() == before || b.CheckCRC() != nil {
			t.Errorf("%s: max timestamp %d, crc %08x", name, b.MaxTimestamp(), b.CRC())
		}
	}
}
