package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

// shared is a buffer that two goroutines use.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestProgressLines: where there is no terminal a line comes every ten seconds,
// whether something was heard meanwhile or not, and none once it has ended or
// where none is wanted.
func TestProgressLines(t *testing.T) {
	for how, want := range map[string]int{"auto": 3, "plain": 3, "none": 0} {
		synctest.Test(t, func(t *testing.T) {
			said := &shared{}
			a := &app{print: &output.Printer{Format: output.Table, Out: said, Err: said}, progress: how}
			p := a.newProgress()
			time.Sleep(11 * time.Second) // nothing has begun
			p.observe(loader.Event{Task: &loader.TaskProgress{Split: 0, Phase: "read", Offsets: 5, Total: 10, Rows: 4, Bad: 1}})
			p.observe(loader.Event{Task: &loader.TaskProgress{Split: 1, Phase: "done", Offsets: 7, Total: 7, Rows: 7}})
			time.Sleep(30 * time.Second)
			p.done()
			time.Sleep(30 * time.Second)
			if n := strings.Count(said.String(), "12 of 17 offsets read, 11 rows, 1 bad records, 1 of 2 tasks begun are done\n"); n != want || strings.Count(said.String(), "\n") != want {
				t.Errorf("--progress %s said:\n%s", how, said)
			}
		})
	}
}
