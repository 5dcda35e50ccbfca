package loader

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/formats"
)

// A preview warns of each field that the job names and no record has, by the
// field that is meant, and of no other; whatever it is named for, and whether the
// columns are inferred or declared.
func TestPreviewWarnsOfStrays(t *testing.T) {
	value := `{"ts":"2026-11-29T09:00:00Z","country":"DE","Email":"a@b","geo":{"lat":1.5},"items":[{"sku":"x"}],"rare":null}`
	declared := func(from ...string) *formats.Schema {
		return &formats.Schema{Fields: []formats.Field{{Name: "name", From: from, Type: &formats.Type{Kind: formats.String}}}}
	}
	for _, c := range []struct {
		name string
		set  func(s *Spec)
		want string // "" = no warning
	}{
		{"all there", func(s *Spec) {
			s.Fields, s.Decode.Include = []string{"country"}, []string{"*"}
			s.Decode.Exclude, s.Decode.Hash = []string{"geo.lat", "items.sku", "none*"}, []string{"mail"}
			s.Decode.Rename = map[string]string{"Email": "mail"}
		}, "columns.exclude: none of the 1 records looked at has \"none*\""},
		{"null only", func(s *Spec) { s.Decode.Exclude = []string{"rare"} }, ""},
		{"folders", func(s *Spec) { s.Fields = []string{"contry"} }, `partition_by.fields: none of the 1 records looked at has "contry"; did you mean "country"?`},
		{"time", func(s *Spec) { s.Decode.Time.Field = []string{"tss"} }, `time.field: none of the 1 records looked at has "tss"; did you mean "ts"?`},
		{"hash", func(s *Spec) { s.Decode.Hash = []string{"email"} }, `columns.hash: none of the 1 records looked at has "email"; did you mean "Email"?`},
		{"exclude", func(s *Spec) { s.Decode.Exclude = []string{"geo.latt"} }, `has "geo.latt"; did you mean "geo.lat"?`},
		{"include", func(s *Spec) { s.Decode.Include = []string{"ts", "kountry"} }, `columns.include: none of the 1 records looked at has "kountry"; did you mean "country"?`},
		{"rename", func(s *Spec) { s.Decode.Rename = map[string]string{"e-mail": "mail"} }, `columns.rename: none of the 1 records looked at has "e-mail"; did you mean "Email"?`},
		{"declared", func(s *Spec) { s.Schema = declared("contry") }, `schema: none of the 1 records looked at has "contry"; did you mean "country"?`},
		{"declared and rare", func(s *Spec) { s.Schema = declared("nobody_has_it") }, ""},
		{"declared time", func(s *Spec) { s.Schema, s.Decode.Time.Field = declared("country"), []string{"tz"} }, `time.field: none of the 1 records looked at has "tz"; did you mean "ts"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.src.log("views", 0).put(t, 1, record.None, lines(value)...)
			c.set(&r.spec)
			for _, scan := range []bool{false, true} {
				_, v := r.plan(PlanAsk{Scan: scan})
				if got := strings.Join(v.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) || len(v.Warnings) > 1 {
					t.Errorf("scan %v: warnings %q, want %q", scan, got, c.want)
				}
			}
		})
	}
}

// What the data set has as a column is no stray, though records without it were
// met; and a job that has loaded under a slip is warned still.
func TestPreviewKnowsTheDataSet(t *testing.T) {
	r := newRig(t, 1)
	log := r.src.log("views", 0)
	log.put(t, 1, record.None, lines(`{"ts":"2026-11-29T09:00:00Z","country":"DE"}`)...)
	r.spec.Fields, r.spec.Decode.Hash = []string{"country"}, []string{"emial"}
	r.load(PlanAsk{})
	log.put(t, 1, record.None, lines(`{"ts":"2026-11-29T10:00:00Z","email":"a"}`)...)
	_, v := r.plan(PlanAsk{})
	if want := []string{`columns.hash: none of the 1 records looked at has "emial"; did you mean "email"?`}; !slices.Equal(v.Warnings, want) {
		t.Errorf("warnings %q, want %q", v.Warnings, want)
	}
}

// Where fields are known before any record, a stray is refused of who brings it; a
// spec that is carried out already is good with it.
func TestSpecRefusesStrays(t *testing.T) {
	csv := func(s *Spec) { s.Decode.Value, s.Decode.Columns = "csv", []string{"ts", "email"} }
	text := func(s *Spec) { s.Decode.Value, s.Decode.Pattern = "text", `(?P<ts>\S+) (?P<email>\S+)` }
	avro := func(s *Spec) {
		s.Decode.Value = "avro"
		s.Decode.Schema = &formats.WireSchema{Text: []string{`{"type":"record","name":"r","fields":[{"name":"ts","type":"string"},{"name":"email","type":"string"},` +
			`{"name":"list","type":{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"sku","type":"string"}]}}}]}`}}
	}
	for name, set := range map[string]func(*Spec){"csv": csv, "text": text, "avro": avro} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, 1).spec
			set(&s)
			s.Decode.Rename = map[string]string{"email": "mail"}
			s.Decode.Hash, s.Decode.Exclude = []string{"mail"}, []string{"none*"}
			if name == "avro" {
				s.Decode.Exclude = append(s.Decode.Exclude, "list.sku")
			}
			if err := errors.Join(s.Validate(), s.CheckNames()); err != nil {
				t.Fatal(err)
			}
			s.Decode.Rename, s.Decode.Hash = nil, []string{"emial"}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
			exits(t, s.CheckNames(), ExitUsage, `columns.hash: the records have no "emial"; did you mean "email"?`)
			s.Decode.Hash, s.Fields = nil, []string{"emial"}
			exits(t, s.Validate(), ExitUsage, `partition_by.fields: no column holds "emial"; did you mean "email"?`)
		})
	}
}
