package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// mixedSchema has a column of every kind the JSON decoder knows.
func mixedSchema(tb testing.TB, inferred bool) *Schema {
	tb.Helper()
	s := &Schema{Inferred: inferred}
	for _, c := range []string{
		"b bool", "i int32", "l int64", "d double", "f float", "s string", "y bytes", "j json", "ts timestamp_ms", "day date",
		"u uuid", "dec decimal(20,2)", "li list<int64>", "ls list<struct<a:int64,b:list<string>>>", "st struct<a:int64,n:struct<x:string,z:double>>",
		"m map<int64>", "é string",
	} {
		name, text, _ := strings.Cut(c, " ")
		s.Fields = append(s.Fields, Field{Name: name, Type: mustType(tb, text)})
	}
	// The same value in two columns, and a path through an object that is a column too.
	s.Fields = append(s.Fields,
		Field{Name: "again", From: []string{"s"}, Type: &Type{Kind: String}},
		Field{Name: "deep", From: []string{"st", "n", "x"}, Type: &Type{Kind: String}},
		Field{Name: "path", From: []string{"p", "q"}, Type: &Type{Kind: Int64}})
	return s
}

func mustType(tb testing.TB, text string) *Type {
	tb.Helper()
	t, err := ParseType(text)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func jsonOptions(field ...string) Options {
	if len(field) == 0 {
		field = []string{"_timestamp"}
	}
	return Options{Value: "json", Time: TimeOptions{Field: field}}
}

// outcome is all a decoder says about a record.
type outcome struct {
	at    Instant
	err   string
	notes map[string]int64
	rows  string
}

func newJSON(tb testing.TB, s *Schema, o Options) *jsonDecoder {
	tb.Helper()
	d, err := NewDecoder(s, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d.(*jsonDecoder)
}

// decodeBoth decodes a value with the fast path on and with the slow path
// alone.
func decodeBoth(tb testing.TB, s *Schema, o Options, value []byte) (fast, slow outcome) {
	tb.Helper()
	run := func(onlySlow bool) outcome {
		d := newJSON(tb, s, o)
		c := NewColumns(s)
		m := &Message{Timestamp: 5, Value: []byte(`{"s":"before","li":[1]}`)}
		if _, err := d.Append(c, m); err != nil && !errors.As(err, new(*BadRecord)) {
			tb.Fatal(err)
		}
		before := dump(c)
		m.Value = value
		var out outcome
		var err error
		if onlySlow {
			if out.at, err = d.slow(c, m); err != nil {
				c.Truncate(c.rows)
			}
		} else {
			out.at, err = d.Append(c, m)
		}
		if err != nil {
			out.err = err.Error()
			if now := dump(c); now != before {
				tb.Errorf("%q: a failed Append left %s, before %s", value, now, before)
			}
		}
		out.notes, out.rows = d.Notes(), dump(c)
		return out
	}
	return run(false), run(true)
}

// dump prints all vectors.
func dump(c *Columns) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows, %d bytes", c.Rows(), c.Bytes())
	for i := range c.vecs {
		v := &c.vecs[i]
		fmt.Fprintf(&b, "\n%s %v %v %v %v %v %q %v def %v rep %v", strings.Join(c.leaves[i].Path, "."),
			v.Bools, v.Int32s, v.Int64s, v.Floats, v.Doubles, v.Data, v.Ends, v.Def, v.Rep)
	}
	return b.String()
}

var fastSlowSeeds = []string{
	`{}`, ` { } `, ``, ` `, `[]`, `null`, `{"s":"x"} trailing`, `{"s":"x"`, `{"s":}`, `{"s" "x"}`, `{,}`, `{"s":"x",}`, `{'s':1}`,
	`{"b":true,"i":1,"l":-9223372036854775808,"d":0.1,"f":1.5,"s":"a\"b\u00e9\ud83d\ude00","y":"z","j":{"a":[1,{}]},"ts":"2020-01-01T00:00:00Z","day":"2020-02-29"}`,
	`{"l":9223372036854775808}`, `{"l":-0}`, `{"l":1.0}`, `{"l":1E5}`, `{"i":2147483648}`, `{"d":9007199254740993}`, `{"d":9007199254740992}`, `{"d":1e400}`, `{"d":-0}`, `{"f":1e39}`,
	`{"dec":123456789012345678.99}`, `{"dec":"1.5"}`, `{"dec":1e3}`, `{"dec":0.001}`, `{"dec":-0.00}`, `{"u":"00112233-4455-6677-8899-aabbccddeeff"}`,
	`{"s":"\ud800","again":1}`, `{"s":"\ud800\ud800\udc00"}`, "{\"s\":\"\xff\xfe\"}", "{\"s\":\"a\x01\"}", `{"s":"\x"}`, `{"s":"\u12g4"}`,
	`{"s":1}`, `{"s":"x","s":"y"}`, `{"s":null,"s":"y"}`, `{"st":{"a":1,"a":2,"n":{"x":"q","x":"r"}}}`, `{"li":[1,null,2]}`, `{"li":[]}`, `{"li":null}`, `{"li":[1,"x"]}`, `{"li":{}}`,
	`{"ls":[{"a":1,"b":["x",null]},null,{},{"b":[]}]}`, `{"st":{}}`, `{"st":[]}`, `{"st":{"n":{"z":1e400}}}`, `{"m":{"a":1,"b":null,"a":2}}`, `{"m":{}}`, `{"m":{"a":"x"}}`,
	`{"unknown":null}`, `{"unknown":[]}`, `{"unknown":[null,{}]}`, `{"unknown":1}`, `{"unknown":{"a":{"b":[1]}}}`, `{"st":{"new":1}}`, `{"ls":[{"new":1}]}`, `{"unknown":1e400}`,
	`{"\u0073":"x"}`, `{"é":"ü"}`, "{\"\xc3\":1}", `{"p":{"q":1,"z":2}}`, `{"p":3}`, `{"p":{"q":1,"q":2}}`, `{"j":"a"}`, `{"j":null}`, "{\"j\":\"\xff\"}", `{"ts":5,"day":"2020-13-01"}`,
	`{"ts":"2020-01-01"}`, `{"st":` + strings.Repeat("[", 2000) + `}`, `{"j":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`, "\x00\x00\x00\x00\x01{\"a\":1}", `{"s":"x"}{"s":"y"}`, `{"s":tru}`, `{"b":truex}`, `{"l":01}`, `{"l":+1}`, `{"d":1.}`, `{"d":.5}`, `{"d":1e}`, `{"l":--1}`,
	"{\"s\"\t:\r\n\"x\" , \"i\" : 3 }", `{"s":"` + strings.Repeat("long ", 50) + `\n"}`,
}

// FuzzFastAgainstSlow compares the two paths, and the columns with what
// encoding/json makes of the record.
func FuzzFastAgainstSlow(f *testing.F) {
	for _, seed := range fastSlowSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, inferred := range []bool{false, true} {
			s := mixedSchema(t, inferred)
			fast, slow := decodeBoth(t, s, jsonOptions(), value)
			if !reflect.DeepEqual(fast, slow) {
				t.Errorf("%q (inferred %v):\nfast %+v\nslow %+v", value, inferred, fast, slow)
			}
			againstEncodingJSON(t, value, fast)
		}
		s := mixedSchema(t, false)
		fast, slow := decodeBoth(t, s, jsonOptions("ts"), value)
		if !reflect.DeepEqual(fast, slow) {
			t.Errorf("%q (time ts):\nfast %+v\nslow %+v", value, fast, slow)
		}
	})
}

