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
// not, and nothing the sink is asked for afterwards is answered.
type cutOff struct {
	sink.Sink
	end    func()
	works  bool
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
	if s.silent {
		return nil, &sink.Error{Op: "read", Path: name, Class: sink.Retryable, Err: context.Canceled}
	}
	return s.Sink.ReadFile(name)
}

// A run that is interrupted while its record is put doesn't say that nothing was
// committed: the next one knows, and goes on from what is there.
func TestInterruptedCommitIsUnsure(t *testing.T) {
	for name, works := range map[string]bool{"it worked": true, "it did not": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.src.log("views", 0).put(t, 10, record.None, lines(view(1, 2, "/x"), view(3, 4, "/y"))...)
			p, _ := r.plan(PlanAsk{})
			ctx, cancel := context.WithCancel(t.Context())
			s := &cutOff{Sink: r.d.Sink, end: cancel, works: works}
			r.d.Sink = s
			out, err := r.d.Run(ctx, p, RunAsk{Run: "first"})
			var e *Error
			if !errors.As(err, &e) || e.Code != ExitInterrupted || out.Status != StatusInterrupted {
				t.Fatalf("%+v %v", out, err)
			}
			if !strings.Contains(err.Error(), "may be committed") || !strings.Contains(e.Hint, "the next run of the job") {
				t.Errorf("%v; %s", err, e.Hint)
			}
			r.d.Sink = s.Sink
			again, _ := r.plan(PlanAsk{})
			out, err = r.run(again)
			if err != nil || out.Status != map[bool]string{true: StatusCovered, false: StatusCommitted}[works] {
				t.Errorf("%+v %v", out, err)
			}
			if rows := r.rows("path"); len(rows) != 2 {
				t.Errorf("rows %v", rows)
			}
		})
	}
}
