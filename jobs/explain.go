package jobs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
)

// Explain prints the effective job file: every key with its value, "# default"
// behind those the file leaves out. It parses back to the same job.
func (s *Spec) Explain() ([]byte, error) {
	e := &explainer{set: s.set}
	e.scalar("name", s.Name)
	e.explainSource(s.Source)
	e.explainSchedule(s.Schedule)
	e.explainDecode(s.Decode)
	e.explainSchema(s.Schema)
	e.section("columns", func(c *explainer) {
		c.list("include", s.Columns.Include)
		c.list("exclude", s.Columns.Exclude)
		c.pairs("rename", s.Columns.Rename)
		c.list("hash", s.Columns.Hash)
	})
	e.section("time", func(c *explainer) {
		c.list("field", s.Time.Field)
		if s.Time.Format != "" {
			c.scalar("format", s.Time.Format)
		}
		c.scalar("zone", s.Time.Zone)
		c.list("plausible", []string{s.Time.Plausible[0].Text, s.Time.Plausible[1].Text})
	})
	e.section("partition_by", func(c *explainer) {
		c.scalar("unit", s.PartitionBy.Unit)
		c.scalar("zone", s.PartitionBy.Zone)
		c.scalar("path", s.PartitionBy.Path)
		c.scalar("lateness", FormatDuration(s.PartitionBy.Lateness))
		c.list("fields", s.PartitionBy.Fields)
	})
	e.list("metadata_columns", s.Metadata)
	e.section("output", func(c *explainer) {
		c.scalar("root", s.Output.Root)
		explainHDFS(c, s.Output.Root, s.Output.Access)
		c.scalar("format", s.Output.Format)
		codec := s.Output.Codec
		if s.Output.Level != 0 {
			codec += ":" + strconv.Itoa(s.Output.Level)
		}
		c.scalar("codec", codec)
		if s.Output.Format == "parquet" {
			c.scalar("encodings", cmp.Or(s.Output.Encodings, "all"))
		}
		c.scalar("target_file_size", FormatSize(s.Output.TargetSize))
		c.scalar("merge_partitions", s.Output.Merge)
	})
	e.section("run", func(c *explainer) {
		c.plain("parallelism", strconv.Itoa(s.Run.Parallelism))
		c.scalar("memory", FormatSize(s.Run.Memory))
		c.plain("retries", strconv.Itoa(s.Run.Retries))
		c.scalar("timeout", FormatDuration(s.Run.Timeout))
		c.plain("rate", FormatSize(s.Run.Rate))
		c.plain("max_active", strconv.Itoa(s.Run.MaxActive))
		c.scalar("engine", s.Run.Engine)
		explainHadoop(c, &s.Run)
		explainKubernetes(c, &s.Run)
	})
	e.section("retention_hold", func(c *explainer) { c.scalar("max_age", FormatDuration(s.RetentionHold)) })
	e.explainNotify(s.Notify)
	e.scalar("freshness", FormatDuration(s.Freshness))
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{e.mapping()}}
	return yaml.Dump(doc, yaml.WithV4Defaults())
}

// explainer builds one mapping of the effective file.
type explainer struct {
	prefix string
	set    map[string]bool
	nodes  []*yaml.Node
}

func (e *explainer) mapping() *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: e.nodes}
}

