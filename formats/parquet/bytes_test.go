package parquet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"sawlog/formats"
)

// The test binary runs itself with these set: to print the hash of the
// deterministic file, with arrow's own allocator if asked.
const (
	envHash  = "SAWLOG_TEST_PRINT_HASH"
	envPlain = "SAWLOG_TEST_PLAIN_ALLOCATOR"
)

func TestMain(m *testing.M) {
	if os.Getenv(envPlain) != "" {
		memory.DefaultAllocator = memory.NewGoAllocator()
	}
	if os.Getenv(envHash) != "" {
		fmt.Println(hashesOfFallbackFile())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fallbackSchema has columns whose dictionaries overflow and ones whose do not,
// nested and with nulls.
func fallbackSchema() *formats.Schema {
	return mustSchema("k string", "n int64", "low string", "d double", "l list<string>", "st struct<a:int64,b:string>", "u timestamp_us", "x decimal(30,2)")
}

// fallbackRows are the rows of the deterministic file: random ones, and for
// profile 2 some that come again at first, for its dictionaries must pay at
// first to be there at all.
func fallbackRows(n, profile int) [][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	rows := make([][]byte, n)
	for i := range rows {
		if profile > 1 && i%8000 == 0 {
			rnd = rand.New(rand.NewPCG(1, 2))
		}
		if profile > 1 && i%8000 < 2500 && i%40 == 0 {
			rnd = rand.New(rand.NewPCG(1, 3))
		}
		rows[i] = fmt.Appendf(nil, `{"k":"%016x","n":%d,"low":"v%d","d":%g,"l":["%x",null],"u":%d,"x":%d.25`,
			rnd.Uint64(), rnd.Int64N(1<<40), rnd.IntN(9), rnd.Float64(), rnd.Uint32(), rnd.Int64N(1<<50), rnd.Int64())
		if i%10 > 0 {
			rows[i] = fmt.Appendf(rows[i], `,"st":{"a":%d,"b":"%x"}`, i, rnd.Uint32())
		}
		rows[i] = append(rows[i], '}')
	}
	return rows
}

// writeFallback writes the deterministic file: several row groups, dictionary
// fallback in most columns.
func writeFallback(w io.Writer, rows int) error { return writeFallbackAs(w, rows, Profile) }

func writeFallbackAs(w io.Writer, rows, profile int) error {
	return writeFallbackWith(w, rows, Options{Profile: profile})
}

func writeFallbackWith(w io.Writer, rows int, o Options) error {
	s := fallbackSchema()
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		return err
	}
	o.PageBytes, o.DictBytes, o.RowGroupRows = 16<<10, 32<<10, 8000
	if o.Profile == 1 {
		o.DictBytes = 64 << 10
	}
	o.Metadata = map[string]string{"z": "1", "a": "2", "m": "3"}
	out, err := NewWriter(w, s, o)
	if err != nil {
		return err
	}
	c := formats.NewColumns(s)
	for i, value := range fallbackRows(rows, o.Profile) {
		if _, err := d.Append(c, &formats.Message{Offset: int64(i), Timestamp: 1, Value: value}); err != nil {
			return err
		}
		if c.Rows() == 4000 {
			if err := out.Write(c); err != nil {
				return err
			}
			c.Reset() // the same memory again: nothing may alias it
		}
	}
	if err := out.Write(c); err != nil {
		return err
	}
	return out.Close()
}

// hashesOfFallbackFile are the hashes of the file under all profiles.
func hashesOfFallbackFile() string {
	var out []string
	for profile := 1; profile <= Profile; profile++ {
		h := sha256.New()
		if err := writeFallbackAs(h, 24_000, profile); err != nil {
			return err.Error()
		}
		out = append(out, hex.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(out, " ")
}

// goldenFallback are the hashes of the deterministic file. A profile's never
// change, unless the codec library, or for profile 1 arrow, does: those change
// users' files too.
const goldenFallback = "24b1704b512de427e99330fcf6df97bb18a258498b6b0911923cf6d62f5bf734 " +
	"560ac9eb46f9a97199628f0a935924cf07e2b355721bd6ff8a42338673a6c990 " +
	"e6936e7d133e7d64fa7c3bbb587711ee6ed7722d9a9bb3da2fa9a0b0081358c9"

// TestSameBytesInFreshProcesses writes one file in 14 processes, two of them
// with arrow's own allocator, and wants one hash.
func TestSameBytesInFreshProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]int{}
	for i := range 14 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), envHash+"=1", fmt.Sprintf("GOMAXPROCS=%d", 1+i%3))
		if i < 2 {
			cmd.Env = append(cmd.Env, envPlain+"=1")
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		hashes[strings.TrimSpace(string(out))]++
	}
	if hashes[goldenFallback] != 14 {
		t.Errorf("hashes of 14 processes: %v, want %s", hashes, goldenFallback)
	}
}

