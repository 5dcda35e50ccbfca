package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
)

// jsonPath walks into JSON: names and indexes separated by dots; len is a
// length.
func jsonPath(raw []byte, path string) (string, error) {
	var v any
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("not JSON: %w: %.200s", err, raw)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			found, ok := at[step]
			if !ok {
				return "", fmt.Errorf("no %q in %.200s", step, raw)
			}
			v = found
		case []any:
			if step == "len" {
				v = len(at)
				continue
			}
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return "", fmt.Errorf("no element %q among %d", step, len(at))
			}
			v = at[i]
		default:
			return "", fmt.Errorf("%q leads nowhere in %.200s", step, raw)
		}
	}
	return fmt.Sprint(v), nil
}

func leaves(c *cobra.Command) []*cobra.Command {
	if !c.HasSubCommands() {
		return []*cobra.Command{c}
	}
	var all []*cobra.Command
	if strings.Contains(c.Use, " ") {
		all = append(all, c) // it does something by itself too
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" {
			all = append(all, leaves(sub)...)
		}
	}
	return all
}

func tree() *cobra.Command {
	a := &app{print: &output.Printer{Out: io.Discard, Err: io.Discard}}
	return a.root()
}

func TestEveryVerbExplainsItself(t *testing.T) {
	for _, c := range leaves(tree()) {
		if c.Short == "" || c.Example == "" || !strings.Contains(c.Example, "sawlog ") {
			t.Errorf("%s: no sentence, or no example", c.CommandPath())
		}
	}
}

// TestEveryExampleParses runs the flags and arguments of every example through
// the parser of its verb, so that no help text names what is not there.
func TestEveryExampleParses(t *testing.T) {
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(tree())
	checked := 0
	for _, c := range all {
		for line := range strings.SplitSeq(c.Example, "\n") {
			words := shellWords(strings.TrimSpace(line))
			if len(words) == 0 || words[0] != "sawlog" {
				continue
			}
			verb, args, err := tree().Find(words[1:])
			if err == nil {
				err = verb.ParseFlags(args)
			}
			if err == nil && verb.Args != nil {
				err = verb.ValidateArgs(verb.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			}
			checked++
		}
	}
	if checked < 40 {
		t.Errorf("only %d examples were found", checked)
	}
}

// shellWords splits a line as a shell does, up to a redirection.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if open || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		case quote == 0 && (r == '>' || r == '|'):
			return words
		default:
			word.WriteRune(r)
		}
	}
	if open || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// TestNoServer runs every leaf verb with -o json against nothing at all: each
// must end with an exit code of its own, say why on standard error as JSON, and
// keep standard output parseable.
func TestNoServer(t *testing.T) {
	t.Setenv("SAWLOG_BROKERS", "127.0.0.1:1")
	t.Setenv("SAWLOG_SERVER", "http://127.0.0.1:1")
	t.Setenv("SAWLOG_TIMEOUT", "2s")
	t.Chdir(t.TempDir())
	args := map[string][]string{
		"topic create": {"t"}, "topic describe": {"t"}, "topic alter": {"t", "--config", "retention.ms=1"}, "topic delete": {"t", "--yes"}, "topic trim": {"t", "--to", "latest", "--yes"},
		"topic offsets": {"t"}, "group describe": {"g"}, "group reset": {"g", "--topic", "t", "--to", "earliest", "--yes"},
		"group delete": {"g", "--yes"}, "produce": {"t"}, "consume": {"t", "-n", "1"}, "plan": {"job"}, "run": {"job"}, "rerun": {"r"},
		"replay": {"t", "--range", "0..1", "--to", "out"}, "backfill": {"job", "--from", "2026-11-29", "--to", "2026-11-30"},
		"backfill get": {"b"}, "backfill watch": {"b"}, "backfill pause": {"b"}, "backfill resume": {"b"}, "backfill cancel": {"b", "--yes"}, "backfill retry": {"b"},
		"verify": {"d"}, "job apply": {"none.yaml"}, "job get": {"j"}, "job validate": {"none.yaml"}, "job explain": {"j"},
		"job next": {"j"}, "job pause": {"j"}, "job resume": {"j"}, "job delete": {"j", "--yes"}, "runs get": {"r"},
		"runs watch": {"r"}, "runs cancel": {"r", "--yes"}, "runs retry": {"r"}, "out ls": {"d"}, "out head": {"d"},
		"out count": {"d"}, "out schema": {"d"}, "out find": {"d", "t/0@1"}, "out manifest": {"d", "--hour", "2026-11-29T14"},
		"out changes": {"d"}, "out rewrite": {"d"}, "out requeue": {"r"}, "out amend": {"r", "--root", "none"},
		"out drop":  {"d", "--window", "2026-11-29T14..2026-11-29T15", "--yes"},
		"task exec": {"--plan", "none.json", "--index", "0"}, "log dump": {"none.log"}, "man": {"pages"}, "completion": {"fish"},
		"doctor connect": {"127.0.0.1:1"}, "doctor disk": {"."}, "doctor hdfs": {"hdfs://127.0.0.1:1/warehouse"}, "doctor hadoop": {"job"},
		"cluster drain": {"3"}, "cluster move": {"t", "--to", "1,2"}, "cluster elect": {"t"}, "cluster forget": {"3", "--yes"}, "cluster key": {"new.key"},
	}
	want := map[string]int{
		"version": 0, "config view": 0, "doctor disk": 0, "man": 0, "completion": 0, "cluster key": 0,
		"job apply": 3, "job validate": 3, "log dump": 3, "task exec": 4,
	}
	skip := map[string]bool{"demo": true, "serve": true} // they start servers: scripts run them
	var waiting sync.WaitGroup
	for _, c := range leaves(tree()) {
		name := strings.TrimPrefix(c.CommandPath(), "sawlog ")
		if skip[name] {
			continue
		}
		expected, known := want[name]
		if !known {
			expected = output.Unavailable
		}
		line := append(strings.Fields(name), args[name]...)
		waiting.Go(func() { nobodyAnswers(t, name, expected, append(line, "-o", "json")...) })
	}
	waiting.Wait()
}

