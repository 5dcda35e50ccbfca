package loader

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
	"sawlog/loader/sink/hdfs/mini"
	"sawlog/loader/sink/local"
)

// openRoot opens a root of either kind; done ends its connections.
func openRoot(t *testing.T, root string) (s sink.Sink, done func()) {
	t.Helper()
	if !strings.HasPrefix(root, "hdfs:") {
		disk, err := local.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		return disk, func() {}
	}
	far, err := hdfs.Open(root, sink.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return far, func() {
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	}
}

// firstOfEachRow numbers the first fault point of each row of the crash table.
func firstOfEachRow(points []FaultPoint) map[string]int {
	rows := map[string]int{}
	for k, point := range points {
		if _, seen := rows[rowOf(point)]; !seen {
			rows[rowOf(point)] = k
		}
	}
	return rows
}

// rowOf is a point without the file it is of: "published:" comes after one
// file, "published" after all.
func rowOf(point FaultPoint) string {
	if kind, _, ofFile := strings.Cut(string(point), ":"); ofFile {
		return kind + ":"
	}
	return string(point)
}

// TestCrashHDFS restarts the NameNode at every row of the crash table: under a
// driver that goes on, and between the death of one and its successor. What
// comes out is what a local disk has.
func TestCrashHDFS(t *testing.T) {
	want, points := faultless(t)
	c := mini.Start(t, mini.Options{DataNodes: 2, Conf: []string{"dfs.replication=2"}})
	t.Run("goes on", func(t *testing.T) {
		s, done := openRoot(t, c.URI("/goes-on"))
		defer done()
		restarts := 0
		at := firstOfEachRow(points)
		count := 0
		err := drive(t.Context(), s, &source{}, func(p FaultPoint) error {
			if at[rowOf(p)] == count {
				c.Do("restart-nn")
				restarts++
			}
			count++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if restarts != len(at) || restarts < 10 {
			t.Errorf("%d restarts of %d rows", restarts, len(at))
		}
		recovered(t, s, want)
	})
	for kind, k := range firstOfEachRow(points) {
		t.Run(kind, func(t *testing.T) {
			root := c.URI(fmt.Sprintf("/dies/%d", k))
			s, done := openRoot(t, root)
			count := 0
			err := drive(t.Context(), s, &source{}, func(FaultPoint) error {
				if count++; count == k+1 {
					return errCrash
				}
				return nil
			})
			if !errors.Is(err, errCrash) {
				t.Fatalf("%v, want the crash", err)
			}
			done()
			c.Do("restart-nn")
			s, done = openRoot(t, root)
			defer done()
			recovered(t, s, want)
		})
	}
}

// TestSoakHDFS kills processes by signal 9 anywhere, again and again, while the
// NameNode is restarted under them, and compares with what a run nobody
// disturbs leaves on a local disk. SAWLOG_SOAK_RUNS says how many runs; 3 show
// that it works.
func TestSoakHDFS(t *testing.T) {
	runs := 3
	if text := os.Getenv("SAWLOG_SOAK_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil || runs < 1 {
			t.Fatalf("SAWLOG_SOAK_RUNS=%s: want a number of runs", text)
		}
	}
	want, points := faultless(t)
	c := mini.Start(t, mini.Options{DataNodes: 2, Conf: []string{"dfs.replication=2"}})
	kills, restarts := 0, 0
	for seed := range uint64(runs) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 11))
			root := c.URI(fmt.Sprintf("/soak/%d", seed))
			for range 1 + rnd.IntN(3) {
				var restart sync.WaitGroup
				if pause := time.Duration(rnd.Int64N(int64(3 * time.Second))); rnd.IntN(3) > 0 {
					restarts++
					restart.Go(func() {
						time.Sleep(pause)
						if _, err := c.Try("restart-nn"); err != nil {
							t.Error(err)
						}
					})
				}
				if killed(t, root, 1+rnd.IntN(len(points))) {
					kills++
				}
				restart.Wait()
			}
			s, done := openRoot(t, root)
			defer done()
			recovered(t, s, want)
		})
	}
	t.Logf("%d runs, %d processes killed, %d restarts of the NameNode", runs, kills, restarts)
	if kills == 0 || restarts == 0 {
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
