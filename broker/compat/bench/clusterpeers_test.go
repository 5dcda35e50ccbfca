package bench

import (
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// replicas is how many brokers a cluster has, each with a replica of all.
const replicas = 3

// replicatedLoads are the rows of the table for clusters.
func replicatedLoads() []load {
	var all []load
	for _, driver := range []string{"kgo", "replay"} {
		for _, size := range []int{100, 1024} {
			for _, codec := range []string{"none", "zstd"} {
				all = append(all, load{driver, size, codec, 12, "never"})
			}
		}
	}
	return all
}

// TestClusterPeers measures three Sawlog processes against three of Apache
// Kafka: acks=all with a replica of every partition on each. CPU time is the sum
// over a cluster's processes, which share the machine's cores with the client.
// It judges no more than TestPeers does.
func TestClusterPeers(t *testing.T) {
	b := newBench(t, replicatedLoads(), []load{{"kgo", 100, "zstd", 12, "never"}, {"replay", 1024, "none", 12, "never"}})
	if *base != "" {
		b.kafka = startCluster(t, peer.SawlogCluster, replicas, peer.Options{Binary: *base})
		b.kafka.Name, b.results.Peer = "base", "three brokers of "+*base
	} else {
		b.kafka = startCluster(t, peer.KafkaCluster, replicas, peer.Options{Heap: "1g", Topics: map[string]string{"file.delete.delay.ms": "1000"}})
		b.results.Peer = "Apache Kafka of testdata/java/pom.xml, KRaft, three nodes, heap 1g each as in its start script"
	}
	b.sawlog = startCluster(t, peer.SawlogCluster, replicas, peer.Options{Binary: *ours})
	defer b.report(t) // what there is, also when something fails
	b.warmUpClusters(t)
	for part := range strings.SplitSeq(*parts, ",") {
		switch part {
		case "cpu":
			b.replicatedPairs(t)
		case "latency":
			b.ackTails(t)
		}
	}
}

// warmUpClusters loads both until the compilers of Java's machines had their
// time: all three have to be as fast as they get.
func (b *bench) warmUpClusters(t *testing.T) {
	t.Helper()
	each := time.Second / 2
	if *rounds > 0 {
		each = *warm
	}
	if each == 0 {
		return
	}
	for _, l := range replicatedLoads() {
		for _, s := range b.order(0) {
			t.Logf("warm-up: %-6s %-36s %s", s.Name, l, s.replicated(t, l, b.topic(), each))
		}
	}
}

// replicatedPairs measures CPU time and peak rates.
func (b *bench) replicatedPairs(t *testing.T) {
	t.Helper()
	for _, l := range b.loads {
		b.results.Rows = append(b.results.Rows, &row{Load: l, Op: "produce"})
	}
	for round := range b.rounds {
		for i, l := range b.loads {
			var p pair
			for _, s := range b.order(round + i) {
				r := s.replicated(t, l, b.topic(), b.seconds)
				if s == b.sawlog {
					p.Sawlog = r
				} else {
					p.Kafka = r
				}
			}
			t.Logf("round %d: %-36s %s", round, l, p)
			b.results.Rows[i].Pairs = append(b.results.Rows[i].Pairs, p)
		}
	}
}

// leastBatches is how many are sent in a second at least: a machine that is busy
// with other things may let a cluster do next to nothing while its peak is taken.
const leastBatches = 20

// ackTails measures how long acknowledgements take at a share of the slower
// one's peak.
func (b *bench) ackTails(t *testing.T) {
	t.Helper()
	for _, l := range b.loads {
		if l.Driver != "replay" {
			continue
		}
		var slowest float64
		for round := range 2 {
			for _, s := range b.order(round) {
				rate := s.ackRate(t, l, b.topic(), b.seconds)
				t.Logf("peak of single batches: %-6s %s: %.1f MB/s", s.Name, l, rate/1e6)
				if slowest == 0 || rate < slowest {
					slowest = rate
				}
			}
		}
		r := &tail{Load: l, Share: 0.3, Rate: max(0.3*slowest, leastBatches*batchBytes)}
		b.results.Tails = append(b.results.Tails, r)
		for round := range b.rounds {
			for _, s := range b.order(round) {
				q := s.ackLoop(t, l, b.topic(), r.Rate, b.seconds/2, 2*b.seconds)
				t.Logf("round %d: %-6s acks of %s at 30 %%: %s", round, s.Name, l, q)
				if s == b.sawlog {
					r.Sawlog = append(r.Sawlog, q)
				} else {
					r.Kafka = append(r.Kafka, q)
				}
			}
		}
		r.compare()
	}
}
