package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/formats/registry/registrytest"
)

// hour reads the rows of the hour whose folder has the name, in their order.
func (r *rig) hour(folder string, columns ...string) (out []string) {
	r.t.Helper()
	for _, v := range r.ledger().Fold().All() {
		if v.Hour == nil || path.Base(path.Dir(v.Path)) != folder {
			continue
		}
		f, err := r.d.Sink.Open(v.Path)
		if err != nil {
			r.t.Fatal(err)
		}
		pq, err := parquet.Open(f, f.Size())
		if err == nil {
			err = pq.Read(columns, 0, -1, func(row [][]byte) error {
				var cells []string
				for _, cell := range row {
					cells = append(cells, string(cell))
				}
				out = append(out, strings.Join(cells, " "))
				return nil
			})
		}
		if err = errors.Join(err, f.Close()); err != nil {
			r.t.Fatalf("%s: %v", v.Path, err)
		}
	}
	return out
}

// dialect is a way to write values and to say what they are: ts, s, n of a type,
// and maybe one more field.
type dialect struct {
	decode  formats.Options
	declare func(s *Spec, n string, more bool)
	value   func(at int, n any, more bool) []byte // as declared last
}

const dialectTime = 1795942800000 // 2026-11-29T09:00:00Z

// avroDialect declares by a registry.
func avroDialect(t *testing.T, reg *registrytest.Server) dialect {
	var id uint32
	var schema string
	types := map[string]string{"int32": "int", "int64": "long", "bool": "boolean"}
	return dialect{
		decode: formats.Options{Value: "avro", Framing: formats.FramingConfluent, Registry: &formats.Registry{URLs: []string{reg.URL}}, Time: formats.TimeOptions{Field: []string{"ts"}}},
		declare: func(_ *Spec, n string, more bool) {
			schema = `{"type":"record","name":"V","fields":[{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"s","type":"string"},{"name":"n","type":"` + types[n] + `"}`
			if more {
				schema += `,{"name":"x","type":["null","string"],"default":null}`
			}
			schema += `]}`
			id = reg.Register("views-value", "AVRO", schema)
		},
		value: func(at int, n any, more bool) []byte {
			v := map[string]any{"ts": int64(at), "s": "a", "n": n}
			if more {
				v["x"] = "more"
			}
			return framed(t, id, schema, v)
		},
	}
}

// protobufDialect declares by a registry.
func protobufDialect(_ *testing.T, reg *registrytest.Server) dialect {
	var id uint32
	return dialect{
		decode: formats.Options{Value: "protobuf", Framing: formats.FramingConfluent, Registry: &formats.Registry{URLs: []string{reg.URL}}, Time: formats.TimeOptions{Field: []string{"ts"}, Format: "epoch_ms"}},
		declare: func(_ *Spec, n string, more bool) {
			schema := `syntax = "proto3"; message V { int64 ts = 1; string s = 2; ` + n + ` n = 3; `
			if more {
				schema += `optional string x = 4; `
			}
			id = reg.Register("views-value", "PROTOBUF", schema+"}")
		},
		value: func(at int, n any, more bool) []byte {
			var number int
			if _, err := fmt.Sscan(fmt.Sprint(n), &number); err != nil {
				panic(err)
			}
			b := pbFields(1, at, 2, "a", 3, number)
			if more {
				b = append(b, pbFields(4, "more")...)
			}
			return pbFrame(id, "\x00", b)
		},
	}
}

// jsonDialect declares under schema:.
func jsonDialect(*testing.T, *registrytest.Server) dialect {
	return dialect{
		decode: formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"ts"}, Format: "epoch_ms"}},
		declare: func(s *Spec, n string, more bool) {
			text := "struct<ts:timestamp_ms,s:string,n:" + n
			if more {
				text += ",x:string"
			}
			typ, err := formats.ParseType(text + ">")
			if err != nil {
				panic(err)
			}
			s.Schema = &formats.Schema{Fields: typ.Fields}
		},
		value: func(at int, n any, more bool) []byte {
			if more {
				return fmt.Appendf(nil, `{"ts":%d,"s":"a","n":%v,"x":"more"}`, at, n)
			}
			return fmt.Appendf(nil, `{"ts":%d,"s":"a","n":%v}`, at, n)
		},
	}
}

