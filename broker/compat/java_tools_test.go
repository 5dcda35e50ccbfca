package compat

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sawlog/broker/compat/peer"
)

// TestJavaTools runs Kafka's own tools, and clients of ours made of Kafka's,
// against Sawlog and compares every line they print.
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
	var runs, passed, failed atomic.Int64
	play := func(t *testing.T, file string) {
		s := &javaScript{d: d, server: server, dir: t.TempDir()}
		s.play(t, file)
		runs.Add(int64(s.runs))
		if t.Failed() {
			failed.Add(1)
		} else {
			passed.Add(1)
		}
	}
	// One script lists all groups there are, hence it is alone.
	alone := "testdata/java-tools/groups.tools"
	t.Run("groups", func(t *testing.T) { play(t, alone) })
	t.Run("others", func(t *testing.T) {
		t.Run("formatters", func(t *testing.T) {
			t.Parallel()
			formatters(t, d, server)
		})
		for _, file := range files {
			if file != alone {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".tools"), func(t *testing.T) {
					t.Parallel()
					play(t, file)
				})
			}
		}
	})
	t.Logf("java tools on %s: %d scripts passed, %d failed; %d runs compared",
		server.Name, passed.Load(), failed.Load(), runs.Load())
}
