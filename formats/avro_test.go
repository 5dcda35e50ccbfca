package formats

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	avrolib "github.com/twmb/avro"
)

// avroOptions reads values of a schema; framed ones name writers by 1, 2, ….
func avroOptions(reader string, writers ...string) Options {
	o := Options{
		Value: "avro", Schema: &WireSchema{Text: []string{reader}}, Metadata: []string{},
		Time: TimeOptions{Field: []string{"_timestamp"}},
	}
	for i, w := range writers {
		o.Framing, o.Registry = FramingConfluent, &Registry{URLs: []string{"http://registry"}}
		o.Writers = append(o.Writers, WireSchema{ID: uint32(i + 1), Text: []string{w}})
	}
	return o
}

func avroValue(tb testing.TB, schema string, v any) []byte {
	tb.Helper()
	b, err := avrolib.MustParse(schema).AppendEncode(nil, v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func framedValue(id uint32, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), b...)
}

// avroRows decodes values and gives the columns and the error of each.
func avroRows(tb testing.TB, s *Schema, o Options, values ...[]byte) (*Columns, []error) {
	tb.Helper()
	if s == nil {
		var err error
		if s, err = o.Base(nil); err != nil {
			tb.Fatal(err)
		}
	}
	d, err := NewDecoder(s, o)
	if err != nil {
		tb.Fatal(err)
	}
	c := NewColumns(s)
	bad := make([]error, len(values))
	for i, v := range values {
		before := dump(c)
		if _, bad[i] = d.Append(c, &Message{Timestamp: 1, Value: v}); bad[i] != nil && dump(c) != before {
			tb.Errorf("value %d: a failed Append left something", i)
		}
	}
	return c, bad
}

func columnTypes(s *Schema) string {
	var out []string
	for _, f := range s.Fields {
		out = append(out, f.Name+" "+f.Type.String())
	}
	return strings.Join(out, "; ")
}

// TestAvroColumns holds the columns of schemas.
func TestAvroColumns(t *testing.T) {
	record := func(fields string) string { return `{"type":"record","name":"r","fields":[` + fields + `]}` }
	for schema, want := range map[string]string{
		record(`{"name":"a","type":"int"},{"name":"A","type":["null","string"]}`):                                                                                "a int32; A_2 string",
		record(`{"name":"n","type":"null"},{"name":"l","type":{"type":"array","items":"null"}},{"name":"x","type":["boolean"]}`):                                 "x bool",
		record(`{"name":"u","type":["int","null","long"]},{"name":"v","type":["float","double"]}`):                                                               "u int64; v double",
		record(`{"name":"u","type":["null","string",{"type":"enum","name":"n.e","symbols":["x"]}]}`):                                                             "u struct<string:string,e:string>",
		record(`{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":40,"scale":2}}`):                                                          "d string",
		record(`{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":2}}`):                                                          "d decimal(20,2)",
		record(`{"name":"t","type":{"type":"long","logicalType":"local-timestamp-micros"}},{"name":"s","type":{"type":"int","logicalType":"timestamp-millis"}}`): "t timestamp_us_local; s int32",
		record(`{"name":"k","type":{"type":"record","name":"KeepAlive","fields":[]}}`):                                                                           "k bool",
		record(`{"name":"v","type":"int"},{"name":"next","type":["null","r"]}`):                                                                                  "v int32; next json",
		record(`{"name":"m","type":{"type":"map","values":{"type":"map","values":["null","bytes"]}}}`):                                                           "m map<map<bytes>>",
		`["null",` + record(`{"name":"a","type":"int"}`) + `]`:                                                                                                   "a int32",
		`"string"`: "value string",
		`["null",` + record(`{"name":"a","type":"int"}`) + `,{"type":"record","name":"q","fields":[{"name":"b","type":"int"}]}]`: "value struct<r:struct<a:int32>,q:struct<b:int32>>",
	} {
		o := avroOptions(schema)
		if s, err := o.Base(nil); err != nil || columnTypes(s) != want {
			t.Errorf("%s:\n%v %v\nwant\n%s", schema, s, err, want)
			if s != nil {
				t.Log(columnTypes(s))
			}
		}
	}
}

