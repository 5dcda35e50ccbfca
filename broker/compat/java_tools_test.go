package compat

import (
	"path/filepath"
	"strings"
	"testing"

	"sawlog/broker/compat/peer"
)

// TestJavaTools runs Kafka's own tools against Sawlog and compares every line
// they print.
func TestJavaTools(t *testing.T) {
	playScripts(t, peer.Sawlog(t, peer.Options{}))
}

// TestJavaToolsOnKafka runs the same scripts against Apache Kafka: what they
// say is what the original does.
func TestJavaToolsOnKafka(t *testing.T) {
	playScripts(t, peer.Kafka(t, peer.Options{}))
}

func playScripts(t *testing.T, server *peer.Server) {
	files, err := filepath.Glob("testdata/java-tools/*.tools")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	d := startJava(t)
	runs, passed := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".tools")
		if t.Run(name, func(t *testing.T) {
			s := &javaScript{d: d, server: server, dir: t.TempDir()}
			runs += s.play(t, file)
		}) {
			passed++
		}
	}
	t.Logf("java tools on %s: %d scripts passed, %d failed; %d runs compared", server.Name, passed, len(files)-passed, runs)
}
