package loader

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/loader/sink"
)

// cutOff is a sink whose context ends while a record is put: the put works, or
// not, and nothing the sink is asked for afterwards is answered; or it works, is
// found, and can't be made durable.
type cutOff struct {
	sink.Sink
	end    func()
	works  bool
	found  bool
	silent bool
}

func (s *cutOff) PutIfAbsent(name string, data []byte) error {
	if s.end == nil || !strings.HasPrefix(name, LedgerDir+"/") {
		return s.Sink.PutIfAbsent(name, data)
	}
	s.end()
	s.silent = true
	if s.works {
		if err := s.Sink.PutIfAbsent(name, data); err != nil {
			return err
		}
	}
	return ambiguous()
}

func (s *cutOff) ReadFile(name string) ([]byte, error) {
	if s.silent && !s.found {
		return nil, &sink.Error{Op: "read", Path: name, Class: sink.Retryable, Err: context.Canceled}
	}
	return s.Sink.ReadFile(name)
}

func (s *cutOff) Sync(names ...string) error {
	if s.silent {
		return &sink.Error{Op: "sync", Path: names[0], Class: sink.Retryable, Err: context.Canceled}
	}
	return s.Sink.Sync(names...)
}

// cuts are the ways a put is cut off.
var cuts = map[string]cutOff{
	"it worked":               {works: true},
	"it did not":              {},
	"it worked and was found": {works: true, found: true},
}

// unsure wants what was cut off to say that it may be committed.
func unsure(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != ExitInterrupted || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "may be committed") || strings.Contains(text, "nothing was") || !strings.Contains(e.Hint, "the next run of the job") {
		t.Errorf("%v; %s", err, e.Hint)
	}
}

// A run that is interrupted while its record is put doesn't say that nothing was
// committed: the next one knows, and goes on from what is there.
func TestInterruptedCommitIsUnsure(t *testing.T) {
	for name, s := range cuts {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.src.log("views", 0).put(t, 10, record.None, lines(view(1, 2, "/x"), view(3, 4, "/y"))...)
			p, _ := r.plan(PlanAsk{})
			ctx, cancel := context.WithCancel(t.Context())
			s.Sink, s.end = r.d.Sink, cancel
			r.d.Sink = &s
			out, err := r.d.Run(ctx, p, RunAsk{Run: "first"})
			unsure(t, err)
			if out.Status != StatusInterrupted {
				t.Errorf("%+v", out)
			}
			r.d.Sink = s.Sink
			again, _ := r.plan(PlanAsk{})
			out, err = r.run(again)
			if err != nil || out.Status != map[bool]string{true: StatusCovered, false: StatusCommitted}[s.works] {
				t.Errorf("%+v %v", out, err)
			}
			if rows := r.rows("path"); len(rows) != 2 {
				t.Errorf("rows %v", rows)
			}
		})
	}
}

// So it is with an amend, which is no plan.
func TestInterruptedAmendIsUnsure(t *testing.T) {
	for name, s := range cuts {
		t.Run(name, func(t *testing.T) {
			under := memSink()
			src := &source{}
			l := src.open(t, under)
			old := fakePlan(l.Fold(), span{0, 0, 40})
			old.Writer.Profile = 7
			src.mustRun(t, l, old, "run-1")
			ctx, cancel := context.WithCancel(t.Context())
			s.Sink, s.end = under, cancel
			_, err := src.open(t, &s).Amend(ctx, "run-1", "amend-1", CommitOptions{})
			unsure(t, err)
			l = src.open(t, under)
			rec, err := l.Amend(t.Context(), "run-1", "amend-2", CommitOptions{})
			if err != nil || (rec == nil) != s.works {
				t.Errorf("%+v %v", rec, err)
			}
			sound(t, l)
		})
	}
}
