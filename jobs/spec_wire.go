package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
	"sawlog/formats/protobuf"
	"sawlog/formats/registry"
)

// This file reads where values of avro and protobuf find their schema: in a file, in the job
// itself, or in a registry.

// readWire reads decode.schema and decode.registry.
func (s *Spec) readWire(root, sec *section) {
	d := &s.Decode
	d.Schema = sec.text("schema", "")
	d.Registry = readRegistry(sec)
	d.Message = sec.text("message", "")
	if sec.has("message") && d.Value != "protobuf" {
		sec.say("message", "is for value: protobuf, not %s", d.Value)
	}
	if d.Value != "avro" && d.Value != "protobuf" {
		for _, key := range []string{"schema", "registry"} {
			if sec.has(key) {
				sec.say(key, "is for value: avro and protobuf, not %s; declare columns under schema:", d.Value)
			}
		}
		d.Schema, d.Registry = "", nil
		return
	}
	switch {
	case sec.has("schema") && sec.has("registry"):
		sec.say("registry", "and decode.schema exclude each other: values name schemas of a registry, or all have the one")
	case d.Schema == "" && d.Registry == nil && !sec.has("registry"):
		s.missingKey(root, sec, "schema", d.Value+" needs its schema: schema: FILE, or registry: URL")
	}
}

// readRegistry reads a URL, or a mapping with a url.
func readRegistry(sec *section) *formats.Registry {
	node := sec.get("registry")
	if node == nil {
		return nil
	}
	r := &formats.Registry{}
	say := func(format string, args ...any) { sec.say("registry", format, args...) }
	if node.Kind == yaml.MappingNode {
		sub := sec.sub("registry")
		r.URLs, r.Subject, r.User = sub.words("url"), sub.text("subject", ""), sub.text("user", "")
		r.PasswordFile = parsed(sub, "password", Secret{}, parseSecret).Path()
		r.CAFile = sub.text("ca", "")
		if len(r.URLs) == 0 {
			sub.missing("url", "where the registry is, such as http://registry:8081")
			return nil
		}
		if (r.User == "") != (r.PasswordFile == "") {
			sub.missing("password", "user and password go together: password: ${file:/path/to/it}")
		}
		say = func(format string, args ...any) { sub.say("url", format, args...) }
		sub.done()
	} else if r.URLs = sec.words("registry"); len(r.URLs) == 0 {
		return nil
	}
	if _, err := registry.New(registry.Config{URLs: r.URLs}); err != nil {
		say("%s", err)
	}
	return r
}

// inline says that decode.schema is the schema itself, not the path of a file.
func inline(text string) bool {
	return strings.ContainsAny(text, "\n{[") || strings.HasPrefix(text, `"`)
}

// wire fills in what is decoded with a schema; its file is read anew for every
// plan, so that a schema that grew counts from the next run on.
func (s *Spec) wire(o *formats.Options) error {
	d := &s.Decode
	if d.Registry != nil {
		o.Registry, o.Framing, o.Message = d.Registry, formats.FramingConfluent, d.Message
	}
	if d.Schema == "" {
		return nil
	}
	text, err := s.schemaText()
	if err != nil {
		return fmt.Errorf("decode.schema: %w", err)
	}
	o.Schema, o.Message = &formats.WireSchema{Text: []string{text}}, d.Message
	_, err = o.Base(s.Schema)
	if err == nil || strings.HasPrefix(err.Error(), "time.") {
		return err
	}
	return fmt.Errorf("decode.schema: %w", err)
}

// schemaText is the schema as a plan holds it. Protobuf is compiled from a
// .proto file and what it imports beside itself, or taken from a descriptor set.
func (s *Spec) schemaText() (string, error) {
	d := &s.Decode
	if inline(d.Schema) {
		if d.Value == "protobuf" {
			return protobuf.CompileText(map[string]string{"job.proto": d.Schema}, "job.proto")
		}
		return d.Schema, nil
	}
	path := d.Schema
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(s.Path), path)
	}
	b, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: give a path that holds where the job is run, or the schema itself", err)
	case d.Value != "protobuf":
		return string(b), nil
	case filepath.Ext(path) == ".proto":
		return protobuf.CompileFile(path)
	default:
		return protobuf.ReadSet(b)
	}
}

func (e *explainer) explainWire(d Decode) {
	if d.Schema != "" {
		e.scalar("schema", d.Schema)
	}
	if d.Message != "" {
		e.scalar("message", d.Message)
	}
	if r := d.Registry; r != nil {
		e.section("registry", func(c *explainer) {
			c.list("url", r.URLs)
			for _, kv := range [][2]string{
				{"subject", r.Subject}, {"user", r.User}, {"password", Secret{r.PasswordFile}.String()}, {"ca", r.CAFile},
			} {
				if kv[1] != "" {
					c.scalar(kv[0], kv[1])
				}
			}
			c.unmark()
		})
	}
}
