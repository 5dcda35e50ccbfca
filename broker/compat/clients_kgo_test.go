package compat_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

const (
	kgoPackage = "github.com/twmb/franz-go/pkg/kgo"
	kgoList    = "testdata/go/kgo-excluded.txt"
)

// kgoEnv points kgo's tests at addresses; replicas is how many its topics have.
func kgoEnv(addr, records, replicas string) []string {
	return []string{"KGO_SEEDS=" + addr, "KGO_TEST_RF=" + replicas, "KGO_LOG_LEVEL=" + cmp.Or(os.Getenv("KGO_LOG_LEVEL"), "none"), "KGO_TEST_RECORDS=" + records}
}

// etlRecords is how many records kgo's chains of groups carry: 500,000 in the
// long run.
func etlRecords() string { return cmp.Or(os.Getenv("SAWLOG_COMPAT_RECORDS"), "50000") }

// TestKgo runs the test suite of franz-go's client.
func TestKgo(t *testing.T) {
	path, dir := goTests(t, kgoPackage)
	excluded := readList(t, kgoList)
	s := foreign(t, peer.Options{})
	pattern := testPattern(excluded, "fails")
	results := runTests(t, dir, kgoEnv(s.Addr, etlRecords(), "1"), path, "-test.timeout=9m", "-test.skip="+pattern)
	// What can't pass may also never end.
	maps.Copy(results, runTests(t, dir, kgoEnv(s.Addr, "100", "1"), path, "-test.timeout=10s", "-test.run="+pattern))
	judge(t, "kgo", results, excluded)
}

// Restarts come in bursts, 3 s apart. A member that leaves shortly before one is
// back after it, as in Kafka, where leaving is written with the next generation
// only; it is held for its session timeout, 20 s from the last restart, and the
// others wait for it. kgo in turn gives up on joining when a restart cuts it off
// more than some 15 s after it began. Hence the length of a burst and the pause.
const (
	restartEvery = 3 * time.Second
	restartBurst = 4  // restarts in a row
	restartCycle = 17 // ticks from one burst to the next
)

// TestKgoRestarts runs kgo's chains of consumer groups while the broker is
// stopped and killed in turn, every few seconds; again if they are through
// before it was stopped and killed twice.
func TestKgoRestarts(t *testing.T) {
	t.Parallel() // it waits most of its time
	path, dir := goTests(t, kgoPackage)
	g := openGate(t)
	s := foreign(t, peer.Options{Args: []string{"--advertise", g.addr()}})
	g.serve(s.Addr)
	stops, kills, ticks := 0, 0, 0
	tick := time.NewTicker(restartEvery)
	defer tick.Stop()
	for run := 1; stops < 2 || kills < 2; run++ {
		cmd := exec.Command(path, "-test.v", "-test.run=^TestGroupETL$", "-test.timeout=8m")
		var out bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), kgoEnv(g.addr(), etlRecords(), "1")...), &out, &out
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for running := true; running; {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("run %d: %v after %d stops and %d kills:\n%s", run, err, stops, kills, clip(out.String()))
				}
				running = false
			case <-tick.C:
				if ticks++; (ticks-1)%restartCycle >= restartBurst {
					continue
				}
				if stops <= kills {
					stops++
				} else {
					kills++
					s.Kill()
				}
				s.Restart()
			}
		}
		t.Logf("run %d: TestGroupETL of %s records passed in %s; %d stops and %d kills so far", run, etlRecords(), time.Since(start).Round(time.Second), stops, kills)
	}
}

// clip is the end of a long text.
func clip(s string) string { return s[max(0, len(s)-8000):] }

// exclusion is a line of a list of tests that aren't to pass.
type exclusion struct{ how, why string }

// readList reads lines of: test name, how it ends, why.
func readList(t testing.TB, file string) map[string]exclusion {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]exclusion{}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			t.Fatalf("%s: no reason in %q", file, line)
		}
		all[f[0]] = exclusion{f[1], strings.Join(f[2:], " ")}
	}
	return all
}

// testPattern is a pattern for -test.run and -test.skip of the tests that end so.
func testPattern(list map[string]exclusion, how string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if list[name].how == how {
			all = append(all, "^"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$")
		}
	}
	return strings.Join(all, "|")
}

// result is how a foreign test ended.
type result struct {
	state string // PASS, FAIL or SKIP; RUN when it never ended
	said  string // what it printed
}

var resultLine = regexp.MustCompile(`^\x16?\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

// runTests runs a test binary of Go and gives the result of each test and
// subtest. An exit code says nothing here that the results don't.
func runTests(t testing.TB, dir string, env []string, argv ...string) map[string]result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := execute(ctx, dir, env, nil, append(argv, "-test.v=test2json")...)
	all := map[string]result{}
	var now string
	var said strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if f := strings.Fields(strings.TrimPrefix(line, "\x16")); len(f) == 3 && f[0] == "===" {
			now = f[2]
			if _, seen := all[now]; !seen {
				all[now] = result{state: "RUN"}
			}
			continue
		}
		if m := resultLine.FindStringSubmatch(line); m != nil {
			all[m[2]] = result{m[1], all[m[2]].said}
			continue
		}
		if r, ok := all[now]; ok {
			r.said += line + "\n"
			r.said = r.said[max(0, len(r.said)-2000):]
			all[now] = r
		}
		said.WriteString(line + "\n")
	}
	if len(all) == 0 {
		t.Fatalf("no test ran: %v\n%s", err, clip(said.String()))
	}
	return all
}

// judge holds results against the list of what isn't to pass.
func judge(t *testing.T, suite string, results map[string]result, excluded map[string]exclusion) {
	t.Helper()
	passed, failed, left := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		e, listed := excluded[name]
		switch {
		case listed && r.state == "PASS":
			failed++
			t.Errorf("%s passes: take it off the list (%s)", name, e.why)
		case listed && (e.how == "skips") != (r.state == "SKIP"):
			failed++
			t.Errorf("%s was to end with %q: %s\n%s", name, e.how, r.state, r.said)
		case listed:
			left++
		case within(name, excluded):
			// A subtest of what cannot pass.
		case r.state == "PASS":
			passed++
		case r.state == "FAIL" && parentOnly(name, results):
			// Its subtests say why.
		default:
			failed++
			t.Errorf("%s: %s\n%s", name, r.state, r.said)
		}
	}
	for name := range excluded {
		if _, seen := results[name]; !seen {
			failed++
			t.Errorf("%s is on the list, but there is no such test", name)
		}
	}
	t.Logf("%s: %d passed, %d failed, %d excluded", suite, passed, failed, left)
}

// within says whether a test is a subtest of one that fails as expected.
func within(name string, excluded map[string]exclusion) bool {
	for i := range name {
		if name[i] == '/' && excluded[name[:i]].how == "fails" {
			return true
		}
	}
	return false
}

// parentOnly says whether a test failed because of a subtest.
func parentOnly(name string, results map[string]result) bool {
	for other, r := range results {
		if strings.HasPrefix(other, name+"/") && r.state == "FAIL" {
			return true
		}
	}
	return false
}
