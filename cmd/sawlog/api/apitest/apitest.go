// Package apitest holds answers of a server to the OpenAPI document it serves.
// It knows of JSON Schema what that document uses, and what it doesn't know is
// an error.
package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Document is an OpenAPI document (3.1) and what was asked by it so far.
type Document struct {
	base    string // path of the API
	paths   map[string]map[string]operation
	schemas map[string]map[string]any
	asked   map[string]bool // METHOD PATH, of those answered as they are meant to be
}

type operation struct {
	Parameters []struct {
		Name     string
		In       string
		Required bool
	}
	RequestBody *struct {
		Content map[string]media
	}
	Responses map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]media
}

type media struct {
	Schema  map[string]any
	Example any
}

// Read reads a document; its references must lead somewhere, its parameters be
// in its paths and its examples be what it says they are.
func Read(raw []byte) (*Document, error) {
	var doc struct {
		OpenAPI    string
		Servers    []struct{ URL string }
		Paths      map[string]map[string]operation
		Components struct {
			Schemas   map[string]map[string]any
			Responses map[string]response
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || len(doc.Servers) != 1 {
		return nil, fmt.Errorf("version %q, %d servers: want 3.1 and one", doc.OpenAPI, len(doc.Servers))
	}
	d := &Document{base: doc.Servers[0].URL, paths: doc.Paths, schemas: doc.Components.Schemas, asked: map[string]bool{}}
	var errs []error
	for path, methods := range d.paths {
		for method, op := range methods {
			for status, r := range op.Responses {
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
					op.Responses[status] = doc.Components.Responses[name]
				}
			}
			if err := d.sound(path, op); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", strings.ToUpper(method), path, err))
			}
		}
	}
	return d, errors.Join(errs...)
}

// sound checks what an operation says of itself.
func (d *Document) sound(path string, op operation) error {
	if len(op.Responses) == 0 {
		return errors.New("it answers nothing")
	}
	named := map[string]bool{}
	for _, p := range op.Parameters {
		if p.In == "path" {
			named["{"+p.Name+"}"] = p.Required
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") && !named[part] {
			return fmt.Errorf("the parameter %s is not told", part)
		}
	}
	all := []media{}
	if op.RequestBody != nil {
		all = slices.AppendSeq(all, maps.Values(op.RequestBody.Content))
	}
	for status, r := range op.Responses {
		if r.Content == nil {
			return fmt.Errorf("what it answers with status %s is not told", status)
		}
		all = slices.AppendSeq(all, maps.Values(r.Content))
	}
	for _, m := range all {
		if m.Example == nil {
			continue
		}
		if err := d.follow(m.Schema, m.Example, "example"); err != nil {
			return err
		}
	}
	return nil
}

// Operations lists what can be asked, as METHOD PATH.
func (d *Document) Operations() []string {
	var all []string
	for path, methods := range d.paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+d.base+path)
		}
	}
	slices.Sort(all)
	return all
}

// Check holds one answer to the document. path is that of the request, without
// its query.
func (d *Document) Check(method, path string, status int, header http.Header, body []byte) error {
	template, op, err := d.find(method, path)
	if err != nil {
		return err
	}
	said, known := op.Responses[fmt.Sprint(status)]
	if !known {
		return fmt.Errorf("%s %s: status %d is not documented: %.300s", method, template, status, body)
	}
	if status == http.StatusOK {
		d.asked[method+" "+d.base+template] = true
	}
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	m, known := said.Content[kind]
	switch {
	case !known:
		return fmt.Errorf("%s %s: content of type %q is not documented", method, template, kind)
	case kind != "application/json":
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("%s %s: %w: %.300s", method, template, err, body)
	}
	if err := d.follow(m.Schema, value, "answer"); err != nil {
		return fmt.Errorf("%s %s, status %d: %w", method, template, status, err)
	}
	return nil
}

