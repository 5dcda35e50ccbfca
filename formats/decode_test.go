package formats

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// show prints row i of one top-level column of flat or list type.
func show(c *Columns, name string, i int) string {
	for at := range c.leaves {
		l := &c.leaves[at]
		if l.Path[0] != name {
			continue
		}
		row, value := -1, 0
		var out []string
		v := &c.vecs[at]
		for e := range max(len(v.Def), valuesOf(v)) {
			def, rep := l.MaxDef, int16(0)
			if l.MaxDef > 0 {
				def = v.Def[e]
			}
			if l.MaxRep > 0 {
				rep = v.Rep[e]
			}
			if rep == 0 {
				row++
			}
			if row == i {
				if def == l.MaxDef {
					out = append(out, showValue(l, v, value))
				} else {
					out = append(out, fmt.Sprintf("null@%d", def))
				}
			}
			if def == l.MaxDef {
				value++
			}
		}
		return strings.Join(out, " ")
	}
	return "no column"
}

func valuesOf(v *Vector) int {
	return len(v.Bools) + len(v.Int32s) + len(v.Int64s) + len(v.Floats) + len(v.Doubles) + len(v.Ends)
}

func showValue(l *Leaf, v *Vector, i int) string {
	switch l.Store {
	case StoreBool:
		return fmt.Sprint(v.Bools[i])
	case StoreInt32:
		return fmt.Sprint(v.Int32s[i])
	case StoreInt64:
		return fmt.Sprint(v.Int64s[i])
	case StoreFloat:
		return fmt.Sprint(v.Floats[i])
	case StoreDouble:
		return fmt.Sprint(v.Doubles[i])
	case StoreFixed16:
		return hex.EncodeToString(v.Value(i))
	default:
		return fmt.Sprintf("%q", v.Value(i))
	}
}

