package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"sawlog/jobs"
)

// terminal is a screen of 120 columns; what is written to it can be read.
func terminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("pty: " + err.Error())
	}
	t.Cleanup(func() { _ = screen.Close() }) // closed by the test already
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return screen, program
}

// TestProofWatch: who follows a run on a terminal sees a bar for its task move,
// also when the run began before; the exit code is the run's.
func TestProofWatch(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "slow", "--partitions", "1")
	var records []*kgo.Record
	for i := range 2000 {
		records = append(records, &kgo.Record{Topic: "slow", Value: fmt.Appendf(nil, "%d %x", i, bytes.Repeat([]byte{byte(i), byte(i >> 3)}, 2500))})
	}
	n.send([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, records...)
	path, _ := n.job("slow", textJob+"run: {rate: 2MiB}\n")
	n.run("job", "apply", path)
	var run jobs.Run
	if err := json.Unmarshal(n.run("run", "slow", "-o", "json"), &run); err != nil {
		t.Fatal(err)
	}
	n.eventually("its task has begun", 30*time.Second, func() bool {
		return json.Unmarshal(n.run("runs", "get", run.Run, "-o", "json"), &run) == nil && len(run.Tasks) > 0
	})
	screen, program := terminal(t)
	cmd := exec.Command(n.bin, "runs", "watch", run.Run, "-o", "json")
	cmd.Env = append(os.Environ(), "SAWLOG_SERVER=http://"+n.web, "TERM=xterm")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the child has it
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(screen) // a terminal ends with an error
		shown <- string(text)
	}()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	text := <-shown
	percents := map[string]bool{}
	for _, part := range regexp.MustCompile(`\d+ %`).FindAllString(text, -1) {
		percents[part] = true
	}
	if !strings.Contains(text, "split 0 read") || !strings.Contains(text, "of 2000 offsets") || len(percents) < 2 {
		t.Errorf("%d stages of a bar are seen in %q", len(percents), text)
	}
	if err := json.Unmarshal(out.Bytes(), &run); err != nil || run.Status != jobs.Committed {
		t.Errorf("%v: %s", err, out.Bytes())
	}
}
