package kubernetes

import (
	"strings"
	"testing"
	"time"

	"sawlog/consumer"
	"sawlog/loader"
	"sawlog/loader/engine/kubernetes/kubetest"
	"sawlog/loader/sink"
)

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
		if wrong := kubetest.Check([]byte(text)); len(wrong) > 0 {
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
	if wrong := kubetest.Check([]byte(broken[:strings.Index(broken, "  template:")])); len(wrong) == 0 {
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
