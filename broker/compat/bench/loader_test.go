package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/compat/peer"
)

var (
	lineCount = flag.Int("lines", 1_000_000, "lines of one load")
	against   = flag.String("against", "duckdb", "peers of the loader, with commas between them: duckdb, duckdb-zst (which unpacks its lines, as a load from a log does), spark, base (the command line of -base)")
)

// loaderCase is one kind of lines and one codec of files.
type loaderCase struct {
	Codec string `json:"codec"`
	Nulls bool   `json:"nulls"` // one of ten referrers is null
}

func (c loaderCase) String() string {
	if c.Nulls {
		return c.Codec + ", nulls"
	}
	return c.Codec
}

// topic holds the lines of the case.
func (c loaderCase) topic() string {
	if c.Nulls {
		return "nulls"
	}
	return "whole"
}

// cost is what one load of all lines took.
type cost struct {
	CPU   float64 `json:"cpu"`   // seconds, user and system, of all its processes
	Wall  float64 `json:"wall"`  // seconds
	Bytes int64   `json:"bytes"` // of the files it made
}

// contender loads the lines of a case into files below a new folder, and tells
// how many rows they have.
type contender struct {
	name string
	load func(t testing.TB, c loaderCase, dir string) (rows int, took cost)
}

// loaderRow is all rounds of one case against one peer.
type loaderRow struct {
	Case  loaderCase `json:"case"`
	Peer  string     `json:"peer"`
	Ours  []cost     `json:"sawlog"`
	Other []cost     `json:"other"`
	CPU   spread     `json:"cpu"`  // the peer's CPU seconds for one of ours
	Wall  spread     `json:"wall"` // the same of wall time
}

// loaderResults are the figures, as they are written to -out.
type loaderResults struct {
	Command string       `json:"command"`
	Machine string       `json:"machine"`
	Time    time.Time    `json:"time"`
	Lines   int          `json:"lines"`
	Rows    []*loaderRow `json:"rows"`
	Nulls   []spread     `json:"nulls"` // CPU seconds of lines with nulls for one of those without, by codec
}

// TestLoader measures loads from a broker, plan, hours, staging, verification and
// commit included, against others that make Parquet of the same lines. DuckDB
// reads them from a file, plain or packed, and does none of that. Its only judgement is that all
// lines became rows; without -rounds it only shows that everything works.
func TestLoader(t *testing.T) {
	n := *lineCount
	if *rounds == 0 {
		n = 20_000
	}
	b := &loaderBench{lines: n, rounds: max(*rounds, 1), dir: t.TempDir()}
	b.server = peer.Sawlog(t, peer.Options{})
	if b.binary = *ours; b.binary == "" {
		b.binary = peer.Binary(t)
	}
	var cases []loaderCase
	for _, codec := range []string{"zstd", "snappy"} {
		for _, nulls := range []bool{true, false} {
			if c := (loaderCase{codec, nulls}); regexp.MustCompile(*only).MatchString(c.String()) {
				cases = append(cases, c)
			}
		}
	}
	for _, nulls := range []bool{true, false} {
		b.produce(t, loaderCase{Nulls: nulls})
	}
	for name := range strings.SplitSeq(*against, ",") {
		b.measure(t, cases, b.contender(t, name))
	}
	b.report(t, cases)
}

// loaderBench is one run of TestLoader.
type loaderBench struct {
	lines, rounds int
	dir           string // of files with lines, job files, roots
	binary        string
	server        *peer.Server
	rows          []*loaderRow
	loads         int
}

func (b *loaderBench) contender(t testing.TB, name string) contender {
	switch name {
	case "duckdb", "duckdb-zst":
		python := peer.Tool(t, "python3")
		if exec.Command(python, "-c", "import duckdb").Run() != nil {
			peer.Lacks(t, "python3 with duckdb")
		}
		lines := b.file
		if name == "duckdb-zst" {
			lines = func(c loaderCase) string { return b.packed(t, c) }
		}
		return contender{name, func(t testing.TB, c loaderCase, dir string) (int, cost) { return b.duckdb(t, python, lines(c), c, dir) }}
	case "spark":
		return b.spark(t)
	case "base":
		return contender{name, func(t testing.TB, c loaderCase, dir string) (int, cost) { return b.sawlog(t, *base, c, dir) }}
	}
	t.Fatalf("no peer %q", name)
	return contender{}
}

