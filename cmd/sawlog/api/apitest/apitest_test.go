package apitest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

const small = `{"openapi": "3.1.0", "servers": [{"url": "/v1"}],
"paths": {"/things/{thing}": {"get": {"parameters": [{"name": "thing", "in": "path", "required": true}], "responses": {
  "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
  "404": {"$ref": "#/components/responses/Gone"}}}}},
"components": {"schemas": {"Thing": {"type": "object", "required": ["name"], "properties": {
  "name": {"type": "string", "enum": ["a", "b"]}, "at": {"type": "string", "format": "date-time"}, "n": {"type": "integer", "minimum": 1},
  "tags": {"type": "array", "items": {"type": "string"}}, "by": {"type": "object", "additionalProperties": {"type": "number"}},
  "maybe": {"anyOf": [{"$ref": "#/components/schemas/Thing"}, {"type": "null"}]}}}},
 "responses": {"Gone": {"content": {"application/json": {"schema": {"type": ["string", "null"]}}}}}}}`

// TestCheck: each way in which an answer can break what the document says is
// noticed and named.
func TestCheck(t *testing.T) {
	d, err := Read([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if op := []string{"GET /v1/things/{thing}"}; !slices.Equal(d.Operations(), op) || !slices.Equal(d.Unasked(), op) {
		t.Errorf("unasked %v of %v", d.Unasked(), d.Operations())
	}
	for _, c := range []struct {
		path   string
		status int
		body   string
		says   string // "" = it is as it should be
	}{
		{"/v1/things/x", 200, `{"name":"a","at":"2026-11-29T14:00:00.5Z","n":1,"tags":["x"],"by":{"k":1.5},"maybe":{"name":"b","maybe":null}}`, ""},
		{"/v1/things/x", 404, `null`, ""},
		{"/v1/things/x", 404, `"gone"`, ""},
		{"/v1/things/x", 404, `1`, "1 is no string or null"},
		{"/v1/things/x", 500, `{}`, "status 500 is not documented"},
		{"/v1/things", 200, `{}`, "is not documented"},
		{"/v1/things/x", 200, `{"name":"a"`, "unexpected end"},
		{"/v1/things/x", 200, `{"n":1}`, "name is missing"},
		{"/v1/things/x", 200, `{"name":"c"}`, "answer.name: \"c\" is none of"},
		{"/v1/things/x", 200, `{"name":"a","n":1.5}`, "1.5 is no integer"},
		{"/v1/things/x", 200, `{"name":"a","n":0}`, "0 is less than 1"},
		{"/v1/things/x", 200, `{"name":"a","at":"yesterday"}`, "answer.at: parsing time"},
		{"/v1/things/x", 200, `{"name":"a","tags":null}`, "null is no array"},
		{"/v1/things/x", 200, `{"name":"a","tags":["x",1]}`, "answer.tags[1]: 1 is no string"},
		{"/v1/things/x", 200, `{"name":"a","by":{"k":"x"}}`, "answer.by.k"},
		{"/v1/things/x", 200, `{"name":"a","more":1}`, "more is not documented"},
		{"/v1/things/x", 200, `{"name":"a","maybe":{"name":"c"}}`, "answer.maybe.name"},
	} {
		err := d.Check("GET", c.path, c.status, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, []byte(c.body))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d %s: %v, want %q", c.status, c.body, err, c.says)
		}
	}
	if err := d.Check("GET", "/v1/things/x", 200, http.Header{"Content-Type": {"text/html"}}, nil); err == nil {
		t.Error("an answer of another type passed")
	}
	if err := d.CheckValue("Thing", []byte(`{"name":"z"}`)); err == nil {
		t.Error("a value that breaks its schema passed")
	}
	if len(d.Unasked()) != 0 {
		t.Errorf("unasked %v", d.Unasked())
	}
}

// TestReadRefuses: a document that contradicts itself is none.
func TestReadRefuses(t *testing.T) {
	for name, swap := range map[string][2]string{
		"a reference to nothing": {"#/components/responses/Gone", "#/components/responses/None"},
		"an untold parameter":    {`"name": "thing"`, `"name": "other"`},
		"another version":        {`"3.1.0"`, `"2.0"`},
		"an example that is none": {
			`"schema": {"type": ["string", "null"]}`, `"schema": {"type": ["string", "null"]}, "example": 3`,
		},
	} {
		if _, err := Read([]byte(strings.Replace(small, swap[0], swap[1], 1))); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}
