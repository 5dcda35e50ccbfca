package formats

import (
	"encoding/hex"
	"errors"
	"testing"
)

// TestMisfits holds what each format says of values that their column can't hold.
func TestMisfits(t *testing.T) {
	jsonOf := jsonOptions()
	csv := Options{Value: "csv", Columns: []string{"n"}, Time: TimeOptions{Field: []string{"_timestamp"}}}
	ofAvro := func(writer string) Options {
		record := func(typ string) string {
			return `{"type":"record","name":"r","fields":[{"name":"n","type":` + typ + `}]}`
		}
		return avroOptions(record(`"int"`), record(writer))
	}
	ofProtobuf := func(writer string) Options {
		return pbFramed(t, `syntax = "proto3"; message M { int32 n = 1; }`, "", `syntax = "proto3"; message M { `+writer+` n = 1; } message S { int32 a = 1; } enum E { Z = 0; }`)
	}
	text := func(s string) string { return hex.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		o         Options
		hex, seen string
	}{
		{jsonOf, text(`{"n":"x"}`), "string"},
		{jsonOf, text(`{"n":true}`), "bool"},
		{jsonOf, text(`{"n":4294967296}`), "int64"},
		{jsonOf, text(`{"n":-0}`), "double"},
		{jsonOf, text(`{"n":1.5}`), "double"},
		{jsonOf, text(`{"n":98765432109876543210}`), "an integer beyond int64"},
		{jsonOf, text(`{"n":[1]}`), "list"},
		{jsonOf, text(`{"n":{"a":1}}`), "struct"},
		{csv, text(`x`), "text"},
		{ofAvro(`"string"`), "0000000001" + "0278", "avro string"},
		{ofAvro(`"long"`), "0000000001" + "808080808004", "avro long"},
		{ofAvro(`{"type":"map","values":"int"}`), "0000000001" + "00", "avro map"},
		{ofAvro(`["null",{"type":"bytes","logicalType":"decimal","precision":4}]`), "0000000001" + "020201", "avro decimal"},
		{ofProtobuf("string"), "0000000001" + "00" + "0a0178", "protobuf string"},
		{ofProtobuf("uint64"), "0000000001" + "00" + "08ffffffff7f", "protobuf uint64"},
		{ofProtobuf("repeated int32"), "0000000001" + "00" + "0801", "protobuf repeated int32"},
		{ofProtobuf("map<string, int32>"), "0000000001" + "00", "protobuf map"},
		{ofProtobuf("S"), "0000000001" + "00", "protobuf message"},
	} {
		value, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		s := &Schema{Fields: []Field{{Name: "n", Type: &Type{Kind: Int32}}}}
		_, bad := avroRows(t, s, tt.o, value)
		misfit, record := new(Misfit), new(BadRecord)
		if !errors.As(bad[0], &misfit) || !errors.As(bad[0], &record) || record.Reason != BadType || record.Detail == "" {
			t.Errorf("%s: %v", tt.seen, bad[0])
		} else if misfit.Column != "n" || misfit.Type != "int32" || misfit.Seen != tt.seen {
			t.Errorf("%s: %+v", tt.seen, misfit)
		}
	}
}
