package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProofDumpEverything prints every file of a data directory that was in use,
// killed and stopped, then each of them damaged: it is printed, or refused with
// the place, and never ends the program another way.
func TestProofDumpEverything(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "many", "--partitions", "2", "--config", "segment.bytes=4000", "--config", "cleanup.policy=compact,delete")
	n.lines("kept", 40)
	n.run("consume", "kept", "-g", "readers", "-n", "30")
	n.ready()
	path, _ := n.job("kept", textJob)
	n.run("job", "apply", path)
	n.kill()
	n.start()
	n.ready()
	n.stop()
	data := filepath.Join(n.dir, "data")
	printed, refused, decoded := 0, 0, 0
	err := filepath.WalkDir(data, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		code, out, said := invoke(t, "", "log", "dump", "--records", "-o", "jsonl", p)
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", p, code, said)
		}
		for line := range strings.Lines(out) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil || row["file"] != p || len(row) < 2 {
				t.Errorf("%s: %v in %q", p, err, line)
			}
		}
		printed++
		if strings.Contains(p, "__consumer_offsets-") && strings.HasSuffix(p, ".log") {
			if _, out, _ := invoke(t, "", "log", "dump", "--decode", "offsets", p); strings.Contains(out, "group=readers topic=kept partition=0 committed=") {
				decoded++
			}
		}
		b, err := os.ReadFile(p)
		if err != nil || len(b) == 0 {
			return err
		}
		for _, how := range []func([]byte) []byte{flipMiddle, cutTail} {
			bent := filepath.Join(t.TempDir(), "controller", filepath.Base(filepath.Dir(p)), filepath.Base(p))
			if filepath.Base(p) == "stable" {
				bent = filepath.Join(t.TempDir(), "controller", "stable")
			}
			if err := os.MkdirAll(filepath.Dir(bent), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(bent, how(append([]byte(nil), b...)), 0o644); err != nil {
				return err
			}
			code, _, said := invoke(t, "", "log", "dump", "--records", bent)
			switch {
			case code == 8 && strings.Contains(said, filepath.Base(p)):
				refused++
			case code != 0 || strings.Contains(said, "goroutine "):
				t.Errorf("%s damaged: exit code %d: %s", p, code, said)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if decoded == 0 || printed < 30 || refused < 20 {
		t.Errorf("%d files printed, %d damaged ones refused, %d with the group's offset", printed, refused, decoded)
	}
	t.Logf("%d files printed, %d damaged ones refused", printed, refused)
}
