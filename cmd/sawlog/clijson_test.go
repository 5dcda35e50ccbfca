package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
)

// exchange is one invocation and what its standard output must hold.
type exchange struct {
	line string // without sawlog; names of the shop stand for what they name
	code int
	path string // a field of the JSON, as jsonPath takes it; "" = there is none
}

// conversation uses every verb on a server with data, in an order in which each
// finds what it needs.
var conversation = []exchange{
	{"version", 0, "version"},
	{"config view -c sawlog.yaml", 0, "listen"},
	{"config view --origin -c sawlog.yaml", 0, "0.origin"},
	{"man", 0, "page"},
	{"man pages", 0, "written"},
	{"completion bash", 0, "script"},
	{"cluster key new.key", 0, "written"},
	{"doctor disk", 0, "0.check"},
	{"doctor connect", 0, "0.ok"},
	{"doctor server", 0, "0.ok"},
	{"doctor hdfs hdfs://127.0.0.1:1/warehouse --timeout 1s", output.Unavailable, "0.check"},
	{"doctor hadoop pageviews.yaml", output.Usage, ""},

	{"topic list", 0, "0.name"},
	{"topic list --internal", 0, "0.internal"},
	{"topic create fresh --partitions 2", 0, "partitions"},
	{"topic describe orders", 0, "partition_list.0.leader"},
	{"topic alter orders --config max.message.bytes=1048588", 0, "configs.0.name"},
	{"topic offsets orders", 0, "0.end"},
	{"topic offsets orders --at 2026-11-29T14", 0, "0.offset"},
	{"topic trim fresh --to latest --yes", 0, "0.to"},
	{"topic delete fresh --yes", 0, "0.name"},
	{"group list", 0, "0.group"},
	{"group describe checkers", 0, "positions.0.lag"},
	{"group reset checkers --topic orders/0 --to earliest --yes", 0, "0.to"},
	{"produce orders lines.txt", 0, "partitions.0.last"},
	{"consume orders -g checkers -n 2", 0, "1.offset"},
	{"consume orders --range 3=10..13", 0, "2.offset"},
	{"consume orders --range 3=10..10", 0, "len"},
	{"group delete checkers --topic orders --dry-run", 0, "0.committed"},
	{"group delete checkers --yes", 0, "deleted.0"},
	{"cluster status", 0, "quorum.leader"},
	{"cluster brokers", 0, "0.id"},
	{"cluster move orders --to 1", 0, "0.state"},
	{"cluster elect", 0, "len"},
	{"cluster upgrade --yes", 0, "to"},
	{"cluster drain 1", output.Conflict, ""},
	{"cluster forget 1 --yes", output.Conflict, ""},

	{"job list", 0, "0.job"},
	{"job get pageviews-hourly", 0, "text"},
	{"job validate pageviews.yaml jobs/orders.yaml", 0, "1.job"},
	{"job explain pageviews-hourly", 0, "text"},
	{"job explain pageviews.yaml", 0, "text"},
	{"job next pageviews-hourly", 0, "0.due"},
	{"job apply pageviews.yaml --dry-run", 0, "0.change"},
	{"job apply jobs/orders.yaml", 0, "0.change"},
	{"job pause pageviews-hourly --reason repair", 0, "state"},
	{"job resume pageviews-hourly", 0, "message"},
	{"plan pageviews-hourly", 0, "preview.status"},
	{"plan jobs/orders.yaml", 0, "plan.splits.0"},
	{"run pageviews-hourly", 0, "run"},
	{"run pageviews-hourly --wait", 0, "status"},
	{"run pageviews.yaml", 0, "status"},
	{"run pageviews.yaml --window 2025-06-01..2026-06-01", 0, "status"},
	{"runs list", 0, "0.run"},
	{"runs list --status failed --job slow", 0, "len"},
	{"runs get RUN", 0, "commit.number"},
	{"runs watch RUN", 0, "status"},
	{"runs watch FAILED", output.Partial, "status"},
	{"runs cancel GOING --yes", 0, "status"},
	{"backfill retry BAD", 0, "status"},
	{"backfill watch BAD", output.Partial, "counts"},
	{"run strict.yaml", output.Partial, "status"},
	{"runs retry FAILED --accept-bad", 0, "status"},
	{"rerun RUN", 0, "identical"},
	{"rerun 4 --root warehouse/pageviews", 0, "files.0.state"},
	{"rerun RUN --with-current-job", 0, "status"},
	{"replay orders --range orders/0=earliest..+5 --to replayed", 0, "rows"},
	{"verify pageviews-hourly", 0, "ok"},
	{"verify --root warehouse/pageviews", 0, "files"},
	{"verify 4 --root warehouse/pageviews --against-log", 0, "log.hours.0.state"},

	{"backfill pageviews-hourly --from 2026-11-28 --to 2026-11-29 --only all --dry-run", 0, "items.0.window.rows"},
	{"backfill list", 0, "0.backfill"},
	{"backfill get BACKFILL", 0, "items.0.run"},
	{"backfill watch BACKFILL", 0, "counts.committed"},
	{"backfill pause OPEN", 0, "status"},
	{"backfill resume OPEN", 0, "status"},
	{"backfill cancel OPEN --yes", 0, "status"},

	{"out ls pageviews-hourly", 0, "0.sha256"},
	{"out head pageviews-hourly -n 2", 0, "1.path"},
	{"out head pageviews-hourly --hour 2020-01-01T00", 0, "len"},
	{"out count pageviews-hourly", 0, "hours.0.state"},
	{"out count pageviews-hourly --quarantine", 0, "rows"},
	{"out schema pageviews-hourly", 0, "fields.0.name"},
	{"out find pageviews-hourly pageviews/1@5", 0, "row"},
	{"out manifest pageviews-hourly --hour 2026-11-29T14", 0, "files.0.name"},
	{"out changes pageviews-hourly", 0, "0.kind"},
	{"out changes pageviews-hourly --since 1", 0, "0.number"},
	{"out amend 4 --root warehouse/pageviews", 0, "status"},
	{"out rewrite pageviews-hourly", 0, "status"},
	{"out requeue 4 --job pageviews.yaml", 0, "status"},
	{"out drop pageviews-hourly --window 2026-11-28T14..2026-11-28T15 --yes", 0, "0.path"},
	{"job delete pageviews-hourly --yes", 0, "deleted"},

	{"log dump data/orders-0/00000000000000000000.log", 0, "0.file"},
	{"demo --once --hours 1 --rate 100 --dir shown --listen 127.0.0.1:0 --peer 127.0.0.1:0 --http 127.0.0.1:0", 0, "produced"},
}

