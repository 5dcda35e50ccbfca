package loader

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/formats/registry/registrytest"
)

// pbFields writes a message: numbers are varints, texts and bytes have a length.
func pbFields(values ...any) (b []byte) {
	for i := 0; i < len(values); i += 2 {
		number := protowire.Number(values[i].(int))
		switch v := values[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		default:
			panic(fmt.Sprintf("field %d is a %T", number, v))
		}
	}
	return b
}

// pbFrame puts an id and message indexes before a message.
func pbFrame(id uint32, indexes string, message []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32([]byte{0}, id), indexes...), message...)
}

// pbTime is a google.protobuf.Timestamp.
func pbTime(ms int) []byte { return pbFields(1, ms/1000, 2, ms%1000*1_000_000) }

const (
	pbViewImport = `syntax = "proto3"; package site; message Place { string city = 1; }`
	pbViewV1     = `syntax = "proto3"; package site; import "site/place.proto"; import "google/protobuf/timestamp.proto";
		message Ping {} message View { google.protobuf.Timestamp at = 1; string path = 2; Place place = 3; }`
	pbViewV2 = `syntax = "proto3"; package site; import "site/place.proto"; import "google/protobuf/timestamp.proto";
		message Ping {} message View { google.protobuf.Timestamp at = 1; string url = 2; Place place = 3; optional int32 n = 4; }`
)

// TestProtobufRegistry loads framed Protobuf: the plan freezes schemas with their
// imports, an id it has not makes the next revision, a later version of the
// subject brings its columns from the next plan on, and a rerun asks nobody.
func TestProtobufRegistry(t *testing.T) {
	reg := registrytest.New()
	defer reg.Close()
	place := registrytest.Reference{Name: "site/place.proto", Subject: "place", Version: 1}
	reg.Register("place", "PROTOBUF", pbViewImport)
	one := reg.Register("views-value", "PROTOBUF", pbViewV1, place)
	other := reg.Register("elsewhere", "PROTOBUF", pbViewV1+"\n", place)
	r := newRig(t, 1)
	r.spec.Decode = formats.Options{
		Value: "protobuf", Message: "site.View", Framing: formats.FramingConfluent, Registry: &formats.Registry{URLs: []string{reg.URL}},
		Time: formats.TimeOptions{Field: []string{"at"}},
	}
	at := 1795942800000 // 2026-11-29T09:00:00Z
	view := "\x02\x02"  // the second message of its file
	log := r.src.log("views", 0)
	log.put(t, 2, record.None, bare(
		pbFrame(one, view, pbFields(1, pbTime(at), 2, "/a", 3, pbFields(1, "Oslo"))),
		pbFrame(other, view, pbFields(1, pbTime(at+1), 2, "/b")),
		pbFrame(one, "\x00", nil), // a Ping
		pbFrame(77, view, pbFields(1, pbTime(at+2), 2, "/c")),
		[]byte(`{"a":1}`))...)
	first := r.load(PlanAsk{})
	if first.Rows != 2 || first.Quarantined != 3 {
		t.Errorf("%+v", first)
	}
	if got := strings.Join(r.content("path", "place"), "|"); got != `dt=2026-11-29/hr=09 "/a" {"city":"Oslo"}|dt=2026-11-29/hr=09 "/b" null` {
		t.Errorf("rows %s", got)
	}

	two := reg.Register("views-value", "PROTOBUF", pbViewV2, place)
	log.put(t, 2, record.None, bare(
		pbFrame(two, view, pbFields(1, pbTime(at+3_600_000), 2, "/d", 4, 7)),
		pbFrame(one, view, pbFields(1, pbTime(at+3_600_001), 2, "/e")))...)
	second := r.load(PlanAsk{})
	if second.Rows != 2 || second.Quarantined != 0 || second.Files != 1 {
		t.Errorf("%+v", second)
	}
	// The renamed field is a column of its own; the old one stays as it was.
	if fmt.Sprint(second.NewColumns) != "[{url string} {n int32}]" {
		t.Errorf("new columns %v", second.NewColumns)
	}
	if got := strings.Join(r.hour("hr=10", "path", "url", "n"), "|"); got != `null "/d" 7|null "/e" null` {
		t.Errorf("rows %s", got)
	}
	reg.Down(1000)
	asked := reg.Asked()
	for n := range 2 {
		if report, err := r.d.Rerun(t.Context(), fmt.Sprint(n)); err != nil || report.Changed+report.Restored != 0 || report.Identical == 0 {
			t.Errorf("rerun of record %d: %+v, %v", n, report, err)
		}
	}
	if reg.Asked() != asked {
		t.Error("a rerun asked the registry")
	}
	log.put(t, 2, record.None, bare(pbFrame(two, view, pbFields(1, pbTime(at), 2, "/f")))...)
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	exits(t, err, ExitUnavailable, "registry is unavailable")
}
