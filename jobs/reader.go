package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
	"sawlog/offsets"
)

// reader walks a YAML document by hand, so that every complaint has a line and
// a column; it collects complaints instead of stopping at the first.
type reader struct {
	path     string
	problems Problems
}

// section is one mapping of the document.
type section struct {
	r    *reader
	key  string // dotted path, "" at the root
	node *yaml.Node
	keys map[string]*yaml.Node // by name
	at   map[string]*yaml.Node // the key nodes
	used []string
}

// parseDocument reads one YAML document that is a mapping.
func (r *reader) parseDocument(data []byte) *section {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.syntax(err)
		return nil
	}
	var doc yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		r.say(nil, "", "is empty: want a job, which starts with name:")
		return nil
	case err != nil:
		r.syntax(err)
		return nil
	}
	var extra yaml.Node
	if err := loader.Load(&extra); err == nil {
		r.say(&extra, "", "a second document: one file holds one job")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	node := &doc
	for node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		r.say(nil, "", "is empty: want a job, which starts with name:")
		return nil
	}
	return r.section(node, "")
}

// syntax reports an error of the YAML parser at its place.
func (r *reader) syntax(err error) {
	p := Problem{Path: r.path, Msg: err.Error()}
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		p.Line, p.Column, p.Msg = at.Mark.Line, at.Mark.Column, at.Message
	}
	r.problems = append(r.problems, p)
}

// say records a complaint at a node.
func (r *reader) say(node *yaml.Node, key, format string, args ...any) {
	p := Problem{Path: r.path, Key: key, Msg: fmt.Sprintf(format, args...)}
	if node != nil {
		p.Line, p.Column = node.Line, node.Column
	}
	r.problems = append(r.problems, p)
}

// resolve follows an alias.
func resolve(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// section opens a mapping; nil when it is none.
func (r *reader) section(node *yaml.Node, key string) *section {
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		r.say(node, key, "want a mapping (key: value), got %s", shape(node))
		return nil
	}
	s := &section{r: r, key: key, node: node, keys: map[string]*yaml.Node{}, at: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := resolve(node.Content[i]), resolve(node.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.say(k, key, "a key must be a word")
			continue
		}
		if _, twice := s.keys[k.Value]; twice {
			r.say(k, s.path(k.Value), "is given twice")
			continue
		}
		s.keys[k.Value], s.at[k.Value] = v, k
	}
	return s
}

func shape(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if node.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(node.Value)
}

func (s *section) path(name string) string {
	if s.key == "" {
		return name
	}
	return s.key + "." + name
}

// done complains of keys nobody asked for.
func (s *section) done() {
	for i := 0; i+1 < len(s.node.Content); i += 2 {
		k := resolve(s.node.Content[i])
		if k.Kind != yaml.ScalarNode || slices.Contains(s.used, k.Value) {
			continue
		}
		where := "a job file"
		if s.key != "" {
			where = s.key
		}
		if near := formats.Nearest(k.Value, s.used); near != "" {
			s.r.say(k, s.path(k.Value), "unknown key; did you mean %s?", near)
		} else {
			s.r.say(k, s.path(k.Value), "unknown key; %s takes %s", where, orList(s.used))
		}
	}
}

// get asks for a key; a null value counts as absent.
func (s *section) get(name string) *yaml.Node {
	if !slices.Contains(s.used, name) {
		s.used = append(s.used, name)
	}
	node := s.keys[name]
	if node == nil || node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	return node
}

// has tells whether a key that was asked for is there.
func (s *section) has(name string) bool {
	node := s.keys[name]
	return node != nil && (node.Kind != yaml.ScalarNode || node.Tag != "!!null")
}

func (s *section) say(name, format string, args ...any) {
	s.r.say(s.keys[name], s.path(name), format, args...)
}

// missing complains at the section that a key is not there.
func (s *section) missing(name, want string) {
	s.r.say(s.node, s.path(name), "is missing: %s", want)
}

