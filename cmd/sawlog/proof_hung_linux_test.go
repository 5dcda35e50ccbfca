package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProofStopsBesideAHungStore: a server whose ledger can't be read, nor the
// reading be ended, as on an NFS mount whose server is away, stops all the same when
// it is told to, and says what it leaves. A pipe that nobody writes to is such a file.
func TestProofStopsBesideAHungStore(t *testing.T) {
	t.Parallel() // it waits for the server
	n := startNode(t)
	n.lines("kept", 50)
	path, root := n.job("kept", textJob)
	n.load(path)
	n.run("job", "apply", path)
	record := filepath.Join(root, "_sawlog", "ledger", "000000000000", "commit.json")
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(record, 0o644); err != nil {
		t.Fatal(err)
	}
	n.kill()
	n.cmd = exec.Command(n.bin, "serve", "--data", filepath.Join(n.dir, "data"), "--listen", n.listen, "--http", n.web)
	var said bytes.Buffer
	n.cmd.Stderr = &said
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.ready()
	resp, err := http.Get("http://" + n.web + "/console/jobs")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(time.Minute, func() { _ = n.cmd.Process.Kill() })
	err = n.cmd.Wait()
	if !hung.Stop() {
		t.Fatalf("it was told to stop, and did not within a minute: %s", said.String())
	}
	if err != nil {
		t.Errorf("it was told to stop, and did: %v", err)
	}
	n.cmd = nil
	for _, text := range []string{"leaves work behind", "the ledger of kept", "hangs"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("it did not say %q: %s", text, said.String())
		}
	}
}
