package formats

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"sawlog/formats/protobuf"
)

// pbFramed reads framed values as the message of a schema; writers are named by
// 1, 2, ….
func pbFramed(tb testing.TB, reader, message string, writers ...string) Options {
	tb.Helper()
	o := pbOptions(tb, reader)
	o.Message, o.Framing, o.Registry = message, FramingConfluent, &Registry{URLs: []string{"http://registry"}}
	for i, text := range writers {
		o.Writers = append(o.Writers, WireSchema{ID: uint32(i + 1), Text: pbOptions(tb, text).Schema.Text})
	}
	return o
}

const pbShop = `syntax = "proto3"; package shop;
	message First { string x = 1; }
	message Order {
		map<string, string> tags = 1;
		message Line { int32 n = 1; message Part { int32 n = 1; } }
		message Note { int32 n = 1; }
		int32 n = 2;
	}`

// TestProtobufFraming holds, byte by byte, what stands before a framed message:
// 0, the schema's id, how many indexes there are and each of them, zig-zag. The
// serializers that go by descriptors count the entries of maps, that of the text
// does not: both ways are read as the message the job names, if either leads to
// it.
func TestProtobufFraming(t *testing.T) {
	for name, tt := range map[string]struct {
		message, hex, want string // want: the value of n, or a reason and part of the detail
	}{
		"second message":          {"shop.Order", "0000000001" + "0202" + "1005", "5"},
		"short form of the first": {"shop.First", "0000000001" + "00" + "0a0179", "row"},
		"long form of the first":  {"shop.First", "0000000001" + "0200" + "0a0179", "row"},
		"empty message":           {"shop.First", "0000000001" + "00", "row"},
		"within, by descriptor":   {"shop.Order.Line", "0000000001" + "040202" + "0805", "5"},
		"within, by text":         {"shop.Order.Line", "0000000001" + "040200" + "0805", "5"},
		"third, by descriptor":    {"shop.Order.Note", "0000000001" + "040204" + "0805", "5"},
		"third, by text":          {"shop.Order.Note", "0000000001" + "040202" + "0805", "5"},
		"three deep":              {"shop.Order.Line.Part", "0000000001" + "06020200" + "0805", "5"},
		"another message":         {"shop.Order", "0000000001" + "00" + "0a0179", "schema shop.First"},
		"no such message":         {"shop.Order", "0000000001" + "0204" + "1005", "schema indexes [2]"},
		"not within":              {"shop.Order", "0000000001" + "04020c" + "1005", "schema indexes [1 6]"},
		"negative":                {"shop.Order", "0000000001" + "0203" + "1005", "framing"},
		"negative count":          {"shop.Order", "0000000001" + "0101" + "1005", "framing"}, // of a client that does not zig-zag
		"too many":                {"shop.Order", "0000000001" + "8202" + strings.Repeat("00", 200), "framing"},
		"padded":                  {"shop.Order", "0000000001" + "02" + "8200" + "1005", "framing"},
		"cut off in the indexes":  {"shop.Order", "0000000001" + "0402", "framing"},
		"cut off before them":     {"shop.Order", "0000000001", "framing"},
		"no frame":                {"shop.Order", "1005", "framing"},
		"cut off in the message":  {"shop.Order", "0000000001" + "0202" + "10", "syntax"},
		"unknown to the registry": {"shop.Order", "0000000009" + "0202" + "1005", "schema the registry has no such schema"},
		"unknown to the plan":     {"shop.Order", "0000000007" + "0202" + "1005", "unknown"},
	} {
		value, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		o := pbFramed(t, pbShop, tt.message, pbShop)
		o.Writers = append(o.Writers, WireSchema{ID: 9, Unknown: "the registry has no such schema"})
		c, bad := avroRows(t, nil, o, value)
		record := new(BadRecord)
		reason, detail, _ := strings.Cut(tt.want, " ")
		switch {
		case tt.want == "unknown":
			if !errors.Is(bad[0], ErrUnknownPath) {
				t.Errorf("%s: %v", name, bad[0])
			}
		case tt.want == "row" || tt.want == "5":
			if bad[0] != nil || c.Rows() != 1 {
				t.Errorf("%s: %v", name, bad[0])
			} else if tt.want == "5" && !strings.Contains(cell(c, "n"), "[5]") {
				t.Errorf("%s: %s", name, cell(c, "n"))
			}
		case !errors.As(bad[0], &record) || record.Reason != Reason(reason) || !strings.Contains(record.Detail, detail):
			t.Errorf("%s: %v, want %s", name, bad[0], tt.want)
		}
	}
}

