package readers

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"sawlog/formats"
)

// random makes schemas and records.
type random struct {
	*rand.Rand
	nulls int // percent
}

var scalarTypes = []string{
	"bool", "int32", "int64", "float", "double", "string", "bytes", "date", "uuid", "json", "timestamp_ms", "timestamp_us", "timestamp_ns",
	"timestamp_ms_local", "timestamp_us_local", "timestamp_ns_local", "decimal(4,2)", "decimal(9,0)", "decimal(10,10)", "decimal(18,3)", "decimal(19,0)", "decimal(38,38)", "decimal(38,5)",
}

// names of columns and members that readers might trip over.
var names = []string{"a", "b.c", "ünïcode", "has space", "0digit", `quo"te`, "list", "element", "key_value", "select", "x-y", "_under", "comma,colon:", "$", "\U0001F600"}

func (r *random) typ(depth int) *formats.Type {
	switch n := r.IntN(8); {
	case depth > 0 && n < 2:
		return &formats.Type{Kind: formats.List, Elem: r.typ(depth - 1)}
	case depth > 0 && n == 2:
		return &formats.Type{Kind: formats.Map, Elem: r.typ(depth - 1)}
	case depth > 0 && n < 5:
		t := &formats.Type{Kind: formats.Struct}
		for _, i := range r.Perm(len(names))[:1+r.IntN(4)] {
			t.Fields = append(t.Fields, formats.Field{Name: names[i], Type: r.typ(depth - 1)})
		}
		return t
	}
	return typed(scalarTypes[r.IntN(len(scalarTypes))])
}

func typed(text string) *formats.Type {
	t, err := formats.ParseType(text)
	if err != nil {
		panic(err)
	}
	return t
}

// schema is a data set's, with its metadata columns.
func (r *random) schema(columns int) *formats.Schema {
	s := &formats.Schema{}
	for i := range columns {
		s.Fields = append(s.Fields, formats.Field{Name: fmt.Sprint(names[i%len(names)], i), Type: r.typ(3)})
	}
	return based(s)
}

func based(declared *formats.Schema) *formats.Schema {
	o := formats.Options{Value: "json"}
	s, err := o.Base(declared)
	if err != nil {
		panic(err)
	}
	return s
}

// record is a record of a schema as JSON, and its row.
func (r *random) record(s *formats.Schema, offset int) (text string, row []any) {
	var members []string
	for i := range s.Fields {
		f := &s.Fields[i]
		switch {
		case f.Name == "_partition":
			row = append(row, json.Number("0"))
			continue
		case f.Name == "_offset":
			row = append(row, json.Number(strconv.Itoa(offset)))
			continue
		}
		in, want := r.value(f.Type)
		row = append(row, want)
		if in != "null" || r.IntN(2) == 0 {
			members = append(members, quoted(f.Name)+":"+in)
		}
	}
	return "{" + strings.Join(members, ",") + "}", row
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// value is a value of a type as JSON has it and as readers print it.
func (r *random) value(t *formats.Type) (in string, want any) {
	if r.IntN(100) < r.nulls {
		return "null", nil
	}
	switch t.Kind {
	case formats.List:
		elems, out := []string{}, []any{}
		for range r.IntN(4) {
			in, want := r.value(t.Elem)
			elems, out = append(elems, in), append(out, want)
		}
		return "[" + strings.Join(elems, ",") + "]", out
	case formats.Map:
		entries, out := []string{}, []any{}
		for i := range r.IntN(4) {
			key := fmt.Sprint(i, r.text())
			in, want := r.value(t.Elem)
			entries, out = append(entries, quoted(key)+":"+in), append(out, []any{key, want})
		}
		return "{" + strings.Join(entries, ",") + "}", out
	case formats.Struct:
		members, out := []string{}, map[string]any{}
		for i := range t.Fields {
			in, want := r.value(t.Fields[i].Type)
			out[t.Fields[i].Name] = want
			if in != "null" || r.IntN(2) == 0 {
				members = append(members, quoted(t.Fields[i].Name)+":"+in)
			}
		}
		return "{" + strings.Join(members, ",") + "}", out
	}
	return r.scalar(t)
}

func (r *random) scalar(t *formats.Type) (in string, want any) {
	switch t.Kind {
	case formats.Bool:
		b := r.IntN(2) == 0
		return strconv.FormatBool(b), b
	case formats.Int32:
		n := strconv.Itoa(int(pick(r, math.MinInt32, math.MaxInt32, 0, -1, int32(r.Uint32()), int32(r.IntN(9)))))
		return n, json.Number(n)
	case formats.Int64:
		n := strconv.FormatInt(pick(r, math.MinInt64, math.MaxInt64, 0, -1, int64(r.Uint64()), r.Int64N(9)), 10)
		return n, json.Number(n)
	case formats.Float:
		f := pick(r, 0, float32(math.Copysign(0, -1)), math.MaxFloat32, math.SmallestNonzeroFloat32, -1.5, r.Float32())
		text := strconv.FormatFloat(float64(f), 'g', -1, 64) // a column takes what it holds exactly
		return text, text
	case formats.Double:
		f := pick(r, 0, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64, -1.5, r.NormFloat64())
		text := strconv.FormatFloat(f, 'g', -1, 64)
		return text, text
	case formats.String:
		s := r.text()
		return quoted(s), s
	case formats.Bytes:
		s := r.text()
		return quoted(s), base64.StdEncoding.EncodeToString([]byte(s))
	case formats.Date:
		day := int64(r.IntN(3_652_000) - 719_000) // years 1 to 9999
		return time.Unix(day*86400, 0).UTC().Format(`"2006-01-02"`), json.Number(strconv.FormatInt(day, 10))
	case formats.UUID:
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		h := hex.EncodeToString(b[:])
		return quoted(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]), h
	case formats.JSON:
		text := pick(r, `{"a": [1, 2.50], "b":null}`, `"te\u00fcxt"`, "17", "[]", `{"\n":1e3}`)
		return text, text
	case formats.Timestamp:
		unit := [...]int64{1_000_000, 1_000, 1}[t.Unit]
		n := pick(r, 0, -1, 1_700_000_000_000_000_000/unit, -8_000_000_000_000_000_000/unit, r.Int64N(8_000_000_000_000_000_000/unit))
		return strconv.FormatInt(n, 10), new(big.Int).Mul(big.NewInt(n), big.NewInt(unit)).String()
	default:
		return r.decimal(t)
	}
}

// decimal is one of any number of digits the type holds.
func (r *random) decimal(t *formats.Type) (in string, want any) {
	digits := make([]byte, 1+r.IntN(int(t.Precision)))
	for i := range digits {
		digits[i] = '0' + byte(r.IntN(10))
		if r.nulls == 0 {
			digits[i] = '9'
		}
	}
	n, _ := new(big.Int).SetString(string(digits), 10)
	if r.IntN(2) == 0 {
		n.Neg(n)
	}
	return n.String() + "e-" + strconv.Itoa(int(t.Scale)), n.String()
}

func (r *random) text() string {
	return pick(r, "", "a", "é", "\U0001F600 and more", strings.Repeat("long ", 30), "\x00\n\t\"\\", "\u2028", fmt.Sprint("v", r.IntN(1000)))
}

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }
