package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
	"sawlog/loader"
)

// missing skips a test by the name of what the machine lacks; where everything
// is required that is a failure.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("%s is missing", what)
}

// realData is the folder of real inputs.
func realData(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SAWLOG_TEST_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "taxi")); err != nil {
		missing(t, "the real inputs (SAWLOG_TEST_DATA)")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// python tells whether there is one that has DuckDB and pyarrow.
var python = sync.OnceValue(func() bool {
	return exec.Command("python3", "-c", "import duckdb, pyarrow").Run() == nil
})

// needPython skips without it.
func needPython(t *testing.T) {
	t.Helper()
	if !python() {
		missing(t, "python3 with duckdb and pyarrow")
	}
}

// node is a server process and the command line that talks to it.
type node struct {
	t      *testing.T
	bin    string
	dir    string
	listen string
	web    string
	cmd    *exec.Cmd
}

// bare is a node whose server is not started by it.
func bare(t *testing.T) *node {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: t.TempDir(), listen: freePort(t), web: freePort(t)}
	n.bin = filepath.Join(n.dir, "sawlog")
	if err := os.Symlink(self, n.bin); err != nil {
		t.Fatal(err)
	}
	return n
}

// startNode runs `sawlog serve` on a directory of the test.
func startNode(t *testing.T) *node {
	t.Helper()
	n := bare(t)
	n.start()
	t.Cleanup(n.kill)
	return n
}

// freePort is an address that is the node's, also while it is down.
func freePort(t *testing.T) string {
	t.Helper()
	return peer.Address(t)
}

// patience is for what other processes do, where it doesn't matter how long they
// take: beside other work that is many times as long.
const patience = time.Minute

func (n *node) start() {
	n.t.Helper()
	n.cmd = exec.Command(n.bin, "serve", "--data", filepath.Join(n.dir, "data"), "--listen", n.listen, "--http", n.web)
	var said bytes.Buffer
	n.cmd.Stderr = &said
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // another process acts
		if conn, err := net.Dial("tcp", n.listen); err == nil {
			_ = conn.Close()
			return
		}
	}
	n.t.Fatalf("the server did not start: %s", said.String())
}

func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// run calls the command line and returns its standard output.
func (n *node) run(args ...string) []byte {
	n.t.Helper()
	out, code, said := n.try(args...)
	if code != 0 {
		n.t.Fatalf("sawlog %s: exit code %d: %s", strings.Join(args, " "), code, said)
	}
	return out
}

func (n *node) try(args ...string) (stdout []byte, code int, stderr string) {
	n.t.Helper()
	cmd := exec.Command(n.bin, args...)
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "SAWLOG_BROKERS="+n.listen, "SAWLOG_SERVER=http://"+n.web)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return out.Bytes(), cmd.ProcessState.ExitCode(), errs.String()
}

// job writes a job file and returns its path and root.
func (n *node) job(name, text string) (path, root string) {
	n.t.Helper()
	root = filepath.Join(n.dir, "warehouse", name)
	path = filepath.Join(n.dir, name+".yaml")
	text = fmt.Sprintf("name: %s\nsource: {topics: [%s]}\noutput: {root: 'file://%s'}\n", name, name, root) + text
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	return path, root
}

func (n *node) load(path string) loader.Outcome {
	n.t.Helper()
	var o loader.Outcome
	if err := json.Unmarshal(n.run("run", path, "-o", "json"), &o); err != nil {
		n.t.Fatal(err)
	}
	return o
}

// compared is what compare.py prints.
type compared struct {
	Rows  int64            `json:"rows"`
	Files int64            `json:"files"`
	Paths int              `json:"paths"`
	Hours map[string]int64 `json:"hours"`
}

func compare(t *testing.T, root, kind string, inputs ...string) compared {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"testdata/compare.py", root, kind}, inputs...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		t.Fatalf("compare: %v: %s", err, lines[len(lines)-1])
	}
	var c compared
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// rowsPerHour reads an expectation: lines that end in HOUR and ROWS, of those
// that begin with the prefix.
func rowsPerHour(t *testing.T, path, prefix string) map[string]int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if !strings.HasPrefix(line, prefix) || len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want[strings.TrimSuffix(fields[len(fields)-2], "Z")] = n
	}
	return want
}