// TestEvolution takes one data set through the changes of its schema: additions
// count at once, and old and new records in turn make one file; a wider type
// waits for the rewrite of all files; any other is exit 4. Both errors name the
// column and both types.
func TestEvolution(t *testing.T) {
	for name, speak := range map[string]func(*testing.T, *registrytest.Server) dialect{"avro": avroDialect, "protobuf": protobufDialect, "json": jsonDialect} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New()
			defer reg.Close()
			r := newRig(t, 1)
			d := speak(t, reg)
			r.spec.Decode = d.decode
			log := r.src.log("views", 0)

			d.declare(&r.spec, "int32", false)
			old := d.value
			log.put(t, 2, record.None, bare(old(dialectTime, int32(1), false), old(dialectTime, int32(2), false))...)
			if out := r.load(PlanAsk{}); out.Rows != 2 || out.NewColumns != nil {
				t.Errorf("first run %+v", out)
			}
			before := bare(old(dialectTime+3_600_000, int32(3), false), old(dialectTime+3_600_000, int32(4), false), old(dialectTime+3_600_000, int32(5), false))
			d.declare(&r.spec, "int32", true)
			for i, rec := range before {
				log.put(t, 1, record.None, rec, bare(d.value(dialectTime+3_600_000, int32(10+i), true))[0])
			}
			if _, v := r.plan(PlanAsk{}); fmt.Sprint(v.Columns) != "[x]" {
				t.Errorf("the preview announces %v", v.Columns)
			}
			out := r.load(PlanAsk{})
			if out.Rows != 6 || out.Files != 1 || out.Quarantined != 0 || fmt.Sprint(out.NewColumns) != "[{x string}]" {
				t.Errorf("old and new in turn: %+v", out)
			}
			if got := strings.Join(r.hour("hr=10", "n", "x"), "|"); got != `3 null|10 "more"|4 null|11 "more"|5 null|12 "more"` {
				t.Errorf("rows %s", got)
			}

			d.declare(&r.spec, "int64", true)
			log.put(t, 2, record.None, bare(d.value(dialectTime+7_200_000, int64(1<<40), true))...)
			_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
			exits(t, err, ExitConflict, "column n is int32 in the data set and int64 here")
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Hint, "out rewrite") || !strings.Contains(e.Hint, "n as int32") {
				t.Errorf("the way out is %q", e.Hint)
			}
			if out := r.rewrite(RewriteAsk{Spec: &r.spec}); out.Rows != 8 {
				t.Errorf("rewrite %+v", out)
			}
			if out := r.load(PlanAsk{}); out.Rows != 1 || out.Quarantined != 0 {
				t.Errorf("after the rewrite: %+v", out)
			}
			if got := strings.Join(append(r.hour("hr=10", "n"), r.hour("hr=11", "n", "x")...), "|"); got != `3|10|4|11|5|12|1099511627776 "more"` {
				t.Errorf("rows %s", got)
			}
			if p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &r.spec}); p != nil || err != nil {
				t.Errorf("nothing is left to widen: %v, %v", p, err)
			}

			d.declare(&r.spec, "bool", true)
			_, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{})
			exits(t, err, ExitConflict, "column n is int64 in the data set and bool here")
			if !errors.As(err, &e) || strings.Contains(e.Hint, "rewrite") {
				t.Errorf("a way out that is none: %q", e.Hint)
			}
			_, err = r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &r.spec})
			exits(t, err, ExitConflict, "column n is int64 in the data set, bool is no wider type")
			r.sound()
		})
	}
}

