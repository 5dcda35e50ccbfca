package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/output"
)

// fault is an invocation that can't be carried out: how it ends and what it says.
type fault struct {
	line string
	code int
	says string // in the message or the way out
}

// faults is what can be wrong with each verb on a server that is well.
var faults = []fault{
	{"topic create orders", output.Conflict, "orders"},
	{"topic create a/b", output.Usage, "a/b"},
	{"topic create fresh --config nothing=1", output.Usage, "nothing"},
	{"topic create fresh --config retention.ms", output.Usage, "KEY=VALUE"},
	{"topic create fresh --replication-factor 3", output.Usage, "replication"},
	{"topic describe none", output.NotFound, "none"},
	{"topic alter none --partitions 3", output.NotFound, "none"},
	{"topic alter orders", output.Usage, "--config"},
	{"topic alter orders --partitions 1", output.Usage, "orders"},
	{"topic delete none --yes", output.NotFound, "none"},
	{"topic delete orders", output.Usage, "--yes"},
	{"topic trim none --to latest --yes", output.NotFound, "none"},
	{"topic trim orders --to latest", output.Usage, "--yes"},
	{"topic trim orders", output.Usage, "--to"},
	{"topic trim orders --to 99999999 --yes", output.Mismatch, "latest"},
	{"topic offsets none", output.NotFound, "none"},
	{"topic offsets orders --at noon", output.Usage, "noon"},
	{"group describe none", output.NotFound, "group list"},
	{"group reset checkers --topic none --to earliest --yes", output.NotFound, "none"},
	{"group reset checkers --topic orders --to earliest", output.Usage, "--yes"},
	{"group reset checkers --topic orders", output.Usage, "--to"},
	{"group delete none --yes", output.NotFound, "group list"},
	{"group delete checkers", output.Usage, "--yes"},
	{"group delete busy --yes", output.Conflict, "group describe busy"},
	{"group delete busy --topic orders --yes", output.Conflict, "group describe busy"},
	{"group delete checkers --topic none --yes", output.NotFound, "group describe checkers"},
	{"group delete checkers --topic orders", output.Usage, "--yes"},
	{"group reset busy --topic orders --to earliest --yes", output.Conflict, "group describe busy"},
	{"topic alter orders --config max.message.bytes=1048588 --partitions 1", output.Usage, "orders"},
	{"produce orders none.txt", output.NotFound, "none.txt"},
	{"produce orders lines.txt --csv --key-field user", output.Usage, "user"},
	{"produce orders lines.txt --partition 99", output.NotFound, "99"},
	{"consume none", output.NotFound, "none"},
	{"consume orders --range 5", output.Usage, "START..END"},
	{"consume orders --range 99=0..1", output.NotFound, "partition 99"},
	{"consume orders --range 0..99999999", output.Mismatch, "latest"},

	{"cluster drain 9", output.NotFound, "cluster brokers"},
	{"cluster drain one", output.Usage, "cluster brokers"},
	{"cluster drain 1", output.Conflict, "no other broker"},
	{"cluster move none --to 1", output.NotFound, "topic list"},
	{"cluster move orders --to 9", output.NotFound, "cluster brokers"},
	{"cluster move orders --to one", output.Usage, "--to"},
	{"cluster elect none", output.NotFound, "topic list"},
	{"cluster forget 9 --yes", output.NotFound, "cluster brokers"},
	{"cluster forget 1 --yes", output.Conflict, "stop its process"},
	{"cluster key sawlog.yaml", output.Conflict, "another name"},
	{"cluster key none/new.key", output.NotFound, "folder"},
	{"cluster upgrade --to 99 --yes", output.Conflict, "99"},

	{"plan none", output.NotFound, "job list"},
	{"plan none.yaml", output.NotFound, "none.yaml"},
	{"plan wrong.yaml", output.Usage, "wrong.yaml:2"},
	{"plan pageviews.yaml --range 5", output.Usage, "START..END"},
	{"run", output.Usage, "FILE"},
	{"run none", output.NotFound, "job list"},
	{"run none.yaml", output.NotFound, "none.yaml"},
	{"run --plan none.json", output.NotFound, "none.json"},
	{"run --plan lines.txt", output.Usage, "plan"},
	{"run --plan changed.json", output.Mismatch, "changed.json"},
	{"run pageviews.yaml --memory lots", output.Usage, "512MiB"},
	{"run pageviews.yaml --window noon", output.Usage, "START..END"},
	{"run pageviews-hourly --window 2026-01-02..2026-01-03", output.Usage, "no tick"},
	{"run pageviews-hourly --range 0..1", output.Usage, "FILE"},
	{"run jobs/orders.yaml --window 2026-01-01..2026-01-02", output.Usage, "no schedule"},
	{"rerun none", output.NotFound, "runs list"},
	{"rerun 99 --root warehouse/pageviews", output.NotFound, "99"},
	{"rerun 0 --root nowhere", output.NotFound, "nowhere"},
	{"replay none --range 0..1 --to replayed", output.NotFound, "none"},
	{"replay orders --range 0..1 --to s3://bucket/x", output.Usage, "hdfs://HOST"},
	{"replay orders --range orders/0=0..99999999 --to replayed", output.Mismatch, "99999999"},
	{"replay orders --range orders/0=0..1 --to lines.txt", output.Conflict, "lines.txt"},
	{"replay orders --range orders/0=0..1 --to replayed --decode xml", output.Usage, "json"},
	{"verify", output.Usage, "--root"},
	{"verify none", output.NotFound, "none"},
	{"verify --root nowhere", output.NotFound, "nowhere"},
	{"verify 99 --root warehouse/pageviews", output.NotFound, "99"},
	{"verify --root damaged", output.Mismatch, "rerun"},

	{"job apply none.yaml", output.NotFound, "none.yaml"},
	{"job apply wrong.yaml", output.Usage, "wrong.yaml:2"},
	{"job get none", output.NotFound, "job list"},
	{"job validate wrong.yaml", output.Usage, "did you mean"},
	{"job validate none.yaml", output.NotFound, "none.yaml"},
	{"job explain none", output.NotFound, "job list"},
	{"job next none", output.NotFound, "job list"},
	{"job next jobs/orders.yaml", output.Usage, "no schedule"},
	{"job next pageviews-hourly -n 0", output.Usage, "1 to 1000"},
	{"job pause none", output.NotFound, "job list"},
	{"job resume none", output.NotFound, "job list"},
	{"job delete none --yes", output.NotFound, "job list"},
	{"job delete pageviews-hourly", output.Usage, "--yes"},
	{"runs list --job none", output.NotFound, "job list"},
	{"runs list --status odd", output.Usage, "committed"},
	{"runs get none", output.NotFound, "runs list"},
	{"runs watch none", output.NotFound, "runs list"},
	{"runs watch FAILED", output.Partial, "FAILED"},
	{"runs cancel none --yes", output.NotFound, "runs list"},
	{"runs cancel RUN --yes", output.Conflict, "committed"},
	{"runs cancel GOING", output.Usage, "--yes"},
	{"runs retry none", output.NotFound, "runs list"},
	{"runs retry RUN", output.Conflict, "committed"},
	{"backfill none --from 2026-01-01 --to 2026-01-02", output.NotFound, "job list"},
	{"backfill pageviews-hourly --from 2026-01-01", output.Usage, "--to"},
	{"backfill pageviews-hourly --from noon --to 2026-01-02", output.Usage, "noon"},
	{"backfill pageviews-hourly --from 2026-01-02 --to 2026-01-01", output.Usage, "empty"},
	{"backfill pageviews-hourly --from 2025-12-01 --to 2026-01-02 --only odd", output.Usage, "missing, failed or all"},
	{"backfill slow --from 2020-01-01 --to 2025-01-02", output.Conflict, "backfill cancel"},
	{"backfill get none", output.NotFound, "backfill list"},
	{"backfill watch none", output.NotFound, "backfill list"},
	{"backfill watch BAD", output.Partial, "backfill retry"},
	{"backfill pause BACKFILL", output.Conflict, "completed"},
	{"backfill resume OPEN", output.Conflict, "running"},
	{"backfill cancel none --yes", output.NotFound, "backfill list"},
	{"backfill cancel OPEN", output.Usage, "--yes"},
	{"backfill retry BACKFILL", output.Conflict, "completed"},

	{"out ls", output.Usage, "--root"},
	{"out ls none", output.NotFound, "none"},
	{"out ls pageviews-hourly --hour noon", output.Usage, "noon"},
	{"out head none", output.NotFound, "none"},
	{"out head pageviews-hourly --columns none", output.Usage, "none"},
	{"out head pageviews-hourly -n 0", output.Usage, "1 or more"},
	{"out head --root damaged", output.Mismatch, "rerun"},
	{"out count none", output.NotFound, "none"},
	{"out schema none", output.NotFound, "none"},
	{"out find none pageviews/0@1", output.NotFound, "none"},
	{"out find pageviews-hourly pageviews", output.Usage, "TOPIC/PARTITION@OFFSET"},
	{"out find pageviews-hourly pageviews/0@99999999", output.NotFound, "not loaded"},
	{"out manifest pageviews-hourly", output.Usage, "--hour"},
	{"out manifest pageviews-hourly --hour 2020-01-01T00", output.NotFound, "out count"},
	{"out changes none", output.NotFound, "none"},
	{"out changes pageviews-hourly --since 999", output.NotFound, "999"},
	{"out rewrite none", output.NotFound, "none"},
	{"out rewrite pageviews-hourly --target-size lots", output.Usage, "256MiB"},
	{"out rewrite pageviews-hourly --job jobs/orders.yaml", output.Conflict, "orders-daily"},
	{"out requeue none", output.NotFound, "runs list"},
	{"out requeue 99 --job pageviews.yaml", output.NotFound, "99"},
	{"out drop pageviews-hourly", output.Usage, "--window"},
	{"out drop pageviews-hourly --run none --yes", output.NotFound, "none"},
	{"out drop pageviews-hourly --window 2020-01-01..2020-01-02 --yes", output.NotFound, "out count"},
	{"out drop pageviews-hourly --run 4", output.Usage, "--yes"},
	{"out amend 0", output.Usage, "--root"},
	{"out amend 99 --root warehouse/pageviews", output.NotFound, "99"},

	{"task exec", output.Conflict, "--stdin"},
	{"task exec --plan none.json --index 0", output.Conflict, "none.json"},
	{"config view -c none.yaml", output.Usage, "none.yaml"},
	{"config view -c lines.txt", output.Usage, "lines.txt"},
	{"doctor connect 127.0.0.1:1", output.Unavailable, "sawlog serve"},
	{"doctor server --server http://127.0.0.1:1", output.Unavailable, "sawlog serve"},
	{"doctor disk none", output.Failed, "make it"},
	{"doctor disk lines.txt", output.Failed, "lines.txt"},
	{"doctor hdfs pageviews.yaml", output.Usage, "doctor disk"},
	{"doctor hdfs hdfs://127.0.0.1:1/x --timeout 1s", output.Unavailable, "127.0.0.1:1"},
	{"doctor hadoop pageviews.yaml", output.Usage, "run.engine"},
	{"doctor hadoop none.yaml", output.NotFound, "none.yaml"},
	{"log dump none.log", output.NotFound, "none.log"},
	{"log dump lines.txt", output.Usage, "lines.txt"},
	{"log dump sawlog.yaml -n -1", output.Usage, "-1"},
	{"man lines.txt", output.Conflict, "lines.txt"},
	{"demo --dir warehouse", output.Conflict, "another --dir"},
	{"demo --hours 0", output.Usage, "--hours"},
	{"serve --data d --listen ADDRESS --http 127.0.0.1:0", output.Conflict, "ADDRESS"},
	{"serve -c none.yaml", output.Usage, "none.yaml"},
	{"topic list -b 127.0.0.1:1 --timeout 1s", output.Unavailable, "127.0.0.1:1"},
	{"topic list -b nowhere.invalid", output.Unavailable, "no such host: nowhere.invalid"},
	{"job list --server http://127.0.0.1:1", output.Unavailable, "sawlog serve"},
	{"job list --server nowhere", output.Usage, "http://HOST:PORT"},
	{"job list --server http://ADDRESS", output.Unavailable, "ADDRESS"},
}

