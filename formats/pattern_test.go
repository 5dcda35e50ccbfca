package formats

import (
	"bufio"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func patternOptions(pattern string) Options {
	return Options{Value: "text", Pattern: PatternText(pattern), Time: TimeOptions{Field: []string{"_timestamp"}}, Metadata: []string{"_offset"}}
}

// newDecoder is the decoder of options and its columns, empty.
func newDecoder(tb testing.TB, o Options, declared *Schema) (Decoder, *Columns) {
	tb.Helper()
	s, err := o.Base(declared)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := NewDecoder(s, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d, NewColumns(s)
}

// fieldsOf decodes one value and shows its columns, or the reason it is bad.
func fieldsOf(t *testing.T, d Decoder, c *Columns, value string) string {
	t.Helper()
	c.Reset()
	_, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(value)})
	var br *BadRecord
	switch {
	case errors.As(err, &br):
		if c.Rows() != 0 || c.Bytes() != 0 {
			t.Errorf("%q is bad and left %d rows, %d bytes", value, c.Rows(), c.Bytes())
		}
		return string(br.Reason)
	case err != nil:
		t.Fatalf("%q: %v", value, err)
	}
	var out []string
	for _, f := range c.Schema().Fields {
		if !f.Metadata() {
			out = append(out, show(c, f.Name, 0))
		}
	}
	return strings.Join(out, " ")
}

// TestPattern lays groups over columns: what takes no part is null, what is empty
// is empty, and all of the value has to match but for one line end.
func TestPattern(t *testing.T) {
	for _, tt := range []struct{ pattern, value, want string }{
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1", `"x" "1"`},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=", `"x" ""`},
		{`(?P<a>\w+)(=(?P<b>\d*))?`, "x", `"x" null@0`},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1 ", "pattern"},
		{`(?P<a>\w+)=(?P<b>\d*)`, " x=1", "pattern"},
		{`(?P<a>\w+)=(?P<b>\d*)`, "", "pattern"},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1\n", `"x" "1"`},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1\r\n", `"x" "1"`},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1\r", `"x" "1"`},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1\n\n", "pattern"},
		{`(?P<a>\w+)=(?P<b>\d*)`, "x=1\nx=2", "pattern"},
		{`(?P<a>x)|(?P<b>y)`, "y", `null@0 "y"`}, // all of it, not only a branch
		{`(?P<a>x)|(?P<b>y)`, "xy", "pattern"},
		{`^(?P<a>x)$`, "x", `"x"`},
		{`(?i)(?P<a>ABC)`, "abc", `"abc"`},
		{`(?P<a>.*)`, "a\nb", "pattern"}, // a dot is no line feed
		{`(?s)(?P<a>.*)`, "a\nb", `"a\nb"`},
		{`(?P<a>.*)`, "é\xff", `"é�"`},
		{`(?P<outer>a(?P<inner>b)?)`, "ab", `"ab" "b"`},
		{`(?:(?P<a>\w);)*`, "x;y;", `"y"`}, // the last one, as everywhere
	} {
		d, c := newDecoder(t, patternOptions(tt.pattern), nil)
		if got := fieldsOf(t, d, c, tt.value); got != tt.want {
			t.Errorf("%s of %q = %s, want %s", tt.pattern, tt.value, got, tt.want)
		}
	}
}

// TestPatternTypes gives groups declared types, other names and an event time.
func TestPatternTypes(t *testing.T) {
	o := patternOptions(`(?P<at>\S+) (?P<n>\S+)(?: (?P<word>\S+))?`)
	o.Time = TimeOptions{Field: []string{"at"}}
	d, c := newDecoder(t, o, &Schema{Fields: []Field{
		{Name: "ts", From: []string{"at"}, Type: mustType(t, "timestamp_ms")}, {Name: "n", Type: mustType(t, "int64")}, {Name: "number", From: []string{"n"}, Type: mustType(t, "string")},
	}})
	for value, want := range map[string]string{
		"2020-01-01T00:00:00Z 7":      `1577836800000 7 "7"`,
		"2020-01-01T00:00:00Z +007 w": `1577836800000 7 "+007"`,
		"2020-01-01T00:00:00Z seven":  "type",
		"yesterday 7":                 "time",
		"2020-01-01T00:00:00Z":        "pattern",
	} {
		if got := fieldsOf(t, d, c, value); got != want {
			t.Errorf("%q = %s, want %s", value, got, want)
		}
	}
	at, err := d.Time(&Message{Timestamp: 1, Value: []byte("2020-01-01T00:00:00Z 7")})
	if err != nil || at != 1577836800e6 {
		t.Errorf("time %d, %v", at, err)
	}
	var br *BadRecord
	if _, err := d.Time(&Message{Timestamp: 1, Value: []byte("x")}); !errors.As(err, &br) || br.Reason != BadPattern || !strings.Contains(br.Detail, `"x"`) {
		t.Errorf("time of a value that does not match: %v", err)
	}
	if _, err := d.Append(c, &Message{Timestamp: 1}); !errors.Is(err, ErrSkip) {
		t.Errorf("tombstone: %v", err)
	}
}

