package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/cmd/sawlog/api/apitest"
	"sawlog/formats"
	"sawlog/jobs"
	"sawlog/loader"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// TestDocument: openapi.json is what the routes, the types they answer with and
// the comments at those say.
func TestDocument(t *testing.T) {
	d := newDocumenter(t)
	want, err := json.MarshalIndent(d.document((&server{}).routes()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(want, document) && !*update {
		t.Error("openapi.json is not what the routes and types say: go test ./cmd/sawlog/api -run TestDocument -update")
	}
	doc, err := apitest.Read(want)
	if err != nil {
		t.Error(err)
	}
	var rows []string
	for _, r := range (&server{}).routes() {
		rows = append(rows, r.method+" "+base+r.path)
	}
	slices.Sort(rows)
	if ops := doc.Operations(); !slices.Equal(ops, rows) {
		t.Errorf("documented:\n%v\nroutes:\n%v", ops, rows)
	}
}

// TestNoRouteBesideTheTable: nothing under /api/v1 is served but by the table.
func TestNoRouteBesideTheTable(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if found := regexp.MustCompile(`Handle(Func)?\("[A-Z ]*/api/v1[^"]*"`).Find(text); found != nil {
			t.Errorf("%s: %s: it belongs into routes.go", file, found)
		}
	}
}

// documenter makes the document.
type documenter struct {
	t        *testing.T
	comments map[string]string // of types as package.Type, of fields as package.Type.Field
	schemas  map[string]any
}

func newDocumenter(t *testing.T) *documenter {
	d := &documenter{t: t, comments: map[string]string{}, schemas: map[string]any{}}
	for _, dir := range []string{".", "../../../jobs", "../../../loader", "../../../loader/sink", "../../../formats", "../../../offsets"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				d.read(file)
			}
		}
	}
	return d
}

// read takes the comments at a file's types and their fields.
func (d *documenter) read(file string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			of, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := f.Name.Name + "." + of.Name.Name
			about := of.Doc
			if about == nil {
				about = gen.Doc
			}
			d.comments[name] = firstParagraph(about)
			if s, ok := of.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					text := firstParagraph(field.Doc)
					if text == "" {
						text = firstParagraph(field.Comment)
					}
					for _, n := range field.Names {
						d.comments[name+"."+n.Name] = text
					}
				}
			}
		}
	}
}

