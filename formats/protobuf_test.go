package formats

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"sawlog/formats/protobuf"
)

func pbOptions(tb testing.TB, text string) Options {
	tb.Helper()
	set, err := protobuf.CompileText(map[string]string{"t.proto": text}, "t.proto")
	if err != nil {
		tb.Fatal(err)
	}
	return Options{
		Value: "protobuf", Schema: &WireSchema{Text: []string{set}}, Metadata: []string{},
		Time: TimeOptions{Field: []string{"_timestamp"}},
	}
}

// cell prints what a single row has in a top-level column: null, or its values.
func cell(c *Columns, name string) string {
	for i, leaf := range c.leaves {
		if strings.Join(leaf.Path, ".") != name {
			continue
		}
		one := Columns{schema: c.schema, leaves: c.leaves[i : i+1], vecs: c.vecs[i : i+1]}
		v := &c.vecs[i]
		if len(v.Bools)+len(v.Int32s)+len(v.Int64s)+len(v.Floats)+len(v.Doubles)+len(v.Ends) == 0 {
			return "null"
		}
		_, text, _ := strings.Cut(dump(&one), "\n")
		return text
	}
	return "no such column"
}

// TestProtobufPresence holds what is null, zero, beyond int64 and unknown.
func TestProtobufPresence(t *testing.T) {
	o := pbOptions(t, `syntax = "proto3";
		message M {
			int32 a = 1; optional int32 b = 2; string c = 3; uint64 big = 4; E e = 5; KeepAlive alive = 6;
			oneof pick { string s = 7; int64 n = 8; }
			map<int32, string> m = 9; repeated sint64 r = 10;
		}
		enum E { ZERO = 0; ONE = 1; }
		message KeepAlive {}`)
	for _, tt := range []struct{ hex, column, want string }{
		{"", "a", "a [] [0] [] [] [] \"\" [] def [1] rep []"},
		{"", "b", "null"},
		{"", "c", "c [] [] [] [] [] \"\" [0] def [1] rep []"},
		{"", "alive", "null"},
		{"", "s", "null"},
		{"", "m.key_value.key", "null"},
		{"1000", "b", "b [] [0] [] [] [] \"\" [] def [1] rep []"},
		{"2081808080808080808001", "big", "big [] [] [] [] [] \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x01\" [16] def [1] rep []"},
		{"2863", "e", "e [] [] [] [] [] \"99\" [2] def [1] rep []"},
		{"2801", "e", "e [] [] [] [] [] \"ONE\" [3] def [1] rep []"},
		{"3200", "alive", "alive [true] [] [] [] [] \"\" [] def [1] rep []"},
		{"3a0178" + "4005", "s", "null"}, // the later member of a oneof wins
		{"3a0178" + "4005", "n", "n [] [] [5] [] [] \"\" [] def [1] rep []"},
		{"0801" + "0802", "a", "a [] [2] [] [] [] \"\" [] def [1] rep []"},
		{"5001" + "52020304", "r.list.element", "r.list.element [] [] [-1 -2 2] [] [] \"\" [] def [3 3 3] rep [0 1 1]"},
		{"4a050801120178" + "4a050801120179", "m.key_value.value", "m.key_value.value [] [] [] [] [] \"y\" [1] def [3] rep [0]"},
		{"4a020801", "m.key_value.value", "m.key_value.value [] [] [] [] [] \"\" [0] def [3] rep [0]"},
	} {
		value, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		c, bad := avroRows(t, nil, o, value)
		if bad[0] != nil {
			t.Fatalf("%s: %v", tt.hex, bad[0])
		}
		if got := cell(c, tt.column); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.hex, got, tt.want)
		}
	}
	d, c := newDecoder(t, o, nil)
	if _, err := d.Append(c, &Message{Timestamp: 1, Value: []byte("\xf8\x06\x01")}); err != nil || d.Notes()["unknown_fields"] != 1 {
		t.Errorf("an unknown field: %v, notes %v", err, d.Notes())
	}
}