// TestNamedPatterns holds what the patterns with a name make of lines.
func TestNamedPatterns(t *testing.T) {
	for _, tt := range []struct{ pattern, line, want string }{
		// host ident user time method path protocol rawrequest status bytes
		{
			"common", `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
			`"127.0.0.1" null@0 "frank" "10/Oct/2000:13:55:36 -0700" "GET" "/apache_pb.gif" "HTTP/1.0" null@0 "200" "2326"`,
		},
		{
			"common", `::1 id John Q Public [10/Oct/2000:13:55:36 -0700] "M-SEARCH /a%20b?q=\"x\" HTTP/2.0" 304 -`,
			`"::1" "id" "John Q Public" "10/Oct/2000:13:55:36 -0700" "M-SEARCH" "/a%20b?q=\\\"x\\\"" "HTTP/2.0" null@0 "304" null@0`,
		},
		{
			"common", `h - -x [t] "-" 408 0`,
			`"h" null@0 "-x" "t" null@0 null@0 null@0 null@0 "408" "0"`,
		},
		{
			"common", `h - - [t] "\x16\x03\x01 a \"b\"" 400 226`,
			`"h" null@0 null@0 "t" null@0 null@0 null@0 "\\x16\\x03\\x01 a \\\"b\\\"" "400" "226"`,
		},
		{"common", `h - - [t] "" 400 0`, `"h" null@0 null@0 "t" null@0 null@0 null@0 "" "400" "0"`},
		{"common", `h - - [t] "GET / HTTP/1.1" 200 0 "-" "-"`, "pattern"},
		{"common", `h - - [t] "GET / HTTP/1.1" 200`, "pattern"},
		{"common", `h - - [t] "GET / HTTP/1.1 200 0`, "pattern"},
		// the same, referer agent
		{
			"combined", `h - - [t] "GET / HTTP/1.1" 200 5 "-" "Mozilla/5.0 (\"x\")"`,
			`"h" null@0 null@0 "t" "GET" "/" "HTTP/1.1" null@0 "200" "5" null@0 "Mozilla/5.0 (\\\"x\\\")"`,
		},
		{
			"combined", `h - - [t] "GET / HTTP/1.1" 200 5 "" "-x"`,
			`"h" null@0 null@0 "t" "GET" "/" "HTTP/1.1" null@0 "200" "5" "" "-x"`,
		},
		{"combined", `h - - [t] "GET / HTTP/1.1" 200 5`, "pattern"},
		// priority time host program pid message
		{"syslog", `Mar  7 03:06:56 web1 sshd[1291]: Server listening`, `null@0 "Mar  7 03:06:56" "web1" "sshd" "1291" "Server listening"`},
		{"syslog", `<34>Oct 11 22:14:15 mymachine su: 'su root' failed`, `"34" "Oct 11 22:14:15" "mymachine" "su" null@0 "'su root' failed"`},
		{"syslog", `Mar 27 13:09:37 h sudo:   ubuntu : TTY=x`, `null@0 "Mar 27 13:09:37" "h" "sudo" null@0 "  ubuntu : TTY=x"`},
		{"syslog", `Mar 27 13:09:37 h last message repeated 2 times`, `null@0 "Mar 27 13:09:37" "h" null@0 null@0 "last message repeated 2 times"`},
		{"syslog", `2026-11-29T14:00:00.5+01:00 h cron[7]: a` + "\n\tb", `null@0 "2026-11-29T14:00:00.5+01:00" "h" "cron" "7" "a\n\tb"`},
		{"syslog", `Mar 27 13:09 h x: y`, "pattern"},
	} {
		d, c := newDecoder(t, patternOptions(tt.pattern), nil)
		if got := fieldsOf(t, d, c, tt.line); got != tt.want {
			t.Errorf("%s of %s\n= %s\nwant %s", tt.pattern, tt.line, got, tt.want)
		}
	}
	for _, name := range PatternNames() {
		if PatternText(name) == name {
			t.Errorf("%s is no name", name)
		}
	}
}

// TestPatternsRefused lists patterns that make no columns.
func TestPatternsRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		`(?P<a>`:                   "missing closing )",
		`(?P<a>x))(?P<b>y`:         "unexpected )",
		`(\d+)`:                    "no groups with names",
		"combine":                  "common, combined, syslog",
		`(?P<a>x)(?P<a>y)`:         `"a"`,
		`(?P<a>x)\1`:               "invalid escape",
		`(?P<a>(?:x{1000}){1000})`: "invalid repeat",
		`(?P<a>x)(?=y)`:            "invalid or unsupported Perl syntax",
	} {
		o := patternOptions(pattern)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), "decode.pattern: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
	o := patternOptions("syslog")
	o.Time.Field = []string{"when"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `time.field: ["when"] is not in decode.pattern`) {
		t.Errorf("unknown time field: %v", err)
	}
	o = patternOptions("syslog")
	o.Value = "json"
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "decode.pattern: is for value: text, not json") {
		t.Errorf("pattern for JSON: %v", err)
	}
	o = patternOptions("syslog")
	s, err := o.Base(&Schema{Fields: []Field{{Name: "nope", Type: mustType(t, "string")}}})
	if err == nil {
		_, err = NewDecoder(s, o)
	}
	if err == nil || !strings.Contains(err.Error(), `decode.pattern has no ["nope"]`) {
		t.Errorf("column of no group: %v", err)
	}
}

