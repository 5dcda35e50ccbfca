package compat

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// difference is one field in which the two brokers differ.
type difference struct {
	scenario, api string
	line, nth     int // of the step, and of its requests
	version       int16
	path          string
	kafka, sawlog string
}

// compare lists the fields in which two answers differ, in order. Of an element
// or array that only one has, its absence is told and nothing of what is in it.
func compare(kafka, sawlog answer) []difference {
	paths := slices.Collect(maps.Keys(kafka))
	for p := range sawlog {
		if _, ok := kafka[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	var all []difference
	missing := "\x00"
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, missing); ok && rest != "" && strings.ContainsRune(".[", rune(rest[0])) {
			continue
		}
		k, inKafka := kafka[p]
		s, inSawlog := sawlog[p]
		if !inKafka {
			k = "(absent)"
		}
		if !inSawlog {
			s = "(absent)"
		}
		if k != s {
			missing = p
			all = append(all, difference{path: p, kafka: k, sawlog: s})
		}
	}
	return all
}

// exception is a difference that stays, and why.
type exception struct {
	line                        int
	scenario, api, path, reason string
	used                        bool
}

// exceptions is the table of testdata/differ/exceptions.txt:
//
//	scenario | api | path | reason
//
// A * in one of the first three stands for anything. A path may go on with
// ": KAFKA / SAWLOG", to excuse these values only.
type exceptions struct {
	mu   sync.Mutex
	rows []*exception
}

// mostExceptions is how much may differ for good.
const mostExceptions = 30

func readExceptions(t *testing.T, file string) *exceptions {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	x := &exceptions{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		cells := strings.SplitN(text, "|", 4)
		if len(cells) != 4 || strings.TrimSpace(cells[3]) == "" {
			t.Fatalf("%s:%d: want scenario | api | path | reason", filepath.Base(file), n)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		x.rows = append(x.rows, &exception{line: n, scenario: cells[0], api: cells[1], path: cells[2], reason: cells[3]})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(x.rows) > mostExceptions {
		t.Errorf("%d exceptions, %d are allowed", len(x.rows), mostExceptions)
	}
	return x
}

// covers tells whether a difference is a known one.
func (x *exceptions) covers(d difference) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := false
	for _, e := range x.rows {
		what := d.path
		if strings.Contains(e.path, " / ") {
			what += ": " + d.kafka + " / " + d.sawlog
		}
		if like(e.scenario, d.scenario) && like(e.api, d.api) && like(e.path, what) {
			e.used, found = true, true
		}
	}
	return found
}

func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(text)
}

// report writes differences of one step once, with the versions they showed at.
func report(t *testing.T, all []difference) {
	t.Helper()
	type place struct {
		line, nth           int
		api                 string
		path, kafka, sawlog string
	}
	var order []place
	versions := map[place][]string{}
	for _, d := range all {
		p := place{d.line, d.nth, d.api, d.path, d.kafka, d.sawlog}
		if _, ok := versions[p]; !ok {
			order = append(order, p)
		}
		versions[p] = append(versions[p], fmt.Sprint(d.version))
	}
	for _, p := range order {
		v := versions[p]
		if len(v) > 2 {
			v = []string{v[0] + "…" + v[len(v)-1]}
		}
		t.Errorf("line %d+%d: %s v%s: %s: kafka %s, sawlog %s", p.line, p.nth, p.api, strings.Join(v, ","), p.path, p.kafka, p.sawlog)
	}
}