// nobodyAnswers wants a verb to end with a code, to say why as JSON, and to print
// nothing but JSON.
func nobodyAnswers(t *testing.T, name string, expected int, line ...string) {
	code, stdout, stderr := invoke(t, "", line...)
	if code != expected {
		t.Errorf("%s: exit code %d, want %d: %s", name, code, expected, stderr)
	}
	dec := json.NewDecoder(strings.NewReader(stdout))
	for {
		var v any
		if err := dec.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Errorf("%s: standard output is not JSON: %v: %.200s", name, err, stdout)
			break
		}
	}
	if code != 0 {
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if _, err := jsonPath([]byte(lines[len(lines)-1]), "message"); err != nil {
			t.Errorf("%s: the error is not JSON: %.300s", name, stderr)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"tpic"}, 2, "topic"},
		{[]string{"topic", "lst"}, 2, "list"},
		{[]string{"topic", "create"}, 2, "topic create"},
		{[]string{"topic", "alter", "t", "--partitions", "0"}, 2, "1 or more"},
		{[]string{"topic", "list", "-o", "xml"}, 2, "table, json or jsonl"},
		{[]string{"topic", "list", "--nonsense"}, 2, "nonsense"},
		{[]string{"produce", "t", "-z", "rar"}, 2, "zstd"},
		{[]string{"produce", "t", "--acks", "2"}, 2, "all, 1 or 0"},
		{[]string{"consume", "t", "-g", "g", "--range", "0..1"}, 2, "exclude"},
		{[]string{"run"}, 2, "FILE"},
		{[]string{"run", "none.yaml"}, 3, "none.yaml"},
		{[]string{"replay", "t"}, 2, "--range and --to"},
		{[]string{"verify"}, 2, "verify what"},
		{[]string{"out", "ls", "--root", "s3://b/x"}, 2, "not available"},
		{[]string{"out", "ls", "--root", "/nowhere/at/all"}, 3, "no ledger"},
		{[]string{"out", "find", "d", "t@5"}, 2, "TOPIC/PARTITION@OFFSET"},
		{[]string{"topic", "list", "--color", "pink"}, 2, "auto, always or never"},
		{[]string{"topic", "list", "--timeout", "0s"}, 2, "--timeout"},
		{[]string{"topic", "list", "-b", "nohost.invalid:1", "--timeout", "3s"}, 6, "nohost.invalid"},
		{[]string{"serve", "--listen", "0.0.0.0:9092"}, 2, "--insecure"},
		{[]string{"serve", "--listen", "0.0.0.0:9092", "--insecure"}, 2, "--advertise"},
		{[]string{"serve", "--node-id", "x"}, 2, "node-id"},
		{[]string{"serve", "--peer", "10.0.0.1:9093"}, 2, "--cluster-key"},
		{[]string{"serve", "--join", "nowhere"}, 2, "HOST:PORT,…"},
		{[]string{"serve", "--join", "127.0.0.1:9093"}, 2, "can't join itself"},
		{[]string{"serve", "--cluster-key", "none.key"}, 2, "none.key"},
		{[]string{"serve", "--cluster-key", "testdata/short.key"}, 2, "16 at least"},
		{[]string{"demo", "--hours", "0"}, 2, "--hours"},
		{[]string{"config", "view", "-c", "none.yaml"}, 2, "none.yaml"},
	} {
		code, stdout, stderr := invoke(t, "", c.args...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, want %d; said %q, want it to hold %q", c.args, code, c.code, stderr, c.says)
		}
		if stdout != "" {
			t.Errorf("%v: standard output %q", c.args, stdout)
		}
	}
}
