package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/output"
	"sawlog/formats/parquet"
	"sawlog/loader"
)

// inSoak tells whether tests take their long form, as make soak has it.
func inSoak() bool { return os.Getenv("SAWLOG_SOAK_RUNS") != "" }

// rounds is how often a test does what it does: a few times, and in a soak as often
// as SAWLOG_SOAK_RUNS says.
func rounds(t *testing.T, few int) int {
	t.Helper()
	if !inSoak() {
		return few
	}
	n, err := strconv.Atoi(os.Getenv("SAWLOG_SOAK_RUNS"))
	if err != nil {
		t.Fatalf("SAWLOG_SOAK_RUNS: %v", err)
	}
	return max(n, few)
}

// child is a command line under way, with a process group of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   bytes.Buffer
	said  bytes.Buffer
	lines chan string // of standard error; closed at its end
	ended chan error
}

// spawn starts the command line and does not wait for it. Extra environment
// beats that of the node.
func (n *node) spawn(env []string, args ...string) *child {
	n.t.Helper()
	c := &child{t: n.t, lines: make(chan string, 4096), ended: make(chan error, 1)}
	c.cmd = exec.Command(n.bin, args...)
	c.cmd.Dir = n.dir
	c.cmd.Env = append(append(os.Environ(), "SAWLOG_BROKERS="+n.listen, "SAWLOG_SERVER=http://"+n.web), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Stdout = &c.out
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(io.TeeReader(stderr, &c.said))
		for lines.Scan() {
			select {
			case c.lines <- lines.Text():
			default: // nobody reads them
			}
		}
		close(c.lines)
		c.ended <- c.cmd.Wait()
	}()
	n.t.Cleanup(c.killAll)
	return c
}

// killAll ends the process and its children as kill -9 does.
func (c *child) killAll() { _ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) } // it may have ended already

// wait returns the exit code, -1 for a signal, and fails after the time.
func (c *child) wait(limit time.Duration) int {
	c.t.Helper()
	select {
	case err := <-c.ended:
		c.ended <- err
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		c.killAll()
		c.t.Fatalf("%s did not end within %s: %s", strings.Join(c.cmd.Args, " "), limit, c.said.String())
	}
	return -1
}

// says waits for a line of standard error that holds text.
func (c *child) says(text string, limit time.Duration) string {
	c.t.Helper()
	late := time.After(limit)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("it ended without saying %q: %s", text, c.said.String())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			c.t.Fatalf("it did not say %q within %s", text, limit)
		}
	}
}

// ready waits until the server says it is.
func (n *node) ready() {
	n.t.Helper()
	n.eventually("the server is ready", patience, func() bool {
		resp, err := http.Get("http://" + n.web + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// eventually asks until the answer is yes.
func (n *node) eventually(what string, limit time.Duration, yes func() bool) {
	n.t.Helper()
	for end := time.Now().Add(limit); !yes(); time.Sleep(20 * time.Millisecond) { // another process acts
		if time.Now().After(end) {
			n.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// client is a foreign client of the node.
func (n *node) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.seeds()...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	return c
}

// send produces records and waits for all of them.
func (n *node) send(opts []kgo.Opt, records ...*kgo.Record) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	c := n.client(opts...)
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		n.t.Fatal(err)
	}
	c.Close()
}

// readAll reads partitions from the start to their current ends.
func (n *node) readAll(topic string) []*kgo.Record {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 60*time.Second)
	defer cancel()
	var lines []partitionLine
	if err := json.Unmarshal(n.run("topic", "offsets", topic, "-o", "json"), &lines); err != nil {
		n.t.Fatal(err)
	}
	var left int64
	for _, l := range lines {
		left += l.End - l.Start
	}
	c := n.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	var all []*kgo.Record
	for int64(len(all)) < left {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			n.t.Fatalf("%s: %d of %d records: %v", topic, len(all), left, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// refused runs a command that must fail with the code and say each text.
func (n *node) refused(code int, says []string, args ...string) string {
	n.t.Helper()
	out, got, said := n.try(args...)
	if got != code {
		n.t.Errorf("sawlog %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, said)
	}
	for _, text := range says {
		if !strings.Contains(said+string(out), text) {
			n.t.Errorf("sawlog %s said %q, want it to hold %q", strings.Join(args, " "), said, text)
		}
	}
	return said
}

// outcome runs a load that must exit with the code.
func (n *node) outcome(code int, args ...string) loader.Outcome {
	n.t.Helper()
	out, got, said := n.try(append(args, "-o", "json")...)
	if got != code {
		n.t.Fatalf("sawlog %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, said)
	}
	var o loader.Outcome
	if err := json.Unmarshal(out, &o); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	return o
}

// treeOf hashes every file of a data set that a load makes for others: Parquet
// and quarantine, by relative path. Each must open by its footer.
func treeOf(t *testing.T, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(p, ".parquet") && !strings.HasSuffix(p, ".quarantine") {
			return nil
		}
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if _, err := parquet.Open(bytes.NewReader(raw), int64(len(raw))); err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		sum := sha256.Sum256(raw)
		tree[rel] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// sameTree tells how two trees differ, at most by a few names.
func sameTree(want, got map[string]string) error {
	var odd []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			odd = append(odd, fmt.Sprintf("%s is %.8s, want %.8s", name, got[name], want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" {
			odd = append(odd, name+" should not be there")
		}
	}
	if len(odd) == 0 {
		return nil
	}
	return fmt.Errorf("%d differences: %s", len(odd), strings.Join(odd[:min(len(odd), 5)], "; "))
}

// duck asks DuckDB one question about the Parquet files of a root; ROWS in it
// stands for them. The answer comes as JSON rows.
func duck(t *testing.T, root, query string, into any) {
	t.Helper()
	needPython(t)
	query = strings.ReplaceAll(query, "ROWS", fmt.Sprintf("read_parquet('%s/dt=*/hr=*/*.parquet', hive_partitioning=true, hive_types_autocast=false, union_by_name=true)", root))
	cmd := exec.Command("python3", "-c", "import duckdb, json, sys\nduckdb.sql('set enable_progress_bar = false')\nprint(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))", query)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("duckdb: %v: %s", err, said.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// rowsOf counts rows and distinct (partition, offset) pairs.
func rowsOf(t *testing.T, root string) (rows, distinct int64) {
	t.Helper()
	var got [][2]int64
	duck(t, root, "select count(*), count(distinct (_partition, _offset)) from ROWS", &got)
	return got[0][0], got[0][1]
}

// write puts a file into the node's folder.
func (n *node) write(name, text string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// clean verifies a data set.
func (n *node) clean(root string) {
	n.t.Helper()
	if out, code, said := n.try("verify", "--root", root, "-o", "json"); code != output.OK {
		n.t.Fatalf("verify %s: exit code %d: %s%s", root, code, out, said)
	}
}
