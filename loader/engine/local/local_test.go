package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/loader"
	"sawlog/loader/engine/local"
	"sawlog/loader/sink"
	sinklocal "sawlog/loader/sink/local"
)

// roleEnv says what a child of this test binary is to do instead of testing.
const roleEnv = "SAWLOG_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(m.Run())
	case "task":
		spec, err := loader.ReadExecSpec(os.Stdin)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(loader.ExitConflict)
		}
		code := loader.Exec(context.Background(), spec, openSink, loader.NewJSONLines(os.Stdout), slog.New(slog.NewTextHandler(os.Stderr, nil)))
		printPeak()
		os.Exit(code)
	case "panic":
		panic("as a damaged file might make it")
	case "hang":
		fmt.Printf("{\"progress\":{\"split\":0,\"phase\":%q}}\n", strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	case "parent": // starts a child of its own and dies without a word
		e := local.Engine{Command: []string{os.Args[0]}, Env: []string{roleEnv + "=hang"}}
		_ = e.Run(context.Background(), loader.Work{Splits: []int{0}, Progress: func(p loader.TaskProgress) {
			fmt.Println(p.Phase)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}})
	default:
		code, err := strconv.Atoi(role)
		if err != nil {
			code = 99
		}
		fmt.Printf("noise\n{\"error\":{\"code\":%d,\"msg\":\"told\",\"hint\":\"do\"}}\n", code)
		os.Exit(code)
	}
}

func openSink(uri string, _ sink.Access) (sink.Sink, error) { return sinklocal.Open(uri) }

func engine(t *testing.T, role string) *local.Engine {
	return &local.Engine{Command: []string{os.Args[0]}, Env: append(os.Environ(), roleEnv+"="+role), Spool: t.TempDir()}
}

// world is a broker, a data set and a driver whose tasks are child processes.
type world struct {
	t      *testing.T
	source consumer.Config
	driver *loader.Driver
	spec   loader.Spec
	client *kgo.Client
}

func newWorld(t *testing.T, batchBytes int) *world {
	t.Helper()
	b := brokertest.Start(t, func(c *broker.Config) {
		c.Defaults = map[string]string{"max.message.bytes": "41943040", "retention.ms": "-1"}
	})
	w := &world{t: t, source: consumer.Config{Brokers: []string{b.Addr()}, Timeout: 20 * time.Second}}
	cluster, err := consumer.Dial(t.Context(), w.source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	root, err := sinklocal.Open("file://" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.driver = &loader.Driver{
		Cluster: cluster, Source: w.source, Sink: root, Engine: engine(t, "task"), Logger: slog.New(slog.DiscardHandler),
		Now: time.Now, By: "test",
	}
	w.client, err = kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(int32(batchBytes)), kgo.BrokerMaxWriteBytes(60<<20), kgo.UnknownTopicRetries(10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.spec = loader.Spec{
		Name: "job", Topics: []string{"views"}, Root: root.Root(),
		Decode: formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"ts"}, Format: "rfc3339"}},
	}
	return w
}