// realLines reads a log of the real inputs that lie beside the project.
func realLines(t *testing.T, name string) []string {
	t.Helper()
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skipf("real input %s is missing: %v", name, err)
	}
	defer func() { _ = f.Close() }() // read only
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	scan := bufio.NewScanner(in)
	for scan.Buffer(nil, 1<<20); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestPatternsOnRealLogs reads real logs whole. What is expected was counted by
// other means, such as
//
//	zcat apache_logs.gz | awk -F'"' '{split($3,a," "); n[a[1]]++; if (a[2]=="-") b++} END {for (s in n) print s, n[s]; print b}'
//	zcat auth.log.gz | awk '{p=$5; sub(/\[.*/,"",p); n[p]++; if ($5 !~ /\[[0-9]+\]:$/) b++} END {for (s in n) print s, n[s]; print b}'
//
// less the one line, of status 200, that lacks its last quote.
func TestPatternsOnRealLogs(t *testing.T) {
	for _, tt := range []struct {
		file, pattern, time string
		hours, bad          int
		count               map[string]map[string]int // column → value → rows
	}{
		{"weblogs/apache_logs.gz", "combined", "%d/%b/%Y:%H:%M:%S %z", 84, 1, map[string]map[string]int{
			"status": {`"200"`: 9125, `"404"`: 213, `"206"`: 45}, "method": {`"GET"`: 9951, `"HEAD"`: 42, `"POST"`: 5, `"OPTIONS"`: 1}, "rawrequest": {"null@0": 9999},
			"bytes": {"null@0": 669}, "referer": {"null@0": 4072}, "agent": {"null@0": 190},
		}},
		{"auth/auth.log.gz", "syslog", "%b %e %H:%M:%S", 578, 0, map[string]map[string]int{
			"program": {`"sshd"`: 4095, `"CRON"`: 1264, `"su"`: 45, `"systemd-logind"`: 452}, "pid": {"null@0": 795}, "host": {`"ip-10-77-20-248"`: 7121},
		}},
	} {
		o := patternOptions(tt.pattern)
		o.Time = TimeOptions{Field: []string{"time"}, Format: tt.time}
		d, c := newDecoder(t, o, nil)
		reference := time.Date(2017, 12, 31, 0, 0, 0, 0, time.UTC).UnixMilli() // gives the year
		hours, bad, rows := map[Instant]int{}, 0, 0
		got := map[string]map[string]int{}
		for column := range tt.count {
			got[column] = map[string]int{}
		}
		lines := realLines(t, tt.file)
		for i, line := range lines {
			at, err := d.Append(c, &Message{Offset: int64(i), Timestamp: reference, Value: []byte(line)})
			var br *BadRecord
			switch {
			case err == nil:
				hours[at/3600e6]++
				rows++
				for column := range got {
					got[column][show(c, column, 0)]++
				}
				c.Reset()
			case errors.As(err, &br) && br.Reason == BadPattern:
				bad++
			default:
				t.Fatalf("%s:%d: %v", tt.file, i+1, err)
			}
		}
		if len(hours) != tt.hours || bad != tt.bad || rows+bad != len(lines) {
			t.Errorf("%s: %d rows and %d bad of %d lines in %d hours, want %d bad and %d hours", tt.file, rows, bad, len(lines), len(hours), tt.bad, tt.hours)
		}
		for column, want := range tt.count {
			for value, n := range want {
				if got[column][value] != n {
					t.Errorf("%s: %s is %s in %d rows, want %d", tt.file, column, value, got[column][value], n)
				}
			}
		}
	}
}