// inner are words of the program's inside, which say nothing to who uses it.
var inner = regexp.MustCompile(`strconv\.|%!|<nil>|context (canceled|deadline)|unexpected EOF|invalid character|(^|[^.a-z])(json|yaml): |\bdial tcp\b|lookup .* on |read tcp|write tcp|0x[0-9a-f]{6,}|goroutine|runtime error|kgo|kmsg|\*[a-z]+\.[A-Z]`)

// TestFlagsSayWhatTheyTake: whatever is wrong with the arguments of any verb is
// told before anything is done, on standard error, as JSON where that is asked
// for, in words of the command line.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range leaves(tree()) {
		usage := output.Usage
		if leafName(c) == "task exec" {
			usage = output.Conflict // an engine must not try again
		}
		words := strings.Fields(leafName(c))
		lines := [][]string{append(slices.Clone(words), "--nonsense", "-o", "json")}
		if many := slices.Repeat([]string{"x"}, 60); c.Args != nil && c.ValidateArgs(many) != nil {
			lines = append(lines, slices.Concat(words, many, []string{"-o", "json"}))
		}
		if c.Args != nil && c.ValidateArgs(nil) != nil {
			lines = append(lines, slices.Concat(words, []string{"-o", "json"}))
		}
		for _, name := range typedFlags(c) {
			lines = append(lines, slices.Concat(words, []string{"--" + name + "=odd", "-o", "json"}))
		}
		for _, line := range lines {
			code, out, said := invoke(t, "", line...)
			if code != usage || out != "" {
				t.Errorf("%s: exit code %d, want %d, on standard output %q", strings.Join(line, " "), code, usage, out)
			}
			told(t, strings.Join(line, " "), code, said)
		}
	}
}

