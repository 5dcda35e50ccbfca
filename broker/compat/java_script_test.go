package compat

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// javaScript plays a script: a text of tool runs and of what they must say. Line by line:
//
//	# a remark
//	$ tool words…     a run; $~ its lines come in any order; $? or $?~ again until all is as said
//	< text            a line of its standard input
//	> pattern         a line of standard output; >* anything there
//	! pattern         a line of standard error; !* anything there
//	exit 1            its exit code, 0 where none is said
//	= file text       a line of a file {dir}/file
//	@ kill 2          SIGKILL for a broker of a cluster;  @ start 2 runs it again;  @ insync waits for all replicas
//	& name tool …     a run that goes on;  &> name pattern waits for a line;  &- name stops it
//
// sawlog or kafka right in front of a line keeps it for that server. In words {broker},
// {dir} and {data} stand for the server's address, the script's own folder and
// the server's data directory; {broker1} and {data1} for those of a cluster's first. In patterns <#> is a number, <*> anything and
// <name> a word, the same one wherever the name stands.
type javaScript struct {
	d      *javaDriver
	server *peer.Server
	nodes  *peer.Cluster // nil: one server is all there is
	name   string
	dir    string
	bound  map[string]string
	live   map[string]*javaRun
	runs   int // so far
}

// javaStep is one run of a script and what is said of it.
type javaStep struct {
	line     int
	mode     string // "$", "$~", "$?" or "$?~"
	words    []string
	stdin    string
	out, err []string
	code     int
	anyOut   bool
	anyErr   bool
}

// javaTools are the main classes by the names of their shell scripts, without
// the kafka- in front.
var javaTools = map[string]string{
	"acls":                 "AclCommand",
	"broker-api-versions":  "BrokerApiVersionsCommand",
	"client-metrics":       "ClientMetricsCommand",
	"cluster":              "ClusterTool",
	"configs":              "ConfigCommand",
	"console-consumer":     "consumer.ConsoleConsumer",
	"console-producer":     "ConsoleProducer",
	"consumer-groups":      "consumer.group.ConsumerGroupCommand",
	"consumer-perf-test":   "ConsumerPerformance",
	"delete-records":       "DeleteRecordsCommand",
	"dump-log":             "DumpLogSegments",
	"e2e-latency":          "EndToEndLatency",
	"features":             "FeatureCommand",
	"get-offsets":          "GetOffsetShell",
	"groups":               "GroupsCommand",
	"leader-election":      "LeaderElectionCommand",
	"log-dirs":             "LogDirsCommand",
	"metadata-quorum":      "MetadataQuorumCommand",
	"producer-perf-test":   "ProducerPerformance",
	"reassign-partitions":  "reassign.ReassignPartitionsCommand",
	"topics":               "TopicCommand",
	"transactions":         "TransactionsCommand",
	"client-compatibility": "ClientCompatibilityTest",
}

// javaClass is the main class of a tool; a class of testdata/java-tools by its own name.
func javaClass(name string) string {
	if class, ok := javaTools[name]; ok {
		return "org.apache.kafka.tools." + class
	}
	return name
}

// play runs a script of a file.
func (s *javaScript) play(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.name = file
	s.run(t, string(b))
}

// run runs a script.
func (s *javaScript) run(t *testing.T, text string) {
	t.Helper()
	s.bound, s.live = map[string]string{}, map[string]*javaRun{}
	var at *javaStep
	finish := func() {
		if at != nil {
			s.step(t, at)
			at = nil
		}
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if server, rest, ok := ofServer(line); ok {
			if server != s.server.Name {
				continue
			}
			line = rest
		}
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "", "#":
		case "$", "$~", "$?", "$?~":
			finish()
			at = &javaStep{line: n, mode: mark, words: s.fill(javaWords(t, rest))}
		case "=":
			finish()
			s.write(t, rest)
		case "@":
			finish()
			s.strike(t, rest)
		case "&", "&>", "&-":
			finish()
			s.background(t, mark, rest)
		default:
			if at == nil || !at.take(mark, s.fill([]string{rest})[0]) {
				t.Fatalf("%s:%d: %q belongs to no run", s.name, n, line)
			}
		}
	}
	finish()
	for name := range s.live {
		t.Errorf("%s: %s is never stopped", s.name, name)
	}
}

// ofServer parts a line that is kept for one server.
func ofServer(line string) (server, rest string, ok bool) {
	for _, server := range []string{"sawlog", "kafka"} {
		if rest, ok := strings.CutPrefix(line, server); ok && strings.ContainsRune("$>!&=<@e", rune((rest + "x")[0])) {
			return server, rest, true
		}
	}
	return "", line, false
}

