package jobs

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

const minimal = `name: pageviews-hourly
source: {topics: [pageviews]}
output: {root: file:///var/lib/sawlog/warehouse/pageviews}
`

func mustParse(t *testing.T, text string) *Spec {
	t.Helper()
	s, err := Parse([]byte(text), "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExplainFillsEveryDefault(t *testing.T) {
	for _, name := range []string{"minimal", "full", "csv", "text"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			s := mustParse(t, string(text))
			got, err := s.Explain()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".explained.yaml", got)
			again, err := Parse(got, "explained.yaml")
			if err != nil {
				t.Fatalf("the explained file does not parse:\n%v\n%s", err, got)
			}
			twice, err := again.Explain()
			if err != nil {
				t.Fatal(err)
			}
			if plain(got) != plain(twice) {
				t.Errorf("explaining the explained file changes it:\n%s\n%s", got, twice)
			}
		})
	}
}

// plain takes the origin marks off.
func plain(b []byte) string { return strings.ReplaceAll(string(b), " # default", "") }

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv("SAWLOG_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}

func TestProblems(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "job.yaml: is empty: want a job, which starts with name:"},
		{"syntax", "name: [a", "job.yaml:2:1: did not find expected ',' or ']'"},
		{"not a mapping", "- a", "job.yaml:1:1: want a mapping (key: value), got a list"},
		{"two documents", minimal + "---\nname: b\n", "job.yaml:4:1: a second document: one file holds one job"},
		{"missing", "name: a", "job.yaml:1:1: source: is missing: say which topics to load, such as source: {topics: [pageviews]}"},
		{"unknown key", minimal + "shedule: {every: 1h}\n", "job.yaml:4:1: shedule: unknown key; did you mean schedule?"},
		{"unknown, nothing near, at the top", minimal + "zzzzzz: 1\n", "job.yaml:4:1: zzzzzz: unknown key; a job file takes name, source, schedule, decode,"},
		{"unknown key inside", minimal + "run:\n  memmory: 1GiB\n", "job.yaml:5:3: run.memmory: unknown key; did you mean memory?"},
		{"unknown, nothing near", minimal + "columns: {zzzzzz: 1}\n", "job.yaml:4:11: columns.zzzzzz: unknown key; columns takes include, exclude, hash or rename"},
		{"given twice", minimal + "name: b\n", "job.yaml:4:1: name: is given twice"},
		{"name", strings.Replace(minimal, "pageviews-hourly", "page views", 1), `job.yaml:1:7: name: "page views": want 1 to 100 letters`},
		{"topic", strings.Replace(minimal, "[pageviews]", "['a b']", 1), `job.yaml:2:18: source.topics: "a b" is no topic name`},
		{"topics and pattern", strings.Replace(minimal, "{topics: [pageviews]}", "{topics: [a], pattern: b}", 1), "job.yaml:2:32: source.pattern: stands beside topics: give one of the two"},
		{"pattern", strings.Replace(minimal, "{topics: [pageviews]}", "{pattern: '('}", 1), "job.yaml:2:19: source.pattern: error parsing regexp"},
		{"start", strings.Replace(minimal, "]}", "], start: tomorrow}", 1), `source.start: "tomorrow" is not allowed: want earliest, latest, @TIME`},
		{"isolation", strings.Replace(minimal, "]}", "], isolation: read_comitted}", 1), `source.isolation: "read_comitted" is not allowed: want read_committed or read_uncommitted; did you mean read_committed?`},
		{"several topics", strings.Replace(minimal, "[pageviews]", "[a, b]", 1), "job.yaml:3:9: output.root: several topics are several data sets: put {topic} into the root"},
		{"merge needs schema", strings.Replace(minimal, "[pageviews]}", "[a, b], merge_topics: true}", 1), "source.merge_topics: a shared data set needs its columns declared under schema:"},
		{"schedule both", minimal + "schedule: {every: 1h, cron: '5 * * * *'}\n", "job.yaml:4:29: schedule.cron: stands beside every: give one of the two"},
		{"schedule none", minimal + "schedule: {delay: 5m}\n", "schedule.every: is missing"},
		{"cron fields", minimal + "schedule: {cron: '5 * * *'}\n", `job.yaml:4:18: schedule.cron: "5 * * *" has 4 fields: want five`},
		{"cron never", minimal + "schedule: {cron: '0 0 31 2 *'}\n", "never comes"},
		{"cron bad", minimal + "schedule: {cron: '99 * * * *'}\n", "is no cron expression"},
		{"zone", minimal + "schedule: {cron: '5 * * * *', timezone: Europe/Berln}\n", `schedule.timezone: unknown time zone "Europe/Berln"`},
		{"catchup", minimal + "schedule: {every: 1h, catchup: al}\n", `schedule.catchup: "al" is not allowed: want missing, latest or none`},
		{"duration", minimal + "freshness: 90\n", `job.yaml:4:12: freshness: "90" is no duration: want 90m, 36h or 7d`},
		{"short timeout", minimal + "run: {timeout: 10ms}\n", "run.timeout: 10ms is too short: want 1s or more"},
		{"size", minimal + "run: {memory: 12 elephants}\n", `run.memory: size "12 elephants": want a number with a unit`},
		{"small", minimal + "run: {memory: 1MiB}\n", "run.memory: 1MiB is too small: want 64MiB or more"},
		{"range", minimal + "run: {max_active: 0}\n", "run.max_active: want a whole number from 1 to 64, got \"0\""},
		{"max_bad", minimal + "decode: {max_bad: lots}\n", `decode.max_bad: "lots": want a count such as 100 or a share such as 0.1%`},
		{"max_bad share", minimal + "decode: {max_bad: 110%}\n", "want a share above 0% and up to 100%"},
		{"plausible", minimal + "time: {plausible: [2000-01-01, soon]}\n", `time.plausible: "soon": want a date`},
		{"plausible one", minimal + "time: {plausible: [2000-01-01]}\n", "time.plausible: want two ends, such as [2000-01-01, +1d]"},
		{"plausible backwards", minimal + "time: {plausible: ['0002-01-01', '0001-01-01']}\n", "time.plausible: the window [0002-01-01, 0001-01-01] is empty"},
		{"plausible empty", minimal + "time: {plausible: [+1d, -1d]}\n", "time.plausible: the window [+1d, -1d] is empty"},
		{"time format", minimal + "time: {field: ts, format: rfc333}\n", `time.format: "rfc333" is not allowed: want rfc3339, epoch_s`},
		{"own time format", minimal + "time: {format: rfc3339}\n", "the record's own timestamp needs no format"},
		{"path", minimal + "partition_by: {path: 'dt=%Y-%m-%d'}\n", "two hours would share a folder; want %Y, %m, %d and %H in it"},
		{"path letter", minimal + "partition_by: {path: 'dt=%Y-%m-%d/hr=%H%Q'}\n", "%Q is no letter of a path"},
		{"path up", minimal + "partition_by: {path: '../%Y%m%d%H'}\n", "want a plain relative path"},
		{"fields of path", minimal + "partition_by: {fields: [hr]}\n", `job.yaml:4:24: partition_by.fields: "hr" names a folder already`},
		{"field", minimal + "partition_by: {fields: [_topic]}\n", `job.yaml:4:24: partition_by.fields: "_topic": want letters, digits`},
		{"metadata", minimal + "metadata_columns: [_ofset]\n", `metadata_columns: "_ofset" is not allowed: want _topic, _partition, _offset`},
		{"root scheme", strings.Replace(minimal, "file://", "", 1), `output.root: "/var/lib/sawlog/warehouse/pageviews" has no scheme; did you mean file:///var/lib`},
		{"root braces", strings.Replace(minimal, "/pageviews}", "/{job}}", 1), "job.yaml:3:"},
		{"codec", strings.Replace(minimal, "pageviews}", "pageviews, codec: lz4}", 1), `output.codec: "lz4" is not allowed: want zstd[:LEVEL], snappy, gzip or none`},
		{"codec level", strings.Replace(minimal, "pageviews}", "pageviews, codec: 'gzip:9'}", 1), "only zstd takes a level"},
		{"csv columns", minimal + "decode: {value: csv}\n", "decode.columns: is missing: csv needs its columns"},
		{"csv key for json", minimal + "decode: {delimiter: ';'}\n", "decode.delimiter: is for value: csv, not json"},
		{"csv time field", minimal + "decode: {value: csv, columns: [a, b]}\ntime: {field: ts}\n", "job.yaml:5:15: time.field:"},
		{"pattern for json", minimal + "decode: {pattern: common}\n", "job.yaml:4:19: decode.pattern: is for value: text, not json"},
		{"pattern syntax", minimal + "decode: {value: text, pattern: '(?P<a>x'}\n", "job.yaml:4:32: decode.pattern: error parsing regexp: missing closing )"},
		{"pattern without names", minimal + "decode: {value: text, pattern: combine}\n", "job.yaml:4:32: decode.pattern: \"combine\" has no groups with names"},
		{"pattern time", minimal + "decode: {value: text, pattern: common}\ntime: {field: when}\n", `job.yaml:5:15: time.field: ["when"] is not in decode.pattern`},
		{"pattern column", minimal + "decode: {value: text, pattern: common}\nschema: [{name: hots, type: string}]\n", `job.yaml:5:9: schema: column "hots": decode.pattern has no ["hots"]`},
		{"csv column", minimal + "decode: {value: csv, columns: [a]}\nschema: [{name: b, type: string}]\n", `job.yaml:5:9: schema: column "b": decode.columns has no ["b"]`},
		{"time of text", minimal + "decode: {value: text}\ntime: {field: time}\n", "job.yaml:5:15: time.field: value: text has no fields without decode.pattern"},
		{"schema type", minimal + "schema: [{name: a, type: int63}]\n", "job.yaml:4:26: schema[0].type:"},
		{"schema key", minimal + "schema: [{name: a, type: int64, form: [b]}]\n", "job.yaml:4:33: schema[0].form: unknown key; did you mean from?"},
		{"secret", strings.Replace(minimal, "]}", "], brokers: ['a:9092'], sasl: {user: u, password: hunter2}}", 1), "source.sasl.password: a secret stands in a file of its own: write ${file:/path/to/it}"},
		{"broker", strings.Replace(minimal, "]}", "], brokers: [a]}", 1), `source.brokers: "a": want HOST:PORT`},
		{"notify", minimal + "notify: [{on: [failed]}]\n", "job.yaml:4:10: notify[0]: want either webhook: URL or exec:"},
		{"notify event", minimal + "notify: [{webhook: 'http://h/', on: [broken]}]\n", `notify[0].on: "broken" is not allowed: want failed, stale or sealed`},
		{"avro", minimal + "decode: {value: avro}\n", "job.yaml:4:9: decode.schema: is missing: avro needs its schema: schema: FILE, or registry: URL"},
		{"avro file", minimal + "decode: {value: avro, schema: no/such.avsc}\n", "job.yaml:4:31: decode.schema: open no/such.avsc: no such file"},
		{"avro schema", minimal + "decode: {value: avro, schema: '{}'}\n", "job.yaml:4:31: decode.schema: avro schema:"},
		{"avro column", minimal + "decode: {value: avro, schema: '{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"long\"}]}'}\nschema: [{name: a, type: bool}]\n", `job.yaml:4:31: decode.schema: column "a" is bool and can't hold avro long`},
		{"avro time", minimal + "decode: {value: avro, schema: '{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"long\"}]}'}\ntime: {field: a}\n", `job.yaml:5:15: time.field: ["a"]: avro long without a logical type: give time.format`},
		{"protobuf", minimal + "decode: {value: protobuf}\n", "job.yaml:4:9: decode.schema: is missing: protobuf needs its schema"},
		{"protobuf text", minimal + "decode: {value: protobuf, schema: 'message {'}\n", "job.yaml:4:35: decode.schema: protobuf schema: job.proto:1:"},
		{"protobuf message", minimal + "decode: {value: protobuf, message: N, schema: 'syntax = \"proto3\"; message M { int32 a = 1; }'}\n", "decode.schema: protobuf schema: has no message N"},
		{"message for json", minimal + "decode: {message: M}\n", "job.yaml:4:19: decode.message: is for value: protobuf, not json"},
		{"registry for json", minimal + "decode: {registry: 'http://r'}\n", "job.yaml:4:20: decode.registry: is for value: avro and protobuf, not json"},
		{"registry", minimal + "decode: {value: avro, registry: 'r:8081'}\n", "decode.registry: registry \"r:8081\": want http://HOST:PORT"},
		{"registry login", minimal + "decode: {value: avro, registry: {url: 'http://r', password: hunter2}}\n", "decode.registry.password: a secret stands in a file of its own"},
		{"registry and schema", minimal + "decode: {value: avro, schema: s.avsc, registry: 'http://r'}\n", "decode.registry: and decode.schema exclude each other"},
		{"hdfs without a path", strings.Replace(minimal, "file:///var/lib/sawlog/warehouse/pageviews", "hdfs://nn:8020/", 1), "job.yaml:3:16: output.root: \"hdfs://nn:8020/\": want an absolute path"},
		{"another store", strings.Replace(minimal, "file:///", "s3://bucket/", 1), "want file:///path or hdfs://HOST/path"},
		{"format", strings.Replace(minimal, "pageviews}", "pageviews, format: orc}", 1), "output.format: \"orc\" is not allowed: want parquet, arrow or jsonl"},
		{"codec of arrow", strings.Replace(minimal, "pageviews}", "pageviews, format: arrow, codec: snappy}", 1), `output.codec: "snappy" is not allowed: want zstd, lz4 or none`},
		{"level of arrow", strings.Replace(minimal, "pageviews}", "pageviews, format: arrow, codec: 'zstd:3'}", 1), `output.codec: "zstd:3": codecs of Arrow files take no level`},
		{"codec of lines", strings.Replace(minimal, "pageviews}", "pageviews, format: jsonl, codec: snappy}", 1), `output.codec: "snappy" is not allowed: want zstd[:LEVEL], gzip or none`},
		{"hadoop", minimal + "run: {engine: hadoop}\n", "run.engine: hadoop needs the ResourceManager's web address"},
		{"retention", minimal + "retention_hold: {max_age: soon}\n", `job.yaml:4:27: retention_hold.max_age: "soon" is no duration`},
		{"retention key", minimal + "retention_hold: {max_bytes: 1GiB}\n", "job.yaml:4:18: retention_hold.max_bytes: unknown key"},
		{"rate", minimal + "run: {rate: 100}\n", "run.rate: 100 a second is too slow: want 64KiB or more, or 0 for no limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text), "job.yaml")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error prints a secret: %v", err)
			}
		})
	}
}

