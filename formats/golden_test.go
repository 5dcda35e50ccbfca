package formats

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestGoldenJSON holds the JSON that plans and results keep for ever: old bytes
// must read, and what is written must be the same bytes.
func TestGoldenJSON(t *testing.T) {
	o := Options{
		Value: "json", Key: "string", Tombstones: "row", OnBad: "quarantine", Include: []string{"*"}, Exclude: []string{"secret"},
		Rename: map[string]string{"b": "bee"}, Hash: []string{"mail"}, Metadata: []string{"_partition", "_headers"}, Reserved: []string{"dt", "hr"},
		Time: TimeOptions{Field: []string{"meta", "ts"}, Format: "epoch_ms", Zone: "Europe/Berlin", PlausibleFrom: new(Instant(946684800000000)), PlausibleTo: new(Instant(4102444800000000))},
	}
	csv := Options{Value: "csv", Columns: []string{"a", "b"}, Delimiter: ";", SkipHeader: true, Time: TimeOptions{Field: []string{"_timestamp"}}}
	report := observe(t, o, `{"b":1,"mail":"x","l":[{"x":0.25},null],"e":[],"n":null,"st":{"deep":{"k":true}}}`, `{"b":9223372036854775808,"st":[]}`)
	schema, err := report.Extend(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	all := struct {
		Options []Options `json:"options"`
		Report  *Report   `json:"report"`
		Schema  *Schema   `json:"schema"`
	}{[]Options{o, csv}, report, schema}
	got, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", "plan-parts.golden.json")
	if os.Getenv("SAWLOG_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the JSON changed:\n%s", got)
	}
	back := all
	back.Report, back.Schema, back.Options = nil, nil, nil
	if err := json.Unmarshal(want, &back); err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("the golden file reads otherwise: %v", err)
	}
}

// TestGoldenDigest holds the logical digest, which ledgers keep.
func TestGoldenDigest(t *testing.T) {
	s := mixedSchema(t, false)
	d, c, digest := newJSON(t, s, jsonOptions()), NewColumns(s), NewDigest(s)
	for _, value := range fastSlowSeeds {
		_, _ = d.Append(c, &Message{Timestamp: 1, Value: []byte(value)}) // bad ones are no rows
	}
	digest.Add(c)
	if got, want := digest.Sum(), "e35ab41f11a58dde537750c770fe8894"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestZoneHash holds the hash of a zone's embedded data, which plans freeze.
func TestZoneHash(t *testing.T) {
	if _, hash, err := LoadZone("America/New_York"); err != nil || hash != "d7f2206b3a45989f" {
		t.Errorf("hash %s, %v", hash, err)
	}
}