// measure takes the rounds: in each, all cases one after the other, ours and the
// peer next to each other in time. Who comes first alternates, and so does the
// order of the cases.
func (b *loaderBench) measure(t testing.TB, cases []loaderCase, other contender) {
	t.Helper()
	mine := contender{"sawlog", func(t testing.TB, c loaderCase, dir string) (int, cost) { return b.sawlog(t, b.binary, c, dir) }}
	rows := make([]*loaderRow, len(cases))
	for i, c := range cases {
		rows[i] = &loaderRow{Case: c, Peer: other.name}
	}
	b.rows = append(b.rows, rows...)
	for round := range b.rounds {
		order := slices.Clone(rows)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range order {
			if round%2 == 0 {
				r.Ours = append(r.Ours, b.once(t, mine, r.Case))
				r.Other = append(r.Other, b.once(t, other, r.Case))
			} else {
				r.Other = append(r.Other, b.once(t, other, r.Case))
				r.Ours = append(r.Ours, b.once(t, mine, r.Case))
			}
			a, o := r.Ours[round], r.Other[round]
			t.Logf("%s, round %d: sawlog %.3f s CPU, %s %.3f: %.3f", r.Case, round+1, a.CPU, other.name, o.CPU, o.CPU/a.CPU)
		}
	}
	for _, r := range rows {
		var cpu, wall []float64
		for i := range r.Ours {
			cpu = append(cpu, r.Other[i].CPU/r.Ours[i].CPU)
			wall = append(wall, r.Other[i].Wall/r.Ours[i].Wall)
		}
		r.CPU, r.Wall = spreadOf(cpu), spreadOf(wall)
	}
}

// once makes one load, and looks whether it took everything.
func (b *loaderBench) once(t testing.TB, who contender, c loaderCase) cost {
	t.Helper()
	b.loads++
	dir := filepath.Join(b.dir, fmt.Sprint("load-", b.loads))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rows, took := who.load(t, c, dir)
	if rows != b.lines {
		t.Fatalf("%s, %s: %d rows of %d lines", who.name, c, rows, b.lines)
	}
	took.Bytes = parquetBytes(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return took
}

// parquetBytes is the size of all Parquet files below a folder.
func parquetBytes(t testing.TB, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".parquet" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// timed runs a command to its end and tells what it and the children it waited
// for have used, and what it printed.
func timed(t testing.TB, cmd *exec.Cmd) ([]byte, cost) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	from := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, stdout.String(), stderr.String())
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	return stdout.Bytes(), cost{CPU: cpu.Seconds(), Wall: time.Since(from).Seconds()}
}

// sawlog loads with a command line of Sawlog, as cron would.
func (b *loaderBench) sawlog(t testing.TB, binary string, c loaderCase, dir string) (int, cost) {
	t.Helper()
	job := filepath.Join(dir, "job.yaml")
	text := fmt.Sprintf(loaderJob, c.topic(), b.server.Addr, filepath.Join(dir, "root"), c.Codec)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, took := timed(t, exec.Command(binary, "run", job, "-o", "json"))
	var outcome struct {
		Status string
		Rows   int
	}
	if err := json.Unmarshal(said, &outcome); err != nil || outcome.Status != "committed" {
		t.Fatalf("sawlog run: %v, it said %s", err, said)
	}
	return outcome.Rows, took
}

// loaderJob wants a topic, a broker, a root and a codec.
const loaderJob = `name: bench
source: {topics: [%s], brokers: [%q]}
decode: {value: json}
schema: [{name: ts, type: timestamp_ms}, {name: id, type: string}, {name: ip, type: string}, {name: path, type: string}, {name: status, type: int32}, {name: bytes, type: int64}, {name: referrer, type: string}, {name: agent, type: string}]
time: {field: ts, format: rfc3339}
partition_by: {lateness: 0m}
output: {root: "file://%s", codec: %s}
run: {parallelism: 1}
`

