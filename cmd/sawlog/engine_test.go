package main

import (
	"strings"
	"testing"
	"time"

	"sawlog/broker/brokertest"
	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/engine/kubernetes"
)

// Brokers that are advertised on loopback are out of the reach of pods, unless
// these share the network of the one machine.
func TestPodsReachTheBrokers(t *testing.T) {
	b := brokertest.Start(t, nil)
	cluster, err := consumer.Dial(t.Context(), consumer.Config{Brokers: []string{b.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	d := &loader.Driver{Cluster: cluster, Sink: rooted{root: "hdfs://nn1.example/x"}}
	run := &jobs.RunRule{Engine: jobs.EngineKubernetes, Kubernetes: jobs.Kubernetes{Image: "sawlog:1", Mounts: []jobs.Mount{{Secret: "s", Path: "/p"}}}}
	err = useEngine(t.Context(), d, run)
	if output.Code(err) != output.Usage || !strings.Contains(err.Error(), b.Addr()) || !strings.Contains(output.Advice(err), "--advertise") || d.Engine != nil {
		t.Errorf("%v, %q", err, output.Advice(err))
	}
	run.Kubernetes.HostNetwork = true
	if err := useEngine(t.Context(), d, run); err != nil {
		t.Fatal(err)
	}
	if e, ok := d.Engine.(*kubernetes.Engine); !ok || e.Image != "sawlog:1" || e.Mounts[0].Secret != "s" || !d.Spread {
		t.Errorf("%+v", d)
	}
	local := &loader.Driver{Cluster: cluster}
	if err := useEngine(t.Context(), local, &jobs.RunRule{Engine: jobs.EngineLocal}); err != nil || local.Engine != nil {
		t.Errorf("%v %v", local.Engine, err)
	}
}
