package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
	"sawlog/loader"
)

// A task that is killed, and one whose parent is, leave nothing in the folder for
// temporary files, whatever they had open there.
func TestKilledTaskLeavesNothing(t *testing.T) {
	const columns, value = 8, 200
	for name, hours := range map[string]int{"a file that is written": 1, "rows that are sorted": 20_000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1<<20)
			schema := &formats.Schema{}
			for i := range columns {
				schema.Fields = append(schema.Fields, formats.Field{Name: fmt.Sprintf("c%02d", i), Type: &formats.Type{Kind: formats.String}})
			}
			w.spec.Schema = schema
			start := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
			w.produce(func(i int) []byte {
				if i == 40_000 {
					return nil
				}
				var b strings.Builder
				fmt.Fprintf(&b, `{"ts":%q`, start.Add(time.Duration(i%hours)*time.Hour).Format(time.RFC3339))
				for j := range columns {
					fmt.Fprintf(&b, `,"c%02d":"%0*d"`, j, value, i*7919+j)
				}
				b.WriteByte('}')
				return []byte(b.String())
			})
			w.killed(w.plan(), 80<<20)
		})
	}
}

// killed starts a task that goes slowly, kills it once it has a temporary file
// open, and looks what is left.
func (w *world) killed(p *loader.Plan, memory int64) {
	w.t.Helper()
	spool, planID := w.t.TempDir(), loader.PlanID(p)
	if err := w.driver.Sink.MkdirAll(loader.StageDir(planID, 0)); err != nil {
		w.t.Fatal(err)
	}
	spec, err := json.Marshal(loader.ExecSpec{
		V: 1, Root: w.driver.Sink.Root(), PlanID: planID, Plan: p, Source: w.source, Memory: memory, Rate: 256 << 10, Spool: spool,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=task")
	cmd.Stdin = strings.NewReader(string(spec))
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for !opened(cmd.Process.Pid, spool) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill() // the test has failed
			w.t.Fatalf("after a minute it has nothing open: %v", cmd.Wait())
		}
		time.Sleep(time.Millisecond) // another process acts
	}
	if err := cmd.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		w.t.Fatal("the task was over before it was killed")
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		w.t.Errorf("it leaves %v, %v", left, err)
	}
}

// opened tells whether a process has a file open that is or was in a folder.
func opened(pid int, dir string) bool {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if at, err := os.Readlink(fd); err == nil && strings.HasPrefix(at, dir) {
			return true
		}
	}
	return false
}
