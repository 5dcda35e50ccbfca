package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Another release takes the place of the binary while the old one serves, as an
// upgrade of the package does: the old one's loads go on.
func TestProofReplacedUnderway(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: t.TempDir(), listen: freePort(t), web: freePort(t)}
	n.bin = filepath.Join(t.TempDir(), "sawlog")
	if err := os.WriteFile(n.bin, mustRead(t, self), 0o755); err != nil {
		t.Fatal(err)
	}
	n.start()
	t.Cleanup(n.kill)
	if err := os.Remove(n.bin); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.bin, []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.bin = filepath.Join(n.dir, "sawlog")
	if err := os.Symlink(self, n.bin); err != nil {
		t.Fatal(err)
	}
	n.lines("t", 10)
	path, _ := n.job("t", textJob)
	n.run("job", "apply", path)
	n.run("run", "t", "--wait")
}
