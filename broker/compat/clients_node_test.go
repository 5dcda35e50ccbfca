package compat_test

import (
	"testing"

	"sawlog/broker/compat/peer"
)

// TestKafkaJS runs kafkajs, which never looks at the lowest version a broker
// serves and speaks no flexible one.
func TestKafkaJS(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := nodeProgram(t, "kafkajs")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/node/kafkajs.golden", s.Addr)
}

// TestPlatformatic runs @platformatic/kafka, which speaks flexible versions
// only: Fetch 15 to 17 with sessions, Metadata 12.
func TestPlatformatic(t *testing.T) {
	t.Parallel() // it waits most of its time
	p := nodeProgram(t, "platformatic")
	s := foreign(t, peer.Options{})
	scenario(t, p, "testdata/node/platformatic.golden", s.Addr)
}
