package compat_test

import (
	"net"
	"os"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

const (
	kafkaGoPackage = "github.com/segmentio/kafka-go"
	kafkaGoList    = "testdata/go/kafka-go-tests.txt"
	kafkaGoAddr    = "localhost:9092" // written into its tests
)

// TestKafkaGoOwn runs tests of kafka-go's own that need a broker, by a list:
// the rest needs SASL listeners, ACLs, quotas or ends its process.
func TestKafkaGoOwn(t *testing.T) {
	t.Parallel() // it waits most of its time
	path, dir := goTests(t, kafkaGoPackage)
	awaitPort(t, "127.0.0.1:9092")
	list := readList(t, kafkaGoList)
	topics := map[string]string{"max.message.bytes": "209715200"} // as its compose files have it
	// Apache Kafka, when it is asked instead, reads its addresses from properties.
	args := []string{"--advertise", kafkaGoAddr}
	if os.Getenv("SAWLOG_COMPAT_PEER") == "kafka" {
		args = []string{"advertised.listeners=PLAINTEXT://" + kafkaGoAddr, "message.max.bytes=209715200"}
	}
	foreign(t, peer.Options{Port: 9092, Topics: topics, Args: args})
	env := []string{"KAFKA_VERSION=3.7.0", "KAFKA_SKIP_NETTEST=1"}
	results := runTests(t, dir, env, path, "-test.timeout=5m", "-test.run="+testPattern(list, "passes"), "-test.skip="+testPattern(list, "fails"))
	for name, e := range list {
		if e.how == "passes" || e.how == "fails" {
			delete(list, name)
		}
	}
	judge(t, "kafka-go", results, list)
}

// awaitPort waits until nobody listens at an address: the demo of another test may
// for a while.
func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Skipf("SKIPPED: kafka-go's own tests want port 9092, which is taken: %v", err)
		}
	}
}
