package compat_test

import (
	"testing"

	"sawlog/broker/compat/peer"
)

// TestConfluentKafka runs confluent-kafka, which is today's librdkafka:
// producers of every codec, idempotent and not, groups that rebalance eagerly
// and cooperatively, static members, the admin client.
func TestConfluentKafka(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := pythonProgram(t, "confluent")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/python/confluent.golden", s.Addr)
}

// TestKafkaPython runs kafka-python, which guesses the broker's release from
// its version table, and pages through DescribeTopicPartitions.
func TestKafkaPython(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := pythonProgram(t, "kafka_python")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/python/kafka_python.golden", s.Addr)
}

// TestAIOKafka runs aiokafka.
func TestAIOKafka(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := pythonProgram(t, "aio")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/python/aio.golden", s.Addr)
}