// add appends a key and its value, marked when the file does not give the key.
func (e *explainer) add(key string, value *yaml.Node) {
	if !e.set[e.prefix+key] {
		value.LineComment = "# default"
		if value.Kind == yaml.MappingNode {
			value.LineComment = ""
		}
	}
	e.nodes = append(e.nodes, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

func text(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if strings.ContainsAny(value, "%{}[]^*#:\"' ,") || value == "" {
		n.Style = yaml.SingleQuotedStyle
	}
	return n
}

func (e *explainer) scalar(key, value string) { e.add(key, text(value)) }

// plain writes a number or a truth value without quotes.
func (e *explainer) plain(key, value string) {
	e.add(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
}

func (e *explainer) list(key string, words []string) { e.add(key, list(words)) }

func list(words []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, w := range words {
		n.Content = append(n.Content, text(w))
	}
	return n
}

func (e *explainer) pairs(key string, m map[string]string) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	for _, k := range sortedKeys(m) {
		n.Content = append(n.Content, text(k), text(m[k]))
	}
	e.add(key, n)
}

func (e *explainer) section(key string, fill func(*explainer)) {
	sub := &explainer{prefix: e.prefix + key + ".", set: e.set}
	fill(sub)
	e.add(key, sub.mapping())
}

func (e *explainer) explainSource(src Source) {
	e.section("source", func(c *explainer) {
		if src.Pattern != "" {
			c.scalar("pattern", src.Pattern)
		} else {
			c.list("topics", src.Topics)
		}
		c.plain("merge_topics", strconv.FormatBool(src.MergeTopics))
		c.list("brokers", src.Brokers)
		if src.SASL != nil {
			c.section("sasl", func(c *explainer) {
				c.set = nil
				c.scalar("mechanism", src.SASL.Mechanism)
				c.scalar("user", src.SASL.User)
				c.scalar("password", src.SASL.Password.String())
				c.unmark()
			})
		}
		if src.TLS != nil {
			c.section("tls", func(c *explainer) {
				for _, kv := range [][2]string{{"ca", src.TLS.CA}, {"cert", src.TLS.Cert}, {"key", src.TLS.Key}} {
					if kv[1] != "" {
						c.scalar(kv[0], kv[1])
					}
				}
				c.unmark()
			})
		}
		c.scalar("isolation", src.Isolation)
		c.scalar("start", src.Start)
	})
}

// unmark takes the default marks away where origins are not kept.
func (e *explainer) unmark() {
	for _, n := range e.nodes {
		n.LineComment = ""
	}
}

func (e *explainer) explainSchedule(sc *Schedule) {
	if sc == nil {
		return
	}
	e.section("schedule", func(c *explainer) {
		if sc.Cron != "" {
			c.scalar("cron", sc.Cron)
			c.scalar("timezone", sc.Zone)
		} else {
			c.scalar("every", FormatDuration(sc.Every))
		}
		c.scalar("delay", FormatDuration(sc.Delay))
		c.scalar("catchup", sc.Catchup)
	})
}

func (e *explainer) explainDecode(d Decode) {
	e.section("decode", func(c *explainer) {
		c.scalar("value", d.Value)
		c.explainWire(d)
		if d.Pattern != "" {
			c.scalar("pattern", d.Pattern)
		}
		if d.Value == "csv" {
			c.list("columns", d.Columns)
			c.scalar("delimiter", d.Delimiter)
			c.plain("skip_header", strconv.FormatBool(d.SkipHeader))
		}
		c.scalar("key", d.Key)
		c.scalar("tombstones", d.Tombstones)
		c.scalar("on_bad", d.OnBad)
		if limit := formatMaxBad(d.MaxBad); limit != "" {
			c.scalar("max_bad", limit)
		} else {
			c.add("max_bad", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"})
		}
	})
}

func (e *explainer) explainSchema(schema *formats.Schema) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if schema == nil {
		n.Style = yaml.FlowStyle
	} else {
		for _, f := range schema.Fields {
			col := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
			col.Content = append(col.Content, text("name"), text(f.Name), text("type"), text(f.Type.String()))
			if len(f.From) > 0 {
				col.Content = append(col.Content, text("from"), list(f.From))
			}
			n.Content = append(n.Content, col)
		}
	}
	e.add("schema", n)
}

func (e *explainer) explainNotify(receivers []Notify) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if len(receivers) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, r := range receivers {
		item := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		if r.Webhook != "" {
			item.Content = append(item.Content, text("webhook"), text(r.Webhook))
		} else {
			item.Content = append(item.Content, text("exec"), list(r.Exec))
		}
		item.Content = append(item.Content, text("on"), list(r.On))
		n.Content = append(n.Content, item)
	}
	e.add("notify", n)
}

// Describe says a schedule in one line: "every 1h, 5m after".
func (sc *Schedule) Describe() string {
	if sc == nil {
		return "on request"
	}
	what := "every " + FormatDuration(sc.Every)
	if sc.Cron != "" {
		what = fmt.Sprintf("cron %s (%s)", sc.Cron, sc.Zone)
	}
	if sc.Delay > 0 {
		what += ", " + FormatDuration(sc.Delay) + " after"
	}
	return what
}