// produce sends values made by make until it gives nil.
func (w *world) produce(make func(i int) []byte) {
	w.t.Helper()
	var failed error
	for i := 0; ; i++ {
		value := make(i)
		if value == nil {
			break
		}
		w.client.Produce(w.t.Context(), &kgo.Record{Topic: "views", Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := w.client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if failed != nil {
		w.t.Fatal(failed)
	}
}

func (w *world) plan() *loader.Plan {
	w.t.Helper()
	p, _, err := w.driver.Plan(w.t.Context(), &w.spec, loader.PlanAsk{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func TestTasksAreChildren(t *testing.T) {
	w := newWorld(t, 1<<20)
	w.produce(func(i int) []byte {
		if i == 2000 {
			return nil
		}
		return fmt.Appendf(nil, `{"ts":"2026-11-29T%02d:00:00Z","n":%d}`, i%3, i)
	})
	progress := map[string]bool{}
	w.driver.Observe = func(e loader.Event) {
		if e.Kind == "attempt" {
			progress[e.Task.Attempt] = e.Err == nil
		}
	}
	out, err := w.driver.Run(t.Context(), w.plan(), loader.RunAsk{Run: "r1"})
	if err != nil || out.Status != loader.StatusCommitted || out.Rows != 2000 || len(out.Hours) != 3 {
		t.Fatalf("%+v %v", out, err)
	}
	if len(progress) < 2 { // one that met unknown columns, one that wrote
		t.Errorf("attempts %v", progress)
	}
	report, err := w.driver.Rerun(t.Context(), "r1")
	if err != nil || report.Identical != 3 || report.Changed+report.Restored+report.Retired != 0 {
		t.Errorf("rerun %+v %v", report, err)
	}
	if out, err = w.driver.Run(t.Context(), w.plan(), loader.RunAsk{Run: "r2"}); err != nil || out.Status != loader.StatusCovered {
		t.Errorf("%+v %v", out, err)
	}
}

// How a task ends says whether it is tried again, and with which code the
// split fails.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		role     string
		code     int
		attempts int
		says     string
	}{
		{"3", 3, 1, "told"},
		{"4", 4, 1, "told"},
		{"5", 5, 1, "told"},
		{"8", 8, 1, "told"},
		{"6", 6, 2, "told"},
		{"panic", 6, 2, "as a damaged file might make it"},
	} {
		t.Run(c.role, func(t *testing.T) {
			attempts := 0
			err := engine(t, c.role).Run(t.Context(), loader.Work{Splits: []int{0}, Retries: 1, Done: func(_ int, _ string, err error) {
				if attempts++; err == nil {
					t.Error("an attempt worked")
				}
			}})
			if loader.ExitCode(err) != c.code || attempts != c.attempts || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d attempts, %v: want %d, code %d", attempts, err, c.attempts, c.code)
			}
			var e *loader.Error
			if c.role != "panic" && (!errors.As(err, &e) || e.Hint != "do") {
				t.Errorf("the hint is lost: %v", err)
			}
		})
	}
}

func TestTimeoutAndCancelEndTheChild(t *testing.T) {
	for name, work := range map[string]loader.Work{
		"timeout": {Splits: []int{0}, Timeout: 3 * time.Second},
		"cancel":  {Splits: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pid := 0
			work.Progress = func(p loader.TaskProgress) {
				pid, _ = strconv.Atoi(p.Phase)
				if name == "cancel" {
					cancel()
				}
			}
			err := engine(t, "hang").Run(ctx, work)
			if name == "timeout" && loader.ExitCode(err) != loader.ExitUnavailable || name == "cancel" && !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if pid == 0 || syscall.Kill(pid, 0) == nil {
				t.Errorf("child %d is alive", pid)
			}
		})
	}
}

// The child of a parent that is killed does not live on, and neither leaves
// anything behind.
func TestChildDiesWithItsParent(t *testing.T) {
	scratch := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=parent", "TMPDIR="+scratch)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("parent ended with %v, want it killed", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	// The pipe of its output is closed by now only if the child is gone too.
	deadline := time.Now().Add(10 * time.Second)
	for alive(child) {
		if time.Now().After(deadline) {
			t.Fatalf("child %d outlived its parent", child)
		}
		runtime.Gosched()
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("they leave %v, %v", left, err)
	}
}

// alive tells of a process that still runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// printPeak prints the most memory this process had resident. The parent cannot
// tell: what it is told of a child includes its own memory at the fork.
func printPeak() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Println(line)
		}
	}
}

// peak carries one split out in a child and gives the most memory it had
// resident, in bytes.
func (w *world) peak(p *loader.Plan, split int, memory int64) (int64, *loader.ExecError) {
	w.t.Helper()
	planID := loader.PlanID(p)
	if err := w.driver.Sink.MkdirAll(loader.StageDir(planID, split)); err != nil {
		w.t.Fatal(err)
	}
	spec, err := json.Marshal(loader.ExecSpec{
		V: 1, Root: w.driver.Sink.Root(), PlanID: planID, Plan: p, Split: split, Source: w.source, Memory: memory, Spool: w.t.TempDir(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=task")
	cmd.Stdin = strings.NewReader(string(spec))
	out, err := cmd.Output()
	var told *loader.ExecError
	var peak int64
	for text := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		var line loader.ExecLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Error != nil {
			told = line.Error
		}
		if _, err := fmt.Sscanf(text, "VmHWM: %d kB", &peak); err == nil {
			peak <<= 10
		}
	}
	if err != nil && told == nil {
		w.t.Fatalf("task: %v: %s", err, cmd.ProcessState)
	}
	if peak == 0 {
		w.t.Fatalf("the task told no VmHWM: %s", out)
	}
	return peak, told
}
