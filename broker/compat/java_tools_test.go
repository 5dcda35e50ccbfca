package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	if testing.Short() {
		t.Skip("short: it tests the scripts, not Sawlog")
	}
	playScripts(t, peer.Kafka(t, peer.Options{Args: []string{"group.initial.rebalance.delay.ms=0"}}))
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
	// One script lists all groups there are, one changes what counts for all
	// topics, hence they are alone.
	alone := []string{"testdata/java-tools/groups.tools", "testdata/java-tools/entities.tools"}
	for _, file := range alone {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tools"), func(t *testing.T) { play(t, file) })
	}
	t.Run("others", func(t *testing.T) {
		t.Run("formatters", func(t *testing.T) {
			t.Parallel()
			formatters(t, d, server)
		})
		for _, file := range files {
			if !slices.Contains(alone, file) {
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

// TestJavaToolsCovered holds the list of exclusions, and the count of the README, to
// the tools there are.
func TestJavaToolsCovered(t *testing.T) {
	run := map[string]bool{"DumpLogSegments": true, "VerifiableProducer": true, "VerifiableConsumer": true, "ReplicaVerificationTool": true} // by tests of their own
	files, err := filepath.Glob("testdata/java-tools/*.tools")
	if err != nil {
		t.Fatal(err)
	}
	tool := regexp.MustCompile(`(?m)^(?:sawlog|kafka)?(?:\$[~?]*|& \S+) (\S+)`)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tool.FindAllSubmatch(b, -1) {
			class := javaClass(string(m[1]))
			run[class[strings.LastIndexByte(class, '.')+1:]] = true
		}
	}
	b, err := os.ReadFile("testdata/java-tools/exclusions.txt")
	if err != nil {
		t.Fatal(err)
	}
	excluded := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(name, "#") && reason != "" {
			excluded[name] = true
		}
	}
	there := startJava(t).run(t, "", "Mains").ok().out
	covered := 0
	for _, name := range there {
		if run[name] == excluded[name] {
			t.Errorf("%s: run %t, excluded %t", name, run[name], excluded[name])
		}
		if run[name] {
			covered++
		}
	}
	for name := range excluded {
		if !slices.Contains(there, name) {
			t.Errorf("%s: excluded, but there is no such tool", name)
		}
	}
	t.Logf("java tools: %d of %d run, %d excluded", covered, len(there), len(excluded))
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of Kafka's %d command line tools", covered, len(there)); !strings.Contains(string(readme), want) {
		t.Errorf("README.md has to say %q", want)
	}
}