// againstEncodingJSON holds that a record is accepted only if encoding/json
// takes it as an object, and that its plain columns hold what it reads.
func againstEncodingJSON(t *testing.T, value []byte, got outcome) {
	t.Helper()
	var record map[string]json.RawMessage
	err := json.Unmarshal(value, &record)
	if (err != nil || record == nil) != strings.Contains(got.err, "(syntax)") && !strings.Contains(got.err, "(depth)") {
		t.Errorf("%q: encoding/json says %v, we %q", value, err, got.err)
	}
	if got.err != "" || record == nil {
		return
	}
	d := newJSON(t, mixedSchema(t, false), jsonOptions())
	c := NewColumns(d.schema)
	if _, err := d.Append(c, &Message{Timestamp: 5, Value: value}); err != nil {
		return
	}
	for i := range c.leaves {
		leaf, v := &c.leaves[i], &c.vecs[i]
		raw, present := record[leaf.Path[0]]
		if leaf.MaxRep > 0 || len(leaf.Path) > 1 || leaf.Path[0] == "again" || leaf.Path[0] == "deep" || leaf.Path[0] == "path" {
			continue
		}
		present = present && string(raw) != "null"
		if present != (v.Def[0] == leaf.MaxDef) {
			t.Errorf("%q: %s present %v, def %v", value, leaf.Path, present, v.Def)
		}
		if !present {
			continue
		}
		switch leaf.Type.Kind {
		case String:
			var text string
			if err := json.Unmarshal(raw, &text); err != nil || text != string(v.Data) {
				t.Errorf("%q: %s %q, encoding/json %q %v", value, leaf.Path, v.Data, text, err)
			}
		case Int64, Int32:
			n := new(big.Int)
			if _, ok := n.SetString(string(raw), 10); !ok || leaf.Type.Kind == Int64 && n.Cmp(big.NewInt(v.Int64s[0])) != 0 {
				t.Errorf("%q: %s %v", value, leaf.Path, v.Int64s)
			}
		case Double:
			var d float64
			if err := json.Unmarshal(raw, &d); err != nil || d != v.Doubles[0] {
				t.Errorf("%q: %s %v, encoding/json %v %v", value, leaf.Path, v.Doubles, d, err)
			}
		case Decimal:
			want, ok := new(big.Rat).SetString(strings.Trim(string(raw), `"`))
			got := new(big.Rat).SetFrac(new(big.Int).SetBytes(v.Data), big.NewInt(100))
			if v.Data[0] >= 0x80 {
				got.Sub(got, new(big.Rat).SetFrac(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(100)))
			}
			if !ok || want.Cmp(got) != 0 {
				t.Errorf("%q: %s %v, want %v", value, leaf.Path, got, want)
			}
		case JSON:
			if utf8.Valid(raw) && !bytes.Equal(bytes.TrimSpace(raw), v.Data) {
				t.Errorf("%q: %s %q, want %q", value, leaf.Path, v.Data, raw)
			}
		}
	}
}