// schemaOf declares columns "name type" with the options' metadata columns.
func schemaOf(t *testing.T, o Options, columns ...string) *Schema {
	t.Helper()
	declared := &Schema{}
	for _, c := range columns {
		name, text, _ := strings.Cut(c, " ")
		declared.Fields = append(declared.Fields, Field{Name: name, Type: mustType(t, text)})
	}
	s, err := o.Base(declared)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestValues gives one JSON value to one column.
func TestValues(t *testing.T) {
	for _, tt := range []struct{ typ, value, want string }{
		{"int64", "9007199254740993", "9007199254740993"},
		{"int64", "9223372036854775807", "9223372036854775807"},
		{"int64", "-9223372036854775808", "-9223372036854775808"},
		{"int64", "9223372036854775808", "type"},
		{"int64", "-9223372036854775809", "type"},
		{"int64", "-0", "type"},
		{"int64", "1.0", "type"},
		{"int64", "1E5", "type"},
		{"int64", `"5"`, "type"},
		{"int64", "true", "type"},
		{"int64", "[]", "type"},
		{"int64", "null", "null@0"},
		{"int32", "2147483648", "type"},
		{"double", "1E5", "100000"},
		{"double", "-0", "-0"},
		{"double", "0.1", "0.1"},
		{"double", "9007199254740992", "9.007199254740992e+15"},
		{"double", "9007199254740993", "type"},
		{"double", "327267367867168100000", "type"},
		{"double", "1e400", "number"},
		{"double", "-1e400", "number"},
		{"double", "1e-400", "0"},
		{"double", "2.2250738585072014e-308", "2.2250738585072014e-308"},
		{"double", "123456789.123456789123456789", "1.2345678912345679e+08"},
		{"float", "16777217.5", "1.6777218e+07"},
		{"float", "1e39", "type"},
		{"decimal(38,0)", "327267367867168100000", "0000000000000011bdbf41236ba48ea0"},
		{"decimal(38,0)", "-1", strings.Repeat("f", 32)},
		{"decimal(38,2)", "0.10", fmt.Sprintf("%032x", 10)},
		{"decimal(38,2)", "0.001", "type"},
		{"decimal(9,2)", "1e3", "100000"},
		{"decimal(9,2)", "12345678", "type"},
		{"decimal(18,0)", "-5e-1", "type"},
		{"decimal(18,1)", "-5e-1", "-5"},
		{"bool", "true", "true"},
		{"bool", "1", "type"},
		{"string", "1", "type"},
		{"string", `""`, `""`},
		{"string", `"\ud83d\ude00\ud800x"`, `"😀�x"`},
		{"json", `{"a" : [1e400]}`, `"{\"a\" : [1e400]}"`},
		{"json", "null", "null@0"},
		{"uuid", `"00112233-4455-6677-8899-AABBCCDDEEFF"`, "00112233445566778899aabbccddeeff"},
		{"uuid", `"00112233445566778899aabbccddeeff"`, "type"},
		{"date", `"1969-12-31"`, "-1"},
		{"date", `"2023-02-29"`, "type"},
		{"timestamp_ms", `"1969-12-31T23:59:59.9991Z"`, "-1"},
		{"timestamp_us", "-5", "-5"},
		{"timestamp_ns", "1.9", "1"},
		{"timestamp_ns", `"2300-01-01T00:00:00Z"`, "type"},
		{"timestamp_ms_local", `"1970-01-01T00:00:01+09:00"`, "1000"},
		{"timestamp_ms", `"yesterday"`, "type"},
		{"list<int64>", "[null]", "null@2"},
		{"list<int64>", "[1,null,2]", "1 null@2 2"},
		{"list<int64>", "null", "null@0"},
		{"list<int64>", "[]", "null@1"},
		{"list<int64>", "1", "type"},
		{"list<int64>", "[1,[2]]", "type"},
		{"map<int64>", `{"a":1,"b":2,"a":3}`, `"b" "a"`},
		{"map<int64>", "{}", "null@1"},
		{"struct<a:int64>", `{"b":1}`, "null@1"},
		{"struct<a:int64>", "3", "type"},
	} {
		s := schemaOf(t, jsonOptions(), "x "+tt.typ)
		d := newJSON(t, s, jsonOptions())
		c := NewColumns(s)
		m := &Message{Partition: 4, Offset: 9, Timestamp: 1, Value: []byte(`{"x":` + tt.value + `}`)}
		_, err := d.Append(c, m)
		var br *BadRecord
		got := "no row"
		if errors.As(err, &br) {
			got = string(br.Reason)
			if !strings.Contains(br.Detail, `"x"`) {
				t.Errorf("%s %s: %q does not name the column", tt.typ, tt.value, br.Detail)
			}
		} else if err == nil {
			got = show(c, "x", 0)
		}
		if got != tt.want {
			t.Errorf("%s %s = %s, want %s", tt.typ, tt.value, got, tt.want)
		}
	}
}

// TestBadJSONRecords covers values that are no record at all.
func TestBadJSONRecords(t *testing.T) {
	s := schemaOf(t, jsonOptions(), "a int64")
	d := newJSON(t, s, jsonOptions())
	c := NewColumns(s)
	for value, want := range map[string]Reason{
		"\x00\x00\x00\x00\x01{\"a\":1}": BadSyntax, "": BadSyntax, "\x00\x00\x00\x01": BadSyntax, `[{"a":1}]`: BadSyntax, `{"a":1}x`: BadSyntax,
		`"a"`: BadSyntax, `{"a":1`: BadSyntax, `{"z":` + strings.Repeat("[", 3000): BadTooDeep,
	} {
		var br *BadRecord
		_, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(value)})
		if !errors.As(err, &br) || br.Reason != want || br.Detail == "" {
			t.Errorf("%.30q: %v, want %s", value, err, want)
		}
	}
	if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(`{"a":1}`)}); err != nil || c.Rows() != 1 {
		t.Errorf("the good record after them: %v, %d rows", err, c.Rows())
	}
}