// take notes a line about the step; it says false to one it doesn't know.
func (p *javaStep) take(mark, rest string) bool {
	switch mark {
	case "<":
		p.stdin += rest + "\n"
	case ">":
		p.out = append(p.out, rest)
	case "!":
		p.err = append(p.err, rest)
	case ">*":
		p.anyOut = true
	case "!*":
		p.anyErr = true
	case "exit":
		if _, err := fmt.Sscan(rest, &p.code); err != nil {
			return false
		}
	default:
		return false
	}
	return true
}

// step runs one tool and compares.
func (s *javaScript) step(t *testing.T, p *javaStep) {
	t.Helper()
	s.runs++
	limit := time.Now().Add(javaPatience / 3)
	// A node of Kafka answers before it has seen all the controller did.
	again := s.server.Name == "kafka" && (slices.Contains(p.words, "--describe") || slices.Contains(p.words, "--list"))
	for {
		r := s.d.run(t, p.stdin, javaClass(p.words[0]), s.args(p.words)...)
		err := s.compare(p, r)
		switch {
		case err == nil:
			return
		case (again || strings.HasPrefix(p.mode, "$?")) && time.Now().Before(limit):
			continue
		}
		t.Errorf("%s:%d: %s\n%v\n-- exit %d, standard output\n%s\n-- standard error\n%s\n-- log\n%s", s.name, p.line,
			strings.Join(p.words, " "), err, r.code, strings.Join(r.out, "\n"), strings.Join(r.err, "\n"), strings.Join(r.log, "\n"))
		return
	}
}

// args is a tool's arguments, with the server's address where it isn't given:
// in front of the subcommand for tools that want it there.
func (s *javaScript) args(words []string) []string {
	tool, args := words[0], words[1:]
	server := []string{"--bootstrap-server", s.server.Addr}
	switch {
	case tool == "dump-log", slices.Contains(args, server[0]):
		return args
	case tool == "features", tool == "metadata-quorum", tool == "transactions":
		return slices.Concat(server, args)
	}
	return slices.Concat(args, server)
}