// oneValue wants exactly one JSON value.
func oneValue(text string) error {
	dec := json.NewDecoder(strings.NewReader(text))
	var v any
	if err := dec.Decode(&v); err != nil {
		return fmt.Errorf("standard output is not JSON: %w: %.300q", err, text)
	}
	if err := dec.Decode(&v); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one JSON value on standard output: %.300q", text)
	}
	return nil
}

// leafName is the path of a verb, without sawlog.
func leafName(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "sawlog ") }

// leafOf is the verb that a line is for.
func leafOf(t *testing.T, line string) string {
	t.Helper()
	c, _, err := tree().Find(shellWords(line))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return leafName(c)
}

// speaksJSON: with -o json each verb prints one JSON value with what was asked for
// in it, with jsonl JSON on each line, all else on standard error. A verb that is
// not in the conversation fails it.
func (s *shop) speaksJSON() {
	t := s.t
	seen := map[string]bool{"serve": true, "task exec": true} // each has a test of its own
	for _, ask := range conversation {
		seen[leafOf(t, ask.line)] = true
		code, out, told := invoke(t, "", append(s.words(ask.line), "-o", "json")...)
		if code != ask.code {
			t.Errorf("%s: exit code %d, want %d: %s", ask.line, code, ask.code, told)
			continue
		}
		if ask.path == "" {
			if out != "" {
				t.Errorf("%s: exit code %d, and on standard output %q", ask.line, code, out)
			}
			continue
		}
		if err := oneValue(out); err != nil {
			t.Errorf("%s: %v", ask.line, err)
		} else if _, err := jsonPath([]byte(out), ask.path); err != nil {
			t.Errorf("%s: %v", ask.line, err)
		}
	}
	for _, c := range leaves(tree()) {
		if !seen[leafName(c)] {
			t.Errorf("%s is not in the conversation", c.CommandPath())
		}
	}
	s.speaksLines()
	s.ends("serve", "--data", "other", "--listen", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json")
}

// speaksLines asks for lists a line an element.
func (s *shop) speaksLines() {
	s.t.Helper()
	for _, line := range []string{
		"topic list", "group list", "job list", "runs list", "backfill list", "consume orders --range 3=10..13",
		"out head --root warehouse/pageviews -n 2", "out ls --root warehouse/pageviews", "out changes --root warehouse/pageviews",
		"log dump data/orders-0/00000000000000000000.log", "cluster brokers", "version",
	} {
		out := s.sawlog(append(s.words(line), "-o", "jsonl")...)
		count := 0
		for text := range strings.Lines(out) {
			if !json.Valid([]byte(text)) || strings.HasPrefix(text, "[") {
				s.t.Errorf("%s: no element on a line: %.200q", line, text)
			}
			count++
		}
		if count == 0 && line != "group list" {
			s.t.Errorf("%s printed nothing", line)
		}
	}
}

// ends starts a server, which must end well when it is told to, having printed
// no data.
func (s *shop) ends(args ...string) {
	s.t.Helper()
	c := s.spawn(nil, args...)
	c.says("console http", patience)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if code := c.wait(patience); code != output.OK || c.out.Len() > 0 {
		s.t.Errorf("sawlog %s: exit code %d, on standard output %q: %s", strings.Join(args, " "), code, c.out.String(), c.said.String())
	}
}

// TestTaskSpeaksLines: a task tells how it goes in lines of JSON, whatever -o
// says: an engine reads them.
func TestTaskSpeaksLines(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.values("told", "no JSON", "nor this")
	path, root := n.job("told", "decode: {value: json, max_bad: 1}\n")
	n.refused(output.Partial, nil, "run", path) // which begins a plan, and leaves it so
	n.write("plan.json", string(n.run("plan", path, "-o", "json")))
	for _, format := range []string{"json", "table"} {
		out, code, said := n.try("task", "exec", "--plan", "plan.json", "--index", "0", "-o", format)
		if code != output.OK {
			t.Fatalf("exit code %d: %s%s", code, out, said)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, `"result":`) {
			t.Errorf("-o %s: the last line is %s", format, last)
		}
	}
	if tree := treeOf(t, root); len(folders(t, root)) != 0 {
		t.Errorf("a task alone published %v", tree)
	}
}