// TestNotes counts duplicates and repaired text.
func TestNotes(t *testing.T) {
	s := schemaOf(t, jsonOptions(), "a int64", "s string")
	d := newJSON(t, s, jsonOptions())
	c := NewColumns(s)
	for _, value := range []string{`{"a":1,"a":2}`, `{"s":"\ud800"}`, "{\"s\":\"\xff\"}", `{"a":"bad","a":"twice"}`} {
		_, _ = d.Append(c, &Message{Timestamp: 1, Value: []byte(value)}) // the last one is bad
	}
	if n := d.Notes(); n["duplicate_keys"] != 1 || n["replaced_utf8"] != 2 || len(n) != 2 || show(c, "a", 0) != "2" {
		t.Errorf("notes %v, a = %s", n, show(c, "a", 0))
	}
}

// TestMetadataColumns fills every metadata column.
func TestMetadataColumns(t *testing.T) {
	o := jsonOptions()
	o.Metadata, o.Tombstones = MetadataColumns[:], "row"
	s := schemaOf(t, o, "a int64")
	d := newJSON(t, s, o)
	c := NewColumns(s)
	for _, m := range []*Message{
		{Topic: "t", Partition: 2, Offset: 7, Timestamp: 123, Key: []byte{0xff}, Value: []byte(`{"a":1}`), Headers: []Header{{"h", []byte("x")}, {"h", nil}, {"e", []byte{}}}},
		{Topic: "t", Partition: 2, Offset: 8, Timestamp: 124, Key: []byte{}, Value: nil},
	} {
		if _, err := d.Append(c, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, first, second string }{
		{"_topic", `"t"`, `"t"`},
		{"_partition", "2", "2"},
		{"_offset", "7", "8"},
		{"_timestamp", "123", "124"},
		{"_key", `"\xff"`, `""`},
		{"_headers", `"h" "h" "e"`, "null@1"},
		{"_tombstone", "false", "true"},
		{"a", "1", "null@0"},
	} {
		if a, b := show(c, tt.name, 0), show(c, tt.name, 1); a != tt.first || b != tt.second {
			t.Errorf("%s = %s, %s; want %s, %s", tt.name, a, b, tt.first, tt.second)
		}
	}
	values := &c.vecs[6] // of the headers
	if fmt.Sprint(values.Def, values.Rep, values.Ends) != "[4 3 4 1] [0 1 1 0] [1 1]" {
		t.Errorf("header values: def %v rep %v ends %v", values.Def, values.Rep, values.Ends)
	}
	// Without a timestamp a tombstone has no event time.
	if _, err := d.Append(c, &Message{Timestamp: -1}); err == nil {
		t.Error("a tombstone without time passed")
	}
	o.Tombstones = "skip"
	d = newJSON(t, s, o)
	if _, err := d.Append(c, &Message{Timestamp: 1}); !errors.Is(err, ErrSkip) {
		t.Errorf("tombstone: %v", err)
	}
	if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte{}}); errors.Is(err, ErrSkip) || err == nil {
		t.Errorf("an empty value is no tombstone: %v", err)
	}
	o.Key, o.Metadata = "json", []string{"_key", "_timestamp"}
	s = schemaOf(t, o, "a int64")
	d, c = newJSON(t, s, o), NewColumns(s)
	m := &Message{Timestamp: 5, Key: []byte(`{"k":1}`), Value: []byte(`{}`)}
	if _, err := d.Append(c, m); err != nil || show(c, "_key", 0) != `"{\"k\":1}"` {
		t.Errorf("json key: %v %s", err, show(c, "_key", 0))
	}
	m.Key = []byte("{")
	if _, err := d.Append(c, m); err == nil || c.Rows() != 1 {
		t.Errorf("bad json key: %v", err)
	}
}

