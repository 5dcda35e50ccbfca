package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const monitoring = "../../monitoring"

// rules are the alert rules, as Prometheus reads them.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func alertRules(t *testing.T) rules {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(monitoring, "prometheus", "sawlog.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.Load(raw, &r, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	return r
}

// dashboard is what is held of one: what its panels and variables ask for.
type dashboard struct {
	UID    string
	Title  string
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Name  string
			Type  string
			Query any
		}
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(monitoring, "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// exported are the metrics of a scrape: their types and the labels they have.
type exported map[string]*metric

type metric struct {
	kind   string
	help   string
	labels map[string]bool
}

func scraped(t *testing.T, text []byte) exported {
	t.Helper()
	all := exported{}
	of := func(name string) *metric {
		if all[name] == nil {
			all[name] = &metric{labels: map[string]bool{}}
		}
		return all[name]
	}
	sample := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	label := regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP ") && len(words) == 4:
			of(words[2]).help = words[3]
		case strings.HasPrefix(line, "# TYPE ") && len(words) == 4:
			of(words[2]).kind = words[3]
		default:
			m := sample.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("no sample: %s", line)
				continue
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				of(m[1]).labels[l[1]] = true
			}
			of(m[1])
		}
	}
	return all
}

// of finds the metric a series belongs to.
func (e exported) of(name string) *metric {
	if m := e[name]; m != nil && m.kind != "" {
		return m
	}
	for _, end := range []string{"_sum", "_count", "_bucket"} {
		if base, ok := strings.CutSuffix(name, end); ok && e[base] != nil && e[base].kind != "" {
			return e[base]
		}
	}
	return nil
}

