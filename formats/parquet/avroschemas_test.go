package parquet

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"

	avrolib "github.com/twmb/avro"

	"sawlog/formats"
	"sawlog/formats/protobuf"
)

// tree is a record within itself, of a depth.
func tree(label string, depth int) map[string]any {
	children := []any{}
	if depth > 0 {
		children = append(children, tree(label+"0", depth-1), tree(label+"1", 0))
	}
	return map[string]any{"label": label, "children": children}
}

// schemaFile writes values of a real schema to Parquet and reads the file with
// pyarrow.
func schemaFile(t *testing.T, name string, values ...any) foreignFile {
	t.Helper()
	schema, err := os.ReadFile(realFile(t, "schemas/avro-schemas/"+name))
	if err != nil {
		t.Fatal(err)
	}
	wire := avrolib.MustParse(string(schema))
	var encoded [][]byte
	for _, v := range values {
		b, err := wire.AppendEncode(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, b)
	}
	c, bad := decodeAvro(t, avroOptions(string(schema)), encoded)
	if err := errors.Join(bad...); err != nil {
		t.Fatal(err)
	}
	var file foreignFile
	foreign(t, &file, "pyarrow", writeFile(t, c.Schema(), Options{}, c))
	if len(file.Rows) != len(values) {
		t.Fatalf("%d rows, want %d", len(file.Rows), len(values))
	}
	return file
}

// sameTrees compares columns of JSON texts with trees.
func sameTrees(t *testing.T, column, want any) {
	t.Helper()
	var got []any
	for _, text := range column.([]any) {
		var v any
		if err := json.Unmarshal([]byte(text.(string)), &v); err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if want := want.([]any); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRecursiveAvro holds that a record within itself is JSON text to other
// readers, however deep it goes.
func TestRecursiveAvro(t *testing.T) {
	var trees []any
	for _, depth := range []int{0, 1, 3, 40} {
		trees = append(trees, tree("t", depth))
	}
	file := schemaFile(t, "recursive_record.avsc", trees...)
	for i, row := range file.Rows {
		want := trees[i].(map[string]any)
		if row["label"] != want["label"] {
			t.Errorf("row %d: label %v", i, row["label"])
		}
		sameTrees(t, row["children"], want["children"])
	}
}

// TestInteropAvro reads one value of each type of Avro's own interoperability
// schema elsewhere; each branch of its union once.
func TestInteropAvro(t *testing.T) {
	md5 := [16]byte{15: 7}
	var values []any
	for _, union := range []any{true, 2.5, []any{[]byte("x")}} {
		values = append(values, map[string]any{
			"intField": int32(-3), "longField": int64(1) << 52, "stringField": "é", "boolField": true, "floatField": float32(0.5), "doubleField": 0.1,
			"bytesField": []byte("ab"), "nullField": nil, "arrayField": []any{1.5, -2.5}, "mapField": map[string]any{"k": map[string]any{"label": "l"}},
			"unionField": union, "enumField": "C", "fixedField": md5, "recordField": tree("n", 2),
		})
	}
	file := schemaFile(t, "interop.avsc", values...)
	unions := []any{
		map[string]any{"boolean": true, "double": nil, "array": nil},
		map[string]any{"boolean": nil, "double": "f:2.5", "array": nil},
		map[string]any{"boolean": nil, "double": nil, "array": []any{"b64:eA=="}},
	}
	for i, row := range file.Rows {
		for column, want := range map[string]any{
			"intField": -3., "longField": float64(int64(1) << 52), "stringField": "é", "boolField": true, "floatField": "f:0.5", "doubleField": "f:0.1",
			"bytesField": "b64:YWI=", "arrayField": []any{"f:1.5", "f:-2.5"}, "mapField": map[string]any{"map": []any{[]any{"k", map[string]any{"label": "l"}}}},
			"unionField": unions[i], "enumField": "C", "fixedField": "b64:AAAAAAAAAAAAAAAAAAAABw==",
		} {
			if got := row[column]; !reflect.DeepEqual(got, want) {
				t.Errorf("row %d, %s: %#v, want %#v", i, column, got, want)
			}
		}
		if _, here := row["nullField"]; here {
			t.Error("a column of nothing but null")
		}
		node, want := row["recordField"].(map[string]any), tree("n", 2)
		if node["label"] != "n" {
			t.Errorf("row %d: %v", i, node)
		}
		sameTrees(t, node["children"], want["children"])
	}
}

// TestEmptyRecords holds that a record or message without fields, which Parquet
// can't have, is read elsewhere as whether it is there.
func TestEmptyRecords(t *testing.T) {
	asAvro := avroOptions(`{"type":"record","name":"r","fields":[{"name":"k","type":["null",{"type":"record","name":"KeepAlive","fields":[]}]},{"name":"n","type":"int"}]}`)
	set, err := protobuf.CompileText(map[string]string{"r.proto": `syntax = "proto3"; message R { KeepAlive k = 1; int32 n = 2; } message KeepAlive {}`}, "r.proto")
	if err != nil {
		t.Fatal(err)
	}
	asProtobuf := avroOptions(set)
	asProtobuf.Value = "protobuf"
	for _, tt := range []struct {
		options formats.Options
		values  [][]byte
	}{
		{asAvro, [][]byte{{2, 2}, {0, 4}}},
		{asProtobuf, [][]byte{{0x0a, 0, 0x10, 1}, {0x10, 2}}},
	} {
		c, bad := decodeAvro(t, tt.options, tt.values)
		if err := errors.Join(bad...); err != nil {
			t.Fatal(err)
		}
		path := writeFile(t, c.Schema(), Options{}, c)
		for _, reader := range []string{"pyarrow", "duckdb"} {
			var file foreignFile
			foreign(t, &file, reader, path)
			var got []any
			for _, row := range file.Rows {
				got = append(got, row["k"], row["n"])
			}
			if want := []any{true, 1., nil, 2.}; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v, want %v", tt.options.Value, reader, got, want)
			}
		}
	}
}