// TestColumnOptions covers include, exclude, rename and hash on declared columns.
func TestColumnOptions(t *testing.T) {
	o := jsonOptions()
	o.Exclude, o.Rename, o.Hash = []string{"secret*"}, map[string]string{"b": "bee", "c": "BEE"}, []string{"mail", "n", "obj"}
	o.Reserved = []string{"dt"}
	s := schemaOf(t, o, "a int64", "secretKey string", "b int64", "c int64", "mail string", "n int64", "obj struct<x:int64>", "dt string", "_offset string", "DT int64")
	var names []string
	for _, f := range s.Fields {
		names = append(names, f.Name+" "+strings.Join(f.From, "."))
	}
	want := "_partition |_offset |a |bee b|BEE_2 c|mail |n |obj |dt_2 dt|DT_3 DT"
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("columns %s\nwant    %s", got, want)
	}
	d, c := newJSON(t, s, o), NewColumns(s)
	for _, value := range []string{`{"mail":"a@b","n":12,"obj":{"x":1},"b":1,"c":2}`, `{"mail":"a\u0040b","n":null}`} {
		if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	const sum = `"7508d8b5018ea640b85269861a101203f0c26900555268e930025dac844b0f35"` // printf a@b | sha256sum
	if a, b := show(c, "mail", 0), show(c, "mail", 1); a != sum || b != sum {
		t.Errorf("mail = %s, %s", a, b)
	}
	if show(c, "n", 0) != `"6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"` || show(c, "n", 1) != "null@0" {
		t.Errorf("n = %s, %s", show(c, "n", 0), show(c, "n", 1))
	}
	if show(c, "obj", 0) != `"5041bf1f713df204784353e82f6a4a535931cb64f1f4b4a5aeaffcb720918b22"` {
		t.Errorf("obj = %s", show(c, "obj", 0))
	}
	// A schema that keeps the value of a column to be hashed is refused.
	if _, err := NewDecoder(&Schema{Fields: []Field{{Name: "n", Type: &Type{Kind: Int64}}}}, o); err == nil {
		t.Error("a hashed int64 column passed")
	}
}

// TestTruncate rolls back rows of every shape.
func TestTruncate(t *testing.T) {
	s := mixedSchema(t, false)
	d := newJSON(t, s, jsonOptions())
	c := NewColumns(s)
	var dumps []string
	for i, value := range fastSlowSeeds {
		dumps = append(dumps, dump(c))
		if _, err := d.Append(c, &Message{Timestamp: int64(i), Value: []byte(value)}); err != nil {
			dumps = dumps[:len(dumps)-1]
		}
	}
	if c.Rows() != len(dumps) || c.Rows() < 20 {
		t.Fatalf("%d rows", c.Rows())
	}
	for rows := c.Rows() - 1; rows >= 0; rows-- {
		if c.Truncate(rows); dump(c) != dumps[rows] {
			t.Fatalf("Truncate(%d):\n%s\nwant\n%s", rows, dump(c), dumps[rows])
		}
	}
}

// TestDigestIgnoresBatches adds the same rows in two ways, and other rows.
func TestDigestIgnoresBatches(t *testing.T) {
	s := mixedSchema(t, false)
	digest := NewDigest(s)
	sum := func(batch int, values []string) string {
		d, c := newJSON(t, s, jsonOptions()), NewColumns(s)
		digest.Reset()
		for _, value := range values {
			_, _ = d.Append(c, &Message{Timestamp: 1, Value: []byte(value)}) // bad ones are no rows
			if c.Rows() == batch {
				digest.Add(c)
				c.Reset()
			}
		}
		digest.Add(c)
		return digest.Sum()
	}
	whole := sum(1000, fastSlowSeeds)
	for _, batch := range []int{1, 2, 7} {
		if got := sum(batch, fastSlowSeeds); got != whole {
			t.Errorf("batches of %d: %s, whole %s", batch, got, whole)
		}
	}
	seen := map[string]string{whole: "all"}
	for name, values := range map[string][]string{
		"none": nil, "an empty row": {"{}"}, "empty string": {`{"s":""}`}, "text": {`{"s":"ab"}`}, "split text": {`{"s":"a"}`, `{"s":"b"}`},
		"lists": {`{"li":[1]}`, `{"li":[2]}`}, "one list": {`{"li":[1,2]}`}, "empty list": {`{"li":[]}`}, "null in list": {`{"li":[null]}`},
		"swapped": {`{"li":[2]}`, `{"li":[1]}`}, "true": {`{"b":true}`}, "false": {`{"b":false}`}, "zero": {`{"d":0}`}, "minus zero": {`{"d":-0}`},
	} {
		got := sum(1000, values)
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[got] = name
	}
}
