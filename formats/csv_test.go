package formats

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func csvOptions(columns string) Options {
	return Options{Value: "csv", Columns: strings.Split(columns, " "), Time: TimeOptions{Field: []string{"_timestamp"}}, Metadata: []string{"_offset"}}
}

// TestCSVRecords covers RFC 4180 for one record.
func TestCSVRecords(t *testing.T) {
	for _, tt := range []struct{ record, want string }{
		{`x,y,z`, `"x" "y" "z"`},
		{"x,y,z\r", `"x" "y" "z"`},
		{"x,y,z\r\n", `"x" "y" "z"`},
		{"x,y,z\r\r", `"x" "y" "z\r"`},
		{`,"",z`, `null@0 "" "z"`},
		{`,,`, `null@0 null@0 null@0`},
		{`"a,b","c""d","e` + "\n" + `f"`, `"a,b" "c\"d" "e\nf"`},
		{`"""","",""""""`, `"\"" "" "\"\""`},
		{` x , "y",z`, "syntax"},
		{` x , y ,z`, `" x " " y " "z"`},
		{"é,\xff,\xf0\x9f\x98\x80", `"é" "�" "😀"`},
		{`x,y`, "fields"},
		{`x,y,z,`, "fields"},
		{``, "fields"},
		{`x,"y,z`, "syntax"},
		{`x,"y"z,w`, "syntax"},
		{`x,y"y,z`, "syntax"},
		{"x,y\ny,z", "syntax"},
		{`a,b,c`, "skip"},
	} {
		o := csvOptions("a b c")
		o.SkipHeader = true
		d, c := newDecoder(t, o, nil)
		_, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(tt.record)})
		var br *BadRecord
		got := ""
		switch {
		case errors.As(err, &br):
			got = string(br.Reason)
		case errors.Is(err, ErrSkip):
			got = "skip"
		case err == nil:
			got = show(c, "a", 0) + " " + show(c, "b", 0) + " " + show(c, "c", 0)
		}
		if got != tt.want || (err == nil) != (c.Rows() == 1) {
			t.Errorf("%q = %s (%d rows), want %s", tt.record, got, c.Rows(), tt.want)
		}
	}
}

