package formats

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// everyShape is a schema with every store, nested, repeated, required and
// optional.
func everyShape() *Schema {
	s := &Schema{}
	add := func(name string, t Type) { s.Fields = append(s.Fields, Field{Name: name, Type: &t}) }
	add("_offset", Type{Kind: Int64})
	add("_headers", headersType())
	for name, kind := range map[string]Kind{"b": Bool, "i": Int32, "l": Int64, "f": Float, "d": Double, "s": String, "u": UUID} {
		add(name, Type{Kind: kind})
	}
	slices.SortFunc(s.Fields, func(a, b Field) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	text, number, flag := &Type{Kind: String}, &Type{Kind: Int64}, &Type{Kind: Bool}
	add("wide", Type{Kind: Decimal, Precision: 38, Scale: 2})
	add("list", Type{Kind: List, Elem: &Type{Kind: List, Elem: text}})
	add("map", Type{Kind: Map, Elem: &Type{Kind: Struct, Fields: []Field{{Name: "n", Type: number}, {Name: "t", Type: text}}}})
	add("struct", Type{Kind: Struct, Fields: []Field{{Name: "flags", Type: &Type{Kind: List, Elem: flag}}, {Name: "n", Type: number}}})
	return s
}

func headersType() Type {
	return Type{Kind: List, Elem: &Type{Kind: Struct, Fields: []Field{
		{Name: "key", Type: &Type{Kind: String}}, {Name: "value", Type: &Type{Kind: Bytes}},
	}}}
}

// anyRecord makes a record of everyShape in which each part may be missing,
// null or empty.
func anyRecord(rnd *rand.Rand, offset int64) *Message {
	value := []byte{'{'}
	put := func(name, format string, args ...any) {
		if rnd.IntN(4) == 0 {
			return
		}
		if len(value) > 1 {
			value = append(value, ',')
		}
		value = fmt.Appendf(value, `"%s":`, name)
		if rnd.IntN(5) == 0 {
			format, args = "null", nil
		}
		value = fmt.Appendf(value, format, args...)
	}
	n := rnd.IntN(1000)
	put("b", "%t", n%2 == 0)
	put("i", "%d", n)
	put("l", "%d", n*1_000_000_007)
	put("f", "%d.5", n)
	put("d", "%d.25", n)
	put("s", `"%0*d"`, n%40, n)
	put("u", `"00000000-0000-0000-0000-000000%06d"`, n)
	put("wide", "%d.75", n)
	put("list", [...]string{"[]", `[["a"]]`, `[[],["b","",null],null]`}[n%3])
	put("map", [...]string{"{}", `{"k":{"n":1}}`, `{"k":null,"l":{"t":"x"}}`}[n%3])
	put("struct", [...]string{"{}", `{"flags":[true,false,null],"n":1}`, `{"flags":[]}`}[n%3])
	m := &Message{Offset: offset, Value: append(value, '}')}
	for range rnd.IntN(3) {
		m.Headers = append(m.Headers, Header{Key: "h", Value: [][]byte{nil, {}, []byte("v")}[rnd.IntN(3)]})
	}
	return m
}

func anyColumns(t *testing.T, rows int) *Columns {
	t.Helper()
	s := everyShape()
	d, err := NewDecoder(s, Options{Value: "json", Time: TimeOptions{Field: []string{"_timestamp"}}})
	if err != nil {
		t.Fatal(err)
	}
	c, rnd := NewColumns(s), rand.New(rand.NewPCG(3, 4))
	for i := range rows {
		if _, err := d.Append(c, anyRecord(rnd, int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// digestOf tells columns apart by what they hold, not by how they came to it.
func digestOf(c *Columns) string {
	d := NewDigest(c.Schema())
	d.Add(c)
	return d.Sum()
}

// Rows of every shape survive the way through bytes, and from columns to columns.
func TestRowsMove(t *testing.T) {
	want := anyColumns(t, 2000)
	var row RowCursor
	row.Reset(want)
	copied, moved := NewColumns(want.Schema()), NewColumns(want.Schema())
	var buf []byte
	for range want.Rows() {
		buf = row.Append(buf[:0])
		if err := copied.AddRow(buf); err != nil {
			t.Fatal(err)
		}
		one := NewColumns(want.Schema())
		if err := one.AddRow(buf); err != nil {
			t.Fatal(err)
		}
		moved.TakeLast(one)
		if one.Rows() != 0 || one.Bytes() != 0 {
			t.Fatalf("%d rows, %d bytes stayed", one.Rows(), one.Bytes())
		}
	}
	for name, got := range map[string]*Columns{"copied": copied, "moved": moved} {
		if digestOf(got) != digestOf(want) || got.Bytes() != want.Bytes() {
			t.Errorf("%s: rows differ", name)
		}
		got.Truncate(1000)
		kept := anyColumns(t, 1000)
		if digestOf(got) != digestOf(kept) {
			t.Errorf("%s: after Truncate rows differ", name)
		}
	}
	// Taking rows one by one off the end gives them in reverse, and leaves those before.
	from, to := anyColumns(t, 2000), NewColumns(want.Schema())
	for range 700 {
		to.TakeLast(from)
	}
	if left := anyColumns(t, 1300); digestOf(from) != digestOf(left) || from.Bytes() != left.Bytes() {
		t.Error("rows before the last changed")
	}
	for range 700 {
		from.TakeLast(to)
	}
	if digestOf(from) != digestOf(want) {
		t.Error("rows that went and came back differ")
	}
}

// Bytes that are no row are refused: a row cut short, or with something after it.
func TestAddRowRefuses(t *testing.T) {
	c := anyColumns(t, 50)
	var row RowCursor
	row.Reset(c)
	for range c.Rows() {
		b := row.Append(nil)
		for cut := range len(b) {
			if NewColumns(c.Schema()).AddRow(b[:cut]) == nil {
				t.Fatalf("%d of %d bytes were taken for a row", cut, len(b))
			}
		}
		if NewColumns(c.Schema()).AddRow(append(b, 0)) == nil {
			t.Fatal("a byte after the row was passed over")
		}
	}
}

// Neither way allocates once the columns have grown.
func TestRowsAllocateNothing(t *testing.T) {
	c := anyColumns(t, 100)
	to := NewColumns(c.Schema())
	buf := make([]byte, 0, 1<<20)
	var row RowCursor
	round := func() {
		row.Reset(c)
		for range 100 {
			if err := to.AddRow(row.Append(buf)); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			c.TakeLast(to)
		}
		c.Truncate(100)
	}
	round()
	if n := testing.AllocsPerRun(20, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