// compare says what isn't as said.
func (s *javaScript) compare(p *javaStep, r *javaRun) error {
	if r.code != p.code {
		return fmt.Errorf("exit %d, want %d", r.code, p.code)
	}
	// Names are bound by a run that is as said in everything.
	bound := maps.Clone(s.bound)
	if !p.anyOut {
		lines := r.out
		if strings.HasSuffix(p.mode, "~") {
			lines = javaOrder(bound, p.out, lines)
		}
		if err := javaMatch(bound, p.out, lines); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	if !p.anyErr {
		if err := javaMatch(bound, p.err, r.err); err != nil {
			return fmt.Errorf("standard error: %w", err)
		}
	}
	s.bound = bound
	return nil
}

// javaOrder puts lines into the order of the patterns they match.
func javaOrder(bound map[string]string, patterns, lines []string) []string {
	left := slices.Clone(lines)
	ordered := []string{}
	for _, p := range patterns {
		pattern, _ := javaPattern(bound, p)
		if i := slices.IndexFunc(left, pattern.MatchString); i >= 0 {
			ordered = append(ordered, left[i])
			left = slices.Delete(left, i, i+1)
		}
	}
	return append(ordered, left...)
}

// javaMatch compares lines with patterns and binds the patterns' names.
func javaMatch(bound map[string]string, patterns, lines []string) error {
	for i, line := range lines {
		if i == len(patterns) {
			return fmt.Errorf("line %d is too many: %q", i+1, line)
		}
		pattern, names := javaPattern(bound, patterns[i])
		values := pattern.FindStringSubmatch(line)
		if values == nil {
			return fmt.Errorf("line %d is %q, want %q", i+1, line, patterns[i])
		}
		for k, name := range names {
			if was, ok := bound[name]; ok && was != values[k+1] {
				return fmt.Errorf("line %d: <%s> is %q, was %q", i+1, name, values[k+1], was)
			}
			bound[name] = values[k+1]
		}
	}
	if len(lines) < len(patterns) {
		return fmt.Errorf("line %d is missing: %q", len(lines)+1, patterns[len(lines)])
	}
	return nil
}

var javaHole = regexp.MustCompile(`<(#|\*|[a-z][a-z0-9-]*)>`)

// javaPattern is a pattern as a regular expression, and the names in it.
func javaPattern(bound map[string]string, pattern string) (*regexp.Regexp, []string) {
	pattern = strings.Join(strings.Fields(pattern), " ")
	var b strings.Builder
	names := []string{}
	at := 0
	for _, m := range javaHole.FindAllStringSubmatchIndex(pattern, -1) {
		b.WriteString(regexp.QuoteMeta(pattern[at:m[0]]))
		at = m[1]
		switch name := pattern[m[2]:m[3]]; {
		case name == "#":
			b.WriteString(`-?[0-9]+`)
		case name == "*":
			b.WriteString(`.*`)
		case bound[name] != "":
			b.WriteString(regexp.QuoteMeta(bound[name]))
		default:
			b.WriteString(`(\S+?)`)
			names = append(names, name)
		}
	}
	b.WriteString(regexp.QuoteMeta(pattern[at:]))
	return regexp.MustCompile("^" + b.String() + "$"), names
}

// fill puts what stands for something in its place.
func (s *javaScript) fill(words []string) []string {
	pairs := []string{"{broker}", s.server.Addr, "{dir}", s.dir, "{data}", s.server.Dir}
	if s.nodes != nil {
		for _, n := range s.nodes.Nodes {
			pairs = append(pairs, fmt.Sprintf("{broker%d}", n.ID), n.Addr, fmt.Sprintf("{data%d}", n.ID), n.Dir)
		}
	}
	for name, value := range s.bound {
		pairs = append(pairs, "<"+name+">", value)
	}
	r := strings.NewReplacer(pairs...)
	for i, word := range words {
		words[i] = r.Replace(word)
	}
	return words
}

// strike does something to the brokers of a cluster.
func (s *javaScript) strike(t *testing.T, rest string) {
	t.Helper()
	verb, id, _ := strings.Cut(rest, " ")
	node := func() *peer.Server {
		i := slices.IndexFunc(s.nodes.Nodes, func(n *peer.Server) bool { return fmt.Sprint(n.ID) == id })
		if i < 0 {
			t.Fatalf("%s: there is no broker %q", s.name, id)
		}
		return s.nodes.Nodes[i]
	}
	switch verb {
	case "kill":
		node().Kill()
	case "start":
		node().Restart()
	case "insync":
		if err := s.nodes.InSync(javaPatience); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s: %q is nothing that can be done to a cluster", s.name, rest)
	}
}

func (s *javaScript) write(t *testing.T, rest string) {
	t.Helper()
	name, text, _ := strings.Cut(rest, " ")
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(s.fill([]string{text})[0] + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (s *javaScript) background(t *testing.T, mark, rest string) {
	t.Helper()
	name, rest, _ := strings.Cut(rest, " ")
	r := s.live[name]
	switch {
	case mark == "&":
		w := s.fill(javaWords(t, rest))
		s.live[name] = s.d.live(t, javaClass(w[0]), s.args(w)...)
		s.runs++
	case r == nil:
		t.Fatalf("nothing runs as %s", name)
	case mark == "&>":
		pattern, _ := javaPattern(s.bound, rest)
		r.until(pattern.String())
	default:
		r.stop()
		delete(s.live, name)
	}
}

// javaWords splits a line as a shell does, quotes included.
func javaWords(t *testing.T, line string) []string {
	t.Helper()
	var list []string
	var b strings.Builder
	in, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(c)
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == ' ' && in:
			list = append(list, b.String())
			b.Reset()
			in = false
		case c != ' ':
			in = true
			b.WriteRune(c)
		}
	}
	if quote != 0 {
		t.Fatalf("an open quote in %q", line)
	}
	if in {
		list = append(list, b.String())
	}
	if len(list) == 0 {
		t.Fatal("a run without a tool")
	}
	return list
}

// TestJavaScriptNotices holds the comparison itself: a suite that sees no
// difference proves nothing.
func TestJavaScriptNotices(t *testing.T) {
	for _, c := range []struct {
		name            string
		patterns, lines []string
		differs         bool
	}{
		{"equal", []string{"a b", "c"}, []string{"a b", "c"}, false},
		{"padding of the pattern", []string{"a   b"}, []string{"a b"}, false},
		{"another word", []string{"a b"}, []string{"a c"}, true},
		{"a line too many", []string{"a"}, []string{"a", "b"}, true},
		{"a line too few", []string{"a", "b"}, []string{"a"}, true},
		{"only a part", []string{"a"}, []string{"a b"}, true},
		{"a number", []string{"lag <#>"}, []string{"lag -1"}, false},
		{"no number", []string{"lag <#>"}, []string{"lag -"}, true},
		{"anything", []string{"a <*> z"}, []string{"a b c z"}, false},
		{"a name", []string{"id <x>", "again <x>"}, []string{"id q", "again q"}, false},
		{"a name that changes", []string{"id <x>", "again <x>"}, []string{"id q", "again r"}, true},
		{"a name twice in a line", []string{"<x> = <x>"}, []string{"q = r"}, true},
		{"dots are dots", []string{"a.b"}, []string{"axb"}, true},
	} {
		err := javaMatch(map[string]string{}, c.patterns, c.lines)
		if (err != nil) != c.differs {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	out := javaOrder(map[string]string{"x": "q"}, []string{"c", "<x>", "a", "b <y>"}, []string{"a", "b 1", "z", "q"})
	if want := []string{"q", "a", "b 1", "z"}; !slices.Equal(out, want) {
		t.Errorf("order: %q, want %q", out, want)
	}
	if got := javaWords(t, `a 'b c' d"e f"g ''`); !slices.Equal(got, []string{"a", "b c", "de fg", ""}) {
		t.Errorf("words: %q", got)
	}
}