// TestFlagsWantAValue: a flag that is given nothing, as a shell does with a variable
// that isn't set, is refused by each verb that has it, before anything is done.
func TestFlagsWantAValue(t *testing.T) {
	t.Chdir(t.TempDir())
	checked := 0
	for _, c := range leaves(tree()) {
		usage := output.Usage
		if leafName(c) == "task exec" {
			usage = output.Conflict
		}
		var args []string
		for c.Args != nil && c.ValidateArgs(args) != nil && len(args) < 4 {
			args = append(args, "bash") // a shell, for completion
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"string", "stringSlice", "stringArray"}, f.Value.Type()) || config.IsSetting(f.Name) {
				return
			}
			given := []string{"--" + f.Name + "="}
			if f.Value.Type() == "stringSlice" {
				given = append(given, given[0]+"a,,b")
			}
			if f.Name == noneMeans {
				given = given[1:]
			}
			for _, flag := range given {
				checked++
				line := slices.Concat(strings.Fields(leafName(c)), args, []string{flag, "-o", "json"})
				code, out, said := invoke(t, "", line...)
				if code != usage || out != "" || !strings.Contains(said, "--"+f.Name) || !strings.Contains(said, "want a value") {
					t.Errorf("%s: exit code %d, want %d, on standard output %q: %s", strings.Join(line, " "), code, usage, out, said)
				}
			}
		})
	}
	if checked < 60 {
		t.Errorf("only %d flags were found", checked)
	}
}

