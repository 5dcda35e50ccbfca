package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sawlog/cmd/sawlog/output"
	"sawlog/offsets"
)

// elsewhere are the examples whose servers are those of a reader, not of this
// test: how they end without them.
var elsewhere = map[string]int{
	"sawlog doctor hdfs hdfs://nn1:8020/warehouse": output.Unavailable,
	"sawlog doctor hdfs pageviews.yaml":            output.Usage, // its root is on this machine
	"sawlog doctor hadoop pageviews.yaml":          output.Usage, // so are its tasks
}

// verbsOf are all commands of the tree, groups too.
func verbsOf(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" {
			all = append(all, verbsOf(sub)...)
		}
	}
	return all
}

// examplesOf are the lines of a verb's examples.
func examplesOf(c *cobra.Command) (lines []string) {
	for line := range strings.SplitSeq(c.Example, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// understood tells why the command line does not take words; it does not do what
// they say.
func understood(words []string) error {
	verb, args, err := tree().Find(words)
	if err == nil {
		err = verb.ParseFlags(args)
	}
	if err == nil && verb.Args != nil {
		err = verb.ValidateArgs(verb.Flags().Args())
	}
	if f := verb.Flags().Lookup("range"); err == nil && f != nil && f.Changed {
		_, err = offsets.ParseQuery(f.Value.String(), time.Now())
	}
	return err
}

// TestExamplesAreSaidRight: each line of the examples of each verb is one that the
// command line takes; TestEveryExampleWorks carries them out.
func TestExamplesAreSaidRight(t *testing.T) {
	said := 0
	for _, c := range verbsOf(tree()) {
		for _, line := range examplesOf(c) {
			words := shellWords(line)
			if i := slices.IndexFunc(words, func(w string) bool { return w == "|" || w == ">" || w == "&&" || w == "<" }); i >= 0 {
				words = words[:i]
			}
			if len(words) == 0 || words[0] != "sawlog" {
				continue
			}
			said++
			if err := understood(words[1:]); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	if said < 90 {
		t.Errorf("only %d examples were found", said)
	}
}

// TestEveryExampleWorks carries out each line of the examples of each verb as a
// shell does, on a cluster of four nodes with the names they use. That takes
// minutes: make examples.
func TestEveryExampleWorks(t *testing.T) {
	peer := freePort(t)
	t.Setenv("SAWLOG_PEER", peer)
	s := openShop(t, hourly)
	t.Setenv("HOME", s.dir)
	s.names["PEER"] = peer
	third := s.joins(peer)
	for _, dir := range []string{"etc/sawlog", "var/lib/sawlog", "tmp", ".local/share/bash-completion/completions"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("etc/sawlog.yaml", "data: etc/data\n")
	var lines, moves, last []string
	for _, c := range verbsOf(tree()) {
		for _, line := range examplesOf(c) {
			switch {
			case slices.Contains(lines, line):
			case strings.HasPrefix(line, "sawlog cluster move"): // others use what is there
				moves = append(moves, line)
			case strings.HasPrefix(line, "sawlog cluster forget"): // and moves that broker
				last = append(last, line)
			default:
				lines = append(lines, line)
			}
		}
	}
	for _, line := range slices.Concat(lines, moves, last) {
		s.before(line, third)
		s.example(line)
	}
	if len(lines) < 100 {
		t.Errorf("only %d examples were found", len(lines))
	}
}

// joins starts three nodes more and gives the one with number 3.
func (s *shop) joins(peer string) (third *child) {
	s.t.Helper()
	for _, id := range []string{"2", "4", "3"} {
		third = s.spawn(nil, "serve", "--node-id", id, "--data", "data"+id, "--listen", freePort(s.t), "--peer", freePort(s.t), "--http", freePort(s.t), "--join", peer)
		third.says("console ", patience)
	}
	s.eventually("four brokers are up", patience, func() bool {
		return s.field(s.sawlog("cluster", "status", "-o", "json"), "brokers.up") == "4"
	})
	return third
}

// before makes what an example needs, where an earlier one has taken it away.
func (s *shop) before(line string, third *child) {
	s.t.Helper()
	words := shellWords(line)
	switch verb := strings.Join(words[1:min(3, len(words))], " "); verb {
	case "topic create":
		_, _, _ = invoke(s.t, "", "topic", "delete", words[3], "--yes") // it may be there
	case "backfill pause", "backfill cancel", "backfill resume", "runs cancel":
		switch s.field(s.sawlog("backfill", "get", s.names["OPEN"], "-o", "json"), "status") {
		case "running":
		case "paused":
			s.sawlog("backfill", "resume", s.names["OPEN"])
		default:
			s.opens()
		}
		if verb == "backfill resume" {
			s.sawlog("backfill", "pause", s.names["OPEN"])
		}
	case "cluster forget":
		s.run("cluster", "drain", "3")
		if err := third.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
		third.wait(patience)
		s.eventually("broker 3 is out of service", patience, func() bool {
			return s.field(s.sawlog("cluster", "status", "-o", "json"), "brokers.up") == "3"
		})
	}
	if s.gone || slices.Contains(words, "RUN") {
		s.restock()
	}
	s.gone = strings.Contains(line, " delete ")
	if strings.HasPrefix(line, "sawlog run --plan") {
		s.send(byHand("zstd"), s.views()...)
		s.write("plan.json", s.sawlog("plan", "pageviews.yaml", "-o", "json"))
	}
}

// example carries out one line.
func (s *shop) example(line string) {
	s.t.Helper()
	name := map[string]string{"backfill pause": "OPEN", "backfill resume": "OPEN", "backfill cancel": "OPEN", "backfill retry": "BAD"}
	run := map[string]string{"runs cancel": "GOING", "runs retry": "FAILED"}
	words := shellWords(line)
	verb := strings.Join(words[1:min(3, len(words))], " ")
	text := strings.NewReplacer(
		"BACKFILL", s.names[cmp.Or(name[verb], "BACKFILL")], "RUN", s.names[cmp.Or(run[verb], "RUN")],
		"0.0.0.0:9092", "127.0.0.1:0", "127.0.0.1:9192", "127.0.0.1:0", "127.0.0.1:9193", "127.0.0.1:0", "127.0.0.1:8188", s.web,
		"127.0.0.1:9093", s.names["PEER"], "127.0.0.1:9092", s.listen, "127.0.0.1:8088", s.web,
	).Replace(line)
	text = absolute.ReplaceAllString(text, "${1}"+s.dir+"$2")
	cmd := exec.Command("sh", "-c", "exec "+text)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if slices.Contains(words[1:2], "serve") || slices.Contains(words[1:2], "demo") && !slices.Contains(words, "--once") {
		s.serves(text)
		return
	}
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != elsewhere[line] {
		s.t.Errorf("%s: exit code %d, %v: %s", text, code, err, said.String())
	}
	if out.Len() == 0 && !strings.Contains(line, ">") && elsewhere[line] == output.OK {
		s.t.Errorf("%s printed nothing: %s", text, said.String())
	}
}

// absolute finds the paths of a reader's machine, which are folders of the test.
var absolute = regexp.MustCompile(`( |file://)(/(?:var|etc|usr|tmp|warehouse)/)`)

// serves starts a server as an example says, which must be ready and end well.
func (s *shop) serves(text string) {
	s.t.Helper()
	free := []string{"SAWLOG_PEER=127.0.0.1:0", "SAWLOG_LISTEN=127.0.0.1:0", "SAWLOG_HTTP=127.0.0.1:0"}
	c := s.spawn(free, shellWords(strings.ReplaceAll(text, s.web, "127.0.0.1:0"))[1:]...)
	c.says("console ", patience)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if code := c.wait(patience); code != output.OK && code != output.Terminated {
		s.t.Errorf("%s: exit code %d: %s", text, code, c.said.String())
	}
}

// TestHelpReadsAlike holds the help of all verbs to one style: a sentence without
// a stop, lines that fit a terminal, flags that say what they take.
func TestHelpReadsAlike(t *testing.T) {
	for _, c := range verbsOf(tree()) {
		name := c.CommandPath()
		if first := c.Short[:1]; strings.ToUpper(first) != first || strings.HasSuffix(c.Short, ".") || len(c.Short) > 80 {
			t.Errorf("%s: %q is no sentence without a stop", name, c.Short)
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len([]rune(line)) > 85 || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: a line too long, or with spaces at its end: %q", name, line)
			}
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if !strings.HasPrefix(line, "  sawlog ") && !strings.HasPrefix(line, "  # ") {
				t.Errorf("%s: %q is no example", name, line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			usage := strings.TrimLeft(f.Usage, "`")
			if usage == "" || strings.HasSuffix(usage, ".") {
				t.Errorf("%s --%s: %q", name, f.Name, f.Usage)
			}
			if first := strings.SplitN(usage, " ", 2)[0]; strings.ToUpper(first[:1]) == first[:1] && !shouted.MatchString(first) {
				t.Errorf("%s --%s: %q begins like a sentence", name, f.Name, f.Usage)
			}
		})
	}
}

// shouted is a word that stands for a value, or is a name.
var shouted = regexp.MustCompile("^([A-Z]{2,}|Kafka|YAML|[^a-zA-Z])")
