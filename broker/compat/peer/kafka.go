package peer

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Kafka runs one node of Apache Kafka, broker and controller in one process
// (KRaft), until the test ends.
func Kafka(t testing.TB, o Options) *Server {
	t.Helper()
	s := kafka(t, newQuorum(t, 1), 1, o)
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// quorum is what the nodes of a Kafka cluster know of each other before they
// first start.
type quorum struct {
	cluster     string
	controllers []string // HOST:PORT by node
	directories []string // directory id by node
}

func newQuorum(t testing.TB, size int) quorum {
	t.Helper()
	q := quorum{cluster: randomID()}
	for range size {
		q.controllers = append(q.controllers, address(t, 0))
		q.directories = append(q.directories, randomID())
	}
	return q
}

// voters is the flag that names the controllers to the format tool.
func (q quorum) voters() string {
	var all []string
	for i, addr := range q.controllers {
		all = append(all, fmt.Sprintf("%d@%s:%s", i+1, addr, q.directories[i]))
	}
	return strings.Join(all, ",")
}

// kafka is a node with a formatted directory that is yet to be started.
func kafka(t testing.TB, q quorum, id int, o Options) *Server {
	t.Helper()
	s := &Server{Name: "kafka", ID: int32(id), Addr: address(t, o.Port), t: t, env: o.Env}
	room := t.TempDir()
	s.Dir, s.LogFile = o.Dir, filepath.Join(room, "kafka.log")
	if s.Dir == "" {
		s.Dir = filepath.Join(room, "data")
	}
	file := filepath.Join(room, "server.properties")
	if err := os.WriteFile(file, properties(s, q, o), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "meta.properties")); err != nil {
		format := Java(t, "kafka.tools.StorageTool", "format", "--config", file, "--cluster-id", q.cluster, "--initial-controllers", q.voters())
		if out, err := format.CombinedOutput(); err != nil {
			t.Fatalf("kafka: format: %v\n%s", err, out)
		}
	}
	heap := o.Heap
	if heap == "" {
		heap = "512m"
	}
	// The collector and its settings are those of Kafka's own start script.
	s.argv = []string{
		Tool(t, "java"), "-Xmx" + heap, "-Xms" + heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
		logging(t), "-cp", Classpath(t), "kafka.Kafka", file,
	}
	return s
}

// randomID is one in Kafka's form: 16 bytes, base64 for addresses.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f           // an id that starts with - would read as a flag
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// brokerNames are the broker settings behind topic configs whose name isn't
// log. and the topic's (Apache Kafka, ServerTopicConfigSynonyms).
var brokerNames = map[string]string{
	"max.message.bytes":   "message.max.bytes",
	"min.insync.replicas": "min.insync.replicas",
	"compression.type":    "compression.type",

	"compression.gzip.level": "compression.gzip.level",
	"compression.lz4.level":  "compression.lz4.level",
	"compression.zstd.level": "compression.zstd.level",

	"unclean.leader.election.enable": "unclean.leader.election.enable",

	"flush.messages":            "log.flush.interval.messages",
	"flush.ms":                  "log.flush.interval.ms",
	"file.delete.delay.ms":      "log.segment.delete.delay.ms",
	"segment.ms":                "log.roll.ms",
	"segment.jitter.ms":         "log.roll.jitter.ms",
	"segment.index.bytes":       "log.index.size.max.bytes",
	"index.interval.bytes":      "log.index.interval.bytes",
	"min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
	"delete.retention.ms":       "log.cleaner.delete.retention.ms",
	"min.compaction.lag.ms":     "log.cleaner.min.compaction.lag.ms",
	"max.compaction.lag.ms":     "log.cleaner.max.compaction.lag.ms",
}

// properties is server.properties of a node, told what differs from Kafka's
// defaults only because there are so few of them.
func properties(s *Server, q quorum, o Options) []byte {
	factor := min(3, len(q.controllers))
	lines := []string{
		fmt.Sprintf("node.id=%d", s.ID),
		"process.roles=broker,controller",
		"listeners=PLAINTEXT://" + s.Addr + ",CONTROLLER://" + q.controllers[s.ID-1],
		"advertised.listeners=PLAINTEXT://" + s.Addr,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"controller.quorum.bootstrap.servers=" + strings.Join(q.controllers, ","),
		"log.dirs=" + s.Dir,
		fmt.Sprintf("offsets.topic.replication.factor=%d", factor),
		fmt.Sprintf("transaction.state.log.replication.factor=%d", factor),
		fmt.Sprintf("transaction.state.log.min.isr=%d", min(2, factor)),
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", factor),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", min(2, factor)),
	}
	for name, value := range o.Topics {
		setting, ok := brokerNames[name]
		if !ok {
			setting = "log." + name
		}
		lines = append(lines, setting+"="+value)
	}
	slices.Sort(lines[len(lines)-len(o.Topics):])
	lines = append(lines, o.Args...) // the last of two lines counts
	return fmt.Appendf(nil, "%s\n", strings.Join(lines, "\n"))
}
