package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/jobs"
)

// examples are the job files that are handed out.
func examples(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../examples/jobs/*.yaml")
	if err != nil || len(list) < 10 {
		t.Fatalf("%d job files, %v", len(list), err)
	}
	return list
}

// TestExamplesAreValid: job validate takes every example, and each does what its
// name says.
func TestExamplesAreValid(t *testing.T) {
	shows := map[string]func(*jobs.Spec) bool{
		"json":          func(s *jobs.Spec) bool { return s.Decode.Value == "json" && s.Schema == nil },
		"declared":      func(s *jobs.Spec) bool { return s.Schema != nil },
		"csv":           func(s *jobs.Spec) bool { return s.Decode.Value == "csv" },
		"accesslog":     func(s *jobs.Spec) bool { return s.Decode.Pattern != "" },
		"avro-registry": func(s *jobs.Spec) bool { return s.Decode.Value == "avro" && s.Decode.Registry != nil },
		"protobuf":      func(s *jobs.Spec) bool { return s.Decode.Value == "protobuf" },
		"foreign-kafka": func(s *jobs.Spec) bool { return len(s.Source.Brokers) > 0 && s.Source.SASL != nil },
		"hdfs-kerberos": func(s *jobs.Spec) bool { return s.Output.Access.Keytab != "" },
		"kubernetes":    func(s *jobs.Spec) bool { return s.Run.Engine == jobs.EngineKubernetes },
		"hadoop":        func(s *jobs.Spec) bool { return s.Run.Engine == jobs.EngineHadoop },
	}
	list := examples(t)
	if code, stdout, stderr := invoke(t, "", append([]string{"job", "validate"}, list...)...); code != 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	names := map[string]string{}
	for _, path := range list {
		spec, err := readJob(path)
		if err != nil {
			t.Error(err)
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if show := shows[name]; show == nil || !show(spec) {
			t.Errorf("%s shows nothing of that name", path)
		}
		if other := names[spec.Name]; other != "" {
			t.Errorf("%s and %s are both job %s", path, other, spec.Name)
		}
		names[spec.Name] = path
	}
	for name := range shows {
		if _, err := os.Stat(filepath.Join("../../examples/jobs", name+".yaml")); err != nil {
			t.Error(err)
		}
	}
}

// TestExamplesLoad: what the examples say of records is right for such records:
// each is carried out on a few, and none is bad.
func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, lines := range map[string]string{
		"json":      `{"ts":"2026-11-29T14:00:00Z","user":"a"}` + "\n" + `{"ts":"2026-11-29T15:10:00Z","user":"b"}`,
		"declared":  `{"id":1,"ts":1795960800000,"amount":"12.50","customer":{"id":7,"email":"a@example.org"},"items":["x","y"],"debug":1}`,
		"csv":       "1795960800;d1;21.5;40\n1795964400;d2;;41",
		"accesslog": `127.0.0.1 - - [29/Nov/2026:14:05:03 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl/8"`,
	} {
		raw, err := os.ReadFile(filepath.Join("../../examples/jobs", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "/var/lib/sawlog", n.dir)
		job, input := filepath.Join(n.dir, name+".yaml"), filepath.Join(n.dir, name+".lines")
		spec, err := jobs.Parse([]byte(text), job)
		if err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{job: text, input: lines + "\n"} {
			if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		topic := spec.Source.Topics[0]
		n.run("topic", "create", topic)
		n.run("produce", topic, input)
		got := n.outcome(0, "run", job)
		if want := int64(strings.Count(lines, "\n") + 1); got.Rows != want || got.Quarantined != 0 {
			t.Errorf("%s: %d rows and %d bad, want %d and none", name, got.Rows, got.Quarantined, want)
		}
	}
}