// TestRegistryIsAskedLast holds that the ends of a plan are known before the
// registry is asked: then whoever wrote a record of it had registered its schema,
// and a field that is new is a column of the run, not lost to it.
func TestRegistryIsAskedLast(t *testing.T) {
	reg := registrytest.New()
	defer reg.Close()
	r := newRig(t, 1)
	d := avroDialect(t, reg)
	r.spec.Decode = d.decode
	d.declare(&r.spec, "int32", false)
	r.src.log("views", 0).put(t, 1, record.None, bare(d.value(dialectTime, int32(1), false))...)
	ends := 0
	r.src.refuse = func(req kmsg.Request) error {
		if _, ok := req.(*kmsg.ListOffsetsRequest); ok {
			if ends++; reg.Asked() > 0 {
				t.Error("ends are asked for after the registry")
			}
		}
		return nil
	}
	if r.plan(PlanAsk{}); ends == 0 || reg.Asked() == 0 {
		t.Errorf("ends were asked for %d times, the registry %d times", ends, reg.Asked())
	}
}

// TestDrift counts what no longer fits, column by column and kind by kind, and
// names columns that are new; the ledger keeps both.
func TestDrift(t *testing.T) {
	r := newRig(t, 2)
	log := r.src.log("views", 0)
	at := `{"ts":"2026-11-29T09:00:00Z",`
	log.put(t, 3, record.None, lines(at+`"n":1,"s":{"k":true}}`, at+`"n":2,"s":{"k":false}}`)...)
	if out := r.load(PlanAsk{}); out.Rows != 2 || out.Drift != nil || out.NewColumns != nil {
		t.Errorf("first run %+v", out)
	}
	log.put(t, 3, record.None, lines(at+`"n":"x"}`, at+`"n":1.5}`, at+`"n":"y","s":{"k":7}}`, at+`"n":3,"s":{"k":7}}`, at+`"n":9223372036854775808}`, "{")...)
	r.src.log("views", 1).put(t, 3, record.None, lines(at+`"n":[1]}`, at+`"n":"z"}`, at+`"n":5,"s":{"k":true,"new":1},"more":"m"}`)...)
	want := "[{n int64 string 3} {n int64 an integer beyond int64 1} {n int64 double 1} {n int64 list 1} {s.k bool int64 1}]"
	out := r.load(PlanAsk{})
	if out.Rows != 1 || out.Quarantined != 8 || fmt.Sprint(out.Drift) != want {
		t.Errorf("%d rows, %d quarantined, drift %v\nwant %s", out.Rows, out.Quarantined, out.Drift, want)
	}
	if got := fmt.Sprint(out.NewColumns); got != "[{s.new int64} {more string}]" {
		t.Errorf("new columns %s", got)
	}
	rec, err := r.ledger().Record(out.Number)
	if err != nil {
		t.Fatal(err)
	}
	if again := OutcomeOf(rec); fmt.Sprint(again.Drift) != want || len(again.NewColumns) != 2 {
		t.Errorf("the ledger says %v, %v", again.Drift, again.NewColumns)
	}
}

// TestDriftWayOut names a type that a rewrite can give and that takes what was
// seen.
func TestDriftWayOut(t *testing.T) {
	for _, tt := range []struct{ typ, seen, want string }{
		{"int32", "int64", "int64"},
		{"int32", "avro long", "int64"},
		{"int32", "protobuf uint32", "int64"},
		{"int64", "double", "double"},
		{"int64", "avro double", "double"},
		{"float", "avro double", "double"},
		{"int64", "string", "json"},
		{"int64", "an integer beyond int64", "json"},
		{"bool", "struct", "json"},
		{"timestamp_ms", "avro string", "json"},
		{"string", "list", ""},
		{"list<int64>", "string", ""},
		{"bool", "protobuf string", ""},
	} {
		d := Drift{Column: "c", Type: tt.typ, Seen: tt.seen}
		if got := d.Wider(); got != tt.want {
			t.Errorf("%s that met %s: %q, want %q", tt.typ, tt.seen, got, tt.want)
		} else if got == "" {
			continue
		}
		have, err := formats.ParseType(tt.typ)
		if err != nil {
			t.Fatal(err)
		}
		if wider, err := formats.ParseType(tt.want); err != nil || !formats.Widens(have, wider) {
			t.Errorf("%s is no wider type than %s: %v", tt.want, tt.typ, err)
		}
		if says := d.WayOut("views", "run-1"); !strings.Contains(says, "c as "+tt.want) || !strings.Contains(says, "out rewrite views") || !strings.Contains(says, "out requeue run-1") {
			t.Errorf("%s", says)
		}
	}
}

