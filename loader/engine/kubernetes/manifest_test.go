package kubernetes

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/consumer"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// rule is one line of testdata/job-v1.txt.
type rule struct {
	kind     string
	required bool
}

func rules(t *testing.T) map[string]rule {
	raw, err := os.ReadFile("testdata/job-v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]rule{}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, kind, _ := strings.Cut(line, " ")
		all[strings.TrimSuffix(name, "*")] = rule{kind, strings.HasSuffix(name, "*")}
	}
	return all
}

// checkManifest says what of a manifest the published types would refuse.
func checkManifest(t *testing.T, text []byte) (wrong []string) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return []string{err.Error()}
	}
	all := rules(t)
	has := map[string]int{} // how often a path, without indexes, is there
	var visit func(path string, v any)
	visit = func(path string, v any) {
		has[path]++
		if r, ok := all[path+"{}"]; ok {
			m, _ := v.(map[string]any)
			for _, e := range m {
				if !fits(r.kind, e) {
					wrong = append(wrong, fmt.Sprintf("%s: %v is no %s", path, e, r.kind))
				}
			}
			return
		}
		if r, ok := all[path]; ok {
			if !fits(r.kind, v) {
				wrong = append(wrong, fmt.Sprintf("%s: %v is no %s", path, v, r.kind))
			}
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				visit(strings.TrimPrefix(path+"."+key, "."), e)
			}
		case []any:
			for _, e := range v {
				visit(path+"[]", e)
			}
		default:
			wrong = append(wrong, fmt.Sprintf("unknown field %q", path))
		}
	}
	visit("", tree)
	for path, r := range all {
		parent := ""
		if i := strings.LastIndexByte(path, '.'); i > 0 {
			parent = path[:i]
		}
		if r.required && has[path] < has[parent] {
			wrong = append(wrong, "missing "+path)
		}
	}
	slices.Sort(wrong)
	return wrong
}

var (
	dnsName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	label    = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	quantity = regexp.MustCompile(`^[0-9]+([kMGT]i?|m)?$`)
)

func fits(kind string, v any) bool {
	text, isText := v.(string)
	n, isInt := v.(int)
	switch {
	case kind[0] == '=':
		return isText && slices.Contains(strings.Split(kind[1:], ","), text)
	case kind == "int":
		return isInt && n >= 0
	case kind == "bool":
		_, ok := v.(bool)
		return ok
	case kind == "dns":
		return isText && dnsName.MatchString(text)
	case kind == "label":
		return isText && label.MatchString(text)
	case kind == "quantity":
		return isInt || isText && quantity.MatchString(text)
	case kind == "empty":
		m, ok := v.(map[string]any)
		return ok && len(m) == 0
	default:
		return isText
	}
}

func rendered(t *testing.T, s Settings, w loader.Work) (string, string) {
	t.Helper()
	list := &loader.TaskList{Sawlog: "tasks/1", Splits: w.Splits, Task: loader.ExecSpec{
		V: 1, Root: w.Root, Access: w.Access, PlanID: w.PlanID, Source: w.Source, Memory: w.Memory, Timeout: w.Timeout,
	}}
	name, text, err := render(s, &w, list)
	if err != nil {
		t.Fatal(err)
	}
	return name, string(text)
}

func TestManifestFitsThePublishedTypes(t *testing.T) {
	work := loader.Work{
		Root: "hdfs://nn1:8020/warehouse/views", PlanID: "0123456789abcdef", Plan: &loader.Plan{Job: `odd "job": name`}, Splits: []int{0, 3, 4},
		Access: sink.Access{Keytab: "/etc/sawlog/etl.keytab", Principal: "etl@EX"}, Parallelism: 8, Memory: 512 << 20, Retries: 3, Timeout: 50 * time.Minute,
		Source: consumer.Config{Brokers: []string{"k1:9092"}, SASL: "PLAIN", User: "u", PasswordFile: "/etc/sawlog/kafka/password"},
	}
	full := Settings{
		Image: "registry.example/sawlog:1.2", Command: []string{"/bin/sawlog"}, ServiceAccount: "loads", HostNetwork: true,
		Mounts: []Mount{{Secret: "kafka", Path: "/etc/sawlog/kafka"}, {ConfigMap: "hadoop-conf", Path: "/etc/hadoop"}},
	}
	bare := Settings{Image: "sawlog", Command: []string{"sawlog"}}
	names := map[string]bool{}
	for _, s := range []Settings{full, bare} {
		name, text := rendered(t, s, work)
		names[name] = true
		if wrong := checkManifest(t, []byte(text)); len(wrong) > 0 {
			t.Errorf("%v in\n%s", wrong, text)
		}
		for _, want := range []string{"completions: 3", "parallelism: 3", "backoffLimitPerIndex: 3", "values: [3, 4, 5, 8]", "activeDeadlineSeconds: 3060", "memory: 671088640"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	again, _ := rendered(t, full, work)
	work.Splits = []int{0}
	other, _ := rendered(t, full, work)
	if len(names) != 2 || !names[again] || names[other] {
		t.Errorf("names don't follow the content: %v %s %s", names, again, other)
	}
	broken := strings.Replace(jobText, "completionMode: Indexed", "completionsMode: Indexed", 1)
	if wrong := checkManifest(t, []byte(broken[:strings.Index(broken, "  template:")])); len(wrong) == 0 {
		t.Error("an unknown field passes")
	}
}

// The longest list there is stays within what a pod's annotations may hold.
func TestLongTaskList(t *testing.T) {
	work := loader.Work{Root: "hdfs://nn1:8020/" + strings.Repeat("x", 200), PlanID: "0123456789abcdef", Plan: &loader.Plan{Job: "j"}, Memory: 1 << 29}
	for i := range mostTasks {
		work.Splits = append(work.Splits, 10_000_000+2*i)
	}
	if _, text := rendered(t, Settings{Image: "i", Command: []string{"sawlog"}}, work); len(text) > 200<<10 {
		t.Errorf("%d bytes", len(text))
	}
}
