package formatstest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"sawlog/formats"
)

// Scan is what the scans of all formats are.
type Scan interface {
	Next(*formats.Columns) error
	Head(column string) ([]byte, error)
}

// Scans writes columns as a file and begins to read it as columns of a schema.
type Scans func(c *formats.Columns, s *formats.Schema) (Scan, error)

// scanned is all that a scan gives.
func scanned(scans Scans, c *formats.Columns, s *formats.Schema) (*formats.Columns, error) {
	scan, err := scans(c, s)
	if err != nil {
		return nil, err
	}
	out := formats.NewColumns(s)
	for {
		if err := scan.Next(out); err != nil {
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
	}
}

// digest tells columns from others by their values.
func digest(c *formats.Columns) string {
	d := formats.NewDigest(c.Schema())
	d.Add(c)
	return d.Sum()
}

// ScansAll reads rows back as they were.
func ScansAll(t *testing.T, scans Scans, c *formats.Columns) {
	t.Helper()
	got, err := scanned(scans, c, c.Schema())
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows() != c.Rows() || digest(got) != digest(c) {
		t.Errorf("%d rows, or others than the %d written", got.Rows(), c.Rows())
	}
}

// ScansWider reads files as columns of wider schemas: the rows are those a decoder
// makes of the same records under them.
func ScansWider(t *testing.T, scans Scans) {
	for _, c := range []struct {
		name, narrow, wide string
		values             []string
		as                 []string // where a decoder makes the wide values of others
	}{
		{"int32", "a int32", "a int64", []string{`{"a":-7}`, `{}`}, nil},
		{"integers to double", "a int32|b int64", "a double|b double", []string{`{"a":-7,"b":9007199254740992}`, `{"a":0,"b":-9007199254740992}`}, nil},
		{"float", "a float", "a double", []string{`{"a":0.5}`, `{"a":-3.25}`, `{"a":16777216}`, `{"a":-0.0}`}, nil},
		{"to decimal", "a int32|b int64", "a decimal(12,2)|b decimal(38,5)", []string{`{"a":-7,"b":-9223372036854775808}`}, nil},
		{"decimals", "a decimal(9,2)|b decimal(18,1)", "a decimal(18,3)|b decimal(20,2)", []string{`{"a":-7.25,"b":-12345.5}`, `{"a":0.01}`, `{"a":-0.01}`}, nil},
		{"timestamps", "a timestamp_ms|b timestamp_us_local", "a timestamp_ns|b timestamp_ns_local", []string{`{"a":"2020-01-01T00:00:00.5Z","b":"1960-01-01T00:00:00.000001"}`}, nil},
		{"new columns", "a int64", "a int64|b string|c list<struct<x:int64>>", []string{`{"a":1}`, `{}`}, nil},
		{
			"new members", "s struct<a:int32>|l list<struct<a:int32,k:list<int32>>>|m map<struct<a:int32>>",
			"s struct<a:int64,b:string>|l list<struct<a:int64,k:list<double>,n:struct<z:list<int64>>>>|m map<struct<a:int32,b:bool>>",
			[]string{`{"s":{"a":1},"l":[{"a":1,"k":[1,2]},{"a":2,"k":[]},null,{}],"m":{"x":{"a":1},"y":{}}}`, `{"s":null,"l":[],"m":{}}`, `{"l":[{"k":[3,4,null]}]}`, `{}`},
			nil,
		},
		{
			"to text", "b bool|i int64|d double|day date|t timestamp_ms|u uuid|j json|p decimal(9,2)", "b string|i string|d string|day string|t string|u string|j string|p string",
			[]string{`{"b":true,"i":-12,"d":1.5,"day":"2020-01-02","t":"2020-01-02T03:04:05Z","u":"00000001-0000-0000-0000-000000000000","j":{"k":[1]},"p":-0.25}`},
			[]string{`{"b":"true","i":"-12","d":"1.5","day":"2020-01-02","t":"2020-01-02T03:04:05.000Z","u":"00000001-0000-0000-0000-000000000000","j":"{\"k\":[1]}","p":"-0.25"}`},
		},
		{
			"to json", "b bool|i int64|t timestamp_ms", "b json|i json|t json",
			[]string{`{"b":true,"i":-12,"t":"2020-01-02T03:04:05Z"}`},
			[]string{`{"b":true,"i":-12,"t":"2020-01-02T03:04:05.000Z"}`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.as == nil {
				c.as = c.values
			}
			want := Columns(t, strings.Split(c.wide, "|"), c.as...)
			got, err := scanned(scans, Columns(t, strings.Split(c.narrow, "|"), c.values...), want.Schema())
			if err != nil {
				t.Fatal(err)
			}
			if got.Rows() != want.Rows() || digest(got) != digest(want) {
				t.Errorf("%d rows, or others than the %d decoded", got.Rows(), want.Rows())
			}
		})
	}
}

// ScansRefuse has values, and types, that are no wider ones. Where the file knows
// its types, they are told by name.
func ScansRefuse(t *testing.T, scans Scans, typed bool) {
	for _, c := range []struct{ narrow, wide, value, want string }{
		{"a int64", "a double", `{"a":9007199254740993}`, "is no double"},
		{"a int64", "a decimal(5,2)", `{"a":1000}`, "does not fit"},
		{"a timestamp_ms", "a timestamp_ns", `{"a":"2500-01-01T00:00:00Z"}`, "does not fit"},
		{"a string", "a int64", `{"a":"x"}`, "no wider"},
		{"a double", "a int64", `{"a":1.5}`, "no wider"},
		{"a decimal(9,2)", "a decimal(9,1)", `{"a":1.25}`, "no wider"},
		{"a list<int64>", "a int64", `{"a":[1]}`, "is list<int64> in the file"},
		{"a struct<b:int64>", "a list<int64>", `{"a":{"b":1}}`, "in the file"},
		{"a int64|b int64", "a int64", `{"a":1}`, `has a column "b"`},
		{"s struct<a:int64,b:int64>", "s struct<a:int64>", `{"s":{"a":1,"b":1}}`, "the file has 2 members, the schema 1 of them"},
	} {
		wide := Columns(t, strings.Split(c.wide, "|")).Schema()
		_, err := scanned(scans, Columns(t, strings.Split(c.narrow, "|"), c.value), wide)
		if err == nil || typed && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: %v, want %s", c.narrow, c.wide, err, c.want)
		}
	}
}

// ScansHeads looks at what the next row has before it is given.
func ScansHeads(t *testing.T, scans Scans) {
	written := Columns(t, []string{"a int64", "l list<int64>"}, `{"a":1}`, `{}`)
	scan, err := scans(written, written.Schema())
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(written.Schema())
	for n, want := range []string{"\x00", "\x01"} {
		for range 2 {
			if head, err := scan.Head("_offset"); err != nil || len(head) != 8 || string(head[:1]) != want {
				t.Errorf("head of row %d: %x, %v", n, head, err)
			}
		}
		if head, err := scan.Head("a"); err != nil || (head == nil) != (n == 1) {
			t.Errorf("head of row %d: %x, %v", n, head, err)
		}
		for _, column := range []string{"l", "nope"} {
			if head, err := scan.Head(column); err == nil {
				t.Errorf("head of column %s: %x", column, head)
			}
		}
		if err := scan.Next(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := scan.Head("a"); !errors.Is(err, io.EOF) {
		t.Errorf("head after the last row: %v", err)
	}
}
