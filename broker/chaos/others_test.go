//go:build linux

package chaos

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// others watches what processes that are not of a test use of the processors.
// A limit that is missed is a failure on any machine; what others used says
// whether it is worth a look or a quieter machine.
type others struct {
	nodes []*node
	began time.Time
	used  time.Duration
}

// watchOthers begins to watch.
func watchOthers(t *testing.T, nodes []*node) *others {
	t.Helper()
	return &others{nodes: nodes, began: time.Now(), used: usedByOthers(t, nodes)}
}

// judge fails when one of times is over the limit.
func (o *others) judge(t *testing.T, what string, times []time.Duration, limit time.Duration) {
	t.Helper()
	if len(times) == 0 {
		t.Errorf("%s: nothing was measured", what)
		return
	}
	share := 100 * (usedByOthers(t, o.nodes) - o.used).Seconds() / time.Since(o.began).Seconds() / float64(runtime.NumCPU())
	if worst := slices.Max(times); worst >= limit {
		t.Errorf("%s: %s, and is to be under %s; processes beside the test used %.0f %% of the processors meanwhile", what, worst.Round(time.Millisecond), limit, share)
	}
}

// usedByOthers is the processor time of the machine less that of this process,
// its nodes and those that have ended.
func usedByOthers(t *testing.T, nodes []*node) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var user, nice, system, idle, wait, irq, softirq int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq); err != nil {
		t.Fatalf("/proc/stat: %v", err)
	}
	const tick = 10 * time.Millisecond // the unit of /proc/stat
	used := time.Duration(user+nice+system+irq+softirq)*tick - ownCPU(t)
	var ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
		t.Fatal(err)
	}
	used -= time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	for _, n := range nodes {
		if !n.running() {
			continue
		}
		own, err := n.cpu()
		if err != nil {
			t.Fatal(err)
		}
		used -= own
	}
	return used
}
