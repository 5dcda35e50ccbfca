package compat

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A scenario is a text file: steps in order, each a line that begins with a
// verb, some with a body that ends at an empty line. Lines that begin with #
// are comments.
//
//	topic NAME [partitions=N] [CONFIG=VALUE…]  make a topic and wait for it; its id is ${NAME}
//	groups NAME…               wait until the coordinators of these groups answer
//	ask API vN[-M] [on CONN] [until PATH=VALUE] [decode N]
//	    body: one JSON value or more, each a request by kmsg's field names; each
//	    is sent at each version, and the answers of both brokers are compared.
//	    until: ask again until each broker's answer has the value there.
//	    decode: the version of the answer, when it isn't that of the request.
//	send API vN [on CONN]      requests whose answers aren't read
//	await CONN…                the next answer to what was sent there, compared
//	mute API vN[-M] [on CONN]  as ask, for requests that have no answer
//	raw [on CONN]              body: hexadecimal bytes, sent as they are
//	save NAME PATH             keeps a value of the last answer, for ${NAME}
//	set NAME TEXT              the same for a text
//	close CONN                 closes a connection, as a client that dies does
//	restart                    stops both brokers and starts them again; alone only
//	later                      waits until the clocks of both brokers have moved on
//	alone                      (first line) nothing else runs beside this scenario
//
// ${NAME} stands for a text, ${NAME+N} for a number plus N; ${v} is the version,
// ${t0} the time an hour before the start of the test in milliseconds.
type script struct {
	name  string
	alone bool
	steps []step
}

type step struct {
	line     int
	nth      int // of its requests, the one under way
	verb     string
	api      string
	min, max int16
	conn     string
	until    string // PATH=VALUE
	decode   int16  // -1: as the request
	args     []string
	body     string
}

// versionRange is v3 or v3-13; v-1 is a version, too.
var versionRange = regexp.MustCompile(`^v(-?\d+)(?:-(\d+))?$`)

// scripts reads all scenarios of a folder.
func scripts(t *testing.T, dir string) []*script {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []*script
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if name == "exceptions" {
			continue
		}
		s, err := readScript(name, file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	return all
}

func readScript(name, file string) (*script, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	s := &script{name: name}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if text == "alone" {
			s.alone = true
			continue
		}
		st, err := parseStep(n, text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if hasBody(st.verb) {
			for lines.Scan() {
				n++
				line := strings.TrimSpace(lines.Text())
				if line == "" {
					break
				}
				if !strings.HasPrefix(line, "#") {
					st.body += line + "\n"
				}
			}
		}
		s.steps = append(s.steps, st)
	}
	return s, lines.Err()
}

func hasBody(verb string) bool {
	switch verb {
	case "ask", "send", "mute", "raw":
		return true
	}
	return false
}

func parseStep(line int, text string) (step, error) {
	words := strings.Fields(text)
	st := step{line: line, verb: words[0], conn: "main", decode: -1}
	words = words[1:]
	switch st.verb {
	case "restart", "later":
		return st, nil
	case "topic", "groups", "save", "await", "close":
		st.args = words
		if len(words) == 0 || st.verb == "save" && len(words) != 2 {
			return st, fmt.Errorf("%s: words are missing", st.verb)
		}
		return st, nil
	case "set":
		name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, "set")), " ")
		st.args = []string{name, value}
		if !ok {
			return st, fmt.Errorf("set %s: to what", name)
		}
		return st, nil
	case "ask", "send", "mute":
		if len(words) < 2 {
			return st, fmt.Errorf("%s: want an API and versions", st.verb)
		}
		st.api = words[0]
		m := versionRange.FindStringSubmatch(words[1])
		if m == nil {
			return st, fmt.Errorf("%q is no range of versions", words[1])
		}
		from, err := strconv.ParseInt(m[1], 10, 16)
		if err != nil {
			return st, err
		}
		st.min, st.max = int16(from), int16(from)
		if m[2] != "" {
			to, err := strconv.ParseInt(m[2], 10, 16)
			if err != nil {
				return st, err
			}
			st.max = int16(to)
		}
		words = words[2:]
	case "raw":
	default:
		return st, fmt.Errorf("what is %q", st.verb)
	}
	return st, st.options(words)
}

// options reads the pairs after a verb.
func (st *step) options(words []string) error {
	if len(words)%2 != 0 {
		return fmt.Errorf("an odd word among %q", words)
	}
	for ; len(words) > 0; words = words[2:] {
		switch words[0] {
		case "on":
			st.conn = words[1]
		case "until":
			st.until = words[1]
		case "decode":
			n, err := strconv.ParseInt(words[1], 10, 16)
			if err != nil {
				return err
			}
			st.decode = int16(n)
		default:
			return fmt.Errorf("what is %q", words[0])
		}
	}
	return nil
}

// variable is ${name} or ${name+number}; the number may be negative.
var variable = regexp.MustCompile(`\$\{([\w.-]+)(?:\+(-?\d+))?\}`)

// expand puts the values of variables into a text; a value may hold variables.
func expand(text string, vars map[string]string) (string, error) {
	var wrong error
	for range 10 {
		if !strings.Contains(text, "${") {
			return text, wrong
		}
		text = variable.ReplaceAllStringFunc(text, func(m string) string {
			parts := variable.FindStringSubmatch(m)
			value, ok := vars[parts[1]]
			if !ok {
				wrong = fmt.Errorf("no variable %s", parts[1])
				return ""
			}
			if parts[2] == "" {
				return value
			}
			base, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				wrong = fmt.Errorf("%s is no number: %w", m, err)
				return ""
			}
			plus, err := strconv.ParseInt(parts[2], 10, 64)
			if err != nil {
				wrong = err
			}
			return strconv.FormatInt(base+plus, 10)
		})
		if wrong != nil {
			return "", wrong
		}
	}
	return "", fmt.Errorf("variables within variables without end: %.100s", text)
}