func firstParagraph(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	text, _, _ := strings.Cut(c.Text(), "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

func (d *documenter) document(rows []route) map[string]any {
	paths := map[string]any{}
	for _, r := range rows {
		methods, known := paths[r.path].(map[string]any)
		if !known {
			methods = map[string]any{}
			paths[r.path] = methods
		}
		methods[strings.ToLower(r.method)] = d.operation(r)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Sawlog", "version": "1",
			"description": "Jobs, runs, backfills and data sets of a Sawlog server, and the cluster it loads from. Times are RFC 3339 in UTC, intervals half-open, offsets and bytes whole numbers. " +
				"Where a server has a token it is sent with each request; a browser sends the cookie it got from /login. " +
				"In a cluster every node answers: what only the node that runs the scheduler knows is passed on to it. Members may be added to any object.",
			"license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{map[string]any{"url": base}},
		"security": []any{map[string]any{}, map[string]any{"token": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas": d.withError(), "responses": d.errors(),
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer", "description": "the token of the file that the server was started with as --http-token"}},
		},
	}
}

func (d *documenter) withError() map[string]any {
	d.schema(reflect.TypeFor[Error](), "")
	d.schema(reflect.TypeFor[jobs.Event](), "") // what a stream is made of
	return d.schemas
}

// answers says what the errors are, each with the status it comes with.
var answers = []struct {
	name    string
	status  int
	says    string
	example Error
}{
	{"invalid", 400, "What was asked for cannot be read, or is not allowed", Error{Code: CodeInvalid, Message: "a window needs from and to"}},
	{"unknown", 401, "The server has a token, and it was not shown", Error{Code: CodeForbidden, Message: "this server wants a token", Hint: "--token FILE or SAWLOG_TOKEN names the file it stands in"}},
	{"forbidden", 403, "A page of another origin, or a name this server does not answer to", Error{Code: CodeForbidden, Message: "a page of another origin may not change anything here"}},
	{"not_found", 404, "There is no such thing", Error{Code: CodeNotFound, Message: `no job "pageviews"`, Hint: "sawlog job list shows the jobs"}},
	{"conflict", 409, "It stands against what is there", Error{Code: CodeConflict, Message: "run pageviews-hourly-20261129T140000Z is committed: there is nothing to retry"}},
	{"mismatch", 422, "Files, or the log, are not as the ledger says, or too many records are bad", Error{Code: CodeMismatch, Message: "dt=2026-11-29/hr=14/part-0.parquet has other bytes", Hint: "sawlog rerun"}},
	{"often", 429, "Too many wrong tokens came from there, and this is another; the right one is let in at any time", Error{Code: CodeUnavailable, Message: "too many wrong tokens came from 192.0.2.7, and this is another"}},
	{"failed", 500, "It failed", Error{Code: CodeFailed, Message: "write dt=2026-11-29/hr=14/part-0.parquet: no space left on device"}},
	{"unable", 501, "This server has not what it takes", Error{Code: CodeUnavailable, Message: "the cluster is not available on this server"}},
	{"broken_off", 502, "The node that runs the scheduler broke off; it may have been done all the same", Error{Code: CodeUnavailable, Message: "node 2, which runs the scheduler, broke off: EOF", Hint: "it may have done what was asked all the same: look before asking again"}},
	{"unavailable", 503, "Not now. With Retry-After nothing was done, and asking again may help", Error{Code: CodeUnavailable, Message: "no node leads the job history at the moment"}},
}

func (d *documenter) errors() map[string]any {
	all := map[string]any{}
	for _, a := range answers {
		all[a.name] = map[string]any{"description": a.says, "content": map[string]any{"application/json": map[string]any{
			"schema": map[string]any{"$ref": "#/components/schemas/Error"}, "example": a.example,
		}}}
	}
	return all
}

func (d *documenter) operation(r route) map[string]any {
	var id strings.Builder
	id.WriteString(strings.ToLower(r.method))
	for _, part := range regexp.MustCompile(`[a-z]+`).FindAllString(r.path, -1) {
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	kind, _, _ := strings.Cut(r.path[1:], "/")
	op := map[string]any{"operationId": id.String(), "summary": r.says, "tags": []string{kind}}
	if r.more != "" {
		op["description"] = r.more
	}
	params := []any{}
	for _, name := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(r.path, -1) {
		params = append(params, map[string]any{"name": name[1], "in": "path", "required": true, "description": "name of the " + name[1], "schema": map[string]any{"type": "string"}})
	}
	for _, p := range r.query {
		params = append(params, d.param(p))
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if text, ok := r.body.(string); ok {
		op["requestBody"] = content("application/yaml", map[string]any{"type": "string"}, text)
	} else if r.body != nil {
		op["requestBody"] = content("application/json", d.schema(reflect.TypeOf(r.body), ""), r.body)
	}
	op["responses"] = d.responses(r)
	return op
}

func content(kind string, schema map[string]any, example any) map[string]any {
	of := map[string]any{"schema": schema}
	if example != nil {
		of["example"] = example
	}
	return map[string]any{"content": map[string]any{kind: of}}
}

func (d *documenter) param(p param) map[string]any {
	out := map[string]any{"name": p.name, "in": "query", "description": p.says}
	kind := p.kind
	if kind == "time" {
		kind = "string"
	}
	out["schema"] = map[string]any{"type": kind}
	if p.example != "" {
		out["example"] = any(p.example)
		if n, err := strconv.Atoi(p.example); err == nil && kind == "integer" {
			out["example"] = n
		} else if kind == "boolean" {
			out["example"] = p.example == "true"
		}
	}
	return out
}

func (d *documenter) responses(r route) map[string]any {
	kind := r.kind
	var schema map[string]any
	if text, ok := r.answer.(string); ok && text != "" || kind != "" {
		schema = map[string]any{"type": "string"}
		if kind == "text/event-stream" {
			schema["description"] = "events; the data of each is an object of the schema " + d.name(reflect.TypeOf(r.answer))
		}
	} else {
		kind, schema = "application/json", d.schema(reflect.TypeOf(r.answer), "")
	}
	ok := content(kind, schema, nil)
	ok["description"] = "as asked"
	out := map[string]any{"200": ok}
	statuses := []int{400, 401, 403, 429, 500, 501, 503}
	if r.jobs {
		statuses = append(statuses, 502)
	}
	for _, code := range r.codes {
		statuses = append(statuses, exits[code].status)
	}
	for _, a := range answers {
		if slices.Contains(statuses, a.status) {
			out[strconv.Itoa(a.status)] = map[string]any{"$ref": "#/components/responses/" + a.name}
		}
	}
	return out
}

// name is how a type is called: those of other packages with the package.
func (d *documenter) name(t reflect.Type) string {
	if of := path.Base(t.PkgPath()); of != "api" {
		return of + "." + t.Name()
	}
	return t.Name()
}

func (d *documenter) comment(t reflect.Type, field string) string {
	name := path.Base(t.PkgPath()) + "." + t.Name()
	if field != "" {
		name += "." + field
	}
	return d.comments[name]
}

// states are the values of strings that no comment lists.
var states = map[string][]string{"jobs.Run.status": jobs.RunStates, "RunDetail.status": jobs.RunStates}

// schema says what the JSON of a type looks like.
func (d *documenter) schema(t reflect.Type, says string) map[string]any {
	out := d.bare(t)
	if says != "" && out["$ref"] == nil {
		out["description"] = says
		if out["type"] == "string" {
			if list := oneOf(says); list != nil {
				out["enum"] = list
			}
		}
	}
	return out
}

// oneOf are the values that a comment such as "ready | covered" names.
func oneOf(says string) []string {
	found := regexp.MustCompile(`^([a-z_]+(?: [a-z_]+)*(?: \| [a-z_]+(?: [a-z_]+)*)+)(?:$|[;,.(])`).FindStringSubmatch(says)
	if found == nil {
		return nil
	}
	list := strings.Split(found[1], " | ")
	if strings.Contains(says, `"" = `) {
		list = append(list, "")
	}
	return list
}

func (d *documenter) bare(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[formats.Type]():
		return map[string]any{"type": []string{"string", "object"}, "description": "the name of a scalar, {\"list\": T}, {\"map\": T} or {\"struct\": [fields]}"}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case t.Kind() == reflect.Pointer:
		return d.bare(t.Elem())
	case t.Implements(reflect.TypeFor[json.Marshaler]()), reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		d.t.Errorf("what the JSON of %s looks like is not known here", t)
		return map[string]any{}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": d.bare(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.bare(t.Elem())}
	case reflect.Struct:
		name := d.name(t)
		if _, known := d.schemas[name]; !known {
			d.schemas[name] = nil // while it is made
			d.schemas[name] = d.object(t)
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	d.t.Fatalf("no JSON is known of %s", t)
	return nil
}

func (d *documenter) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, map[string]bool{}
	d.members(t, d.name(t), properties, required)
	out := map[string]any{"type": "object", "properties": properties}
	if says := d.comment(t, ""); says != "" {
		out["description"] = says
	}
	if names := slices.Sorted(maps.Keys(required)); len(names) > 0 {
		out["required"] = names
	}
	return out
}

// members adds a struct's members; those of embedded ones first, so that its own
// go over them.
func (d *documenter) members(t reflect.Type, of string, properties map[string]any, required map[string]bool) {
	for pass := range 2 {
		for f := range t.Fields() {
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			embedded := f.Anonymous && name == ""
			if name == "-" || !f.IsExported() && !embedded || embedded != (pass == 0) {
				continue
			}
			if embedded {
				inner := f.Type
				if inner.Kind() == reflect.Pointer {
					inner = inner.Elem()
				}
				d.members(inner, of, properties, required)
				continue
			}
			if name == "" {
				name = f.Name
			}
			schema := d.schema(f.Type, d.comment(t, f.Name))
			if list := states[of+"."+name]; list != nil {
				schema["enum"] = list
			}
			optional := strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
			if required[name] = !optional; optional {
				delete(required, name)
			}
			if f.Type.Kind() == reflect.Pointer && !optional {
				schema = map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
			}
			if f.Type.Kind() == reflect.Slice && !optional && (path.Base(t.PkgPath()) == "formats" || t == reflect.TypeFor[loader.Plan]()) {
				schema["type"] = []string{"array", "null"} // as plans have it
			}
			properties[name] = schema
		}
	}
}

// TestAnswersFollowTheDocument asks for everything, and for what there is not,
// and holds every answer to the document.
func TestAnswersFollowTheDocument(t *testing.T) {
	doc, err := apitest.Read(document)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	ask := func(status int, method, path, body string) string {
		t.Helper()
		resp, text := w.do(method, path, body, nil)
		if resp.StatusCode != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, status, text)
		}
		bare, _, _ := strings.Cut(path, "?")
		if err := doc.Check(method, bare, resp.StatusCode, resp.Header, []byte(text)); err != nil {
			t.Error(err)
		}
		return text
	}
	w.walk(ask)
	for _, op := range doc.Unasked() { // what this world can't do, a real server does in cmd/sawlog
		if op != "GET "+base+"/events" && !strings.HasSuffix(op, "/rerun") && !strings.HasSuffix(op, "{dataset}/verify") && !strings.HasSuffix(op, "{backfill}/retry") {
			t.Errorf("%s was not asked for", op)
		}
	}
}

// walk asks for everything the fake world has.
func (w *world) walk(ask func(status int, method, path, body string) string) {
	const of = base + "/jobs/pageviews-hourly"
	ask(200, "GET", base+"/jobs", "")
	ask(200, "POST", base+"/jobs?path=j.yaml&dry_run", job)
	ask(200, "POST", base+"/jobs?path=j.yaml", job)
	ask(200, "POST", base+"/jobs", strings.ReplaceAll(job, "pageviews", "bad"))
	ask(200, "POST", base+"/jobs", "name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\n")
	ask(400, "POST", base+"/jobs", "name: x\nshedule: 1\n")
	ask(409, "POST", base+"/jobs", strings.Replace(job, "hourly", "daily", 1))
	for _, path := range []string{"", "?limit=1", "?after=bad-hourly", "?after=c"} {
		ask(200, "GET", base+"/jobs"+path, "")
	}
	ask(400, "GET", base+"/jobs?limit=0", "")
	for _, path := range []string{"", "/explain", "/next?n=3", "/hours", "/hours?from=-3h&to=now", "/hours?dataset=pageviews-hourly"} {
		ask(200, "GET", of+path, "")
	}
	ask(404, "GET", of+"/hours?dataset=x", "")
	ask(400, "GET", of+"/hours?from=now&to=-1h", "")
	ask(400, "GET", of+"/next?n=0", "")
	ask(404, "GET", base+"/jobs/none", "")
	ask(404, "GET", base+"/jobs/none/explain", "")
	ask(200, "POST", of+"/pause", `{"reason":"move"}`)
	ask(400, "POST", of+"/pause", `{"raison":"move"}`)
	ask(200, "POST", of+"/resume", `{"dry_run":true}`)
	ask(200, "POST", of+"/resume", "")
	ask(200, "POST", of+"/plan", `{}`)

	ask(200, "POST", of+"/trigger", `{}`)
	ask(400, "POST", of+"/trigger", `{"from":"2026-11-29"}`)
	ask(404, "POST", base+"/jobs/none/trigger", `{}`)
	run := w.jobs.Runs(jobs.RunFilter{})[0].Run
	ask(200, "GET", base+"/runs/"+run, "")
	ask(409, "POST", base+"/runs/"+run+"/retry", "{}")
	w.gate <- struct{}{}
	w.ended(run)
	ask(200, "GET", base+"/runs/"+run+"?detail", "")
	ask(200, "POST", base+"/runs/"+run+"/verify", "")
	ask(501, "POST", base+"/runs/"+run+"/rerun", "")
	ask(200, "POST", base+"/runs/"+run+"/again", `{"dry_run":true}`)
	ask(200, "POST", base+"/runs/"+run+"/again", `{}`)
	ask(200, "POST", base+"/jobs/bad-hourly/trigger", `{}`)
	w.gate <- struct{}{}
	w.gate <- struct{}{}
	bad := w.jobs.Runs(jobs.RunFilter{Job: "bad-hourly"})[0].Run
	w.ended(bad)
	ask(200, "POST", base+"/runs/"+bad+"/retry", `{"accept_bad":true}`)
	ask(200, "POST", base+"/runs/"+bad+"/cancel", "")
	ask(404, "POST", base+"/runs/none/cancel", "")
	for _, query := range []string{"", "?limit=1", "?job=bad-hourly", "?status=committed", "?since=-1h", "?tick=2026-11-29T14:00:00Z", "?after=" + run} {
		ask(200, "GET", base+"/runs"+query, "")
	}
	ask(400, "GET", base+"/runs?status=done", "")
	ask(400, "GET", base+"/runs?since=yesterday", "")
	ask(404, "GET", base+"/runs?job=none", "")
	ask(404, "GET", base+"/runs?backfill=none", "")
	ask(409, "GET", base+"/runs?after=none", "")
	ask(404, "GET", base+"/runs/none?detail", "")

	const window = `{"job":"pageviews-hourly","from":"-5h","to":"now","only":"all"`
	ask(200, "POST", base+"/backfills", window+`,"dry_run":true}`)
	ask(200, "POST", base+"/backfills", window+`}`)
	ask(409, "POST", base+"/backfills", window+`}`)
	ask(400, "POST", base+"/backfills", `{"job":"pageviews-hourly"}`)
	ask(404, "POST", base+"/backfills", strings.Replace(window, "pageviews", "none", 1)+"}")
	ask(200, "GET", base+"/backfills", "")
	ask(200, "GET", base+"/backfills?job=pageviews-hourly", "")
	ask(404, "GET", base+"/backfills?job=none", "")
	ask(409, "GET", base+"/backfills?after=none", "")
	backfill := base + "/backfills/" + w.jobs.Backfills("")[0].ID
	ask(200, "GET", base+"/runs?backfill="+w.jobs.Backfills("")[0].ID, "")
	ask(200, "GET", backfill, "")
	ask(404, "GET", base+"/backfills/none", "")
	ask(200, "POST", backfill+"/pause", "")
	ask(409, "POST", backfill+"/pause", "")
	ask(200, "POST", backfill+"/resume", "")
	ask(200, "POST", backfill+"/cancel", "")
	ask(409, "POST", backfill+"/retry", "")

	for _, path := range []string{"", "?limit=1", "/pageviews-hourly", "/pageviews-hourly/hours", "/pageviews-hourly/hours?from=-3h", "/pageviews-hourly/files?limit=5"} {
		ask(200, "GET", base+"/datasets"+path, "")
	}
	ask(404, "GET", base+"/datasets/none", "")
	ask(404, "GET", base+"/datasets/none/files", "")
	ask(400, "GET", base+"/datasets/pageviews-hourly/hours?from=x", "")
	ask(422, "POST", base+"/datasets/pageviews-hourly/verify", "")

	for _, path := range []string{"/cluster", "/topics", "/topics/pageviews", "/groups", "/groups?offsets", "/groups/g", "/version", "/openapi.json"} {
		ask(200, "GET", base+path, "")
	}
	ask(404, "GET", base+"/topics/none", "")
	ask(404, "GET", base+"/groups/none", "")
	ask(200, "DELETE", base+"/jobs/bad-hourly", "")
	ask(404, "DELETE", base+"/jobs/bad-hourly", "")
}

// ended waits for a run's end.
func (w *world) ended(run string) {
	w.t.Helper()
	if _, err := w.client.Wait(w.t.Context(), run, nil); err != nil {
		w.t.Fatal(fmt.Errorf("%s: %w", run, err))
	}
}