// CheckValue holds JSON to a schema of the document, by its name.
func (d *Document) CheckValue(schema string, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return d.follow(map[string]any{"$ref": "#/components/schemas/" + schema}, value, schema)
}

// Unasked lists the operations that were never answered as they are meant to be.
func (d *Document) Unasked() []string {
	return slices.DeleteFunc(d.Operations(), func(op string) bool { return d.asked[op] })
}

// find is the operation a request asks for; literal parts go before parameters.
func (d *Document) find(method, path string) (string, operation, error) {
	parts := strings.Split(strings.TrimPrefix(path, d.base), "/")
	best, free := "", math.MaxInt
	for template, methods := range d.paths {
		want := strings.Split(template, "/")
		if _, ok := methods[strings.ToLower(method)]; !ok || len(want) != len(parts) {
			continue
		}
		fits, params := true, 0
		for i, part := range want {
			if strings.HasPrefix(part, "{") {
				params++
			} else if part != parts[i] {
				fits = false
			}
		}
		if fits && params < free {
			best, free = template, params
		}
	}
	if best == "" {
		return "", operation{}, fmt.Errorf("%s %s is not documented", method, path)
	}
	return best, d.paths[best][strings.ToLower(method)], nil
}

// follow holds a value to a schema. An object may have no member the schema
// doesn't name: it would be one that nobody was told of.
func (d *Document) follow(schema map[string]any, value any, at string) error {
	for word := range schema {
		if !slices.Contains(words, word) {
			return fmt.Errorf("%s: the schema says %q, which is not understood", at, word)
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		target, known := d.schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		if !known {
			return fmt.Errorf("%s: %s leads nowhere", at, ref)
		}
		return d.follow(target, value, at)
	}
	if choice, ok := schema["anyOf"].([]any); ok {
		var errs []error
		for _, one := range choice {
			err := d.follow(one.(map[string]any), value, at)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if kinds := kindsOf(schema); len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind string) bool { return is(kind, value) }) {
		return fmt.Errorf("%s: %s is no %s", at, show(value), strings.Join(kinds, " or "))
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, value) {
		return fmt.Errorf("%s: %s is none of %v", at, show(value), list)
	}
	if low, ok := schema["minimum"].(float64); ok {
		if n, ok := value.(float64); ok && n < low {
			return fmt.Errorf("%s: %v is less than %v", at, n, low)
		}
	}
	switch v := value.(type) {
	case string:
		if schema["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for i, one := range v {
				if err := d.follow(items, one, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		return d.object(schema, v, at)
	}
	return nil
}

// words are those of JSON Schema that follow understands, or that say nothing of
// a value.
var words = []string{
	"$ref", "anyOf", "type", "enum", "minimum", "format", "items", "properties", "required", "additionalProperties",
	"description", "title", "contentEncoding",
}

func (d *Document) object(schema, value map[string]any, at string) error {
	named, known := schema["properties"].(map[string]any)
	rest, open := schema["additionalProperties"].(map[string]any)
	if !known && !open { // nothing is said of what is in it
		return nil
	}
	if required, ok := schema["required"].([]any); ok {
		for _, name := range required {
			if _, there := value[name.(string)]; !there {
				return fmt.Errorf("%s: %s is missing", at, name)
			}
		}
	}
	for name, one := range value {
		of, known := named[name].(map[string]any)
		if !known && !open {
			return fmt.Errorf("%s: %s is not documented", at, name)
		}
		if !known {
			of = rest
		}
		if err := d.follow(of, one, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func kindsOf(schema map[string]any) []string {
	switch kind := schema["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var kinds []string
		for _, one := range kind {
			kinds = append(kinds, one.(string))
		}
		return kinds
	}
	return nil
}

// is tells whether a decoded value is of a kind of JSON Schema.
func is(kind string, value any) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	case []any:
		return kind == "array"
	default:
		return kind == "object"
	}
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.100s", text)
}
