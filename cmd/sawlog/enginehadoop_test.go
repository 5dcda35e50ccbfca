package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/broker/brokertest"
	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/engine/hadoop"
	"sawlog/loader/sink"
)

// rooted is a sink of which only the root is asked.
type rooted struct {
	sink.Sink
	root string
}

func (r rooted) Root() string { return r.root }

// Brokers that are advertised on loopback are within reach of a YARN cluster
// whose servers are there, too, and of no other.
func TestHadoopReachesTheBrokers(t *testing.T) {
	b := brokertest.Start(t, nil)
	cluster, err := consumer.Dial(t.Context(), consumer.Config{Brokers: []string{b.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for _, c := range []struct {
		root, rm string
		code     int
	}{
		{"hdfs://nn1.example/x", "http://rm1.example:8088", output.Usage},
		{"hdfs://nn1.example/x", "http://127.0.0.1:8088", output.Usage},
		{"hdfs://localhost/x", "http://rm1.example:8088", output.Usage},
		{"hdfs://localhost/x", "http://127.0.0.1:8088", output.OK},
	} {
		d := &loader.Driver{Cluster: cluster, Sink: rooted{root: c.root}}
		run := &jobs.RunRule{Engine: jobs.EngineHadoop, Hadoop: jobs.Hadoop{ResourceManagers: []string{c.rm}, Queue: "etl"}}
		err := useEngine(t.Context(), d, run)
		if output.Code(err) != c.code {
			t.Errorf("%s and %s: %v", c.root, c.rm, err)
		}
		e, ok := d.Engine.(*hadoop.Engine)
		if ok != (c.code == output.OK) || ok && (e.Queue != "etl" || !d.Spread) {
			t.Errorf("%s and %s: %+v", c.root, c.rm, d.Engine)
		}
		if err != nil && (!strings.Contains(err.Error(), b.Addr()) || !strings.Contains(output.Advice(err), "ResourceManager")) {
			t.Errorf("%v, %q", err, output.Advice(err))
		}
	}
}

func TestDoctorHadoop(t *testing.T) {
	b := brokertest.Start(t, nil)
	t.Setenv("SAWLOG_BROKERS", b.Addr())
	write := func(run string) string {
		path := filepath.Join(t.TempDir(), "job.yaml")
		text := "name: j\nsource: {topics: [views]}\ntime: {field: ts}\noutput: {root: 'hdfs://127.0.0.1:1/views'}\nrun: " + run + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		run  string
		code int
		says string
	}{
		{"{}", output.Usage, "run.engine is local"},
		{"{engine: hadoop}", output.Usage, "resource_manager"},
		{"{engine: hadoop, hadoop: {resource_manager: 'http://127.0.0.1:1', command: [no-such-hadoop]}}", output.Usage, "no-such-hadoop"},
		{"{engine: hadoop, hadoop: {resource_manager: 'http://127.0.0.1:1', command: [sh]}}", output.Unavailable, "127.0.0.1:1"},
	} {
		code, stdout, stderr := invoke(t, "", "doctor", "hadoop", write(c.run), "-o", "json")
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("run: %s: exit code %d, want %d and %q: %s%s", c.run, code, c.code, c.says, stdout, stderr)
		}
	}
}
