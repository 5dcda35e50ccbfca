package compat

import (
	"path/filepath"
	"testing"

	"sawlog/broker/compat/peer"
)

// TestJavaClusterTools runs Kafka's tools for clusters against three brokers and
// compares every line they print, while brokers die and come back.
func TestJavaClusterTools(t *testing.T) {
	playClusterScripts(t, peer.SawlogCluster(t, 3, peer.Options{Topics: map[string]string{"group.initial.rebalance.delay.ms": "0"}}))
}

// TestJavaClusterToolsOnKafka runs the same scripts against three nodes of Apache
// Kafka: what they say is what the original does.
func TestJavaClusterToolsOnKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it tests the scripts, not Sawlog")
	}
	playClusterScripts(t, peer.KafkaCluster(t, 3, peer.Options{Args: []string{"group.initial.rebalance.delay.ms=0"}}))
}

// clusterScripts are in the order they are played in: the last takes a broker out
// of the cluster.
var clusterScripts = []string{"topics", "reassign", "elect", "quorum"}

func playClusterScripts(t *testing.T, c *peer.Cluster) {
	files, err := filepath.Glob("testdata/java-tools/cluster/*.tools")
	if err != nil || len(files) != len(clusterScripts) {
		t.Fatalf("%d scripts are there, %d are named: %v", len(files), len(clusterScripts), err)
	}
	d := startJava(t)
	runs := 0
	for _, name := range clusterScripts {
		t.Run(name, func(t *testing.T) {
			s := &javaScript{d: d, server: &peer.Server{Name: c.Name, Addr: c.Addr()}, nodes: c, dir: t.TempDir()}
			s.play(t, filepath.Join("testdata/java-tools/cluster", name+".tools"))
			runs += s.runs
		})
	}
	t.Logf("java tools on three brokers, %s: %d scripts passed; %d runs compared", c.Name, len(clusterScripts), runs)
}