// FuzzPattern holds that no pattern and no value does harm, that a refused record
// leaves nothing, and that a named pattern takes a line with or without its end.
func FuzzPattern(f *testing.F) {
	f.Add("common", `h - - [t] "GET / HTTP/1.1" 200 5`)
	f.Add("combined", `h - - [t] "GET /\" HTTP/1.1" 200 - "-" "x\\"`)
	f.Add("syslog", "<1>Mar  7 03:06:56 h p[1]: m\nn")
	f.Add(`(?P<a>.*)(?P<b>x)?`, "\xff\x00")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		o := patternOptions(pattern)
		if len(pattern) > 200 || o.Validate() != nil {
			return
		}
		d, c := newDecoder(t, o, nil)
		_, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(value)})
		var br *BadRecord
		if err != nil && (!errors.As(err, &br) || c.Rows() != 0 || c.Bytes() != 0) {
			t.Fatalf("%v, %d rows, %d bytes", err, c.Rows(), c.Bytes())
		}
		if !slices.Contains(PatternNames(), pattern) || strings.HasSuffix(value, "\n") || strings.HasSuffix(value, "\r") {
			return
		}
		if _, again := d.Append(c, &Message{Timestamp: 1, Value: []byte(value + "\r\n")}); (again == nil) != (err == nil) {
			t.Fatalf("%q: %v, with a line end: %v", value, err, again)
		}
	})
}

// TestPatternAllocations bounds what a record costs: nothing by the matchers of
// patterns with a name, the places of its groups by an expression.
func TestPatternAllocations(t *testing.T) {
	for pattern, want := range map[string]float64{"combined": 0, "(?:" + PatternText("combined") + ")": 1} {
		patternAllocates(t, pattern, want)
	}
}

func patternAllocates(t *testing.T, pattern string, want float64) {
	t.Helper()
	d, c := newDecoder(t, patternOptions(pattern), nil)
	m := &Message{Timestamp: 1, Value: []byte(accessLine)}
	run := func() {
		c.Reset()
		if _, err := d.Append(c, m); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(200, run); n > want {
		t.Errorf("%.20s: %v allocations a record, want %v", pattern, n, want)
	}
}

const accessLine = `83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/logstash-monitorama-2013/images/kibana-search.png HTTP/1.1" 200 203023 ` +
	`"http://semicomplete.com/presentations/logstash-monitorama-2013/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`

// BenchmarkPattern reads access lines by each pattern.
func BenchmarkPattern(b *testing.B) {
	d, c := newDecoder(b, patternOptions("combined"), nil)
	m := &Message{Timestamp: 1, Value: []byte(accessLine)}
	b.SetBytes(int64(len(m.Value)))
	for b.Loop() {
		c.Reset()
		if _, err := d.Append(c, m); err != nil {
			b.Fatal(err)
		}
	}
}
