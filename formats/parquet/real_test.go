package parquet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
)

// realData opens a file of the real inputs that lie beside the project.
func realData(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for dir != "/" {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		missing(t, "real data "+name, err)
	}
	t.Cleanup(func() { _ = f.Close() }) // read only
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	return lines
}

// hoursOf reads the expected rows per hour of one series.
func hoursOf(t *testing.T, series string) map[string]int {
	t.Helper()
	hours := map[string]int{}
	for lines := realData(t, "expected/rows-per-hour.tsv.gz"); lines.Scan(); {
		if f := strings.Split(lines.Text(), "\t"); f[0] == series {
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatal(err)
			}
			hour := f[1]
			if len(hour) == len("2018-01-02") { // rows with a date alone
				hour += "T00"
			}
			hours[hour] += n
		}
	}
	if len(hours) == 0 {
		t.Fatalf("no expected hours for %q", series)
	}
	return hours
}

// prune drops what has no column of its own, null, [] and {}, and numbers'
// spelling, so that a record and its row compare.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if p := prune(x); p != nil {
				out[k] = p
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		some := false
		for _, x := range v {
			p := prune(x)
			some = some || p != nil
			out = append(out, p)
		}
		if !some {
			return nil
		}
		return out
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return r.RatString()
		}
	}
	return v
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return prune(v)
}

// TestRealJSON infers, decodes, writes and reads back real records, compares
// rows with their records, the hours with the expected ones, and lets DuckDB
// and pyarrow count.
func TestRealJSON(t *testing.T) {
	for _, tt := range []struct{ file, field, format, series string }{
		{"kibana-sample/logs.json.gz", "timestamp", "rfc3339", "kibana-sample/logs timestamp UTC"},
		{"kibana-sample/flights.json.gz", "timestamp", "rfc3339", "kibana-sample/flights timestamp no-zone as UTC"},
		{"kibana-sample/ecommerce.json.gz", "order_date", "rfc3339", "kibana-sample/ecommerce order_date UTC"},
		{"github/2021-07-21-few-hours.jsonl.gz", "created_at", "rfc3339", "github created_at UTC"},
		{"nginxplus/nginxplus_json_logs.jsonl.gz", "timestamp", "epoch_ms", "nginxplus timestamp epoch-ms UTC"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			var lines [][]byte
			for in := realData(t, tt.file); in.Scan(); {
				lines = append(lines, bytes.Clone(in.Bytes()))
			}
			o := formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{tt.field}, Format: tt.format, Zone: "UTC"}}
			in := formats.NewInference(nil, o)
			for _, l := range lines {
				if err := in.Observe(&formats.Message{Value: l}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := in.Report().Extend(nil, o)
			if err != nil {
				t.Fatal(err)
			}
			d, err := formats.NewDecoder(s, o)
			if err != nil {
				t.Fatal(err)
			}
			c := formats.NewColumns(s)
			hours := map[string]int{}
			for i, l := range lines {
				at, err := d.Append(c, &formats.Message{Offset: int64(i), Timestamp: -1, Value: l})
				if err != nil {
					t.Fatalf("line %d: %v", i, err)
				}
				hours[time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15")]++
			}
			if want := hoursOf(t, tt.series); !reflect.DeepEqual(hours, want) {
				t.Errorf("%d hours, want %d, or other rows in them", len(hours), len(want))
			}
			path := writeFile(t, s, Options{}, c)
			noLarger(t, s, c)
			compareRows(t, path, s, lines)
			var got foreignCounts
			foreign(t, &got, "count", path)
			if n := len(lines); !reflect.DeepEqual(got.Rows.Counts, []int{n, n}) {
				t.Errorf("duckdb and pyarrow read %v rows, want %d", got.Rows.Counts, n)
			}
		})
	}
}

// compareRows reads a file back and compares each row with its record.
func compareRows(t *testing.T, path string, s *formats.Schema, lines [][]byte) {
	t.Helper()
	r := openFile(t, path)
	at := 0
	err := r.Read(nil, 0, -1, func(row [][]byte) error {
		if at++; at > 700 && at%7 != 0 {
			return nil // of large inputs a part
		}
		got := map[string]any{}
		for i := range s.Fields {
			f := &s.Fields[i]
			if v := parsed(t, row[i]); !f.Metadata() && v != nil {
				got[f.Keys()[0]] = v
			}
		}
		if want := parsed(t, lines[at-1]); !reflect.DeepEqual(any(got), want) {
			return fmt.Errorf("row %d:\n%v\nwant\n%v", at-1, got, want)
		}
		return nil
	})
	if err != nil || at != len(lines) {
		t.Errorf("%d rows of %d, %v", at, len(lines), err)
	}
}

