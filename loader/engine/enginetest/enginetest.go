// Package enginetest is the one conformance suite of engines: what a driver
// relies on, checked on any of them with real tasks, real brokers and a real
// root.
package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// Suite is an engine to be checked. Open returns a sink with an empty root,
// Engine an engine for it, each anew for every test.
type Suite struct {
	Open   func(t *testing.T) sink.Sink
	Engine func(t *testing.T, s sink.Sink) loader.Engine
	// Twins tells that the engine may start a second attempt of a split beside the
	// first.
	Twins bool
	// Idle, when set, checks that nothing of a test's engine runs any more.
	Idle func(t *testing.T)
}

// Run checks it.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, w *World)
	}{
		{"loads", loads},
		{"late attempts", late},
		{"fails for good", gone},
		{"timeout", tooLong},
		{"cancel", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := s.Open(t)
			w := New(t, root)
			w.Driver.Engine, w.twins = s.Engine(t, root), s.Twins
			c.test(t, w)
			if s.Idle != nil {
				s.Idle(t)
			}
		})
	}
}

const perPartition = 500

// rows is what perPartition records of each partition are.
const rows = partitions * perPartition / 50 * 49

func loads(t *testing.T, w *World) {
	w.Produce(perPartition)
	p := w.Plan()
	w.Load(p, "r1", rows)
	for _, err := range w.Attempts() {
		if err != nil {
			t.Errorf("an attempt failed: %v", err)
		}
	}
	before := w.Tree()
	report, err := w.Driver.Rerun(t.Context(), "r1")
	if err != nil || report.Identical == 0 || report.Changed+report.Restored+report.Retired != 0 {
		t.Errorf("rerun %+v %v", report, err)
	}
	w.Unchanged(before, "a rerun")
	if out, err := w.Driver.Run(t.Context(), w.mustPlan(), loader.RunAsk{Run: "r2"}); err != nil || out.Status != loader.StatusCovered {
		t.Errorf("%+v %v", out, err)
	}
}

