package loader

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/loader/sink/hdfs/mini"
)

// soakRuns is how many runs a soak test makes: SAWLOG_SOAK_RUNS, else so many as
// show that it works.
func soakRuns(t *testing.T, few int) uint64 {
	t.Helper()
	text := os.Getenv("SAWLOG_SOAK_RUNS")
	switch {
	case text == "" && testing.Short():
		return uint64(max(1, few/8))
	case text == "":
		return uint64(few)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SAWLOG_SOAK_RUNS=%s: want a number of runs", text)
	}
	return uint64(n)
}

// TestSoakLocal kills processes by signal 9 anywhere, again and again, and
// compares with what a run nobody disturbs leaves.
func TestSoakLocal(t *testing.T) {
	dir := t.TempDir()
	soak(t, soakRuns(t, 20), func(seed uint64) string { return filepath.Join(dir, strconv.FormatUint(seed, 10)) }, nil)
}

// TestSoakHDFS does so while the NameNode is restarted under the processes, and
// compares with what a local disk has.
func TestSoakHDFS(t *testing.T) {
	var c *mini.Cluster
	soak(t, soakRuns(t, 3), func(seed uint64) string {
		if seed%runsOfCluster == 0 {
			if c != nil {
				c.Kill()
			}
			c = mini.Start(t, mini.Options{DataNodes: 2, Conf: []string{"dfs.replication=2"}})
		}
		return c.URI(fmt.Sprintf("/soak/%d", seed))
	}, func() error {
		_, err := c.Try("restart-nn")
		return err
	})
}

// runsOfCluster is how many runs a cluster serves: a NameNode that was restarted
// leaves some MB in the JVM it had, which after some hundred restarts is full.
const runsOfCluster = 25

// soak makes runs of one to three processes that are killed, and of one that
// ends it; disturb, when there is one, comes in the middle of some.
func soak(t *testing.T, runs uint64, rootOf func(seed uint64) string, disturb func() error) {
	want, points := faultless(t)
	kills, disturbed := 0, 0
	for seed := range runs {
		root := rootOf(seed)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 11))
			for range 1 + rnd.IntN(3) {
				var other sync.WaitGroup
				pause := time.Duration(rnd.Int64N(int64(3 * time.Second)))
				if disturb != nil && rnd.IntN(3) > 0 {
					disturbed++
					other.Go(func() {
						time.Sleep(pause)
						if err := disturb(); err != nil {
							t.Error(err)
						}
					})
				}
				if killed(t, root, 1+rnd.IntN(len(points))) {
					kills++
				}
				other.Wait()
			}
			s, done := openRoot(t, root)
			defer done()
			recovered(t, s, want)
		})
	}
	t.Logf("%d runs, %d processes killed, %d disturbed", runs, kills, disturbed)
	if kills == 0 || disturb != nil && disturbed == 0 {
		t.Error("the runs show too little")
	}
}

// killed runs a driver in a process of its own that kills itself at its nth
// fault point; one that resumes what others did may end before it.
func killed(t *testing.T, root string, n int) bool {
	t.Helper()
	cmd := osexec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killRoot+"="+root, fmt.Sprintf("%s=%d", killPoint, n))
	out, err := cmd.CombinedOutput()
	var exit *osexec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if !strings.Contains(string(out), "was not reached: <nil>") {
		t.Fatalf("the driver ended with %v, want signal 9 or its end:\n%s", err, out)
	}
	return false
}