// TestFallbackHappens keeps the deterministic file worth hashing: it must hold
// chunks with dictionary and plain pages both.
func TestFallbackHappens(t *testing.T) {
	eachProfile(t, checkFallback)
}

func checkFallback(t *testing.T, profile int) {
	var file bytes.Buffer
	if err := writeFallbackAs(&file, 24_000, profile); err != nil {
		t.Fatal(err)
	}
	r, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	mixed := 0
	for i := range r.footer.get(fileGroupsID).list {
		for _, chunk := range r.footer.get(fileGroupsID).list[i].get(groupColumnsID).list {
			column := chunk.get(chunkMetadataID)
			stats := column.get(columnEncodingStatsID).list
			if len(stats) == 3 {
				mixed++
			}
			last := int64(-1)
			for _, s := range stats {
				if key := -100*s.int(1) + s.int(2); key <= last && last != -1 && s.int(1) == 0 {
					t.Errorf("encoding stats out of order")
				}
				last = s.int(2) - 100*s.int(1)
			}
		}
	}
	if mixed < 10 {
		t.Errorf("%d chunks fell back from their dictionary, want at least 10", mixed)
	}
	if by := r.footer.get(fileCreatedByID); by == nil || string(by.bytes) != createdBy(profile) {
		t.Errorf("created by %v", by)
	}
	if root := r.footer.get(fileSchemaID).list[0]; root.get(elementRepetitionID) != nil {
		t.Error("the root has a repetition type")
	}
	// Every value comes back, from the file's own bytes.
	rows := fallbackRows(24_000, profile)
	at := 0
	err = r.Read([]string{"k", "st", "l"}, 0, -1, func(row [][]byte) error {
		if !bytes.Contains(rows[at], row[0]) || string(row[1]) != "null" && !bytes.Contains(rows[at], row[1]) || !bytes.Contains(rows[at], row[2]) {
			return fmt.Errorf("row %d: %s, record %s", at, row, rows[at])
		}
		at++
		return nil
	})
	if err != nil || at != 24_000 {
		t.Errorf("%d rows, %v", at, err)
	}
}

// TestRestart writes files one after the other with one Writer, larger and
// smaller ones, after a failure and half a file, and wants the bytes of new
// Writers.
func TestRestart(t *testing.T) { eachProfile(t, checkRestart) }

