package jobs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
)

// This file reads what concerns one record: decode, schema, columns, time,
// metadata_columns.

func (s *Spec) readDecode(root *section) {
	sec := s.open(root, "decode")
	defer s.close(sec)
	d := &s.Decode
	d.Value = sec.text("value", "json")
	switch d.Value {
	case "json", "csv", "text", "raw", "avro", "protobuf":
	default:
		sec.oneOf("value", "json", "json", "csv", "text", "raw", "avro", "protobuf")
	}
	if d.Pattern = sec.text("pattern", ""); sec.has("pattern") && d.Value != "text" {
		sec.say("pattern", "is for value: text, not %s", d.Value)
		d.Pattern = ""
	}
	s.readWire(root, sec)
	d.OnBad = sec.oneOf("on_bad", "quarantine", "quarantine")
	d.Key = sec.oneOf("key", "bytes", "bytes", "string", "json")
	d.Tombstones = sec.oneOf("tombstones", "skip", "skip", "row")
	d.MaxBad = parsed(sec, "max_bad", d.MaxBad, ParseMaxBad)
	d.Columns = sec.words("columns")
	d.Delimiter = sec.text("delimiter", "")
	d.SkipHeader = sec.boolean("skip_header", false)
	if d.Value != "csv" {
		for _, key := range []string{"columns", "delimiter", "skip_header"} {
			if sec.has(key) {
				sec.say(key, "is for value: csv, not %s", d.Value)
			}
		}
		return
	}
	if d.Delimiter == "" {
		d.Delimiter = ","
	}
	if len(d.Delimiter) != 1 || d.Delimiter[0] >= 0x80 || strings.ContainsAny(d.Delimiter, "\"\r\n") {
		sec.say("delimiter", "%q: want one ASCII character that is no quote and no line end", d.Delimiter)
	}
	if len(d.Columns) == 0 {
		s.missingKey(root, sec, "columns", "csv needs its columns, in order: columns: [a, b]")
	}
	if twice := duplicate(d.Columns); twice != "" {
		sec.say("columns", "names %q twice", twice)
	}
}

// missingKey complains at the section, or at the root when the section is absent.
func (s *Spec) missingKey(root, sec *section, name, want string) {
	if sec.keys == nil {
		root.missing(sec.path(name), want)
		return
	}
	sec.missing(name, want)
}

func duplicate(words []string) string {
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] {
			return w
		}
		seen[w] = true
	}
	return ""
}

func (s *Spec) readSchema(root *section) {
	node := root.get("schema")
	if node == nil {
		return
	}
	s.set["schema"] = true
	if node.Kind != yaml.SequenceNode {
		root.say("schema", "want a list of columns, such as - {name: ts, type: timestamp_ms}")
		return
	}
	if len(node.Content) == 0 {
		return
	}
	schema := &formats.Schema{}
	before := len(root.r.problems)
	for i, item := range node.Content {
		col := root.r.section(item, fmt.Sprintf("schema[%d]", i))
		if col == nil {
			continue
		}
		field := formats.Field{Name: col.text("name", ""), From: col.words("from")}
		if field.Name == "" {
			col.missing("name", "the column's name")
		}
		if !col.has("type") {
			col.missing("type", "the column's type, such as int64, string or timestamp_ms")
		}
		field.Type = parsed(col, "type", nil, formats.ParseType)
		col.used = append(col.used, "from")
		col.done()
		schema.Fields = append(schema.Fields, field)
	}
	if len(root.r.problems) > before {
		return
	}
	if err := schema.Validate(); err != nil {
		root.say("schema", "%s", err)
		return
	}
	s.Schema = schema
}

func (s *Spec) readColumns(root *section) {
	sec := s.open(root, "columns")
	defer s.close(sec)
	c := &s.Columns
	c.Include, c.Exclude, c.Hash = sec.words("include"), sec.words("exclude"), sec.words("hash")
	if !sec.has("include") {
		c.Include = []string{"*"}
	}
	c.Rename = sec.pairs("rename")
	taken := map[string]string{}
	for _, from := range sortedKeys(c.Rename) {
		to := c.Rename[from]
		if to == "" {
			sec.say("rename", "%s: want a new name", from)
		}
		if other, twice := taken[to]; twice {
			sec.say("rename", "%s and %s both become %s", other, from, to)
		}
		taken[to] = from
	}
}

// timeWords are the formats of event times that have a name.
var timeWords = []string{"rfc3339", "epoch_s", "epoch_ms", "epoch_us", "epoch_ns"}

func (s *Spec) readTime(root *section) {
	sec := s.open(root, "time")
	defer s.close(sec)
	t := &s.Time
	t.Field = sec.words("field")
	if len(t.Field) == 0 {
		t.Field = []string{"_timestamp"}
	}
	for _, key := range t.Field {
		if key == "" {
			sec.say("field", "an empty key: want a field, a list of keys down to it, or _timestamp")
		}
	}
	own := slices.Equal(t.Field, []string{"_timestamp"})
	t.Format = sec.text("format", "rfc3339")
	if own {
		t.Format = ""
		if sec.has("format") {
			sec.say("format", "the record's own timestamp needs no format; name the field the time stands in")
		}
	} else if !slices.Contains(timeWords, t.Format) && !strings.Contains(t.Format, "%") {
		sec.oneOf("format", "rfc3339", append(slices.Clone(timeWords), "strptime letters such as %Y-%m-%d %H:%M:%S")...)
	}
	t.Zone = s.zone(sec, "zone")
	t.Plausible = [2]Moment{mustMoment("2000-01-01"), mustMoment("+1d")}
	if words := sec.words("plausible"); len(words) == 2 {
		for i, word := range words {
			m, err := ParseMoment(word)
			if err != nil {
				sec.say("plausible", "%s", err)
				return
			}
			t.Plausible[i] = m
		}
		from, to := t.Plausible[0], t.Plausible[1]
		if (from.At == nil) == (to.At == nil) && !to.Resolve(time.Time{}).After(from.Resolve(time.Time{})) {
			sec.say("plausible", "the window [%s, %s] is empty", from.Text, to.Text)
		}
	} else if sec.has("plausible") {
		sec.say("plausible", "want two ends, such as [2000-01-01, +1d]")
	}
}

// zone reads a time zone's name; only the embedded database counts.
func (s *Spec) zone(sec *section, name string) string {
	return parsed(sec, name, "UTC", func(text string) (string, error) {
		if err := checkZone(text); err != nil {
			return "UTC", err
		}
		return text, nil
	})
}

func (s *Spec) readMetadata(root *section) {
	s.Metadata = []string{"_partition", "_offset"}
	if root.get("metadata_columns") == nil {
		return
	}
	s.Metadata = root.words("metadata_columns")
	for _, name := range s.Metadata {
		if slices.Contains(formats.MetadataColumns[:], name) {
			continue
		}
		near := formats.Nearest(name, formats.MetadataColumns[:])
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		root.say("metadata_columns", "%q is not allowed: want %s%s", name, orList(formats.MetadataColumns[:]), near)
	}
	if twice := duplicate(s.Metadata); twice != "" {
		root.say("metadata_columns", "names %s twice", twice)
	}
}

// pathLetters are the strftime letters a folder path may hold.
var pathLetters = regexp.MustCompile(`%[YmdHjyzMS%]`)
