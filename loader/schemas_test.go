package loader

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/twmb/avro"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/formats/registry/registrytest"
)

const (
	viewV1 = `{"type":"record","name":"View","fields":[{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"path","type":"string"}]}`
	viewV2 = `{"type":"record","name":"View","fields":[{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"n","type":"long","default":5},{"name":"path","type":"string"}]}`
)

func framed(t *testing.T, id uint32, schema string, v map[string]any) []byte {
	t.Helper()
	b, err := avro.MustParse(schema).AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, id), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bare(values ...[]byte) (out []record.Record) {
	for _, v := range values {
		out = append(out, record.Record{Value: v})
	}
	return out
}

// TestRegistry loads values whose schemas a registry has. The plan freezes what
// it knows, a task reports ids it does not know, and the next revision has them;
// an id the registry has not is a bad record, a registry that is down is not.
func TestRegistry(t *testing.T) {
	reg := registrytest.New()
	defer reg.Close()
	one := reg.Register("views-value", "AVRO", viewV1)
	other := reg.Register("elsewhere", "AVRO", viewV2) // another subject's schema
	r := newRig(t, 1)
	r.spec.Decode = formats.Options{
		Value: "avro", Framing: formats.FramingConfluent, Registry: &formats.Registry{URLs: []string{reg.URL}},
		Time: formats.TimeOptions{Field: []string{"ts"}},
	}
	at := int64(1795942800000) // 2026-11-29T09:00:00Z
	values := [][]byte{
		framed(t, one, viewV1, map[string]any{"ts": at, "path": "/a"}),
		framed(t, other, viewV2, map[string]any{"ts": at + 1, "path": "/b", "n": int64(7)}),
		framed(t, 99, viewV1, map[string]any{"ts": at + 2, "path": "/c"}),
		[]byte(`{"a":1}`),
	}
	r.src.log("views", 0).put(t, 2, record.None, bare(values...)...)

	p, _ := r.plan(PlanAsk{})
	if len(p.Decode.Writers) != 1 || p.Decode.Schema.ID != one {
		t.Fatalf("plan froze %+v", p.Decode)
	}
	if _, v, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{Scan: true}); err != nil || v.Rows != 2 || v.Bad != 2 {
		t.Errorf("scan: %+v, %v", v, err)
	}
	reg.Down(1000)
	if _, err := r.run(p); ExitCode(err) != ExitUnavailable {
		t.Errorf("with the registry down: %v", err)
	}
	reg.Down(0)
	out, err := r.run(p)
	if err != nil {
		t.Fatal(err)
	}
	if out.Rows != 2 || out.Quarantined != 2 {
		t.Errorf("%d rows, %d quarantined", out.Rows, out.Quarantined)
	}
	rows := r.rows("path")
	slices.SortFunc(rows, func(a, b []string) int { return slices.Compare(a, b) })
	if len(rows) != 2 || rows[0][1] != `"/a"` || rows[1][1] != `"/b"` {
		t.Errorf("rows %v", rows)
	}

	// The subject goes on: the new field is a column from now on.
	two := reg.Register("views-value", "AVRO", viewV2)
	r.src.log("views", 0).put(t, 2, record.None, bare(framed(t, two, viewV2, map[string]any{"ts": at + 3, "path": "/d", "n": int64(8)}),
		framed(t, one, viewV1, map[string]any{"ts": at + 4, "path": "/e"}))...)
	if out := r.load(PlanAsk{}); out.Rows != 2 {
		t.Errorf("%d rows", out.Rows)
	}
	asked := reg.Asked()
	reg.Down(1000) // a rerun needs no registry
	for _, row := range r.rows("path") {
		t.Log(row)
	}
	if reg.Asked() != asked {
		t.Error("reading asked the registry")
	}
}

// TestRegistryErrors holds the exit codes of a plan whose registry has no answer
// that will do.
func TestRegistryErrors(t *testing.T) {
	reg := registrytest.New()
	defer reg.Close()
	reg.Register("views-value", "JSON", `{}`)
	reg.Register("lost", "PROTOBUF", `syntax = "proto3"; import "gone.proto"; message M {}`)
	reg.Register("empty", "PROTOBUF", `syntax = "proto3"; enum E { Z = 0; }`)
	for name, tt := range map[string]struct {
		value, subject, message string
		arrange                 func()
		code                    int
		words                   []string
	}{
		"down":             {"avro", "", "", func() { reg.Down(1000) }, ExitUnavailable, []string{"registry is unavailable"}},
		"no login":         {"avro", "", "", func() { reg.User = "me" }, ExitAuth, []string{"refuses the login"}},
		"no subject":       {"avro", "nobody", "", func() {}, ExitNotFound, []string{"subject nobody"}},
		"another language": {"avro", "", "", func() {}, ExitConflict, []string{"subject views-value", "is JSON, not AVRO"}},
		"a lost import":    {"protobuf", "lost", "", func() {}, ExitConflict, []string{"subject lost", "gone.proto"}},
		"no message":       {"protobuf", "empty", "", func() {}, ExitUsage, []string{"has no message"}},
		"no such message":  {"protobuf", "empty", "p.M", func() {}, ExitUsage, []string{"has no message p.M"}},
	} {
		r := newRig(t, 1)
		r.spec.Decode = formats.Options{
			Value: tt.value, Message: tt.message, Framing: formats.FramingConfluent, Time: formats.TimeOptions{Field: []string{"_timestamp"}},
			Registry: &formats.Registry{URLs: []string{reg.URL}, Subject: tt.subject},
		}
		tt.arrange()
		_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
		reg.Down(0)
		reg.User = ""
		t.Run(name, func(t *testing.T) { exits(t, err, tt.code, tt.words...) })
	}
}