// declared reads in the API's source which metrics it tells, with their labels. A
// metric that is declared and not told is dead code.
func declared(t *testing.T) exported {
	t.Helper()
	files, err := filepath.Glob("api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	desc := regexp.MustCompile(`\bdesc\("(sawlog_\w+)", "(?:[^"\\]|\\.)*"((?:, "\w+")*)\)`)
	all := exported{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range desc.FindAllStringSubmatch(string(source), -1) {
			one := &metric{kind: "gauge", labels: map[string]bool{}}
			for _, label := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
				one.labels[label] = true
			}
			all[m[1]] = one
		}
	}
	return all
}

// holdMonitoring holds a scrape of a server with jobs and groups to what is
// promised of metrics, and the dashboards and alerts to the scrape.
func holdMonitoring(t *testing.T, scrape []byte) {
	have := scraped(t, scrape)
	for name := range have {
		m := have.of(name)
		if m == nil || m.help == "" {
			t.Errorf("%s has no TYPE or no HELP", name)
			continue
		}
		ours := strings.HasPrefix(name, "sawlog_")
		if ours && (m.kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, m.kind)
		}
		if found := regexp.MustCompile(`_(ms|millis|milliseconds|percent|kb|mb|minutes|hours_total)(_|$)`).FindString(name); ours && found != "" {
			t.Errorf("%s is not in a base unit", name)
		}
		for _, taken := range []string{"job", "instance"} { // Prometheus has them itself
			if m.labels[taken] {
				t.Errorf("%s has the label %s, which would become exported_%s", name, taken, taken)
			}
		}
	}
	// What only Prometheus has, and what the API tells of tickets, of a cluster and
	// of an open backfill alone.
	have["up"] = &metric{kind: "gauge", labels: map[string]bool{"job": true, "instance": true}}
	told := declared(t)
	for _, name := range []string{
		"sawlog_kerberos_ticket_expires_timestamp_seconds", "sawlog_kerberos_login_ok", "sawlog_follower_lag_records", "sawlog_job_backfill_items",
	} {
		switch {
		case told[name] == nil:
			t.Errorf("nobody tells %s", name)
		case have[name] == nil:
			have[name] = told[name]
		}
	}
	used := map[string]bool{}
	for _, g := range alertRules(t).Groups {
		for _, r := range g.Rules {
			if err := have.hold(r.Expr, used); err != nil {
				t.Errorf("alert %s: %v", r.Alert, err)
			}
		}
	}
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if err := have.hold(target.Expr, used); err != nil {
					t.Errorf("%s: panel %q: %v", file, p.Title, err)
				}
			}
		}
		for _, v := range d.Templating.List {
			of, ok := v.Query.(map[string]any)
			if !ok {
				continue
			}
			m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(fmt.Sprint(of["query"]))
			if m == nil || have.of(m[1]) == nil || m[2] != "instance" && !have.of(m[1]).labels[m[2]] {
				t.Errorf("%s: variable %s asks for %v", file, v.Name, v.Query)
			}
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "sawlog_job_") && !used[name] {
			t.Errorf("nothing shows %s", name)
		}
	}
}

// hold checks that an expression reads, and that every metric and label in it is
// there.
func (e exported) hold(expr string, used map[string]bool) error {
	expr = regexp.MustCompile(`\$__rate_interval`).ReplaceAllString(expr, "5m")
	tokens, err := promTokens(expr)
	if err != nil {
		return err
	}
	var last *metric // the labels of a matcher are of it
	depth, braces, grouping := 0, false, false
	var grouped []string
	var names []*metric
	for i, tok := range tokens {
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case tok == "{":
			braces = true
		case tok == "}":
			braces = false
		case tok == "(":
			depth++
			grouping = i > 0 && slices.Contains([]string{"by", "on", "without"}, tokens[i-1])
		case tok == ")":
			depth--
			grouping = false
		case !regexp.MustCompile(`^[a-zA-Z_]`).MatchString(tok):
		case braces && strings.Contains("= != =~ !~", next):
			if last == nil || !last.labels[tok] && tok != "instance" && tok != "job" {
				return fmt.Errorf("label %s is not there: %s", tok, expr)
			}
		case grouping:
			grouped = append(grouped, tok)
		case next == "(" || next == "by" || next == "without" || slices.Contains(promWords, tok):
			if next == "(" && !slices.Contains(promFunctions, tok) && !slices.Contains(promWords, tok) {
				return fmt.Errorf("%s is no function that is known here: %s", tok, expr)
			}
		default:
			if last = e.of(tok); last == nil {
				return fmt.Errorf("metric %s is not there: %s", tok, expr)
			}
			used[tok] = true
			names = append(names, last)
		}
		if depth < 0 {
			return fmt.Errorf("a bracket too much: %s", expr)
		}
	}
	if depth != 0 || braces || len(names) == 0 {
		return fmt.Errorf("it doesn't end, or asks for nothing: %s", expr)
	}
	for _, name := range grouped {
		if !slices.ContainsFunc(names, func(m *metric) bool { return m.labels[name] }) && name != "instance" {
			return fmt.Errorf("no metric of it has the label %s: %s", name, expr)
		}
	}
	return nil
}

var (
	promWords     = []string{"by", "on", "without", "and", "or", "unless", "bool", "ignoring", "group_left"}
	promFunctions = []string{"sum", "max", "min", "count", "avg", "topk", "rate", "increase", "deriv", "time", "vector"}
)

// promTokens splits an expression of PromQL.
func promTokens(expr string) ([]string, error) {
	token := regexp.MustCompile(`^(?:\s+|"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|\[[0-9]+[smhd]\]|[0-9]+(?:\.[0-9]+)?|=~|!~|!=|==|>=|<=|[-+*/%<>={}(),])`)
	var all []string
	for rest := expr; rest != ""; {
		found := token.FindString(rest)
		if found == "" {
			return nil, fmt.Errorf("at %q: %s", rest[:min(len(rest), 20)], expr)
		}
		if rest = rest[len(found):]; strings.TrimSpace(found) != "" {
			all = append(all, found)
		}
	}
	return all, nil
}

// TestExpressionsAreHeld: the check of expressions notices what is wrong.
func TestExpressionsAreHeld(t *testing.T) {
	have := exported{"a_total": {kind: "counter", labels: map[string]bool{"x": true}}, "b": {kind: "gauge", labels: map[string]bool{}}}
	for expr, says := range map[string]string{
		`sum by (x, instance) (rate(a_total{x=~"v|w", instance="i"}[5m])) / b > 0.5`: "",
		`a_totl`:                    "metric a_totl",
		`a_total{y="1"}`:            "label y",
		`sum by (y) (a_total)`:      "the label y",
		`summe(a_total)`:            "summe is no function",
		`sum(a_total`:               "doesn't end",
		`a_total)`:                  "a bracket too much",
		`a_total{x="1"`:             "doesn't end",
		`1 > 2`:                     "asks for nothing",
		`a_total & b`:               "at",
		`rate(a_total[five])`:       "at",
		`max(b) > 0 and on (x) (b)`: "the label x",
	} {
		err := have.hold(expr, map[string]bool{})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", expr, err, says)
		}
	}
}

// TestAlertsSayWhatToDo: each alert has a name of its own, a severity, a line and
// a runbook, whose commands are there.
func TestAlertsSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range alertRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] {
				t.Errorf("group %s: alert %q: no name of its own", g.Name, r.Alert)
			}
			seen[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || len(r.Annotations["runbook"]) < 60 {
				t.Errorf("alert %s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
			if r.For != "" && !regexp.MustCompile(`^[0-9]+[smhd]$`).MatchString(r.For) {
				t.Errorf("alert %s: for %q", r.Alert, r.For)
			}
			for _, text := range r.Annotations {
				holdCommands(t, r.Alert, text)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d alerts", len(seen))
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(promtool, "check", "rules", filepath.Join(monitoring, "prometheus", "sawlog.rules.yaml")).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v: %s", err, out)
		}
	}
}

// holdCommands checks that the command lines in a text are verbs with their
// flags.
func holdCommands(t *testing.T, where, text string) {
	t.Helper()
	for _, line := range regexp.MustCompile(`sawlog ((?:[a-z]+ ?)+)((?:[^.,;:()]|\.[A-Za-z])*)`).FindAllStringSubmatch(text, -1) {
		verb, rest, err := tree().Find(strings.Fields(line[1]))
		if err != nil || verb.HasSubCommands() && len(rest) > 0 && !strings.Contains(verb.Use, " ") || verb.Parent() == nil {
			t.Errorf("%s: no verb in %q", where, line[0])
			continue
		}
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(line[2], -1) {
			if verb.Flags().Lookup(flag[1]) == nil && verb.InheritedFlags().Lookup(flag[1]) == nil {
				t.Errorf("%s: %s has no --%s: %q", where, verb.CommandPath(), flag[1], line[0])
			}
		}
	}
}

// TestDashboardsAreLaidOut: panels have titles and lie beside each other, not
// over each other.
func TestDashboardsAreLaidOut(t *testing.T) {
	for file, d := range dashboards(t) {
		if !strings.HasPrefix(d.UID, "sawlog-") || d.Title == "" || len(d.Panels) < 8 {
			t.Errorf("%s: %q, %q, %d panels", file, d.UID, d.Title, len(d.Panels))
		}
		ids := map[int]bool{}
		for i, p := range d.Panels {
			at := p.GridPos
			if p.Title == "" || ids[p.ID] || at.W < 1 || at.H < 1 || at.X+at.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q at %+v", file, p.ID, p.Title, at)
			}
			ids[p.ID] = true
			for _, q := range d.Panels[:i] {
				other := q.GridPos
				if at.X < other.X+other.W && other.X < at.X+at.W && at.Y < other.Y+other.H && other.Y < at.Y+at.H {
					t.Errorf("%s: %q lies over %q", file, p.Title, q.Title)
				}
			}
		}
	}
}
