package local_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
	"sawlog/loader"
)

// realData is a file of the folder of real inputs, or a skip that names it.
func realData(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		root = "../../../../shared/data" // beside the project
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatalf("%s is missing: %v", path, err)
		}
		t.Skipf("%s is missing: set SAWLOG_TEST_DATA", path)
	}
	return path
}

// gunzipLines gives the lines of a file, without their ends.
func gunzipLines(t *testing.T, path string) [][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	s := bufio.NewScanner(z)
	s.Buffer(nil, 8<<20)
	for s.Scan() {
		out = append(out, bytes.Clone(s.Bytes()))
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// expected reads rows per hour, RFC 3339, of one series.
func expected(t *testing.T, series string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for _, line := range gunzipLines(t, realData(t, "expected/rows-per-hour.tsv.gz")) {
		cells := strings.Split(string(line), "\t")
		if len(cells) == 3 && cells[0] == series {
			out[hourOf(cells[1])] = number(t, cells[2])
		}
	}
	return out
}

func hourOf(text string) string {
	at, err := time.Parse("2006-01-02T15", strings.TrimSuffix(text, "Z"))
	if err != nil {
		return text
	}
	return at.Format(time.RFC3339)
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	var n int64
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n
}

func taxi(zone string) func(*loader.Spec, [][]byte) {
	return func(s *loader.Spec, lines [][]byte) {
		s.Decode = formats.Options{
			Value: "csv", Columns: strings.Split(strings.TrimRight(string(lines[0]), "\r"), ","), SkipHeader: true,
			Time: formats.TimeOptions{Field: []string{"pickup_datetime"}, Format: "%Y-%m-%d %H:%M:%S", Zone: zone},
		}
	}
}

func event(field ...string) func(*loader.Spec, [][]byte) {
	return func(s *loader.Spec, _ [][]byte) {
		s.Decode.Time = formats.TimeOptions{Field: field, Format: "rfc3339", Zone: "UTC"}
	}
}

// Real inputs, from a broker through child tasks into hours, against counts
// made without any of our code. Others are loaded, and compared value by value, by
// cmd/sawlog.
func TestRealInputs(t *testing.T) {
	for _, c := range []struct {
		file, series string
		set          func(*loader.Spec, [][]byte)
		rows, skips  int64
	}{
		{"kibana-sample/ecommerce.json.gz", "kibana-sample/ecommerce order_date UTC", event("order_date"), 4675, 0},
		{"taxi/yellow_tripdata_sample_2019-03.csv.gz", "taxi 2019-03 pickup_datetime America/New_York to UTC fold=0", taxi("America/New_York"), 10_000, 1},
	} {
		t.Run(c.file, func(t *testing.T) {
			lines := gunzipLines(t, realData(t, c.file))
			w := newWorld(t, 1<<20)
			c.set(&w.spec, lines)
			w.load(lines, expected(t, c.series), c.rows, c.skips)
		})
	}
}

// load produces the lines, loads them and compares the hours.
func (w *world) load(lines [][]byte, want map[string]int64, rows, skips int64) {
	w.t.Helper()
	w.produce(func(i int) []byte {
		if i == len(lines) {
			return nil
		}
		return lines[i]
	})
	began := time.Now()
	out, err := w.driver.Run(w.t.Context(), w.plan(), loader.RunAsk{Run: "r"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("%d rows, %d files in %v", out.Rows, out.Files, time.Since(began).Round(time.Millisecond))
	if out.Rows != rows || out.Skipped != skips || out.Quarantined != 0 {
		w.t.Errorf("%d rows, %d skipped, %d bad: want %d, %d, 0", out.Rows, out.Skipped, out.Quarantined, rows, skips)
	}
	if len(out.Hours) != len(want) {
		w.t.Errorf("%d hours, want %d", len(out.Hours), len(want))
	}
	wrong := 0
	for _, h := range out.Hours {
		if want[h.Hour] != h.Rows {
			if wrong++; wrong < 5 {
				w.t.Errorf("hour %s: %d rows, want %d", h.Hour, h.Rows, want[h.Hour])
			}
		}
	}
}
