package compat

import (
	"bufio"
	"path/filepath"
	"regexp"
	"testing"
	"time"

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
var clusterScripts = []string{"topics", "reassign", "throttle", "elect", "quorum"}

func playClusterScripts(t *testing.T, c *peer.Cluster) {
	files, err := filepath.Glob("testdata/java-tools/cluster/*.tools")
	if err != nil || len(files) != len(clusterScripts) {
		t.Fatalf("%d scripts are there, %d are named: %v", len(files), len(clusterScripts), err)
	}
	d := startJava(t)
	runs := 0
	t.Run("verification", func(t *testing.T) { replicasVerified(t, d, c) })
	for _, name := range clusterScripts {
		t.Run(name, func(t *testing.T) {
			s := &javaScript{d: d, server: &peer.Server{Name: c.Name, Addr: c.Addr()}, nodes: c, dir: t.TempDir()}
			s.play(t, filepath.Join("testdata/java-tools/cluster", name+".tools"))
			runs += s.runs
		})
	}
	t.Logf("java tools on three brokers, %s: %d scripts passed; %d runs compared", c.Name, len(clusterScripts), runs)
}

// replicasVerified has kafka-replica-verification read every replica, followers
// too, and compare their checksums. It goes on for ever and is a process of its
// own, since its threads outlive its main method.
func replicasVerified(t *testing.T, d *javaDriver, c *peer.Cluster) {
	const topic = "verified"
	s := &javaScript{d: d, server: &peer.Server{Name: c.Name, Addr: c.Addr()}, nodes: c, dir: t.TempDir()}
	s.run(t, `$ topics --create --topic verified --replica-assignment 1:2:3,2:3:1,3:1:2
> Created topic verified.
@ insync
$ console-producer --topic verified --sync --reader-property parse.key=true --reader-property key.separator=:
< a:1
< b:2
< c:3
< d:4
`)
	cmd := peer.JavaMain(t, "org.apache.kafka.tools.ReplicaVerificationTool", "--broker-list", c.Addr(), "--topics-include", topic,
		"--report-interval-ms", "200", "--max-wait-ms", "200", "--time", "-2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(javaPatience, func() { _ = cmd.Process.Kill() }) // ends the lines
	defer limit.Stop()
	verified, seen := regexp.MustCompile(`max lag is 0 for partition verified-\d at offset [1-9]\d* among 3 partitions$`), []string{}
	for lines := bufio.NewScanner(out); lines.Scan(); seen = append(seen, lines.Text()) {
		if verified.MatchString(lines.Text()) {
			_ = cmd.Process.Kill() // it never ends by itself
			_ = cmd.Wait()         // it was killed
			return
		}
	}
	t.Errorf("kafka-replica-verification: %v; it said %q", cmd.Wait(), seen[:min(len(seen), 20)])
}
