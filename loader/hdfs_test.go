package loader

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
	far, err := hdfs.Open(t.Context(), root, sink.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return far, func() {
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	}
}

// firstOfEachRow numbers the first fault point of each row of the crash table,
// and of what takes files back those rows that loads have not.
func firstOfEachRow(points []FaultPoint) map[string]int {
	rows := map[string]int{}
	for k, point := range points {
		row := rowOf(point)
		step, at, named := strings.Cut(row, " ")
		if named && step != "before" && at != "commit" && at != "retired:" && at != "published:" {
			continue
		}
		if _, seen := rows[row]; !seen {
			rows[row] = k
		}
	}
	return rows
}

// TestCrashHDFS restarts the NameNode at every row of the crash table: under a
// driver that goes on, and between the death of one by signal 9 and its
// successor. What comes out is what a local disk has.
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
			if k, row := at[rowOf(p)]; row && k == count {
				c.Do("restart-nn")
				restarts++
			}
			count++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if restarts != len(at) || restarts < 18 {
			t.Errorf("%d restarts of %d rows", restarts, len(at))
		}
		recovered(t, s, want)
	})
	all := os.Getenv("SAWLOG_CRASH_RUNS") != "" // as in make hdfs; each restart takes seconds
	for row, k := range firstOfEachRow(points) {
		if !all && k%6 != 0 && !strings.HasSuffix(row, "commit") {
			continue
		}
		t.Run(row, func(t *testing.T) {
			root := c.URI(fmt.Sprintf("/dies/%d", k))
			if !killed(t, root, k+1) {
				t.Fatal("the driver ended by itself, want signal 9")
			}
			c.Do("restart-nn")
			s, done := openRoot(t, root)
			defer done()
			recovered(t, s, want)
		})
	}
}