// typedFlags are the flags of a verb that don't take any text.
func typedFlags(c *cobra.Command) (names []string) {
	kinds := []string{"bool", "int", "int16", "int32", "int64", "duration", "int32Slice"}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && slices.Contains(kinds, f.Value.Type()) {
			names = append(names, f.Name)
		}
	})
	return names
}

// told wants one error as JSON at the end of standard error, with the exit code
// in it, which names a way out and nothing of the inside.
func told(t *testing.T, line string, code int, said string) (text string) {
	t.Helper()
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil || e.Code != code || e.Message == "" {
		t.Errorf("%s: exit code %d, and the error is no JSON that says so: %.300q", line, code, said)
		return said
	}
	text = e.Message + " | " + e.Hint
	if e.Hint == "" && !regexp.MustCompile(`: want |^want |needed|excludes?|is for|wants |goes with|is none of|:\d+:\d+: `).MatchString(e.Message) {
		t.Errorf("%s: no way out: %s", line, e.Message)
	}
	if word := inner.FindString(text); word != "" {
		t.Errorf("%s: %q is a word of the inside: %s", line, word, text)
	}
	return text
}

// damage makes files that can't be used: a data set with a changed byte, a plan
// with another number in it, a job file with a key nobody knows.
func (s *shop) damage() {
	s.t.Helper()
	s.write("wrong.yaml", "name: wrong\nsorce: {topics: [orders]}\n")
	s.names["ADDRESS"] = s.listen
	s.spawn(nil, "consume", "orders", "-g", "busy")
	s.eventually("a group has a member that has read all", patience, func() bool {
		code, out, _ := invoke(s.t, "", "group", "describe", "busy", "-o", "json")
		lag, err := jsonPath([]byte(out), "positions.7.lag")
		return code == output.OK && err == nil && lag == "0"
	})
	s.sawlog("replay", "orders", "--range", "orders/0=0..20", "--to", "damaged")
	found, err := filepath.Glob("damaged/dt=*/hr=*/*.parquet")
	if err != nil || len(found) == 0 {
		s.t.Fatalf("%v, %v", found, err)
	}
	change(s.t, found[0], cutTail)
	plan := s.sawlog("plan", "jobs/orders.yaml", "-o", "json")
	s.write("plan.json", plan)
	s.write("changed.json", strings.Replace(plan, `"end": `, `"end": 1`, -1))
}

// faults: each ends with its code and says why, and nothing is changed.
func (s *shop) faults() {
	before := s.state()
	for _, f := range faults {
		code, out, said := invoke(s.t, "", append(s.words(f.line), "-o", "json")...)
		if code != f.code {
			s.t.Errorf("%s: exit code %d, want %d: %s", f.line, code, f.code, said)
			continue
		}
		if out != "" {
			if err := oneValue(out); err != nil {
				s.t.Errorf("%s: %v", f.line, err)
			}
		}
		says := strings.Join(s.words(f.says), " ")
		if text := told(s.t, f.line, code, said); !strings.Contains(text, says) {
			s.t.Errorf("%s: says %q, want it to hold %q", f.line, text, says)
		}
	}
	s.unchanged(before)
}