// TestProtobufResolution reads what older and newer schemas wrote into the columns
// of one: by number, under the names of the job's schema.
func TestProtobufResolution(t *testing.T) {
	reader := `syntax = "proto3"; message M {
		int64 id = 1; string title = 2; optional int32 n = 3; Sub sub = 4; E e = 5; repeated Sub subs = 6; sint32 moved = 9; M self = 10; }
		message Sub { string city = 1; int64 zip = 2; }
		enum E { NONE = 0; RED = 1; }`
	for name, tt := range map[string]struct{ writer, hex, column, want string }{
		"a renamed field":            {`message M { int64 id = 1; string name = 2; }`, "120161", "title", `"a"`},
		"a name another number took": {`message M { int64 title = 1; string id = 2; }`, "0805120161", "title", `"a"`},
		"a number of its own":        {`message M { sint32 moved = 7; }`, "3803", "moved", "[-2]"},
		"narrower on the wire":       {`message M { int32 id = 1; }`, "0805", "id", "[5]"},
		"zig-zag by the writer":      {`message M { sint64 id = 1; }`, "0803", "id", "[-2]"},
		"absent, of the reader":      {`message M { int64 id = 1; }`, "0805", "title", `"" [0] def [1]`},
		"absent, with presence":      {`message M { int64 id = 1; }`, "0805", "n", "null"},
		"written without presence":   {`message M { int32 n = 3; }`, "", "n", "[0]"},
		"written with presence":      {`message M { optional string title = 2; }`, "", "title", "null"},
		"unknown to its writer":      {`message M { int64 id = 1; }`, "12017a", "title", `"z"`},
		"within a message":           {`message M { P sub = 4; } message P { string town = 1; }`, "22030a0162", "sub.city", `"b"`},
		"within a list":              {`message M { repeated P subs = 6; } message P { int32 zip = 2; }`, "32021005" + "3200", "subs.list.element.zip", "[5 0]"},
		"a renamed symbol":           {`message M { F e = 5; } enum F { ZERO = 0; ROT = 1; GRUEN = 2; }`, "2801", "e", `"RED"`},
		"a symbol of the writer":     {`message M { F e = 5; } enum F { ZERO = 0; ROT = 1; GRUEN = 2; }`, "2802", "e", `"GRUEN"`},
		"a message within itself":    {`message M { string name = 2; M self = 10; }`, "5203120161", "self", `{\"name\":\"a\"}`},
	} {
		value, err := hex.DecodeString("000000000100" + tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		c, bad := avroRows(t, nil, pbFramed(t, reader, "", `syntax = "proto3"; `+tt.writer), value)
		if bad[0] != nil {
			t.Errorf("%s: %v", name, bad[0])
		} else if got := cell(c, tt.column); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestProtobufColumnThatLeft feeds a column of the data set that only the writer's
// schema has still, and sets the writer's values aside, all of them and none
// silently, where a column can't hold them.
func TestProtobufColumnThatLeft(t *testing.T) {
	v1 := `syntax = "proto3"; message M { int64 id = 1; string gone = 2; }`
	v2 := `syntax = "proto3"; message M { int64 id = 1; }`
	odd := `syntax = "proto3"; message M { string id = 1; }`
	s := &Schema{Fields: []Field{{Name: "id", Type: &Type{Kind: Int64}}, {Name: "gone", Type: &Type{Kind: String}}}}
	c, bad := avroRows(t, s, pbFramed(t, v2, "", v1, v2, odd), []byte("\x00\x00\x00\x00\x01\x00\x08\x01\x12\x01a"),
		[]byte("\x00\x00\x00\x00\x02\x00\x08\x02"), []byte("\x00\x00\x00\x00\x03\x00\x0a\x01x"), []byte("\x00\x00\x00\x00\x01\x00\x08\x04\x12\x01d"))
	misfit := new(Misfit)
	if bad[0] != nil || bad[1] != nil || bad[3] != nil || !errors.As(bad[2], &misfit) {
		t.Fatalf("%v", bad)
	}
	if misfit.Reason != BadType || misfit.Column != "id" || misfit.Type != "int64" || misfit.Seen != "protobuf string" || !strings.Contains(misfit.Detail, "schema id 3") {
		t.Errorf("%+v", misfit)
	}
	if got := cell(c, "gone"); !strings.Contains(got, `"ad"`) || !strings.Contains(got, "def [1 0 1]") {
		t.Errorf("gone: %s", got)
	}
}

// TestProtobufImports compiles what registries have built in, texts that import
// each other, and descriptors in base64, and names an import that is missing.
func TestProtobufImports(t *testing.T) {
	text := `syntax = "proto3";
		import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto"; import "a/b.proto";
		message M {
			option (confluent.message_meta) = { doc: "of a converter" };
			confluent.type.Decimal price = 1 [(confluent.field_meta) = { params: [{ key: "scale", value: "2" }] }];
			google.type.Date day = 2; a.B b = 3;
		}`
	texts := map[string]string{"m.proto": text, "a/b.proto": `syntax = "proto3"; package a; import "google/protobuf/timestamp.proto"; message B { google.protobuf.Timestamp at = 1; }`}
	want := "price struct<value:bytes,precision:int64,scale:int32>; day struct<year:int32,month:int32,day:int32>; b struct<at:timestamp_us>"
	for range 2 {
		set, err := protobuf.CompileText(texts, "m.proto")
		if err != nil {
			t.Fatal(err)
		}
		o := pbOptions(t, `syntax = "proto3"; message X {}`)
		o.Schema.Text[0] = set
		s, err := o.Base(nil)
		if err != nil || columnTypes(s) != want {
			t.Fatalf("%v %v, want %s", s, err, want)
		}
		for name, file := range fileDescriptors(t, set) { // the same once more, serialized
			if _, ours := texts[name]; ours {
				texts[name] = file
			}
		}
	}
	delete(texts, "a/b.proto")
	if _, err := protobuf.CompileText(texts, "m.proto"); err == nil || !strings.Contains(err.Error(), "a/b.proto") {
		t.Errorf("a missing import: %v", err)
	}
}