func checkRestart(t *testing.T, profile int) {
	s := fallbackSchema()
	d, err := formats.NewDecoder(s, recordTime())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Profile: profile, PageBytes: 16 << 10, DictBytes: 32 << 10}
	rows := fallbackRows(9000, profile)
	columns := func(from, to int) *formats.Columns {
		c := formats.NewColumns(s)
		for i, value := range rows[from:to] {
			if _, err := d.Append(c, &formats.Message{Offset: int64(i), Timestamp: 1, Value: value}); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	kept, err := NewWriter(io.Discard, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Write(columns(0, 5000)); err != nil { // never closed
		t.Fatal(err)
	}
	for i, span := range [][2]int{{0, 10}, {0, 9000}, {40, 41}, {5000, 5000}, {100, 3000}} {
		c := columns(span[0], span[1])
		if i == 2 {
			if err := errors.Join(kept.Restart(&failingWriter{limit: 4}), kept.Write(c), kept.Close()); !errors.Is(err, errDisk) {
				t.Errorf("a failing sink: %v", err)
			}
		}
		var got, want bytes.Buffer
		fresh, err := NewWriter(&want, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fresh.Write(c), fresh.Close(), kept.Restart(&got), kept.Write(c), kept.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("rows %v: other bytes than a new Writer's", span)
		}
	}
}

// failingWriter fails, or writes short, once limit bytes are written.
type failingWriter struct {
	limit int
	short bool
}

var errDisk = errors.New("disk is full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) <= w.limit {
		w.limit -= len(b)
		return len(b), nil
	}
	n := w.limit
	w.limit = 0
	if w.short {
		return n, nil
	}
	return n, errDisk
}

// TestSinkErrorsSurface lets the sink fail at every kind of place, the first
// bytes and the footer included.
func TestSinkErrorsSurface(t *testing.T) { eachProfile(t, checkSinkErrorsSurface) }

func checkSinkErrorsSurface(t *testing.T, profile int) {
	var whole bytes.Buffer
	if err := writeFallbackAs(&whole, 6000, profile); err != nil {
		t.Fatal(err)
	}
	for limit := 0; limit < whole.Len(); limit += 1 + whole.Len()/41 {
		if err := writeFallbackAs(&failingWriter{limit: limit}, 6000, profile); !errors.Is(err, errDisk) {
			t.Errorf("sink fails at %d: %v", limit, err)
		}
	}
	for _, limit := range []int{0, 2, 5000, whole.Len() - 1} {
		if err := writeFallbackAs(&failingWriter{limit: limit, short: true}, 6000, profile); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("sink writes short at %d: %v", limit, err)
		}
	}
	if err := writeFallbackAs(&failingWriter{limit: whole.Len()}, 6000, profile); err != nil {
		t.Errorf("the sink had room: %v", err)
	}
}

// lossyFile is a file that forgets a byte it was told to write.
type lossyFile struct{ bytes.Buffer }

func (f *lossyFile) ReadAt(b []byte, at int64) (int, error) {
	n := copy(b, f.Bytes()[at:])
	for i := range n {
		if at+int64(i) == int64(f.Len())-20 {
			b[i] ^= 0xff
		}
	}
	return n, nil
}

// TestReadBack refuses a file whose footer does not read back.
func TestReadBack(t *testing.T) {
	if err := writeFallback(&lossyFile{}, 100); err == nil {
		t.Error("a footer that does not read back passed")
	}
}