// TestFastAgainstSlowAtRandom mutates the seeds: a short run of the fuzz test
// for every test run.
func TestFastAgainstSlowAtRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s, si := mixedSchema(t, false), mixedSchema(t, true)
	for range 3000 {
		a := fastSlowSeeds[rnd.IntN(len(fastSlowSeeds))]
		b := fastSlowSeeds[rnd.IntN(len(fastSlowSeeds))]
		value := []byte(a)
		if len(a) > 2 && len(b) > 2 && len(a)+len(b) < 600 {
			value = []byte(a[:len(a)-1] + "," + b[1:])
		}
		if rnd.IntN(3) == 0 && len(value) > 0 {
			value[rnd.IntN(len(value))] = `{}[]":,\0159eE.-tfnu abs`[rnd.IntN(24)]
		}
		for _, schema := range []*Schema{s, si} {
			fast, slow := decodeBoth(t, schema, jsonOptions(), value)
			if !reflect.DeepEqual(fast, slow) {
				t.Fatalf("%q:\nfast %+v\nslow %+v", value, fast, slow)
			}
		}
	}
}

// TestFastPathIsTaken keeps the fast path from quietly sending plain records,
// nested ones and escaped strings to the slow one.
func TestFastPathIsTaken(t *testing.T) {
	d := newJSON(t, mixedSchema(t, true), jsonOptions("ts"))
	c := NewColumns(d.schema)
	for _, value := range []string{
		`{"b":true,"i":1,"l":2,"d":0.1,"f":1.5,"s":"a\"b\u00e9","y":"z","j":{"a":[1]},"ts":"2020-01-01T00:00:00Z","day":"2020-02-29","dec":1.5}`,
		`{"ts":"2020-01-01T00:00:00Z","li":[1,null],"ls":[{"a":1,"b":["x"]}],"st":{"a":1,"n":{"x":"y"}},"p":{"q":1},"unknown":null,"é":"ü"}`,
	} {
		d.fast.start(c, &Message{Value: []byte(value)})
		if !d.fast.record(d.root) {
			t.Errorf("the fast path gave up on %s", value)
		}
		c.endRow()
	}
}
