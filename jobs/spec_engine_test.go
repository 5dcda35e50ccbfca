package jobs

import (
	"strings"
	"testing"
)

const onKubernetes = `
name: j
source: {topics: [views], brokers: ['k1.example:9092']}
decode: {value: json}
time: {field: ts, format: rfc3339}
output: {root: 'hdfs://nn1.example:8020/warehouse/views'}
run: {engine: kubernetes, kubernetes: {image: 'sawlog:1', mounts: [{secret: kafka, path: /etc/sawlog/kafka}]}}
`

func TestEngines(t *testing.T) {
	s, err := Parse([]byte(onKubernetes), "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if k := s.Run.Kubernetes; s.Run.Engine != EngineKubernetes || k.Image != "sawlog:1" || len(k.Mounts) != 1 || k.Mounts[0].Secret != "kafka" {
		t.Errorf("%+v", s.Run)
	}
	text, err := s.Explain()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, "explained.yaml")
	if err != nil || again.Run.Kubernetes.Image != "sawlog:1" || again.Run.Kubernetes.Mounts[0] != s.Run.Kubernetes.Mounts[0] {
		t.Errorf("explained, it is another job: %v\n%s", err, text)
	}
	for _, c := range []struct{ old, new, says string }{
		{"engine: kubernetes", "engine: hadoop", "hadoop needs the ResourceManager's web address"},
		{"engine: kubernetes", "engine: kubernets", "kubernetes"},
		{"engine: kubernetes", "engine: local", "is for engine: kubernetes"},
		{"image: 'sawlog:1', ", "", "image"},
		{"'hdfs://nn1.example:8020/warehouse/views'", "'file:///tmp/x'", "hdfs://"},
		{"nn1.example:8020", "127.0.0.1:8020", "NameNode on loopback (127.0.0.1:8020)"},
		{"nn1.example:8020", "localhost", "NameNode on loopback (localhost)"},
		{"k1.example:9092", "[::1]:9092", "broker on loopback ([::1]:9092)"},
		{"secret: kafka, ", "", "secret: NAME"},
		{"path: /etc/sawlog/kafka", "path: /sawlog/tasks", "outside of /sawlog"},
		{"path: /etc/sawlog/kafka", "path: here", "absolute"},
	} {
		_, err := Parse([]byte(strings.Replace(onKubernetes, c.old, c.new, 1)), "job.yaml")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s instead of %s: %v, want %q", c.new, c.old, err, c.says)
		}
	}
	one := strings.NewReplacer("nn1.example", "127.0.0.1", "k1.example", "127.0.0.1", "image:", "host_network: true, image:").Replace(onKubernetes)
	if _, err := Parse([]byte(one), "job.yaml"); err != nil {
		t.Errorf("one machine: %v", err)
	}
}
