package formats

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// observe infers from values.
func observe(t *testing.T, o Options, values ...string) *Report {
	t.Helper()
	in := NewInference(nil, o)
	for _, v := range values {
		if err := in.Observe(&Message{Timestamp: 1, Value: []byte(v)}); err != nil && !errors.As(err, new(*BadRecord)) {
			t.Fatal(err)
		}
	}
	return in.Report()
}

// columnsOf prints the columns of a schema that are no metadata.
func columnsOf(s *Schema) string {
	var out []string
	for _, f := range s.Fields {
		if !f.Metadata() {
			text := f.Name + " " + f.Type.String()
			if f.From != nil {
				text += " from " + strings.Join(f.From, ".")
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// TestInferredTypes covers what values of one path become.
func TestInferredTypes(t *testing.T) {
	for _, tt := range []struct {
		values string // separated by spaces
		want   string // "" = no column
	}{
		{"1 2 null", "int64"},
		{"9007199254740993", "int64"},
		{"9223372036854775807 -9223372036854775808", "int64"},
		{"1 9223372036854775808", "decimal(38,0)"},
		{"327267367867168100000", "decimal(38,0)"},
		{strings.Repeat("9", 38), "decimal(38,0)"},
		{strings.Repeat("9", 39), "json"},
		{"0.1", "double"},
		{"1E5", "double"},
		{"-0", "double"},
		{"1 0.5", "double"},
		{"9007199254740992 0.5", "double"},
		{"9007199254740993 0.25", "decimal(38,2)"},
		{"9223372036854775808 1.5e-3", "decimal(38,4)"},
		{"9007199254740993 1e300", "json"},
		{"9007199254740993 1e-30", "json"},
		{"true false", "bool"},
		{`"2020-01-01T00:00:00Z"`, "string"},
		{`1 "x"`, "json"},
		{`true 1`, "json"},
		{"null", ""},
		{"[]", ""},
		{"{}", ""},
		{"[] {} null", ""},
		{"[null]", ""},
		{"[[],{}]", ""},
		{`{"a":null}`, ""},
		{"[1] []", "list<int64>"},
		{"[null,1.5] [2]", "list<double>"},
		{`[1,"x"]`, "list<json>"},
		{"[[1],[]]", "list<list<int64>>"},
		{`{"b":1} {"a":"x"} {}`, "struct<a:string,b:int64>"},
		{`{"A":1,"a":2}`, "struct<A:int64,a_2:int64>"},
		{`[{"x":1},{"y":[true]}]`, "list<struct<x:int64,y:list<bool>>>"},
		{`{"a":1} []`, "json"},
		{`[1] {}`, "json"},
		{`"x" {}`, "json"},
		{`{"a":1} 5`, "json"},
		{strings.Repeat("[", 32) + "1" + strings.Repeat("]", 32), strings.Repeat("list<", 32) + "int64" + strings.Repeat(">", 32)},
		{strings.Repeat("[", 33) + "1" + strings.Repeat("]", 33), strings.Repeat("list<", 32) + "json" + strings.Repeat(">", 32)},
	} {
		var values []string
		for v := range strings.SplitSeq(tt.values, " ") {
			values = append(values, `{"x":`+v+`}`)
		}
		s, err := observe(t, jsonOptions(), values...).Extend(nil, jsonOptions())
		if err != nil {
			t.Errorf("%s: %v", tt.values, err)
			continue
		}
		want := ""
		if tt.want != "" {
			want = "x " + tt.want
		}
		if got := columnsOf(s); got != want {
			t.Errorf("%s → %q, want %q", tt.values, got, want)
			continue
		}
		// Every observed value fits the columns it led to.
		d := newJSON(t, s, jsonOptions())
		c := NewColumns(s)
		for _, v := range values {
			if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(v)}); err != nil {
				t.Errorf("%s does not fit %s: %v", v, columnsOf(s), err)
			}
		}
	}
}

// TestExtendFreezes keeps what a schema has and appends in byte order of path.
func TestExtendFreezes(t *testing.T) {
	o := jsonOptions()
	o.Reserved = []string{"dt", "hr"}
	first, err := observe(t, o, `{"b":1,"B":2,"st":{"x":1},"items":[],"dt":"x","_offset":5}`).Extend(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := columnsOf(first), "B int64; _offset_2 int64 from _offset; b_2 int64 from b; dt_2 string from dt; st struct<x:int64>"; got != want {
		t.Errorf("first %s\nwant  %s", got, want)
	}
	second, err := observe(t, o, `{"b":"text","a":true,"items":[1],"st":{"y":"z","X":1}}`, `{"c":1e400}`, `{"hr":3}`).Extend(first, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := columnsOf(second), "B int64; _offset_2 int64 from _offset; b_2 int64 from b; dt_2 string from dt; st struct<x:int64,X_2:int64,y:string>; a bool; hr_2 int64 from hr; items list<int64>"; got != want {
		t.Errorf("second %s\nwant   %s", got, want)
	}
	if reflect.DeepEqual(first.Fields[6].Type, second.Fields[6].Type) || columnsOf(first)[:5] != "B int" {
		t.Error("the base schema was changed")
	}
	var back Schema
	text, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, second) {
		t.Errorf("schema through JSON: %v\n%s", err, text)
	}
	// What does not fit the frozen type is a bad record, what is new is unknown.
	d := newJSON(t, second, o)
	c := NewColumns(second)
	var br *BadRecord
	if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(`{"b":"text"}`)}); !errors.As(err, &br) || br.Reason != BadType {
		t.Errorf("drift: %v", err)
	}
	for _, value := range []string{`{"new":1}`, `{"st":{"new":[{"a":0}]}}`, `{"b":"text","new":1}`} {
		if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(value)}); !errors.Is(err, ErrUnknownPath) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(`{"new":[1,1e400]}`)}); !errors.As(err, &br) || br.Reason != BadNumber {
		t.Errorf("a number inference refuses: %v", err)
	}
	again, err := observe(t, o).Extend(second, o)
	if err != nil || !reflect.DeepEqual(again, second) {
		t.Errorf("an empty report changed the schema: %v", err)
	}
}