func TestAllProblemsAtOnceInFileOrder(t *testing.T) {
	_, err := Parse([]byte(minimal+"run: {memory: 1, parallelism: -1}\nfreshnes: 1h\n"), "j.yaml")
	ps, ok := err.(Problems)
	if !ok || len(ps) != 3 {
		t.Fatalf("want three problems, got %v", err)
	}
	for i, want := range []int{4, 4, 5} {
		if ps[i].Line != want || ps[i].Column == 0 {
			t.Errorf("problem %d stands at %d:%d, want line %d", i, ps[i].Line, ps[i].Column, want)
		}
	}
}

func TestLoad(t *testing.T) {
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := mustParse(t, string(text))
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	l, err := s.Load("", now)
	if err != nil {
		t.Fatal(err)
	}
	if l.Dataset != "pageviews-hourly" || l.Root != "file:///var/lib/sawlog/warehouse/pageviews" || l.MaxBad.PPM != 1000 {
		t.Errorf("got %+v", l)
	}
	if got := *l.Decode.Time.PlausibleTo; int64(got) != now.Add(24*time.Hour).UnixMicro() {
		t.Errorf("+1d is resolved to %d, want a day after %v", got, now)
	}
	if l.Codec != "zstd" || l.Level != 3 || l.TargetBytes != 256<<20 {
		t.Errorf("got %+v", l)
	}
}

