package compat_test

import (
	"testing"

	"sawlog/broker/compat/peer"
)

// TestSarama runs IBM's sarama as it speaks by default and at the highest
// version it knows.
func TestSarama(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := goProgram(t, "sarama")
	s := foreign(t, peer.Options{})
	for _, version := range []string{"default", "max"} {
		t.Run(version, func(t *testing.T) {
			scenario(t, p, "testdata/go/sarama-"+version+".golden", s.Addr, version)
		})
	}
}

// TestKafkaGo runs segmentio's kafka-go, whose oldest face has its versions
// fixed in the code: FindCoordinator, Heartbeat, SyncGroup 0, Metadata 1.
func TestKafkaGo(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := goProgram(t, "kafkago")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/go/kafkago.golden", s.Addr)
}
