package enginetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/compat/peer"
	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// World is a broker, an empty data set, and a driver without an engine.
type World struct {
	T      *testing.T
	Addr   string // of the broker
	Driver *loader.Driver
	Spec   loader.Spec

	twins bool // second attempts may run beside first ones

	mu       sync.Mutex
	attempts []error // outcomes, as the driver was told
	client   *kgo.Client
}

// topic has as many partitions as a load has splits.
const (
	topic      = "views"
	partitions = 3
)

// New makes a world around a root.
func New(t *testing.T, root sink.Sink) *World {
	t.Helper()
	b := brokertest.Start(t, func(c *broker.Config) {
		c.Defaults = map[string]string{"num.partitions": fmt.Sprint(partitions), "retention.ms": "-1"}
	})
	source := consumer.Config{Brokers: []string{b.Addr()}, Timeout: 20 * time.Second}
	cluster, err := consumer.Dial(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &World{T: t, Addr: b.Addr()}
	w.Driver = &loader.Driver{
		Cluster: cluster, Source: source, Sink: root, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now, By: "test",
		Observe: func(e loader.Event) {
			if e.Kind == "attempt" {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.attempts = append(w.attempts, e.Err)
			}
		},
	}
	w.client, err = kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(10),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	ms := &formats.Type{Kind: formats.Timestamp, Unit: formats.Millis}
	w.Spec = loader.Spec{
		Name: "job", Topics: []string{topic}, Root: root.Root(), Merge: "never",
		Schema: &formats.Schema{Fields: []formats.Field{
			{Name: "ts", Type: ms}, {Name: "n", Type: &formats.Type{Kind: formats.Int64}},
		}},
		Decode: formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"ts"}, Format: "rfc3339"}},
	}
	return w
}

// Produce writes n records to every partition; every 50th is no JSON.
func (w *World) Produce(n int) {
	w.T.Helper()
	var wg sync.WaitGroup
	wg.Add(n * partitions)
	for i := range n * partitions {
		value := fmt.Appendf(nil, `{"ts":"2026-11-29T%02d:00:00Z","n":%d}`, i%4, i)
		if i/partitions%50 == 49 {
			value = []byte("no json")
		}
		w.client.Produce(w.T.Context(), &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}, func(_ *kgo.Record, err error) {
			defer wg.Done()
			if err != nil {
				w.T.Error(err)
			}
		})
	}
	wg.Wait()
}

// Plan plans what is due.
func (w *World) Plan() *loader.Plan {
	w.T.Helper()
	p, _, err := w.Driver.Plan(w.T.Context(), &w.Spec, loader.PlanAsk{})
	if err != nil {
		w.T.Fatal(err)
	}
	if len(p.Splits) != partitions {
		w.T.Fatalf("%d splits, want %d", len(p.Splits), partitions)
	}
	return p
}

// Load carries a plan out and wants it committed.
func (w *World) Load(p *loader.Plan, run string, want int64) {
	w.T.Helper()
	out, err := w.Driver.Run(w.T.Context(), p, loader.RunAsk{Run: run, Retries: 2, Memory: 256 << 20})
	if err != nil || out.Status != loader.StatusCommitted || out.Rows != want {
		w.T.Fatalf("%+v %v: want %d rows committed", out, err, want)
	}
}

// Attempts are the outcomes the driver was told of, since the last call.
func (w *World) Attempts() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.attempts
	w.attempts = nil
	return told
}

// Tree is the content of all files a reader or the ledger sees, by path: stages
// and temporary files are nobody's.
func (w *World) Tree() map[string]string {
	w.T.Helper()
	tree := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := w.Driver.Sink.List(dir)
		if err != nil && !errors.Is(err, sink.ErrNotExist) {
			w.T.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case name == loader.StagesDir || name == loader.TempDir:
			case e.Dir:
				walk(name)
			default:
				data, err := w.Driver.Sink.ReadFile(name)
				if err != nil {
					w.T.Fatal(err)
				}
				sum := sha256.Sum256(data)
				tree[name] = hex.EncodeToString(sum[:])
			}
		}
	}
	walk("")
	return tree
}

// Unchanged wants the tree as it was.
func (w *World) Unchanged(before map[string]string, after string) {
	w.T.Helper()
	if now := w.Tree(); !maps.Equal(before, now) {
		w.T.Errorf("%s changed the data set:\n%v\n%v", after, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(now)))
	}
}

// Sweep takes the stages away of what is committed.
func (w *World) Sweep() {
	w.T.Helper()
	l, err := w.Driver.Ledger(w.T.Context(), w.Spec.Name, w.Spec.Name)
	if err == nil {
		_, err = l.Sweep(w.T.Context(), false)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// Tasks lists the tasks of a plan, as an engine hands them out.
func (w *World) Tasks(p *loader.Plan) *loader.TaskList {
	w.T.Helper()
	work := loader.Work{Root: w.Driver.Sink.Root(), PlanID: loader.PlanID(p), Plan: p, Source: w.Driver.Source, Memory: 256 << 20}
	for i := range p.Splits {
		work.Splits = append(work.Splits, i)
	}
	list, err := loader.NewTaskList(w.Driver.Sink, &work)
	if err != nil {
		w.T.Fatal(err)
	}
	return list
}

// Said is how a process of `sawlog task exec` ended.
type Said struct {
	Code     int
	Out, Err string
}

// Task runs `sawlog task exec` to its end.
func Task(ctx context.Context, t testing.TB, stdin io.Reader, args ...string) Said {
	t.Helper()
	cmd := exec.CommandContext(ctx, peer.Binary(t), append([]string{"task", "exec"}, args...)...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &err
	failed := cmd.Run()
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) {
		t.Error(failed)
	}
	return Said{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

// Lines are those of a text.
func Lines(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// Silent is the address of a broker that takes connections and says nothing;
// met is closed with the first of them.
func Silent(t testing.TB) (addr string, met <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range open {
					_ = c.Close()
				}
				return
			}
			if open = append(open, c); len(open) == 1 {
				close(first)
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String(), first
}

// Ended waits for attempts that are to end by themselves.
func Ended(t testing.TB, attempts *sync.WaitGroup) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		attempts.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("attempts still run")
	}
}