// again reruns the load and verifies it: every file must come out with the
// bytes it has, and one that was changed or lost is found and comes back.
func (n *node) again(root string, files int64) {
	n.t.Helper()
	n.run("verify", "--root", root)
	var all []string
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".parquet") {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	slices.Sort(all)
	before, err := os.ReadFile(all[0])
	if err != nil {
		n.t.Fatal(err)
	}
	changed := bytes.Clone(before)
	changed[len(changed)/3] ^= 0x20
	if err := os.WriteFile(all[0], changed, 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Remove(all[len(all)-1]); err != nil {
		n.t.Fatal(err)
	}
	if _, code, _ := n.try("verify", "--root", root); code != 8 {
		n.t.Fatalf("verify of a changed and a missing file: exit code %d, want 8", code)
	}
	var r loader.RerunReport
	if err := json.Unmarshal(n.run("rerun", "0", "--root", root, "-o", "json"), &r); err != nil {
		n.t.Fatal(err)
	}
	if r.Restored != 2 || r.Changed != 0 || r.Identical != files-2 {
		n.t.Fatalf("rerun: %d identical, %d restored, %d changed of %d files", r.Identical, r.Restored, r.Changed, files)
	}
	after, err := os.ReadFile(all[0])
	if err != nil {
		n.t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		n.t.Fatal("the restored file has other bytes")
	}
	n.run("verify", "--root", root)
}

func TestRealPageViews(t *testing.T) {
	t.Parallel()
	data := realData(t)
	needPython(t)
	n := startNode(t)
	input := filepath.Join(data, "kibana-sample", "logs.json.gz")
	n.run("produce", "logs", input, "-z", "snappy")
	path, root := n.job("logs", "decode: {value: json}\ntime: {field: timestamp, format: rfc3339}\n")
	o := n.load(path)
	if o.Rows != 14_074 || o.Quarantined != 0 || len(o.Hours) != 1_218 {
		t.Fatalf("%d rows, %d quarantined, %d hours", o.Rows, o.Quarantined, len(o.Hours))
	}
	c := compare(t, root, "lines", input)
	want := rowsPerHour(t, filepath.Join(data, "expected", "rows-per-hour.tsv.gz"), "kibana-sample/logs ")
	if !maps.Equal(c.Hours, want) {
		t.Error("the rows of the hours are not the expected ones")
	}
	n.again(root, c.Files)
}

func TestRealNestedEvents(t *testing.T) {
	t.Parallel()
	data := realData(t)
	needPython(t)
	n := startNode(t)
	input := filepath.Join(data, "github", "2021-07-21-few-hours.jsonl.gz")
	n.run("produce", "events", input, "-z", "gzip")
	path, root := n.job("events", "decode: {value: json}\ntime: {field: created_at, format: rfc3339}\n")
	o := n.load(path)
	if o.Rows != 800 || len(o.Hours) != 4 {
		t.Fatalf("%d rows in %d hours: %+v", o.Rows, len(o.Hours), o)
	}
	for _, h := range o.Hours {
		if h.Rows != 200 {
			t.Errorf("hour %s has %d rows, want 200", h.Hour, h.Rows)
		}
	}
	c := compare(t, root, "lines", input)
	if c.Paths < 700 {
		t.Errorf("only %d leaf paths hold a value", c.Paths)
	}
	n.again(root, c.Files)
}

const taxiColumns = "[vendor_id, pickup_datetime, dropoff_datetime, passenger_count, trip_distance, rate_code_id, store_and_fwd_flag, " +
	"pickup_location_id, dropoff_location_id, payment_type, fare_amount, extra, mta_tax, tip_amount, tolls_amount, " +
	"improvement_surcharge, total_amount, congestion_surcharge]"

const taxiJob = "decode: {value: csv, columns: " + taxiColumns + "}\n" +
	"time: {field: pickup_datetime, format: '%Y-%m-%d %H:%M:%S', zone: UTC}\n"

// TestSoakTaxiRides loads rides in no order, of a month whose lines end in LF and
// lack a value that later ones have, and of one whose lines end in CRLF; in a soak
// of all 36 months.
func TestSoakTaxiRides(t *testing.T) {
	t.Parallel()
	months, hours := []string{"2018-01", "2019-01"}, 1_459
	if inSoak() {
		months, hours = []string{"20"}, 25_539
	}
	data := realData(t)
	needPython(t)
	n := startNode(t)
	var inputs []string
	want := map[string]int64{}
	for _, month := range months {
		files, err := filepath.Glob(filepath.Join(data, "taxi", "yellow_tripdata_sample_"+month+"*.csv.gz"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no taxi files of %s: %v", month, err)
		}
		inputs = append(inputs, files...)
		maps.Copy(want, rowsPerHour(t, filepath.Join(data, "expected", "taxi-all-rows-per-hour.tsv.gz"), month))
	}
	n.run("topic", "create", "taxi", "--partitions", "1", "--config", "retention.ms=-1")
	n.run(append([]string{"produce", "taxi", "--csv", "--time-field", "pickup_datetime", "-z", "zstd"}, inputs...)...)
	path, root := n.job("taxi", taxiJob)
	o := n.load(path)
	if o.Rows != int64(10_000*len(inputs)) || o.Quarantined != 0 || len(o.Hours) != hours {
		t.Fatalf("%d rows, %d quarantined, %d hours", o.Rows, o.Quarantined, len(o.Hours))
	}
	c := compare(t, root, "csv", inputs...)
	if !maps.Equal(c.Hours, want) {
		t.Error("the rows of the hours are not the expected ones")
	}
	n.again(root, c.Files)
}