// randomRecord makes a nested record from a small alphabet of keys.
func randomRecord(rnd *rand.Rand, depth int) string {
	scalars := []string{"1", "0.5", `"s"`, "true", "null", "[]", "{}", "9007199254740993", "9223372036854775808"}
	var b strings.Builder
	b.WriteByte('{')
	for i := range rnd.IntN(4) {
		if i > 0 {
			b.WriteByte(',')
		}
		value := scalars[rnd.IntN(len(scalars))]
		switch {
		case depth > 0 && rnd.IntN(3) == 0:
			value = randomRecord(rnd, depth-1)
		case depth > 0 && rnd.IntN(4) == 0:
			value = "[" + randomRecord(rnd, depth-1) + "," + scalars[rnd.IntN(len(scalars))] + "]"
		}
		fmt.Fprintf(&b, `"%c":%s`, 'a'+rune(rnd.IntN(6)), value)
	}
	return b.String() + "}"
}

// TestInferenceConverges holds the loop the loader relies on: after Extend the
// records that led to it meet no unknown path, in any order and any split.
func TestInferenceConverges(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := jsonOptions()
		switch seed % 4 {
		case 1:
			o.Exclude = []string{"a.b", "c"}
		case 2:
			o.Include = []string{"a", "b.c", "d*"}
		case 3:
			o.Hash = []string{"a", "b.c"}
		}
		var values []string
		for range 30 {
			values = append(values, randomRecord(rnd, 3))
		}
		base, err := observe(t, o, values[:5]...).Extend(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := observe(t, o, values...).Extend(base, o)
		if err != nil {
			t.Fatal(err)
		}
		// The same from parts, merged in another order and through JSON.
		var merged *Report
		perm := rnd.Perm(len(values))
		for len(perm) > 0 {
			n := min(1+rnd.IntN(8), len(perm))
			var part []string
			for _, i := range perm[:n] {
				part = append(part, values[i])
			}
			perm = perm[n:]
			text, err := json.Marshal(observe(t, o, part...))
			if err != nil {
				t.Fatal(err)
			}
			var report Report
			if err := json.Unmarshal(text, &report); err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(2) == 0 {
				merged = Merge(merged, &report)
			} else {
				merged = Merge(&report, merged)
			}
		}
		parts, err := merged.Extend(base, o)
		if err != nil || !reflect.DeepEqual(parts, whole) || merged.Records != int64(len(values)) {
			t.Fatalf("seed %d: merged parts give %s, the whole %s, %v", seed, columnsOf(parts), columnsOf(whole), err)
		}
		d, c := newJSON(t, whole, o), NewColumns(whole)
		for _, v := range values {
			if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(v)}); errors.Is(err, ErrUnknownPath) {
				t.Fatalf("seed %d: %s is still unknown to %s", seed, v, columnsOf(whole))
			}
		}
	}
}

// TestColumnLimit gives more paths than a schema may have columns.
func TestColumnLimit(t *testing.T) {
	object := func(from, n int) string {
		var b strings.Builder
		for i := from; i < from+n; i++ {
			fmt.Fprintf(&b, `,"k%05d":%d`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	t.Run("a wide member becomes text", func(t *testing.T) {
		value := `{"a":1,"ids":` + object(0, 2500) + `,"z":{"q":1}}`
		s, err := observe(t, jsonOptions(), value).Extend(nil, jsonOptions())
		if err != nil || columnsOf(s) != "a int64; ids json; z struct<q:int64>" {
			t.Fatalf("%v %.200s", err, columnsOf(s))
		}
	})
	t.Run("too many columns leave a rest", func(t *testing.T) {
		o := jsonOptions()
		values := []string{object(0, 1500), object(1500, 1500), `{"k00001":null,"zz":"rest","zy":{"n":1}}`}
		s, err := observe(t, o, values...).Extend(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Leaves()); n != MaxColumns || s.Fields[len(s.Fields)-1].Name != "_rest" {
			t.Fatalf("%d leaves, last column %s", n, s.Fields[len(s.Fields)-1].Name)
		}
		d, c := newJSON(t, s, o), NewColumns(s)
		for _, v := range values {
			if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte(v)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := show(c, "_rest", 2); got != `"{\"zz\":\"rest\",\"zy\":{\"n\":1}}"` {
			t.Errorf("_rest = %s", got)
		}
		if again, err := observe(t, o, `{"zzz":1}`).Extend(s, o); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("a schema with a rest grew: %v", err)
		}
	})
	t.Run("crowded objects merge in any order", func(t *testing.T) {
		o := jsonOptions()
		parts := []string{`{"m":` + object(0, 3000) + `}`, `{"m":` + object(3000, 3000) + `}`, `{"m":{"k00001":"x"}}`}
		a := Merge(observe(t, o, parts[0]), Merge(observe(t, o, parts[1]), observe(t, o, parts[2])))
		b := Merge(Merge(observe(t, o, parts[2]), observe(t, o, parts[0])), observe(t, o, parts[1]))
		if c := observe(t, o, parts...); !reflect.DeepEqual(a, b) || !reflect.DeepEqual(a, c) {
			t.Error("three orders, three reports")
		}
	})
}