// sub opens the mapping under a key; nil when absent or none.
func (s *section) sub(name string) *section {
	node := s.get(name)
	if node == nil {
		return nil
	}
	return s.r.section(node, s.path(name))
}

// text reads a scalar as written.
func (s *section) text(name, fallback string) string {
	return parsed(s, name, fallback, func(text string) (string, error) { return text, nil })
}

// oneOf reads a word out of a fixed list.
func (s *section) oneOf(name, fallback string, allowed ...string) string {
	value := s.text(name, fallback)
	if slices.Contains(allowed, value) {
		return value
	}
	if near := formats.Nearest(value, allowed); near != "" {
		s.say(name, "%q is not allowed: want %s; did you mean %s?", value, orList(allowed), near)
	} else {
		s.say(name, "%q is not allowed: want %s", value, orList(allowed))
	}
	return fallback
}

// integer reads a whole number in [low, high].
func (s *section) integer(name string, fallback, low, high int64) int64 {
	node := s.get(name)
	if node == nil {
		return fallback
	}
	n, err := strconv.ParseInt(node.Value, 10, 64)
	if node.Kind != yaml.ScalarNode || err != nil || n < low || n > high {
		s.say(name, "want a whole number from %d to %d, got %s", low, high, shape(node))
		return fallback
	}
	return n
}

// boolean reads true or false.
func (s *section) boolean(name string, fallback bool) bool {
	node := s.get(name)
	if node == nil {
		return fallback
	}
	switch strings.ToLower(node.Value) {
	case "true", "yes", "on":
		return true
	case "false", "no", "off":
		return false
	}
	s.say(name, "want true or false, got %s", shape(node))
	return fallback
}

// parsed reads a scalar through a parser of this package.
func parsed[T any](s *section, name string, fallback T, parse func(string) (T, error)) T {
	node := s.get(name)
	if node == nil {
		return fallback
	}
	if node.Kind != yaml.ScalarNode {
		s.say(name, "want one value, got %s", shape(node))
		return fallback
	}
	value, err := parse(node.Value)
	if err != nil {
		s.say(name, "%s", err)
		return fallback
	}
	return value
}

// duration reads a duration of at least low.
func (s *section) duration(name string, fallback, low time.Duration) time.Duration {
	d := parsed(s, name, fallback, offsets.ParseDuration)
	if s.has(name) && d < low {
		s.say(name, "%s is too short: want %s or more", FormatDuration(d), FormatDuration(low))
		return fallback
	}
	return d
}

// size reads a size of at least low bytes.
func (s *section) size(name string, fallback, low int64) int64 {
	n := parsed(s, name, fallback, ParseSize)
	if s.has(name) && n < low {
		s.say(name, "%s is too small: want %s or more", FormatSize(n), FormatSize(low))
		return fallback
	}
	return n
}

// words reads a list of scalars; one bare scalar counts as a list of one.
func (s *section) words(name string) []string {
	node := s.get(name)
	if node == nil {
		return nil
	}
	if node.Kind == yaml.ScalarNode {
		return []string{node.Value}
	}
	if node.Kind != yaml.SequenceNode {
		s.say(name, "want a list, got %s", shape(node))
		return nil
	}
	out := make([]string, 0, len(node.Content))
	for i, item := range node.Content {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			s.r.say(item, fmt.Sprintf("%s[%d]", s.path(name), i), "want one value, got %s", shape(item))
			continue
		}
		out = append(out, item.Value)
	}
	return out
}

// pairs reads a mapping of words to words.
func (s *section) pairs(name string) map[string]string {
	sub := s.sub(name)
	if sub == nil || len(sub.keys) == 0 {
		return nil
	}
	out := make(map[string]string, len(sub.keys))
	for key := range sub.keys {
		out[key] = sub.text(key, "")
	}
	return out
}

// find looks a dotted key up; nil when the file does not give it.
func (s *section) find(key string) *yaml.Node {
	head, rest, deeper := strings.Cut(key, ".")
	node := s.keys[head]
	if node == nil || !deeper {
		return node
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	return (&reader{}).section(node, head).find(rest)
}
