package jobs

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
	"sawlog/loader"
)

// This file reads what concerns a run's output: partition_by, output, run,
// notify.

func (s *Spec) readPartitionBy(root *section) {
	sec := s.open(root, "partition_by")
	defer s.close(sec)
	p := &s.PartitionBy
	p.Unit = sec.oneOf("unit", "hour", "hour", "day")
	p.Zone = s.zone(sec, "zone")
	p.where = loadZone(p.Zone)
	fallback := "dt=%Y-%m-%d/hr=%H"
	if p.Unit == "day" {
		fallback = "dt=%Y-%m-%d"
	}
	p.Path = parsed(sec, "path", fallback, func(text string) (string, error) { return text, checkFolder(text, p.Unit) })
	p.Lateness = sec.duration("lateness", 30*time.Minute, 0)
	p.Fields = sec.words("fields")
}

var anyLetter = regexp.MustCompile(`%.?`)

// checkFolder wants a relative path in which every bucket has a folder of its own.
func checkFolder(text, unit string) error {
	if text == "" || strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/") || path.Clean(text) != text || strings.HasPrefix(text, "..") {
		return fmt.Errorf("%q: want a plain relative path, such as dt=%%Y-%%m-%%d/hr=%%H", text)
	}
	if strings.HasPrefix(text, "_") || strings.HasPrefix(text, ".") {
		return fmt.Errorf("%q: readers skip folders that start with '_' or '.'", text)
	}
	for _, letter := range anyLetter.FindAllString(text, -1) {
		if !pathLetters.MatchString(letter) {
			return fmt.Errorf("%q: %s is no letter of a path: want %%Y %%m %%d %%H %%j %%y %%z %%M %%S or %%%%", text, letter)
		}
	}
	day := strings.Contains(text, "%Y") && (strings.Contains(text, "%j") || strings.Contains(text, "%m") && strings.Contains(text, "%d"))
	if !day || unit == "hour" && !strings.Contains(text, "%H") {
		return fmt.Errorf("%q: two %ss would share a folder; want %%Y, %%m, %%d%s in it", text, unit, map[string]string{"hour": " and %H"}[unit])
	}
	return nil
}

func (s *Spec) readOutput(root *section) {
	if root.get("output") == nil {
		root.missing("output", "say where files go, such as output: {root: file:///var/lib/sawlog/warehouse/pageviews}")
	}
	sec := s.open(root, "output")
	defer s.close(sec)
	o := &s.Output
	o.Root = parsed(sec, "root", "", checkRoot)
	if sec.keys != nil && !sec.has("root") {
		sec.missing("root", "where files go, such as file:///var/lib/sawlog/warehouse/pageviews")
	}
	s.readHDFS(sec)
	o.Format = sec.oneOf("format", loader.Formats()[0], loader.Formats()...)
	o.Codec = "zstd"
	if text := sec.text("codec", "zstd"); text != "zstd" {
		codec, level, err := parseCodec(text, o.Format)
		if err != nil {
			sec.say("codec", "%s", err)
		} else {
			o.Codec, o.Level = codec, level
		}
	}
	if o.Encodings = sec.oneOf("encodings", "all", "all", loader.EncodingsPlain); o.Encodings == "all" {
		o.Encodings = ""
	} else if o.Format != "parquet" {
		sec.say("encodings", "%s files have none to choose: only Parquet files do", o.Format)
	}
	o.TargetSize = sec.size("target_file_size", 256<<20, 1<<20)
	o.Merge = sec.oneOf("merge_partitions", "auto", "auto", "always", "never")
}

