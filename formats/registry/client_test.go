package registry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
	"sawlog/formats/registry"
	"sawlog/formats/registry/registrytest"
)

const (
	city   = `{"type":"record","name":"geo.City","fields":[{"name":"name","type":"string"}]}`
	visit  = `{"type":"record","name":"Visit","fields":[{"name":"where","type":"geo.City"}]}`
	visit2 = `{"type":"record","name":"Visit","fields":[{"name":"where","type":"geo.City"},{"name":"n","type":"int","default":0}]}`
)

func client(t *testing.T, c registry.Config) *registry.Client {
	t.Helper()
	c.Pause = time.Millisecond
	out, err := registry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

func server(t *testing.T) *registrytest.Server {
	t.Helper()
	s := registrytest.New()
	t.Cleanup(s.Close)
	s.Register("city", "AVRO", city)
	ref := registrytest.Reference{Name: "geo.City", Subject: "city", Version: 1}
	s.Register("visits-value", "AVRO", visit, ref)
	s.Register("visits-value", "AVRO", visit2, ref)
	s.Register("other", "JSON", `{}`)
	s.Register("broken", "AVRO", visit, registrytest.Reference{Name: "geo.City", Subject: "gone", Version: 1})
	return s
}

func TestSchemasWithTheirReferences(t *testing.T) {
	s := server(t)
	c := client(t, registry.Config{URLs: []string{s.URL + "/"}})
	latest, err := c.Latest(t.Context(), "avro", "visits-value")
	if want := (&formats.WireSchema{ID: 3, Text: []string{city, visit2}}); err != nil || !reflect.DeepEqual(latest, want) {
		t.Errorf("latest %+v, %v", latest, err)
	}
	all, err := c.All(t.Context(), "avro", "visits-value")
	want := []formats.WireSchema{{ID: 2, Text: []string{city, visit}}, {ID: 3, Text: []string{city, visit2}}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("all %+v, %v", all, err)
	}
	for id, want := range map[uint32]string{1: "", 4: "is JSON, not AVRO", 5: "reference geo.City", 77: "no such schema"} {
		w, err := c.Writer(t.Context(), "avro", id)
		if err != nil || w.ID != id || !strings.Contains(w.Unknown, want) || want == "" && w.Unknown != "" {
			t.Errorf("writer %d: %+v, %v", id, w, err)
		}
	}
	if _, err := c.Latest(t.Context(), "avro", "absent"); !errors.Is(err, registry.ErrNotFound) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("absent subject: %v", err)
	}
}

// TestRegistryOutOfOrder tells what may pass from what will not.
func TestRegistryOutOfOrder(t *testing.T) {
	s := server(t)
	c := client(t, registry.Config{URLs: []string{s.URL}, Tries: 3})
	s.Down(2)
	if w, err := c.Writer(t.Context(), "avro", 1); err != nil || w.Unknown != "" {
		t.Errorf("two failures of three: %+v, %v", w, err)
	}
	s.Down(3)
	if w, err := c.Writer(t.Context(), "avro", 1); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("three failures of three: %+v, %v", w, err)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusNotFound) }))
	defer page.Close()
	if _, err := client(t, registry.Config{URLs: []string{page.URL}}).Writer(t.Context(), "avro", 1); err == nil || errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a page that is no registry: %v", err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, err := client(t, registry.Config{URLs: []string{gone.URL}}).Writer(t.Context(), "avro", 1); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("a closed port: %v", err)
	}
	if w, err := client(t, registry.Config{URLs: []string{gone.URL, s.URL}}).Writer(t.Context(), "avro", 1); err != nil || w.Unknown != "" {
		t.Errorf("the second of two: %+v, %v", w, err)
	}
}

func TestLogin(t *testing.T) {
	s := server(t)
	s.User, s.Password = "me", "secret"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, registry.Config{URLs: []string{s.URL}, User: "me", PasswordFile: file}).Writer(t.Context(), "avro", 1); err != nil {
		t.Error(err)
	}
	if _, err := client(t, registry.Config{URLs: []string{s.URL}}).Writer(t.Context(), "avro", 1); !errors.Is(err, registry.ErrAuth) {
		t.Errorf("without a login: %v", err)
	}
	for _, bad := range []string{"", "registry:8081", "ftp://r", "http://me:secret@r"} {
		if _, err := registry.New(registry.Config{URLs: []string{bad}}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestProtobufSchemas resolves imports through references, in several steps and
// by several ways, and says what is missing.
func TestProtobufSchemas(t *testing.T) {
	s := registrytest.New()
	t.Cleanup(s.Close)
	c := client(t, registry.Config{URLs: []string{s.URL}})
	ref := func(name, subject string) registrytest.Reference {
		return registrytest.Reference{Name: name, Subject: subject, Version: 1}
	}
	s.Register("geo/units.proto", "PROTOBUF", `syntax = "proto3"; package geo; message Metres { double v = 1; }`)
	s.Register("city", "PROTOBUF", `syntax = "proto3"; package geo; import "geo/units.proto"; message City { string name = 1; Metres high = 2; }`, ref("geo/units.proto", "geo/units.proto"))
	visit := s.Register("visits-value", "PROTOBUF", `syntax = "proto3"; import "geo/city.proto"; import "geo/units.proto"; import "google/protobuf/timestamp.proto";
		message Visit { geo.City city = 1; geo.Metres far = 2; google.protobuf.Timestamp at = 3; }`, ref("geo/city.proto", "city"), ref("geo/units.proto", "geo/units.proto"))
	lost := s.Register("lost-value", "PROTOBUF", `syntax = "proto3"; import "geo/gone.proto"; message M { geo.Gone g = 1; }`)
	dangling := s.Register("dangling", "PROTOBUF", `syntax = "proto3"; import "x.proto"; message M {}`, ref("x.proto", "nobody"))
	plain := s.Register("plain", "AVRO", city)
	latest, err := c.Latest(t.Context(), "protobuf", "visits-value")
	if err != nil || latest.ID != visit || len(latest.Text) != 1 {
		t.Fatalf("latest %+v, %v", latest, err)
	}
	o := formats.Options{Value: "protobuf", Schema: latest, Metadata: []string{}, Time: formats.TimeOptions{Field: []string{"at"}}}
	columns, err := o.Base(nil)
	if err != nil || len(columns.Fields) != 3 || columns.Fields[0].Type.String() != "struct<name:string,high:struct<v:double>>" {
		t.Errorf("columns %+v, %v", columns, err)
	}
	for id, want := range map[uint32]string{lost: "geo/gone.proto", dangling: "reference x.proto", plain: "is AVRO, not PROTOBUF", 99: "no such schema", visit: ""} {
		w, err := c.Writer(t.Context(), "protobuf", id)
		if err != nil || !strings.Contains(w.Unknown, want) || (want == "") != (w.Unknown == "") {
			t.Errorf("writer %d: %q, %v, want %q", id, w.Unknown, err, want)
		}
	}
	asked := s.Asked()
	if all, err := c.All(t.Context(), "protobuf", "visits-value"); err != nil || len(all) != 1 || s.Asked() != asked+2 { // its versions, and the one
		t.Errorf("all %d, %v: %d requests", len(all), err, s.Asked()-asked)
	}
	if _, err := c.Latest(t.Context(), "protobuf", "lost-value"); !errors.Is(err, registry.ErrUnusable) || !strings.Contains(err.Error(), "geo/gone.proto") {
		t.Errorf("a subject whose schema can't be read: %v", err)
	}
}