// TestAvroRefused names what can't be loaded, and why.
func TestAvroRefused(t *testing.T) {
	plain := `{"type":"record","name":"r","fields":[{"name":"at","type":"long"},{"name":"s","type":"string"},{"name":"m","type":{"type":"map","values":"int"}}]}`
	for name, tt := range map[string]struct {
		change func(o *Options)
		column string
		want   string
	}{
		"no schema":      {func(o *Options) { o.Schema = nil }, "", "needs a schema"},
		"no avro":        {func(o *Options) { o.Schema.Text[0] = "{" }, "", "avro schema"},
		"unitless time":  {func(o *Options) { o.Time.Field = []string{"at"} }, "", "give time.format"},
		"map as time":    {func(o *Options) { o.Time.Field = []string{"m"} }, "", "is no time"},
		"absent time":    {func(o *Options) { o.Time.Field = []string{"m", "x"} }, "", "the schema has no such field"},
		"narrow column":  {func(*Options) {}, "s bool", `column "s" is bool and can't hold avro string`},
		"framed by hand": {func(o *Options) { o.Framing = FramingConfluent }, "", "framed where there is a registry"},
		"json framed":    {func(o *Options) { o.Value = "json" }, "", "for value: avro"},
	} {
		o := avroOptions(plain)
		tt.change(&o)
		var declared *Schema
		if column, text, ok := strings.Cut(tt.column, " "); ok {
			declared = &Schema{Fields: []Field{{Name: column, Type: mustType(t, text)}}}
		}
		err := o.Validate()
		if err == nil {
			_, err = o.Base(declared)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// schemaPath is where a real schema lies.
func schemaPath(name string) string {
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	return filepath.Join(root, "schemas", name)
}

func evolution(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(schemaPath(name))
	if err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatalf("real data is missing: %v", err)
		}
		t.Skipf("skipped: real data is missing: %v", err)
	}
	return string(b)
}

// TestAvroEvolution reads rows of each version of a schema in one data set.
func TestAvroEvolution(t *testing.T) {
	person1, person2 := evolution(t, "evolution/person_v1.avsc"), evolution(t, "evolution/person_v2.avsc")
	o := avroOptions(person2, person1, person2)
	s, err := o.Base(nil)
	if err != nil {
		t.Fatal(err)
	}
	// The data set began with the first version: its column stays.
	old := avroOptions(person1)
	began, err := old.Base(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Fields {
		known := false
		for _, have := range began.Fields {
			known = known || have.Name == f.Name
		}
		if !known {
			began.Fields = append(began.Fields, f)
		}
	}
	t.Log(columnTypes(began))
	v1 := avroValue(t, person1, zeroOf(avrolib.MustParse(person1).Root()))
	v2 := avroValue(t, person2, zeroOf(avrolib.MustParse(person2).Root()))
	c, bad := avroRows(t, began, o, framedValue(1, v1), framedValue(2, v2))
	if err := errors.Join(bad...); err != nil {
		t.Fatal(err)
	}
	for i, leaf := range c.leaves {
		def := c.vecs[i].Def
		switch leaf.Path[0] {
		case "name":
			if def[0] != 1 || def[1] != 0 {
				t.Errorf("name: %v", def)
			}
		case "first_name", "last_name":
			if def[0] != 0 {
				t.Errorf("%s: %v", leaf.Path, def)
			}
		}
	}
}

// zeroOf makes the least value of a schema's node.
func zeroOf(n *avrolib.SchemaNode) any {
	switch n.Type {
	case "record":
		out := map[string]any{}
		for i := range n.Fields {
			out[n.Fields[i].Name] = zeroOf(&n.Fields[i].Type)
		}
		return out
	case "union":
		return zeroOf(&n.Branches[0])
	case "string":
		if n.LogicalType == "uuid" {
			return "00000000-0000-0000-0000-000000000000"
		}
		return ""
	case "bytes":
		return []byte{}
	case "boolean":
		return false
	case "int":
		return int32(0)
	case "long":
		return int64(0)
	case "float":
		return float32(0)
	case "double":
		return 0.0
	case "enum":
		return n.Symbols[0]
	case "array":
		return []any{}
	case "map":
		return map[string]any{}
	}
	return nil
}

// TestAvroResolution compares the reading of a writer's values as the reader's
// with another implementation's resolution.
func TestAvroResolution(t *testing.T) {
	writer := `{"type":"record","name":"w.r","fields":[
		{"name":"gone","type":{"type":"map","values":{"type":"array","items":"string"}}},
		{"name":"i","type":"int"},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"s","type":"string"},{"name":"b","type":"bytes"},
		{"name":"old","type":"string"},{"name":"e","type":{"type":"enum","name":"e","symbols":["A","B","C"]}},
		{"name":"one","type":"int"},{"name":"list","type":{"type":"array","items":{"type":"record","name":"x","fields":[{"name":"p","type":"int"}]}}}]}`
	reader := `{"type":"record","name":"r.r","aliases":["w.r"],"fields":[
		{"name":"list","type":{"type":"array","items":{"type":"record","name":"x","fields":[{"name":"q","type":"string","default":"dq"},{"name":"p","type":"double"}]}}},
		{"name":"new","aliases":["old"],"type":["null","string"]},
		{"name":"i","type":"long"},{"name":"l","type":"double"},{"name":"f","type":"double"},{"name":"s","type":"bytes"},{"name":"b","type":"string"},
		{"name":"e","type":{"type":"enum","name":"e","symbols":["A","Z"],"default":"Z"}},
		{"name":"one","type":["null","string","long"]},
		{"name":"d1","type":["null","int"],"default":null},{"name":"d2","type":"int","default":-7},{"name":"d3","type":{"type":"array","items":"int"},"default":[1,2]},
		{"name":"d4","type":{"type":"record","name":"y","fields":[{"name":"k","type":"string","default":"kk"}]},"default":{}}]}`
	value := avroValue(t, writer, map[string]any{
		"gone": map[string]any{"a": []any{"x", "y"}}, "i": int32(3), "l": int64(1 << 40), "f": float32(1.5), "s": "text", "b": []byte("raw"),
		"old": "was", "e": "C", "one": int32(9), "list": []any{map[string]any{"p": int32(1)}, map[string]any{"p": int32(2)}},
	})
	resolved, err := avrolib.Resolve(avrolib.MustParse(writer), avrolib.MustParse(reader))
	if err != nil {
		t.Fatal(err)
	}
	var read any
	if _, err := resolved.Decode(value, &read, avrolib.TaggedUnions()); err != nil {
		t.Fatal(err)
	}
	// What the other makes of it, written as the reader's, must make the same row.
	again, err := avrolib.MustParse(reader).AppendEncode(nil, read)
	if err != nil {
		t.Fatal(err)
	}
	o := avroOptions(reader, writer, reader)
	a, bad := avroRows(t, nil, o, framedValue(1, value))
	b, badToo := avroRows(t, nil, o, framedValue(2, again))
	if err := errors.Join(append(bad, badToo...)...); err != nil {
		t.Fatal(err)
	}
	if dump(a) != dump(b) {
		t.Errorf("%s\nwant\n%s", dump(a), dump(b))
	}
}

// TestAvroOtherRecord sets aside the values of another record, whose fields may
// have the same names; a new namespace or an alias makes no other.
func TestAvroOtherRecord(t *testing.T) {
	record := func(name string) string {
		return `{"type":"record","name":"` + name + `","fields":[{"name":"a","type":"int"}]}`
	}
	reader := `{"type":"record","name":"shop.Order","aliases":["Purchase"],"fields":[{"name":"a","type":"int"}]}`
	_, bad := avroRows(t, nil, avroOptions(reader, record("shop.Order"), record("old.Order"), record("shop.Purchase"), record("shop.Payment"), `["null",`+record("shop.Order")+`]`),
		[]byte("\x00\x00\x00\x00\x01\x02"), []byte("\x00\x00\x00\x00\x02\x02"), []byte("\x00\x00\x00\x00\x03\x02"), []byte("\x00\x00\x00\x00\x04\x02"), []byte("\x00\x00\x00\x00\x05\x02\x02"))
	misread := new(BadRecord)
	if bad[0] != nil || bad[1] != nil || bad[2] != nil || bad[4] != nil || !errors.As(bad[3], &misread) || misread.Reason != BadSchema || !strings.Contains(misread.Detail, "shop.Payment") {
		t.Errorf("%v", bad)
	}
}

// TestAvroIncompatible sets aside values that the columns can't hold, one by
// one, and none silently.
func TestAvroIncompatible(t *testing.T) {
	v1, v4 := evolution(t, "evolution/page_view_v1.avsc"), evolution(t, "evolution/page_view_v4_incompatible.avsc")
	one := avroValue(t, v1, zeroOf(avrolib.MustParse(v1).Root()))
	four := avroValue(t, v4, zeroOf(avrolib.MustParse(v4).Root()))
	c, bad := avroRows(t, nil, avroOptions(v1, v1, v4), framedValue(1, one), framedValue(2, four), framedValue(1, one))
	record := new(BadRecord)
	if bad[0] != nil || bad[2] != nil || !errors.As(bad[1], &record) || record.Reason != BadType {
		t.Errorf("%v", bad)
	}
	if c.Rows() != 2 {
		t.Errorf("%d rows", c.Rows())
	}
}

// TestFraming holds that framing is declared and never guessed.
func TestFraming(t *testing.T) {
	schema := `{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]}]}`
	for name, tt := range map[string]struct {
		o      Options
		hex    string
		reason Reason // "" = a row
	}{
		"json in avro":      {avroOptions(schema, schema), hex.EncodeToString([]byte(`{"a":1}`)), BadFraming},
		"empty":             {avroOptions(schema, schema), "", BadFraming},
		"four bytes":        {avroOptions(schema, schema), "00000001", BadFraming},
		"framed":            {avroOptions(schema, schema), "000000000100", ""},
		"bare null branch":  {avroOptions(schema), "00", ""},
		"framed but bare":   {avroOptions(schema), "000000000100", BadSyntax},
		"more than a value": {avroOptions(schema, schema), "00000000010000", BadSyntax},
		"framed in json":    {jsonOptions(), "00000000017b2261223a317d", BadSyntax},
	} {
		value, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		s := &Schema{Fields: []Field{{Name: "a", Type: &Type{Kind: String}}}}
		c, bad := avroRows(t, s, tt.o, value)
		record := new(BadRecord)
		switch {
		case tt.reason == "" && (bad[0] != nil || c.Rows() != 1):
			t.Errorf("%s: %v", name, bad[0])
		case tt.reason != "" && (!errors.As(bad[0], &record) || record.Reason != tt.reason):
			t.Errorf("%s: %v, want %s", name, bad[0], tt.reason)
		}
	}
	o := avroOptions(schema, schema)
	o.Writers = append(o.Writers, WireSchema{ID: 9, Unknown: "the registry has no such schema"})
	_, bad := avroRows(t, nil, o, []byte("\x00\x00\x00\x00\x07\x00"), []byte("\x00\x00\x00\x00\x09\x00"))
	record := new(BadRecord)
	if !errors.Is(bad[0], ErrUnknownPath) || !errors.As(bad[1], &record) || record.Reason != BadSchema {
		t.Errorf("ids the plan has not met, the registry has not: %v", bad)
	}
}