func parseCodec(text, format string) (string, int, error) {
	codecs := loader.Codecs(format)
	name, level, leveled := strings.Cut(text, ":")
	if !slices.Contains(codecs, name) {
		near := formats.Nearest(name, codecs)
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		return "", 0, fmt.Errorf("%q is not allowed: want %s%s", text, wantCodec(format), near)
	}
	if !leveled {
		return name, 0, nil
	}
	n, err := strconv.Atoi(level)
	if format == "arrow" {
		return "", 0, fmt.Errorf("%q: codecs of Arrow files take no level", text)
	}
	if name != "zstd" || err != nil || n < 1 || n > 22 {
		return "", 0, fmt.Errorf("%q: only zstd takes a level, from 1 to 22", text)
	}
	return name, n, nil
}

// wantCodec lists the codecs of a format.
func wantCodec(format string) string {
	codecs := slices.Clone(loader.Codecs(format))
	if format != "arrow" {
		codecs[0] += "[:LEVEL]"
	}
	return orList(codecs)
}

// checkRoot wants a URI this version can write to.
func checkRoot(text string) (string, error) {
	u, err := url.Parse(strings.ReplaceAll(text, "{topic}", "topic"))
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no URI: want file:///path or hdfs://HOST/path", text)
	case u.Scheme == "" && strings.HasPrefix(text, "/"):
		return "", fmt.Errorf("%q has no scheme; did you mean file://%s?", text, text)
	case u.Scheme != "file" && u.Scheme != "hdfs":
		return "", fmt.Errorf("%q: want file:///path or hdfs://HOST/path", text)
	case u.Scheme == "file" && u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%q: want an absolute path, as in file:///var/lib/sawlog/warehouse or hdfs://nn1:8020/warehouse", text)
	case strings.Contains(strings.ReplaceAll(text, "{topic}", ""), "{"):
		return "", fmt.Errorf("%q: the only word in braces is {topic}", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// leastRate is the lowest rate of a run: below it no batch would come in time.
const leastRate = 64 << 10

func (s *Spec) readRun(root *section) {
	sec := s.open(root, "run")
	defer s.close(sec)
	r := &s.Run
	r.Parallelism = int(sec.integer("parallelism", 0, 0, 1024))
	r.Memory = sec.size("memory", 512<<20, 64<<20)
	r.Retries = int(sec.integer("retries", 3, 0, 100))
	r.Timeout = sec.duration("timeout", 50*time.Minute, time.Second)
	if r.Rate = sec.size("rate", 0, 0); r.Rate > 0 && r.Rate < leastRate {
		sec.say("rate", "%s a second is too slow: want %s or more, or 0 for no limit", FormatSize(r.Rate), FormatSize(leastRate))
	}
	r.MaxActive = int(sec.integer("max_active", 1, 1, 64))
	s.readEngine(sec)
}

// Notify is one receiver of what happens to a job.
type Notify struct {
	Webhook string   // URL that gets a POST of JSON
	Exec    []string // or a program that gets the JSON on its standard input
	On      []string // failed | stale | sealed
}

func (s *Spec) readNotify(root *section) {
	node := root.get("notify")
	if node == nil {
		return
	}
	s.set["notify"] = true
	if node.Kind != yaml.SequenceNode {
		root.say("notify", "want a list, such as - {webhook: URL, on: [failed]}")
		return
	}
	for i, item := range node.Content {
		sec := root.r.section(item, fmt.Sprintf("notify[%d]", i))
		if sec == nil {
			continue
		}
		n := Notify{Webhook: sec.text("webhook", ""), Exec: sec.words("exec"), On: sec.words("on")}
		if (n.Webhook == "") == (len(n.Exec) == 0) {
			sec.r.say(sec.node, sec.key, "want either webhook: URL or exec: [program, argument]")
		}
		if u, err := url.Parse(n.Webhook); n.Webhook != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			sec.say("webhook", "want an http or https URL")
		}
		events := []string{"failed", "stale", "sealed"}
		if len(n.On) == 0 {
			n.On = []string{"failed", "stale"}
		}
		for _, word := range n.On {
			if !slices.Contains(events, word) {
				sec.say("on", "%q is not allowed: want %s", word, orList(events))
			}
		}
		sec.done()
		s.Notify = append(s.Notify, n)
	}
}
