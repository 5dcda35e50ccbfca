package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands are all verbs, those that only group others too.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// roff is text as a page has it: a hyphen or a quote may stand escaped.
var roff = strings.NewReplacer(`\-`, "-", `\&`, "", `\(aq`, "'", `\\`, `\`, `\fB`, "", `\fR`, "", `\fP`, "", `\fI`, "")

// TestManual: every verb has a page with its sentence, each flag and the example.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	if code, _, stderr := invoke(t, "", "man", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	spaces := regexp.MustCompile(`\s+`)
	flat := func(text string) string { return spaces.ReplaceAllString(text, " ") }
	for _, c := range commands(tree()) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("no page: %v", err)
			continue
		}
		page := flat(roff.Replace(string(raw)))
		want := []string{c.Short, "Sep 2026"}
		for line := range strings.SplitSeq(c.Example, "\n") {
			want = append(want, flat(strings.TrimSpace(line)))
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { want = append(want, "--"+f.Name) })
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s has no %q", name, text)
			}
		}
	}
	again := t.TempDir()
	if code, _, stderr := invoke(t, "", "man", again); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if out, err := exec.Command("diff", "-r", dir, again).CombinedOutput(); err != nil {
		t.Errorf("pages written twice differ: %s", out)
	}
}

// TestManualIsRoff has groff read every page.
func TestManualIsRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		missing(t, "groff")
	}
	dir := t.TempDir()
	if code, _, stderr := invoke(t, "", "man", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 60 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	out, err := exec.Command(groff, append([]string{"-man", "-Tutf8", "-Kutf8", "-ww", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %.2000s", err, out)
	}
	code, page, stderr := invoke(t, "", "man")
	if code != 0 || !strings.HasPrefix(page, `.nh`) || !strings.Contains(page, "SAWLOG") {
		t.Errorf("the page of sawlog itself: exit code %d, %.100q %s", code, page, stderr)
	}
}

// TestCompletion: the script of every shell is one, bash can read its own, and
// what it asks the binary is answered.
func TestCompletion(t *testing.T) {
	for shell, begins := range map[string]string{"bash": "# bash completion V2 for sawlog", "zsh": "#compdef sawlog", "fish": "# fish completion for sawlog"} {
		code, script, stderr := invoke(t, "", "completion", shell)
		if code != 0 || !strings.HasPrefix(script, begins) {
			t.Errorf("%s: exit code %d, %.60q %s", shell, code, script, stderr)
		}
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v: %s", shell, err, out)
			}
		}
	}
	for _, c := range []struct{ asks, holds string }{
		{"job a", "apply"}, {"serve --he", "--help"}, {"completion ", "fish"}, {"ru", "runs"},
	} {
		code, answer, stderr := invoke(t, "", append([]string{"__complete"}, strings.Split(c.asks, " ")...)...)
		if code != 0 || !strings.Contains(answer, c.holds) {
			t.Errorf("%q is completed to %q (exit code %d %s)", c.asks, answer, code, stderr)
		}
	}
	if code, stdout, _ := invoke(t, "", "completion", "csh"); code != 2 || stdout != "" {
		t.Errorf("csh: exit code %d, %q", code, stdout)
	}
}