// TestMendFooterRefuses gives footers that disagree with what was written.
func TestMendFooterRefuses(t *testing.T) {
	column := tValue{kind: tStruct}
	column.set(columnValuesID, tInt(tI64, 5))
	column.set(columnUncompressedID, tInt(tI64, 90))
	column.set(columnCompressedID, tInt(tI64, 40))
	column.set(columnDataPageID, tInt(tI64, 4))
	chunk := tValue{kind: tStruct}
	chunk.set(chunkMetadataID, column)
	group := tValue{kind: tStruct}
	group.set(groupColumnsID, tValue{kind: tList, elem: tStruct, list: []tValue{chunk}})
	group.set(groupRowsID, tInt(tI64, 5))
	footer := tValue{kind: tStruct}
	footer.set(fileRowsID, tInt(tI64, 5))
	footer.set(fileGroupsID, tValue{kind: tList, elem: tStruct, list: []tValue{group}})
	raw := footer.append(nil)
	facts := func(rows, levels int64) []groupFacts {
		return []groupFacts{{rows: rows, stats: []tValue{{kind: tStruct}}, level: []int64{levels}}}
	}
	if _, err := mendFooter(raw, facts(5, 5), nil, 44); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() ([]byte, error){
		"rows":    func() ([]byte, error) { return mendFooter(raw, facts(6, 5), nil, 44) },
		"values":  func() ([]byte, error) { return mendFooter(raw, facts(5, 6), nil, 44) },
		"end":     func() ([]byte, error) { return mendFooter(raw, facts(5, 5), nil, 45) },
		"groups":  func() ([]byte, error) { return mendFooter(raw, nil, nil, 4) },
		"garbage": func() ([]byte, error) { return mendFooter(raw[:len(raw)-1], facts(5, 5), nil, 44) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestThriftRoundTrip reads and writes footers without a change of a byte.
func TestThriftRoundTrip(t *testing.T) {
	var file bytes.Buffer
	if err := writeFallback(&file, 3000); err != nil {
		t.Fatal(err)
	}
	footer, _, err := readFooter(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	raw := footer.append(nil)
	if !bytes.Contains(file.Bytes(), raw) {
		t.Error("the footer changed on its way")
	}
	for n := range len(raw) {
		if _, err := parseThrift(raw[:n]); err == nil {
			t.Errorf("%d of %d bytes read as a footer", n, len(raw))
		}
	}
}

// TestCodecs writes with each codec and level; bad ones are refused.
func TestCodecs(t *testing.T) { eachProfile(t, checkCodecs) }

func checkCodecs(t *testing.T, profile int) {
	s := mustSchema("a string")
	for _, tt := range []struct {
		codec string
		level int
		ok    bool
	}{
		{"", 0, true},
		{"zstd", 0, true},
		{"zstd", 1, true},
		{"zstd", 19, true},
		{"snappy", 0, true},
		{"gzip", 0, true},
		{"gzip", 9, true},
		{"none", 0, true},
		{"zstd", 23, false},
		{"gzip", 10, false},
		{"snappy", 1, false},
		{"none", 3, false},
		{"lzo", 0, false},
		{"zstd", -3, false},
	} {
		var file bytes.Buffer
		w, err := NewWriter(&file, s, Options{Profile: profile, Codec: tt.codec, Level: tt.level})
		if (err == nil) != tt.ok {
			t.Errorf("%s:%d: %v", tt.codec, tt.level, err)
		}
		if err != nil {
			continue
		}
		if err := errors.Join(w.Write(decode(t, s, recordTime(), `{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`, `{"a":null}`)), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, r, "a"); len(got) != 2 || got[1] != "null" || len(got[0]) != 39 {
			t.Errorf("%s:%d: read %q", tt.codec, tt.level, got)
		}
		if err := w.Write(formats.NewColumns(s)); !errors.Is(err, errClosed) {
			t.Errorf("Write after Close: %v", err)
		}
	}
}

// TestEmptyAndHuge writes a file without rows and one with a value of 20 MiB.
func TestEmptyAndHuge(t *testing.T) { eachProfile(t, checkEmptyAndHuge) }

func checkEmptyAndHuge(t *testing.T, profile int) {
	s := mustSchema("a string", "l list<string>")
	if r := openFile(t, writeFile(t, s, Options{Profile: profile})); r.Rows() != 0 || len(r.RowGroups()) != 0 {
		t.Errorf("empty file: %d rows, %v", r.Rows(), r.RowGroups())
	}
	huge := strings.Repeat("0123456789abcdef", 20<<16)
	c := decode(t, s, recordTime(), `{"a":"x","l":["`+huge+`","y"]}`, `{"a":"`+huge+`"}`, `{"a":"z"}`)
	r := openFile(t, writeFile(t, s, Options{Profile: profile}, c, c))
	got := readAll(t, r, "a")
	if len(got) != 6 || got[0] != `"x"` || got[1] != `"`+huge+`"` || got[5] != `"z"` {
		t.Errorf("%d values", len(got))
	}
	if l := readAll(t, r, "l"); l[3] != `["`+huge+`","y"]` || l[4] != "null" {
		t.Error("the list came back changed")
	}
}