// duckdb loads the same lines from a file.
func (b *loaderBench) duckdb(t testing.TB, python, lines string, c loaderCase, dir string) (int, cost) {
	t.Helper()
	const columns = "ts TIMESTAMP, id VARCHAR, ip VARCHAR, path VARCHAR, status INTEGER, bytes BIGINT, referrer VARCHAR, agent VARCHAR"
	said, took := timed(t, exec.Command(python, filepath.Join("testdata", "lines.py"), lines, filepath.Join(dir, "out.parquet"), c.Codec, columns))
	rows, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil {
		t.Fatalf("DuckDB said %q", said)
	}
	return rows, took
}

// spark is a JVM that has loaded a few times before it counts, on two cores.
func (b *loaderBench) spark(t testing.TB) contender {
	t.Helper()
	java := peer.Tool(t, "java")
	classes, _ := peer.Classes(t, "spark", "broker/compat/bench/testdata/spark")
	args := []string{"-Xmx768m", "-XX:-UsePerfData", "-Dspark.ui.enabled=false", "-Dspark.master=local[2]", "-Dspark.driver.host=127.0.0.1", "-Dspark.driver.bindAddress=127.0.0.1"}
	for _, name := range []string{"java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"} {
		args = append(args, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	for _, name := range []string{"sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"} {
		args = append(args, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	cmd := exec.Command(java, append(args, "-cp", classes, "Load", b.server.Addr)...)
	cmd.Dir = b.dir
	asks, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = asks.Close() // it ends at the end of what it is asked
		_ = cmd.Wait()
	})
	answers := bufio.NewScanner(out)
	load := func(t testing.TB, c loaderCase, dir string) (int, cost) {
		t.Helper()
		var answer struct {
			cost
			Rows int `json:"rows"`
		}
		if _, err := fmt.Fprintf(asks, "%s %s %s\n", c.topic(), c.Codec, filepath.Join(dir, "out")); err != nil {
			t.Fatalf("Spark: %v\n%s", err, stderr.String())
		}
		if !answers.Scan() {
			t.Fatalf("Spark ended:\n%s", stderr.String())
		}
		if err := json.Unmarshal(answers.Bytes(), &answer); err != nil {
			t.Fatalf("Spark said %q: %v", answers.Text(), err)
		}
		return answer.Rows, answer.cost
	}
	who := contender{"spark", load}
	for range min(b.rounds, 4) { // its compiler learns
		b.once(t, who, loaderCase{"zstd", true})
		b.once(t, who, loaderCase{"snappy", false})
	}
	return who
}

func (b *loaderBench) file(c loaderCase) string { return filepath.Join(b.dir, c.topic()+".jsonl") }

// packed is the file of a case as one frame of zstd, like the batches of the log.
func (b *loaderBench) packed(t testing.TB, c loaderCase) string {
	name := b.file(c) + ".zst"
	if _, err := os.Stat(name); err == nil {
		return name
	}
	data, err := os.ReadFile(b.file(c))
	if err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, enc.EncodeAll(data, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// produce writes the lines of a case to a file and to a topic of one partition,
// in batches of up to a megabyte compressed with zstd.
func (b *loaderBench) produce(t testing.TB, c loaderCase) {
	t.Helper()
	f, err := os.Create(b.file(c))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	to := &target{Server: b.server, admin: client(t, b.server.Addr, kgo.RequestTimeoutOverhead(patience))}
	to.create(t, c.topic(), 1, nil)
	producer := client(t, b.server.Addr, kgo.DefaultProduceTopic(c.topic()), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerLinger(100*time.Millisecond), kgo.MaxBufferedRecords(50_000))
	defer producer.Close()
	var failed error
	for i, line := range logLines(b.lines, c.Nulls) {
		if _, err := w.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		producer.Produce(context.Background(), &kgo.Record{Value: line[:len(line):len(line)]}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = fmt.Errorf("line %d: %w", i, err)
			}
		})
	}
	if err := producer.Flush(context.Background()); err != nil || failed != nil {
		t.Fatalf("produce: %v, %v", err, failed)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// logLines are lines of JSON, 231 bytes on average with 8 members, always the
// same: ts rising by 0 to 19 ms, id 16 hex digits and unique, ip 10,000 values,
// path 2,000 with two escapes in every one, status 6, bytes 50,000, referrer 500
// and, if asked for, null in one of ten, agent 40.
func logLines(n int, nulls bool) [][]byte {
	rnd := rand.New(rand.NewPCG(7, 11))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	statuses := [...]int{200, 200, 200, 200, 301, 304, 404, 500, 503}
	lines := make([][]byte, n)
	for i := range lines {
		at = at.Add(time.Duration(rnd.IntN(20)) * time.Millisecond)
		referrer := fmt.Sprintf(`"https://site%d.example/"`, rnd.IntN(500))
		if rnd.IntN(10) == 0 && nulls {
			referrer = "null"
		}
		page := rnd.IntN(2000)
		lines[i] = fmt.Appendf(nil, `{"ts":%q,"id":"%016x","ip":"10.%d.%d.7","path":"/shop/item-%d?q=\"%d\"","status":%d,"bytes":%d,"referrer":%s,"agent":"Mozilla/5.0 (X11; Linux x86_64) Gecko Firefox/%d"}`,
			at.Format("2006-01-02T15:04:05.000Z"), rnd.Uint64(), rnd.IntN(100), rnd.IntN(100), page, page%97,
			statuses[rnd.IntN(len(statuses))], rnd.IntN(50000), referrer, 100+rnd.IntN(40))
	}
	return lines
}

// report prints the figures and writes them to -out.
func (b *loaderBench) report(t testing.TB, cases []loaderCase) {
	t.Helper()
	out := loaderResults{Command: strings.Join(os.Args, " "), Machine: machine(), Time: time.Now().UTC(), Lines: b.lines, Rows: b.rows}
	var text strings.Builder
	fmt.Fprintf(&text, "%d lines, %d rounds, %s\n", b.lines, b.rounds, out.Machine)
	fmt.Fprintf(&text, "of every ratio: median, least..greatest, [bootstrap 95 %% confidence interval of the median]\n")
	for _, r := range b.rows {
		fmt.Fprintf(&text, "%-14s %s CPU / sawlog CPU   %s\n", r.Case, r.Peer, r.CPU)
		fmt.Fprintf(&text, "%-14s %s wall / sawlog wall %s\n", "", r.Peer, r.Wall)
		fmt.Fprintf(&text, "%-14s sawlog %.0f lines a CPU second, %s %.0f; bytes a line %.1f, %.1f\n", "", b.rate(r.Ours), r.Peer, b.rate(r.Other), b.size(r.Ours), b.size(r.Other))
	}
	for _, codec := range []string{"zstd", "snappy"} {
		with, without := b.row(loaderCase{codec, true}), b.row(loaderCase{codec, false})
		if with == nil || without == nil {
			continue
		}
		var ratios []float64
		for i := range with.Ours {
			ratios = append(ratios, with.Ours[i].CPU/without.Ours[i].CPU)
		}
		s := spreadOf(ratios)
		out.Nulls = append(out.Nulls, s)
		fmt.Fprintf(&text, "%-14s CPU with nulls / without %s\n", codec, s)
	}
	t.Log("\n" + text.String())
	if *outFile != "" {
		if err := writeJSON(*outFile, out); err != nil {
			t.Error(err)
		}
	}
}

func (b *loaderBench) row(c loaderCase) *loaderRow {
	for _, r := range b.rows {
		if r.Case == c {
			return r
		}
	}
	return nil
}

// rate is lines per CPU second, the median.
func (b *loaderBench) rate(costs []cost) float64 {
	var all []float64
	for _, c := range costs {
		all = append(all, float64(b.lines)/c.CPU)
	}
	return median(all)
}

// size is the bytes of files a line.
func (b *loaderBench) size(costs []cost) float64 { return float64(costs[0].Bytes) / float64(b.lines) }