// TestProtobufColumns holds the columns of messages.
func TestProtobufColumns(t *testing.T) {
	o := pbOptions(t, `syntax = "proto2";
		import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
		message M {
			required fixed32 u = 1; optional uint64 big = 2; repeated group Item = 3 { optional string name = 1; }
			optional google.protobuf.Struct free = 4; optional google.protobuf.Timestamp at = 5; optional google.protobuf.Int64Value w = 6;
			optional M self = 7; map<bool, Sub> subs = 8;
		}
		message Sub { optional float f = 1; repeated Sub kids = 2; }`)
	s, err := o.Base(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "u int64; big decimal(20,0); Item list<struct<name:string>>; free json; at timestamp_us; w int64; self json; subs map<struct<f:float,kids:list<json>>>"
	if got := columnTypes(s); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	value, err := hex.DecodeString("0d01000000" + "1b0a01611c" + "1b1c" + "22090a070a016112021a01" + "32020805" + "2a0408011001" + "3a050d02000000")
	if err != nil {
		t.Fatal(err)
	}
	o.Time.Field = []string{"at"}
	_, bad := avroRows(t, nil, o, value)
	if bad[0] == nil || !strings.Contains(bad[0].Error(), `column "free"`) {
		t.Errorf("broken bytes in a struct: %v", bad[0])
	}
	value, err = hex.DecodeString("0d01000000" + "1b0a01611c" + "1b1c" + "22090a070a0161120220012a0608011080897a32020805" + "3a050d02000000")
	if err != nil {
		t.Fatal(err)
	}
	c, bad := avroRows(t, nil, o, value)
	if bad[0] != nil {
		t.Fatal(bad[0])
	}
	for column, want := range map[string]string{
		"Item.list.element.name": `Item.list.element.name [] [] [] [] [] "a" [1] def [4 3] rep [0 1]`,
		"free":                   `free [] [] [] [] [] "{\"a\":true}" [10] def [1] rep []`,
		"at":                     `at [] [] [1002000] [] [] "" [] def [1] rep []`,
		"w":                      `w [] [] [5] [] [] "" [] def [1] rep []`,
		"self":                   `self [] [] [] [] [] "{\"u\":2}" [7] def [1] rep []`,
	} {
		if got := cell(c, column); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// TestProtobufFiles compiles real files, imports and all, and reads what protoc
// compiled of an earlier state of them.
func TestProtobufFiles(t *testing.T) {
	for name, want := range map[string]string{
		"sample":          "name string; id int32; email string; friends list<string>",
		"complex_types":   "complex_map map<struct<nested_string_field:string,nested_int_field:int32>>; simple_map map<int32>; enum_field string",
		"composite_types": "sample_record struct<name:string,id:int32,email:string,friends:list<string>",
	} {
		desc := evolution(t, "proto/"+name+".desc")
		read, err := protobuf.ReadSet([]byte(desc))
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := protobuf.CompileFile(schemaPath("proto/" + name + ".proto"))
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []string{read, compiled} {
			o := Options{Value: "protobuf", Schema: &WireSchema{Text: []string{set}}, Time: TimeOptions{Field: []string{"_timestamp"}}}
			s, err := o.Base(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := columnTypes(s); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// TestProtobufRefused names what can't be loaded, and why.
func TestProtobufRefused(t *testing.T) {
	text := `syntax = "proto3"; package p; message M { int64 at = 1; string s = 2; }`
	for want, change := range map[string]func(o *Options) *Schema{
		"has no message p.N": func(o *Options) *Schema { o.Message = "p.N"; return nil },
		"give time.format":   func(o *Options) *Schema { o.Time.Field = []string{"at"}; return nil },
		"has no such field":  func(o *Options) *Schema { o.Time.Field = []string{"when"}; return nil },
		`column "s" is bool`: func(*Options) *Schema {
			return &Schema{Fields: []Field{{Name: "s", Type: &Type{Kind: Bool}}}}
		},
		"protobuf schema": func(o *Options) *Schema { o.Schema.Text[0] = "AAAA"; return nil },
	} {
		o := pbOptions(t, text)
		if _, err := o.Base(change(&o)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := protobuf.CompileText(map[string]string{"t.proto": "message {"}, "t.proto"); err == nil || !strings.Contains(err.Error(), "t.proto:1:") {
		t.Errorf("broken text: %v", err)
	}
	o := pbOptions(t, text)
	o.Time.Field = []string{"s"}
	_, bad := avroRows(t, nil, o, append([]byte("\x12\x17"), "2019-11-13 18:01:36.869"...))
	record := new(BadRecord)
	if !errors.As(bad[0], &record) || record.Reason != BadTime {
		t.Errorf("a time without a zone: %v", bad[0])
	}
}

// FuzzProtobuf compares with another implementation: what it accepts we accept,
// and what it writes again, merged and in the order of numbers, makes the same
// row. So do the same bytes in a frame, read as what their writer's copy of the
// schema and the reader's come to together.
func FuzzProtobuf(f *testing.F) {
	o := pbOptions(f, `syntax = "proto3";
		message M {
			int32 i = 1; sint64 z = 2; fixed64 x = 3; float f = 4; double d = 5; bool b = 6; string s = 7; bytes y = 8; E e = 9;
			Sub sub = 10; repeated int32 packed = 11; repeated Sub subs = 12; oneof o { string os = 13; Sub om = 14; uint32 ou = 15; }
			optional string p = 16; repeated string names = 17;
		}
		message Sub { int64 a = 1; optional bytes b = 2; repeated sfixed32 c = 3; oneof q { bool q1 = 4; sint32 q2 = 5; } }
		enum E { A = 0; B = 5; }`)
	raw, err := base64.StdEncoding.DecodeString(o.Schema.Text[0])
	if err != nil {
		f.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, set); err != nil {
		f.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		f.Fatal(err)
	}
	d, err := files.FindDescriptorByName("M")
	if err != nil {
		f.Fatal(err)
	}
	framed := o
	framed.Framing, framed.Registry = FramingConfluent, &Registry{URLs: []string{"http://registry"}}
	framed.Writers = []WireSchema{{ID: 1, Text: o.Schema.Text}}
	for _, seed := range []string{
		"", "0801", "08ffffffffffffffffff01", "1003", "190100000000000000", "250000c03f", "3001", "3a0178", "3aff", "42020001", "4805", "4863",
		"520208015204120161" + "20", "5a03010203", "5801", "62020801620012006202", "6a0178", "72020801", "7801" + "72020801" + "72041a0401000000",
		"8201020101", "8a0101788a0100", "0b0c", "0b0801", "f80601", "ffffffffffffffffff01", "5206080120012803", "72022001720228047203200028",
	} {
		if b, err := hex.DecodeString(seed); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, bad := avroRows(t, nil, o, value)
		record := new(BadRecord)
		if bad[0] != nil && !errors.As(bad[0], &record) {
			t.Fatalf("%x: %v", value, bad[0])
		}
		same, badSame := avroRows(t, nil, framed, append([]byte("\x00\x00\x00\x00\x01\x00"), value...))
		if (bad[0] == nil) != (badSame[0] == nil) || dump(c) != dump(same) {
			t.Errorf("%x: %v %s\nin a frame: %v %s", value, bad[0], dump(c), badSame[0], dump(same))
		}
		m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
		err := proto.Unmarshal(value, m)
		if err != nil && strings.Contains(err.Error(), "UTF-8") || !utf8.Valid(value) && err != nil {
			return // text is repaired, not refused
		}
		if (err == nil) != (bad[0] == nil) {
			t.Fatalf("%x: we say %v, another %v", value, bad[0], err)
		}
		if err != nil {
			return
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		other, badToo := avroRows(t, nil, o, again)
		if badToo[0] != nil || dump(c) != dump(other) {
			t.Errorf("%x: %s\nwritten again as %x: %v %s", value, dump(c), again, badToo[0], dump(other))
		}
	})
}

// fileDescriptors are the files of a set, each in base64, as generated code has
// them: without the names of fields in JSON.
func fileDescriptors(t *testing.T, set string) map[string]string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(set)
	if err != nil {
		t.Fatal(err)
	}
	files := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, files); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files.File {
		for _, m := range f.MessageType {
			for _, field := range m.Field {
				field.JsonName = nil
			}
		}
		b, err := proto.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f.GetName()] = base64.StdEncoding.EncodeToString(b)
	}
	return out
}