// TestRealCSV loads a month of taxi rides with declared types and compares
// hours in two zones.
func TestRealCSV(t *testing.T) {
	for zone, series := range map[string]string{
		"UTC": "taxi 2019-11 pickup_datetime naive-as-UTC", "America/New_York": "taxi 2019-11 pickup_datetime America/New_York to UTC fold=0",
	} {
		lines := realData(t, "taxi/yellow_tripdata_sample_2019-11.csv.gz")
		lines.Scan()
		o := formats.Options{
			Value: "csv", Columns: strings.Split(strings.TrimSpace(lines.Text()), ","), SkipHeader: true,
			Time: formats.TimeOptions{Field: []string{"pickup_datetime"}, Format: "%Y-%m-%d %H:%M:%S", Zone: zone},
		}
		declared := &formats.Schema{}
		for _, name := range o.Columns {
			text := "double"
			switch {
			case strings.HasSuffix(name, "datetime"):
				text = "timestamp_ms"
			case strings.HasSuffix(name, "_id") || name == "passenger_count" || name == "payment_type":
				text = "int64"
			case name == "store_and_fwd_flag":
				text = "string"
			}
			typ, err := formats.ParseType(text)
			if err != nil {
				t.Fatal(err)
			}
			declared.Fields = append(declared.Fields, formats.Field{Name: name, Type: typ})
		}
		s, err := o.Base(declared)
		if err != nil {
			t.Fatal(err)
		}
		d, err := formats.NewDecoder(s, o)
		if err != nil {
			t.Fatal(err)
		}
		c := formats.NewColumns(s)
		hours := map[string]int{}
		bad := 0
		for lines.Scan() {
			at, err := d.Append(c, &formats.Message{Timestamp: -1, Value: lines.Bytes()})
			if err != nil {
				if bad++; bad < 5 {
					t.Logf("%s: %v", lines.Text(), err)
				}
				continue
			}
			hours[time.UnixMicro(int64(at)).UTC().Format("2006-01-02T15")]++
		}
		if want := hoursOf(t, series); !reflect.DeepEqual(hours, want) {
			t.Errorf("%s: %d hours, want %d, or other rows in them; %d bad rows", zone, len(hours), len(want), bad)
		}
		noLarger(t, s, c)
		if r := openFile(t, writeFile(t, s, Options{}, c)); r.Rows() != 10000 {
			t.Errorf("%d rows", r.Rows())
		}
	}
}

// TestRealText writes lines of logs as they are.
func TestRealText(t *testing.T) {
	for _, name := range []string{"weblogs/apache_logs.gz", "auth/auth.log.gz"} {
		s := mustSchema("line string")
		c := formats.NewColumns(s)
		d, err := formats.NewDecoder(s, recordTime())
		if err != nil {
			t.Fatal(err)
		}
		for in := realData(t, name); in.Scan(); {
			value, err := json.Marshal(map[string]string{"line": in.Text()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Append(c, &formats.Message{Offset: int64(c.Rows()), Timestamp: 1, Value: value}); err != nil {
				t.Fatal(err)
			}
		}
		noLarger(t, s, c)
	}
}

// noLarger wants a file of real records to be no larger under the newest writer
// profile than under the one before, with any codec.
func noLarger(t *testing.T, s *formats.Schema, c *formats.Columns) {
	t.Helper()
	for _, codec := range []string{"zstd", "snappy", "none"} {
		var sizes [2]int64
		for i := range sizes {
			info, err := os.Stat(writeFile(t, s, Options{Profile: Profile - 1 + i, Codec: codec}, c))
			if err != nil {
				t.Fatal(err)
			}
			sizes[i] = info.Size()
		}
		if t.Logf("%s: %d bytes, before %d", codec, sizes[1], sizes[0]); sizes[1] > sizes[0] {
			t.Errorf("%s: %d bytes, before %d", codec, sizes[1], sizes[0])
		}
	}
}