// TestPlausibleWindow holds the ends of a window as they are written, whatever
// point in time they name.
func TestPlausibleWindow(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		window   string
		from, to time.Time
	}{
		{"['0001-01-01', '9999-12-31']", time.Time{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
		{"[1970-01-01, +1d]", time.Unix(0, 0), now.AddDate(0, 0, 1)},
		{"[1900-01-01, 1970-01-01]", time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0)},
		{"[-30d, +0s]", now.AddDate(0, 0, -30), now},
	} {
		l, err := mustParse(t, minimal+"time: {plausible: "+tt.window+"}\n").Load("", now)
		if err != nil {
			t.Fatal(err)
		}
		from, to := l.Decode.Time.PlausibleFrom, l.Decode.Time.PlausibleTo
		if int64(*from) != tt.from.UnixMicro() || int64(*to) != tt.to.UnixMicro() {
			t.Errorf("%s: got %d to %d, want %d to %d", tt.window, *from, *to, tt.from.UnixMicro(), tt.to.UnixMicro())
		}
	}
}

func TestSets(t *testing.T) {
	s := mustParse(t, "name: many\nsource: {topics: [a, b]}\noutput: {root: 'file:///w/{topic}'}\n")
	sets := s.Sets(nil)
	if len(sets) != 2 || sets[1] != (Set{Dataset: "many.b", Topic: "b"}) {
		t.Fatalf("got %v", sets)
	}
	l, err := s.Load("b", time.Now())
	if err != nil || l.Root != "file:///w/b" || len(l.Topics) != 1 || l.Dataset != "many.b" {
		t.Errorf("got %+v, %v", l, err)
	}
	p := mustParse(t, "name: pat\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\n")
	if sets := p.Sets([]string{"v2", "v1"}); len(sets) != 2 || sets[0].Topic != "v1" {
		t.Errorf("got %v", sets)
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]int64{"64MiB": 64 << 20, "1.5GiB": 3 << 29, "256MB": 256e6, "10": 10, "2 KiB": 2048, "1tb": 1e12} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "1.2.3MiB", "-1", "9e9GiB", "99999999TiB", "5 parsecs"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, n)
		}
	}
	for d, want := range map[time.Duration]string{90 * time.Minute: "1h30m", 5 * time.Minute: "5m", 7 * 24 * time.Hour: "7d", 0: "0m", time.Hour: "1h", 10 * time.Second: "10s", time.Hour + time.Second: "1h0m1s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", d, got, want)
		}
	}
	if m, err := ParseMaxBad("0.1%"); err != nil || m.PPM != 1000 {
		t.Errorf("0.1%% = %+v, %v", m, err)
	}
}
