//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spending is what a failover takes: of the processors, which another load on
// the machine doesn't change, and of the time, step by step.
type spending struct {
	nodes []*node
	logs  []int64 // where their logs ended
	used  []time.Duration
	own   time.Duration
}

// spend notes where nodes stand.
func spend(t *testing.T, nodes []*node) *spending {
	t.Helper()
	s := &spending{nodes: nodes, own: ownCPU(t)}
	for _, n := range nodes {
		used, err := n.cpu()
		if err != nil {
			t.Fatal(err)
		}
		s.used = append(s.used, used)
		st, err := os.Stat(n.logFile())
		if err != nil {
			t.Fatal(err)
		}
		s.logs = append(s.logs, st.Size())
	}
	return s
}

// ownCPU is what this process has used of the processors.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// end tells what was spent since a node was killed; nil = none was.
func (s *spending) end(t *testing.T, killed time.Time, victim *node) string {
	t.Helper()
	own := ownCPU(t) - s.own
	var cpu, steps []string
	for i, n := range s.nodes {
		used, err := n.cpu()
		if err != nil {
			t.Fatal(err)
		}
		cpu = append(cpu, fmt.Sprintf("node %d %s", n.id, (used-s.used[i]).Round(time.Millisecond)))
		said, err := os.ReadFile(n.logFile())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range milestonesOf(said[s.logs[i]:], victim) {
			steps = append(steps, fmt.Sprintf("%s %s (node %d)", m.at.Sub(killed).Round(time.Millisecond), m.what, n.id))
		}
	}
	return strings.Join(append([]string{"CPU " + strings.Join(cpu, ", ") + ", the clients " + own.Round(time.Millisecond).String()}, steps...), ", ")
}

// milestone is what a node said of a failover.
type milestone struct {
	at   time.Time
	what string
}

// milestonesOf finds the milestones in what a node logged.
func milestonesOf(said []byte, victim *node) []milestone {
	var all []milestone
	if victim == nil {
		return nil
	}
	for line := range bytes.Lines(said) {
		var l struct {
			Time       time.Time
			Msg        string
			Broker     int32
			Partitions int
			Took       time.Duration
			Fenced     bool
		}
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		switch {
		case strings.HasPrefix(l.Msg, "the active controller's process has ended"):
			all = append(all, milestone{l.Time, "controller noticed"})
		case l.Msg == "a broker's process has ended" && l.Broker == victim.id:
			all = append(all, milestone{l.Time, "noticed"})
		case l.Msg == "a broker's service changes" && l.Broker == victim.id && l.Fenced:
			all = append(all, milestone{l.Time, "fenced"})
		case l.Msg == "this broker leads more partitions":
			all = append(all, milestone{l.Time, fmt.Sprintf("leads %d more, which took %s", l.Partitions, l.Took.Round(time.Millisecond))})
		}
	}
	return all
}

// holds tells the resident memory of a node's process, in bytes, and its open
// files.
func (n *node) holds() (memory int64, files int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	proc := fmt.Sprintf("/proc/%d/", n.process.PID)
	b, err := os.ReadFile(proc + "statm")
	if err != nil {
		return 0, 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0, 0, fmt.Errorf("%sstatm: %w", proc, err)
	}
	open, err := os.ReadDir(proc + "fd")
	return resident * int64(os.Getpagesize()), len(open), err
}