// TestRealEvolution takes a data set through the versions of a real schema: fields
// with defaults, then a renamed and two wider ones, then one that is incompatible.
func TestRealEvolution(t *testing.T) {
	dir := os.Getenv("SAWLOG_TEST_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	reg := registrytest.New()
	defer reg.Close()
	register := func(version string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "schemas", "evolution", "page_view_"+version+".avsc"))
		if err != nil && os.Getenv("SAWLOG_TEST_REQUIRE") != "all" {
			t.Skipf("the real inputs (SAWLOG_TEST_DATA) are missing: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		reg.Register("views-value", "AVRO", string(text))
	}
	r := newRig(t, 1)
	r.spec.Decode = formats.Options{
		Value: "avro", Framing: formats.FramingConfluent, Registry: &formats.Registry{URLs: []string{reg.URL}}, Time: formats.TimeOptions{Field: []string{"ts"}},
	}
	uuid := "\x48" + "00000000-0000-0000-0000-000000000000"
	value := func(id byte) string { // ts 1795942800000, user 3, path /a, score 0.5
		return "\x00\x00\x00\x00" + string(rune(id)) + uuid + string(binary.AppendVarint(nil, dialectTime)) + "\x06\x04/a\x00\x00\x00\x3f"
	}
	put := func(v string) { r.src.log("views", 0).put(t, 1, record.None, bare([]byte(v))...) }
	register("v1")
	put(value(1))
	r.load(PlanAsk{})
	register("v2")
	put(value(2) + "\x00\x02\x00\x00")
	put(value(1))
	if out := r.load(PlanAsk{}); out.Rows != 2 || fmt.Sprint(out.NewColumns) != "[{referrer string} {device string} {price decimal(18,4)} {tags map<string>}]" {
		t.Errorf("%+v", out)
	}
	if got := strings.Join(r.hour("hr=09", "user_id"), "|"); got != "3|3|3" {
		t.Errorf("rows %s", got)
	}
	register("v3")
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	exits(t, err, ExitUsage, `"ts"`, "the schema has no such field")
	r.spec.Decode.Time.Field = []string{"event_time"}
	_, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	exits(t, err, ExitConflict, "column user_id is int32 in the data set and int64 here")
	if out := r.rewrite(RewriteAsk{Spec: &r.spec}); fmt.Sprint(out.NewColumns) != "[{event_time timestamp_ms} {day date}]" {
		t.Errorf("%+v", out)
	}
	put(value(1))
	if out := r.load(PlanAsk{}); out.Rows != 1 {
		t.Errorf("%+v", out)
	}
	register("v4_incompatible")
	_, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	exits(t, err, ExitConflict, "column user_id is int64 in the data set and string here")
	var e *Error
	if !errors.As(err, &e) || strings.Contains(e.Hint, "rewrite") {
		t.Errorf("a way out that is none: %q", e.Hint)
	}
	r.sound()
}

// TestDriftIsBounded lists the most frequent kinds, whatever is in the records.
func TestDriftIsBounded(t *testing.T) {
	var results []*Result
	for i := range 3 * maxDrift {
		results = append(results, &Result{Drift: []Drift{{Column: fmt.Sprint("c", i), Type: "int64", Seen: "string", Records: int64(i + 1)}}},
			&Result{Drift: []Drift{{Column: "often", Type: "bool", Seen: "string", Records: 2}}})
	}
	got := driftOf(results)
	if len(got) != maxDrift || got[0] != (Drift{"often", "bool", "string", 6 * maxDrift}) || got[1].Records != 3*maxDrift {
		t.Errorf("%d kinds, the first %+v", len(got), got[:2])
	}
}
