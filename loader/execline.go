package loader

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Teller hears how a task goes: progress, and at last how it ended. Nobody may
// be listening any more; that is no reason to stop, for the driver believes only
// what stands in the root.
type Teller interface {
	Tell(line ExecLine)
}

// ExecLine is one thing a task tells; JSONLines prints it as a line of JSON.
type ExecLine struct {
	Progress *TaskProgress `json:"progress,omitempty"`
	Result   string        `json:"result,omitempty"` // path of result.json under the root
	Error    *ExecError    `json:"error,omitempty"`

	result *Result // beside Result
}

// ExecError is an Error on its way between processes.
type ExecError struct {
	Code int    `json:"code"`
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitempty"`
	Gone bool   `json:"gone,omitempty"` // it is ErrGone
	By   string `json:"by,omitempty"`   // the attempt as its cluster manager knows it
}

// Err is the error of a split, as a driver reports it.
func (e *ExecError) Err(split int) error {
	return &Error{Code: e.Code, Msg: fmt.Sprintf("split %d: %s", split, e.Msg), Hint: e.Hint, Gone: e.Gone}
}

// JSONLines tells in JSON, a line for everything.
type JSONLines struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewJSONLines prints to w.
func NewJSONLines(w io.Writer) *JSONLines { return &JSONLines{enc: json.NewEncoder(w)} }

// Tell prints one line.
func (l *JSONLines) Tell(line ExecLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enc.Encode(line)
}

// Streaming tells as Hadoop Streaming wants it of a mapper: on standard output
// one line when all is well,
//
//	SPLIT \t ok|unknown \t ROWS \t BYTES \t SHA256 OF result.json \t ITS PATH
//
// (unknown = the records hold paths the schema doesn't), and on standard error
// status and counters. A mapper that says nothing for mapreduce.task.timeout (10
// minutes where nothing else is set) is killed, so the status is repeated.
type Streaming struct {
	mu       sync.Mutex
	out, err io.Writer
	status   string
	said     time.Time
}

// beat is the longest a task of Streaming keeps silent.
const beat = 30 * time.Second

// NewStreaming tells on out and err, and repeats the status until stop is
// called, which waits for it.
func NewStreaming(out, err io.Writer) (s *Streaming, stop func()) {
	s = &Streaming{out: out, err: err}
	s.say("starts")
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.repeat()
			case <-end:
				return
			}
		}
	}()
	return s, func() {
		close(end)
		<-ended
	}
}

func (s *Streaming) repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.said) >= beat/2 {
		s.say(s.status)
	}
}

func (s *Streaming) say(status string) {
	s.status, s.said = status, time.Now()
	_, _ = fmt.Fprintf(s.err, "reporter:status:%s\n", status)
}

// Tell turns the line into what Streaming understands.
func (s *Streaming) Tell(line ExecLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p, r := line.Progress, line.result; {
	case p != nil:
		status := fmt.Sprintf("%s %d of %d offsets, %d rows", p.Phase, p.Offsets, p.Total, p.Rows)
		if phase, _, _ := strings.Cut(s.status, " "); phase != p.Phase || time.Since(s.said) >= beat/3 {
			s.say(status)
		} else {
			s.status = status
		}
	case line.Error != nil:
		_, _ = fmt.Fprintf(s.err, "%s\n", line.Error.Msg)
		s.say(fmt.Sprintf("failed with %d", line.Error.Code))
	case r != nil:
		s.result(line.Result, r)
	}
}

func (s *Streaming) result(path string, r *Result) {
	var rows, bad, bytes int64
	for i := range r.Files {
		bytes += r.Files[i].Bytes
	}
	for i := range r.Inputs {
		rows += r.Inputs[i].Data
		bad += r.Inputs[i].Quarantined
	}
	state := "ok"
	if r.Unknown != nil {
		state, rows = "unknown", 0
	}
	for _, c := range []struct {
		name string
		n    int64
	}{{"rows", rows}, {"quarantined", bad}, {"files", int64(len(r.Files))}, {"bytes", bytes}} {
		_, _ = fmt.Fprintf(s.err, "reporter:counter:sawlog,%s,%d\n", c.name, c.n)
	}
	s.say("done")
	hash := ""
	if data, err := Canonical(r); err == nil { // as it was written a moment ago
		hash = sum(data)
	}
	_, _ = fmt.Fprintf(s.out, "%d\t%s\t%d\t%d\t%s\t%s\n", r.Split, state, rows, bytes, hash, path)
}