func (w *World) mustPlan() *loader.Plan {
	p, _, err := w.Driver.Plan(w.T.Context(), &w.Spec, loader.PlanAsk{})
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

// late has every split carried out twice at once before the engine comes, once
// after the commit and once after the sweep.
func late(t *testing.T, w *World) {
	w.Produce(100)
	w.Load(w.Plan(), "r0", rows/5) // the first record sweeps
	w.Produce(perPartition)
	p := w.Plan()
	l, err := w.Driver.Ledger(t.Context(), w.Spec.Name, w.Spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.PutPlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for i := range p.Splits {
		if err := w.Driver.Sink.MkdirAll(loader.StageDir(loader.PlanID(p), i)); err != nil {
			t.Fatal(err)
		}
	}
	list := w.Tasks(p)
	spec := func(split int) []byte {
		s, err := list.Spec(split)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	var wg sync.WaitGroup
	for range 2 { // twins of one split, as speculative execution makes them
		wg.Go(func() {
			if said := Task(t.Context(), t, bytes.NewReader(spec(0)), "--stdin"); said.Code != 0 {
				t.Errorf("%+v", said)
			}
		})
	}
	wg.Wait()
	results, err := l.Results(t.Context(), p, loader.PlanID(p))
	if err != nil || len(results) != 2 || results[0].Attempt == results[1].Attempt {
		t.Fatalf("%d results of twins, %v", len(results), err)
	}
	w.Load(p, "r1", rows)
	before := w.Tree()
	if said := Task(t.Context(), t, bytes.NewReader(spec(1)), "--stdin", "--streaming"); said.Code != 0 {
		t.Errorf("after the commit: %+v", said)
	}
	w.Unchanged(before, "an attempt after the commit")
	w.Sweep()
	said := Task(t.Context(), t, bytes.NewReader(spec(1)), "--stdin")
	if said.Code != loader.ExitConflict || !strings.Contains(said.Out, "swept") {
		t.Errorf("after the sweep: %+v", said)
	}
	w.Unchanged(before, "an attempt after the sweep")
	if left, err := w.Driver.Sink.List(loader.StagesDir); err != nil && !errors.Is(err, sink.ErrNotExist) || len(left) != 0 {
		t.Errorf("an attempt after the sweep made stages anew: %v %v", left, err)
	}
	if report, err := w.Driver.Rerun(t.Context(), "r1"); err != nil || report.Changed+report.Restored != 0 {
		t.Errorf("rerun %+v %v", report, err)
	}
}

// gone has records vanish between plan and run: no attempt can be right, so
// none is repeated.
func gone(t *testing.T, w *World) {
	w.Produce(perPartition)
	p := w.Plan()
	req := kmsg.NewPtrDeleteRecordsRequest()
	for i := range partitions {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = int32(i), 100
		if i == 0 {
			req.Topics = append(req.Topics, kmsg.NewDeleteRecordsRequestTopic())
			req.Topics[0].Topic = topic
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	req.TimeoutMillis = 10_000
	if _, err := req.RequestWith(t.Context(), w.client); err != nil {
		t.Fatal(err)
	}
	before := w.Tree()
	out, err := w.Driver.Run(t.Context(), p, loader.RunAsk{Run: "r1", Retries: 5, Memory: 256 << 20})
	var told *loader.Error
	if loader.ExitCode(err) != loader.ExitMismatch || out.Status != loader.StatusFailed || !errors.As(err, &told) || !strings.Contains(told.Hint, "--accept-gap") {
		t.Errorf("%+v %v: want exit 8 and a hint", out, err)
	}
	if !errors.Is(err, loader.ErrGone) {
		t.Errorf("%v: nobody can tell that it is the log which has it no longer", err)
	}
	most := partitions
	if w.twins {
		most *= 2
	}
	if n := len(w.Attempts()); n > most {
		t.Errorf("%d attempts of %d splits that cannot work", n, partitions)
	}
	for name := range w.Tree() {
		if before[name] == "" && !strings.HasPrefix(name, loader.PlansDir) {
			t.Errorf("a run that failed left %s", name)
		}
	}
}

// stalled has tasks that reach a broker which never answers.
func (w *World) stalled() (p *loader.Plan, met <-chan struct{}) {
	w.Produce(100)
	p = w.Plan()
	addr, met := Silent(w.T)
	w.Driver.Source.Brokers = []string{addr}
	w.Driver.Source.Timeout = time.Hour
	return p, met
}

func tooLong(t *testing.T, w *World) {
	p, _ := w.stalled()
	out, err := w.Driver.Run(t.Context(), p, loader.RunAsk{Run: "r1", Retries: 1, Timeout: time.Second, Parallelism: 1, Memory: 256 << 20})
	if loader.ExitCode(err) != loader.ExitUnavailable || out.Status != loader.StatusFailed {
		t.Errorf("%+v %v: want exit 6", out, err)
	}
}

func cancelled(t *testing.T, w *World) {
	p, met := w.stalled()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-met // the first task runs
		cancel()
	}()
	out, err := w.Driver.Run(ctx, p, loader.RunAsk{Run: "r1", Retries: 5, Memory: 256 << 20})
	if loader.ExitCode(err) != loader.ExitInterrupted || out.Status != loader.StatusInterrupted {
		t.Errorf("%+v %v: want it interrupted", out, err)
	}
	w.Driver.Source.Brokers, w.Driver.Source.Timeout = []string{w.Addr}, 20*time.Second
	w.Load(p, "r2", rows/5)
}

// Contract checks `sawlog task exec` itself: what it takes, what it says, and
// how it ends.
func Contract(t *testing.T, root sink.Sink) {
	w := New(t, root)
	w.Produce(perPartition)
	p := w.Plan()
	l, err := w.Driver.Ledger(t.Context(), w.Spec.Name, w.Spec.Name)
	if err == nil {
		_, err = l.PutPlan(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Splits {
		if err := root.MkdirAll(loader.StageDir(loader.PlanID(p), i)); err != nil {
			t.Fatal(err)
		}
	}
	list := w.Tasks(p)
	file := filepath.Join(t.TempDir(), "tasks.json")
	if data, err := json.Marshal(list); err != nil || os.WriteFile(file, data, 0o600) != nil {
		t.Fatal(err)
	}
	lines, err := list.Lines()
	if err != nil {
		t.Fatal(err)
	}
	silent, _ := Silent(t)
	line := string(bytes.SplitAfter(lines, []byte("\n"))[1])
	change := func(with func(*loader.ExecSpec)) string {
		s, err := list.Spec(1)
		if err != nil {
			t.Fatal(err)
		}
		with(s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        string
	}{
		{"line", line, []string{"--stdin"}, 0, `"result":`},
		{"keyed line", "1234\t" + line, []string{"--stdin"}, 0, `"result":`},
		{"list", "", []string{"--plan", file, "--index", "2"}, 0, `"result":`},
		{"streaming", line, []string{"--stdin", "--streaming"}, 0, "1\tok\t490\t"},
		{"two lines", line + line, []string{"--stdin"}, 4, "linespermap"},
		{"no line", "", []string{"--stdin"}, 4, "task spec"},
		{"other version", strings.Replace(line, `"v":1`, `"v":2`, 1), []string{"--stdin"}, 4, "version 2"},
		{"no such task", "", []string{"--plan", file, "--index", "3"}, 4, "tasks 0 to 2"},
		{"no such file", "", []string{"--plan", file + "x", "--index", "0"}, 4, "no such file"},
		{"no such flag", "", []string{"--no-such-flag"}, 4, "no-such-flag"},
		{"argument", "", []string{"--stdin", "x"}, 4, `"x"`},
		{"neither", "", nil, 4, "--stdin"},
		{"global flag", line, []string{"--stdin", "-o", "xml"}, 4, "xml"},
		{"little memory", change(func(s *loader.ExecSpec) { s.Memory = 1 << 20 }), []string{"--stdin"}, 4, "memory"},
		{"no such root", change(func(s *loader.ExecSpec) { s.Root = "ftp://x/y" }), []string{"--stdin"}, 4, "ftp"},
		{"no such topic", change(func(s *loader.ExecSpec) { s.Split = 7 }), []string{"--stdin"}, 4, "split 7"},
		{"no broker", change(func(s *loader.ExecSpec) {
			s.Source.Brokers, s.Source.Timeout = []string{"127.0.0.1:1"}, time.Second
		}), []string{"--stdin"}, 6, "127.0.0.1:1"},
		{"too long", change(func(s *loader.ExecSpec) {
			s.Source.Brokers, s.Timeout = []string{silent}, time.Second
		}), []string{"--stdin"}, 6, "longer than 1s"},
		{"secret not on this node", change(func(s *loader.ExecSpec) {
			s.Source.SASL, s.Source.User, s.Source.PasswordFile = "PLAIN", "u", "/no/such/file"
		}), []string{"--stdin"}, 4, "/no/such/file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := Task(t.Context(), t, strings.NewReader(c.stdin), c.args...)
			if said.Code != c.code || !strings.Contains(said.Out+said.Err, c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", said.Code, c.code, c.says, said.Out, said.Err)
			}
			if c.name == "streaming" {
				streamed(t, root, said)
			}
		})
	}
	left(t, w, change(func(s *loader.ExecSpec) {
		s.Attempt, s.Source.Brokers, s.Timeout = "00000000-0000-4000-8000-000000000000", []string{silent}, time.Second
	}))
}

// streamed wants one line of output, and status and counters beside.
func streamed(t *testing.T, root sink.Sink, said Said) {
	lines := Lines(said.Out)
	fields := strings.Split(lines[0], "\t")
	if len(lines) != 1 || len(fields) != 6 || len(fields[4]) != 64 {
		t.Fatalf("%q", said.Out)
	}
	if _, err := root.Stat(fields[5]); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"reporter:status:", "reporter:counter:sawlog,rows,490\n", "reporter:counter:sawlog,quarantined,10\n"} {
		if !strings.Contains(said.Err, want) {
			t.Errorf("no %q in %s", want, said.Err)
		}
	}
	for _, line := range Lines(said.Err) { // Streaming takes a reporter line with anything before it for a message
		if at := strings.Index(line, "reporter:"); at > 0 {
			t.Errorf("%q", line)
		}
	}
}

// left wants the error of an attempt in its folder.
func left(t *testing.T, w *World, spec string) {
	said := Task(t.Context(), t, strings.NewReader(spec), "--stdin")
	var s loader.ExecSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		t.Fatal(err)
	}
	data, err := w.Driver.Sink.ReadFile(loader.AttemptDir(s.PlanID, s.Split, s.Attempt) + "/error.json")
	var told loader.ExecError
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil || told.Code != said.Code || said.Code != 6 || told.By == "" || !strings.Contains(told.Msg, "longer") {
		t.Errorf("%+v %v; the process said %s", told, err, fmt.Sprint(said))
	}
}