// TestCSVTypes gives one field to one declared column.
func TestCSVTypes(t *testing.T) {
	for _, tt := range []struct{ typ, field, want string }{
		{"int64", "-007", "-7"},
		{"int64", "007", "7"},
		{"int64", "+5", "5"},
		{"int64", "", "null@0"},
		{"int64", `""`, "type"},
		{"int64", "9223372036854775808", "type"},
		{"int64", "1.0", "type"},
		{"int32", "2147483648", "type"},
		{"double", "1e3", "1000"},
		{"double", "9007199254740993", "type"},
		{"double", "NaN", "type"},
		{"double", "-.5", "-0.5"},
		{"double", "5.", "type"},
		{"double", "--5", "type"},
		{"double", "0x10", "type"},
		{"double", "1_000", "type"},
		{"decimal(10,2)", "-123.45", "-12345"},
		{"decimal(10,2)", "1.234", "type"},
		{"bool", "true", "true"},
		{"bool", "0", "false"},
		{"bool", "yes", "type"},
		{"date", "2020-01-02", "18263"},
		{"timestamp_ms", "2020-01-01T00:00:00Z", "1577836800000"},
		{"timestamp_ms", "1577836800000", "1577836800000"},
		{"timestamp_ms", "2020-01-01 00:00:00", "type"}, // no zone is given
		{"json", `"{""a"":1}"`, `"{\"a\":1}"`},
		{"json", "{", "type"},
		{"bytes", "\xff", `"\xff"`},
		{"string", "", "null@0"},
		{"string", `""`, `""`},
	} {
		o := csvOptions("x y")
		s, err := o.Base(&Schema{Fields: []Field{{Name: "v", From: []string{"x"}, Type: mustType(t, tt.typ)}}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecoder(s, o)
		if err != nil {
			t.Fatal(err)
		}
		c := NewColumns(s)
		_, err = d.Append(c, &Message{Timestamp: 1, Value: []byte(tt.field + ",rest")})
		var br *BadRecord
		got := ""
		if errors.As(err, &br) {
			got = string(br.Reason)
		} else if err == nil {
			got = show(c, "v", 0)
		}
		if got != tt.want {
			t.Errorf("%s %q = %s, want %s", tt.typ, tt.field, got, tt.want)
		}
	}
}

// TestCSVTime reads the event time from a field by the job's format.
func TestCSVTime(t *testing.T) {
	o := csvOptions("when n")
	o.Delimiter = ";"
	o.Time = TimeOptions{Field: []string{"when"}, Format: "%d.%m.%Y %H:%M", Zone: "Europe/Berlin"}
	s, err := o.Base(&Schema{Fields: []Field{{Name: "when", Type: mustType(t, "timestamp_ms")}, {Name: "n", Type: mustType(t, "int64")}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := NewColumns(s)
	at, err := d.Append(c, &Message{Timestamp: 1, Value: []byte("01.07.2020 12:00;3")})
	if err != nil || at != 1593597600e6 || show(c, "when", 0) != "1593597600000" || show(c, "n", 0) != "3" {
		t.Errorf("%d %v %s", at, err, show(c, "when", 0))
	}
	for _, record := range []string{";3", "29.03.2020 02:30;3", "x;3"} {
		var br *BadRecord
		if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(record)}); !errors.As(err, &br) || br.Reason != BadTime {
			t.Errorf("%s: %v", record, err)
		}
		if _, err := d.Time(&Message{Timestamp: 1, Value: []byte(record)}); !errors.As(err, &br) || br.Reason != BadTime {
			t.Errorf("Time of %s: %v", record, err)
		}
	}
	// Epoch seconds, into a column of milliseconds too.
	o.Time, o.Delimiter = TimeOptions{Field: []string{"when"}, Format: "epoch_s"}, ""
	if d, err = NewDecoder(s, o); err != nil {
		t.Fatal(err)
	}
	c.Reset()
	if at, err := d.Append(c, &Message{Timestamp: 1, Value: []byte("1737077295,3")}); err != nil || at != 1737077295e6 || show(c, "when", 0) != "1737077295000" {
		t.Errorf("%d %v %s", at, err, show(c, "when", 0))
	}
}

// TestTextAndRaw put the value into one column.
func TestTextAndRaw(t *testing.T) {
	value := "line \xff\n"
	for kind, want := range map[string]string{"text": `"line �\n"`, "raw": `"line \xff\n"`} {
		o := Options{Value: kind, Time: TimeOptions{Field: []string{"_timestamp"}}}
		d, c := newDecoder(t, o, nil)
		for _, v := range [][]byte{[]byte(value), {}} {
			if _, err := d.Append(c, &Message{Offset: 3, Timestamp: 9, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Append(c, &Message{Timestamp: 9}); !errors.Is(err, ErrSkip) {
			t.Errorf("tombstone: %v", err)
		}
		if a, b := show(c, "value", 0), show(c, "value", 1); a != want || b != `""` || show(c, "_offset", 0) != "3" {
			t.Errorf("%s: %s, %s", kind, a, b)
		}
	}
}

// TestTypeText reads and prints types in both forms.
func TestTypeText(t *testing.T) {
	for _, text := range []string{
		"bool", "int32", "int64", "float", "double", "string", "bytes", "date", "uuid", "json", "timestamp_ms", "timestamp_us", "timestamp_ns",
		"timestamp_ms_local", "timestamp_us_local", "timestamp_ns_local", "decimal(10,2)", "list<int64>", "map<list<string>>",
		`struct<a:int64,b:struct<"x.y, \"z\"":date,é:bool>>`, "list<struct<a:decimal(38,38)>>",
	} {
		typ, err := ParseType(text)
		if err != nil || typ.String() != text {
			t.Errorf("%s: %v %v", text, typ, err)
			continue
		}
		b, err := typ.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back Type
		if err := back.UnmarshalJSON(b); err != nil || !reflect.DeepEqual(&back, typ) {
			t.Errorf("%s through JSON %s: %v %v", text, b, &back, err)
		}
	}
	for _, text := range []string{
		"", "int", "Int64", "decimal", "decimal(0,0)", "decimal(39,0)", "decimal(5,6)", "decimal(5)", "list", "list<>", "list<int64", "list<int64>x", "struct<>",
		"struct<a>", "struct<a:int64,A:int64>", "struct<:int64>", "map<string,int64>", "timestamp", "timestamp_s", strings.Repeat("list<", 40) + "bool" + strings.Repeat(">", 40),
	} {
		if typ, err := ParseType(text); err == nil {
			t.Errorf("%q read as %s", text, typ)
		}
	}
	for _, text := range []string{`{"list":"int64","map":"int64"}`, `{}`, `5`, `"nope"`, `{"list":5}`} {
		if err := new(Type).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s read as a type", text)
		}
	}
}

// TestOptionsRefused lists options that could not be carried out.
func TestOptionsRefused(t *testing.T) {
	good := func() Options { return csvOptions("a b") }
	o := good()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *Options){
		"value":          func(o *Options) { o.Value = "xml" },
		"columns":        func(o *Options) { o.Columns = nil },
		"twice":          func(o *Options) { o.Columns = []string{"a", "a"} },
		"csv only":       func(o *Options) { o.Value = "json" },
		"delimiter":      func(o *Options) { o.Delimiter = "||" },
		"quote":          func(o *Options) { o.Delimiter = `"` },
		"key":            func(o *Options) { o.Key = "avro" },
		"tombstones":     func(o *Options) { o.Tombstones = "keep" },
		"on_bad":         func(o *Options) { o.OnBad = "drop" },
		"metadata":       func(o *Options) { o.Metadata = []string{"_nope"} },
		"no time":        func(o *Options) { o.Time.Field = nil },
		"no such field":  func(o *Options) { o.Time.Field = []string{"c"} },
		"empty window":   func(o *Options) { o.Time.PlausibleFrom, o.Time.PlausibleTo = new(Instant(5)), new(Instant(5)) },
		"empty new name": func(o *Options) { o.Rename = map[string]string{"a": ""} },
		"text field":     func(o *Options) { *o = Options{Value: "text", Time: TimeOptions{Field: []string{"a"}}} },
	} {
		o := good()
		change(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("%s: passed", name)
		}
		if d, err := NewDecoder(&Schema{}, o); err == nil || d != nil {
			t.Errorf("%s: NewDecoder passed", name)
		}
	}
}

// TestSchemasRefused lists schemas no file could hold.
func TestSchemasRefused(t *testing.T) {
	i64 := &Type{Kind: Int64}
	for name, fields := range map[string][]Field{
		"none":             nil,
		"no name":          {{Name: "", Type: i64}},
		"no type":          {{Name: "a"}},
		"case twins":       {{Name: "a", Type: i64}, {Name: "A", Type: i64}},
		"not UTF-8":        {{Name: "\xff", Type: i64}},
		"late metadata":    {{Name: "a", Type: i64}, {Name: "_offset", Type: i64}},
		"no element":       {{Name: "a", Type: &Type{Kind: List}}},
		"no members":       {{Name: "a", Type: &Type{Kind: Struct}}},
		"member from path": {{Name: "a", Type: &Type{Kind: Struct, Fields: []Field{{Name: "b", From: []string{"c", "d"}, Type: i64}}}}},
		"no kind":          {{Name: "a", Type: &Type{}}},
	} {
		if err := (&Schema{Fields: fields}).Validate(); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
