package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/jobs"
)

// fenced are the blocks of a text in a language, "" being those without one.
func fenced(t *testing.T, path, language string) (blocks []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open, of, block := false, "", ""
	for line := range strings.Lines(string(raw)) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open:
			if of == language {
				blocks = append(blocks, block)
			}
			open = false
		case isFence:
			open, of, block = true, fence, ""
		case open:
			block += line
		}
	}
	return blocks
}

// TestReadmeLines: every line of the README that runs sawlog is one it
// understands, and every job in it is valid.
func TestReadmeLines(t *testing.T) {
	checked := 0
	for _, block := range append(fenced(t, "../../README.md", ""), fenced(t, "../../README.md", "sh")...) {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " #")
			words := shellWords(strings.TrimSpace(line))
			if len(words) == 0 || words[0] != "sawlog" {
				continue
			}
			checked++
			if err := understood(words[1:]); err != nil {
				t.Errorf("%q: %v", strings.TrimSpace(line), err)
			}
		}
	}
	whole := 0
	for _, block := range fenced(t, "../../README.md", "yaml") {
		if !strings.HasPrefix(block, "name:") {
			continue // a part of a job
		}
		whole++
		if _, err := jobs.Parse([]byte(block), "README.md"); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
	if checked < 30 || whole < 2 {
		t.Errorf("only %d lines and %d jobs were found", checked, whole)
	}
}

// namespace is how a network of its own is had, where the ports that the README
// names are free: as root, or as the root of a namespace.
func namespace(t *testing.T) []string {
	t.Helper()
	for _, how := range [][]string{{"unshare", "-n"}, {"unshare", "-rn"}} {
		if exec.Command(how[0], append(how[1:], "ip", "link", "set", "lo", "up")...).Run() == nil {
			return how
		}
	}
	missing(t, "a network namespace (unshare, ip and the right to it)")
	return nil
}

// duckdbShim is DuckDB's command line where only its Python package is: -c SQL.
const duckdbShim = "#!/bin/sh\nexec python3 -c 'import duckdb, sys; print(duckdb.sql(sys.argv[1]))' \"$2\"\n"

// TestReadmeFirstTenMinutes runs the blocks of the README as they stand, beside a
// demo: what a newcomer types works, and in the end all clicks are there.
func TestReadmeFirstTenMinutes(t *testing.T) {
	t.Parallel()
	needPython(t)
	if _, err := exec.LookPath("kcat"); err != nil {
		missing(t, "kcat")
	}
	how := namespace(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "sawlog")); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("duckdb"); err != nil {
		if err := os.WriteFile(filepath.Join(bin, "duckdb"), []byte(duckdbShim), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var script strings.Builder
	fmt.Fprint(&script, "set -e\nip link set lo up\n",
		"bin/sawlog demo --rate 500 2>demo.log & demo=$!\ntrap 'kill $demo; wait $demo || true' EXIT\n",
		"for i in $(seq 600); do grep -q '^try:' demo.log && break; sleep 0.1; done\ngrep -q '^try:' demo.log || { cat demo.log; exit 1; }\n")
	for _, block := range fenced(t, "../../README.md", "sh") {
		script.WriteString(block)
	}
	c := exec.Command(how[0], append(how[1:], "bash", "-c", script.String())...)
	c.Dir, c.Env = dir, append(os.Environ(), "NO_COLOR=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"committed", "exit code 8", "restored"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it never said %q:\n%s", want, out)
		}
	}
	for root, least := range map[string]int64{"warehouse/clicks": 3000, "replayed": 1} {
		code, stdout, stderr := invoke(t, "", "out", "count", "--root", filepath.Join(dir, "first", root), "-o", "json")
		var count struct{ Rows int64 }
		if err := json.Unmarshal([]byte(stdout), &count); code != 0 || err != nil || count.Rows < least {
			t.Errorf("%s: %d rows, want %d: exit code %d, %v %s", root, count.Rows, least, code, err, stderr)
		}
	}
}
