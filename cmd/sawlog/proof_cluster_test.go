package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// startCluster runs three nodes, and is a command line that knows them all.
func startCluster(t *testing.T) (*node, *peer.Cluster) {
	t.Helper()
	n := bare(t)
	c := peer.SawlogCluster(t, 3, peer.Options{Binary: n.bin, Racks: true})
	n.listen = c.Addr()
	for _, s := range c.Nodes { // before, the end of one may be the end of all
		n.web = s.HTTP
		n.ready()
	}
	return n, c
}

// partition is one of a topic's, as the cluster says.
func (n *node) partition(topic string, partition int32) *kmsg.MetadataResponseTopicPartition {
	n.t.Helper()
	cl := n.client(kgo.RequestTimeoutOverhead(500 * time.Millisecond)) // a node may be asleep
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: new(topic)}}
	m, err := req.RequestWith(n.t.Context(), cl)
	if err != nil || len(m.Topics) != 1 {
		return nil
	}
	for i := range m.Topics[0].Partitions {
		if p := &m.Topics[0].Partitions[i]; p.Partition == partition {
			return p
		}
	}
	return nil
}

// leader is the node that leads a partition.
func (n *node) leader(c *peer.Cluster, topic string, partition int32) *peer.Server {
	n.t.Helper()
	var p *kmsg.MetadataResponseTopicPartition
	n.eventually(fmt.Sprintf("%s/%d has a leader", topic, partition), 30*time.Second, func() bool {
		p = n.partition(topic, partition)
		return p != nil && p.Leader > 0
	})
	return c.Node(p.Leader)
}

// underWay tells whether a command has yet to end.
func (c *child) underWay() bool {
	select {
	case err := <-c.ended:
		c.ended <- err
		return false
	default:
		return true
	}
}

// TestSoakLoadThroughFailovers carries one plan out while the leaders of what
// is read are killed, one after the other, and other nodes are stopped and
// started: the files are those of a run in peace.
func TestSoakLoadThroughFailovers(t *testing.T) {
	t.Parallel() // it waits for elections
	n, c := startCluster(t)
	const topic, partitions, count = "wide", 4, 4000
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions), "--replication-factor", "3")
	for p := range int32(partitions) {
		n.send(append(byHand("none"), kgo.ProducerBatchMaxBytes(4000)), wide(topic, p, count, 6)...)
	}
	path := n.write("wide.yaml", fmt.Sprintf(
		"name: wide\nsource: {topics: [wide]}\noutput: {root: 'file://%s/wide', target_file_size: 2MiB}\n", n.dir)+numbersJob)
	planPath := n.write("plan.json", string(n.run("plan", path, "-o", "json")))
	file, err := readPlanFile(planPath)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Plan.Splits) < partitions {
		t.Fatalf("only %d splits", len(file.Plan.Splits))
	}
	peace := filepath.Join(n.dir, "peace")
	n.outcome(0, "run", "--plan", planPath, "--root", peace)
	want := treeOf(t, peace)
	harms, most := 0, rounds(t, 3)
	for round := 0; harms < most; round++ {
		root := filepath.Join(n.dir, fmt.Sprint("harm-", round))
		run := n.spawn(nil, "run", "--plan", planPath, "--root", root, "-o", "json", "--parallelism", "2", "--fetch-bytes", "4KiB")
		for run.underWay() {
			if n.harm(c, topic, harms, run) {
				harms++
			}
		}
		if code := run.wait(60 * time.Second); code != 0 {
			t.Fatalf("round %d: exit code %d: %s", round, code, run.said.String())
		}
		var o loader.Outcome
		if err := json.Unmarshal(run.out.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if o.Rows+o.Quarantined != partitions*count {
			t.Errorf("round %d: %d rows, %d quarantined of %d records", round, o.Rows, o.Quarantined, partitions*count)
		}
		if err := sameTree(want, treeOf(t, root)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		t.Logf("round %d: %d harms so far", round, harms)
	}
}

// harm kills the leader of a partition, or stops one in good order, and starts it
// again. It tells whether the run was under way while that node was away.
func (n *node) harm(c *peer.Cluster, topic string, i int, run *child) bool {
	n.t.Helper()
	time.Sleep(100 * time.Millisecond) // so that the run reads of it
	s := n.leader(c, topic, int32(i%4))
	if !run.underWay() {
		return false
	}
	if i%3 == 2 {
		s.Stop()
	} else {
		s.Kill()
	}
	time.Sleep(200 * time.Millisecond) // the others take over and are read from
	met := run.underWay()
	s.Restart()
	if err := c.InSync(30 * time.Second); err != nil {
		n.t.Fatal(err)
	}
	return met
}

// seeds are the addresses of all nodes.
func (n *node) seeds() []string { return strings.Split(n.listen, ",") }

// TestSoakSchedulerMoves: the node that runs the scheduler is killed, stopped in
// good order and put to sleep for a while, again and again. Each tick has one run,
// and the commits are the log, offset after offset.
func TestSoakSchedulerMoves(t *testing.T) {
	t.Parallel() // it waits for the clock
	n, c := startCluster(t)
	const topic, every = "clicks", 2 * time.Second
	n.run("topic", "create", topic, "--partitions", "3", "--replication-factor", "3")
	path, root := n.job(topic, textJob+"schedule: {every: 2s}\n")
	n.run("job", "apply", path)
	n.eventually("the job history has three replicas", 30*time.Second, func() bool {
		p := n.partition("__sawlog_jobs", 0)
		return p != nil && len(p.ISR) == 3
	})
	sent, seen := n.trickle(topic), seenRuns{}
	for round := range rounds(t, 3) {
		seen.look(n, topic)
		s := n.leader(c, "__sawlog_jobs", 0)
		n.web = c.Node(s.ID%3 + 1).HTTP
		before, began := n.commits(root), time.Now()
		switch round % 3 {
		case 0:
			s.Kill()
		case 1:
			s.Pause()
		case 2:
			s.Stop()
		}
		n.eventually("another node's scheduler commits", 40*time.Second, func() bool {
			return n.leader(c, "__sawlog_jobs", 0) != s && len(n.commits(root)) >= len(before)+2
		})
		t.Logf("round %d: from node %d to %d, the second commit there after %s", round, s.ID, n.leader(c, "__sawlog_jobs", 0).ID, time.Since(began).Round(time.Millisecond))
		if round%3 == 1 {
			s.Resume()
		} else {
			s.Restart()
		}
		if err := c.InSync(30 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	total := sent()
	n.eventually("all is loaded", 40*time.Second, func() bool { return contiguous(t, n.commits(root)) == total })
	n.run("job", "pause", topic)
	seen.onceATick(n, topic, every)
	n.clean(root)
}

// trickle sends records until the function it gives is called, which tells how
// many there are.
func (n *node) trickle(topic string) (stop func() int64) {
	n.t.Helper()
	cl := n.client(kgo.DefaultProduceTopic(topic))
	ending, ended := make(chan struct{}), make(chan int64)
	go func() {
		var sent int64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ending:
				if err := cl.Flush(n.t.Context()); err != nil {
					n.t.Error(err)
				}
				ended <- sent
				return
			case <-tick.C:
				sent++
				cl.Produce(n.t.Context(), kgo.StringRecord(fmt.Sprint(sent)), func(_ *kgo.Record, err error) {
					if err != nil && n.t.Context().Err() == nil {
						n.t.Error(err)
					}
				})
			}
		}
	}()
	return func() int64 {
		close(ending)
		return <-ended
	}
}

// commits are the records of a data set's ledger that are written by now.
func (n *node) commits(root string) []loader.Record {
	n.t.Helper()
	var all []loader.Record
	for {
		raw, err := os.ReadFile(filepath.Join(root, loader.RecordPath(int64(len(all)))))
		if err != nil {
			return all
		}
		var rec loader.Record
		if err := json.Unmarshal(raw, &rec); err != nil {
			n.t.Fatal(err)
		}
		all = append(all, rec)
	}
}

// contiguous is how many offsets commits hold, which follow each other.
func contiguous(t *testing.T, commits []loader.Record) (total int64) {
	t.Helper()
	next := map[int32]offsets.Offset{}
	for _, rec := range commits {
		for _, in := range rec.Inputs {
			if in.Start != next[in.Partition] {
				t.Errorf("record %d goes on at %d of partition %d, loaded is up to %d", rec.Number, in.Start, in.Partition, next[in.Partition])
			}
			next[in.Partition] = in.End
		}
	}
	for _, end := range next {
		total += int64(end)
	}
	return total
}

// seenRuns are the runs of a job a test has seen, by name: a job keeps its last ones
// alone, and a soak makes more.
type seenRuns map[string]jobs.Run

// look takes in the runs that are kept now.
func (s seenRuns) look(n *node, job string) {
	n.t.Helper()
	for _, r := range n.allRuns(job) {
		s[r.Run] = r
	}
}

// cutOff is how many attempts ended with their server.
func (s seenRuns) cutOff() (count int) {
	for _, r := range s {
		for _, a := range r.Attempts {
			if a.Status == jobs.Interrupted {
				count++
			}
		}
	}
	return count
}

// onceATick wants one run for each tick since the first, which ends well; the job
// is paused.
func (s seenRuns) onceATick(n *node, job string, every time.Duration) {
	n.t.Helper()
	n.eventually("no run is open", time.Minute, func() bool {
		s.look(n, job)
		return !slices.ContainsFunc(slices.Collect(maps.Values(s)), func(r jobs.Run) bool { return r.Open() })
	})
	made, statuses := map[int64]string{}, map[string]int{}
	first, last := int64(math.MaxInt64), int64(0)
	for _, r := range s {
		if r.Tick.IsZero() {
			continue // not of the schedule
		}
		if !r.Good() {
			n.t.Errorf("run %s is %s: %s", r.Run, r.Status, r.Reason)
		}
		statuses[r.Status]++
		tick := r.Tick.Unix()
		if made[tick] != "" {
			n.t.Errorf("runs %s and %s are of one tick", made[tick], r.Run)
		}
		made[tick] = r.Run
		first, last = min(first, tick), max(last, tick)
	}
	for tick := first; tick <= last; tick += int64(every / time.Second) {
		if made[tick] == "" {
			n.t.Errorf("the tick of %s has no run", time.Unix(tick, 0).UTC().Format(time.TimeOnly))
		}
	}
	n.t.Logf("%d ticks, one run each; runs by status: %v; %d attempts were cut off", len(made), statuses, s.cutOff())
}

// TestProofLoadReadsNearby: the tasks of a scheduler read from the replicas of its
// own node, which stands in their rack, also where others lead.
func TestProofLoadReadsNearby(t *testing.T) {
	t.Parallel() // it waits for brokers to start
	n, c := startCluster(t)
	const topic, partitions, count = "near", 3, 3000
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions), "--replication-factor", "3")
	for p := range int32(partitions) {
		n.send(byHand("none"), wide(topic, p, count, 2)...)
	}
	path, root := n.job(topic, numbersJob)
	n.run("job", "apply", path)
	n.run("run", topic, "--wait")
	runs := n.leader(c, "__sawlog_jobs", 0)
	var near, all int64
	for _, s := range c.Nodes {
		n.web = s.HTTP
		read := int64(n.metric(t, "sawlog_fetch_batch_class_bytes_total"))
		if all += read; s == runs {
			near = read
		}
	}
	leads := n.leader(c, topic, 0)
	if near != all || near < partitions*count*200 || leads == runs && n.leader(c, topic, 1) == runs {
		t.Errorf("node %d, whose tasks read, served %d bytes of %d; nodes %d and %d lead", runs.ID, near, all, leads.ID, n.leader(c, topic, 1).ID)
	}
	n.clean(root)
}

// TestProofNodesDown: with a node down, and with any one address to start from
// that answers, all that loads works by way of any node; where no broker answers,
// or too few, commands say so in time and may be repeated.
func TestProofNodesDown(t *testing.T) {
	t.Parallel() // it waits for nodes that are down
	n, c := startCluster(t)
	const topic = "down"
	n.run("topic", "create", topic, "--partitions", "3", "--replication-factor", "3")
	n.send(nil, numbered(topic, 0, 300)...)
	path, root := n.job(topic, textJob+"schedule: {every: 1h}\n")
	n.run("job", "apply", path)
	first := n.outcome(0, "run", path)

	dead := n.leader(c, "__sawlog_jobs", 0)
	left, last := c.Node(dead.ID%3+1), c.Node((dead.ID+1)%3+1)
	dead.Kill()
	for i, brokers := range []string{dead.Addr + "," + left.Addr, left.Addr + "," + dead.Addr, last.Addr, c.Addr()} {
		n.listen, n.web = brokers, []string{left.HTTP, last.HTTP}[i%2]
		n.send(nil, numbered(topic, 0, 10)...)
		if o := n.outcome(0, "run", path); o.Rows != 10 {
			t.Errorf("from %s: %d rows of 10", brokers, o.Rows)
		}
		n.run("rerun", first.Run, "--root", root)
		n.clean(root)
		n.run("runs", "list")
		n.run("run", topic, "--wait")
		n.run("backfill", topic, "--from", "-2h", "--to", "now", "--dry-run")
	}
	n.listen, n.web = dead.Addr, dead.HTTP
	for _, verb := range [][]string{{"run", path}, {"plan", path}, {"rerun", first.Run, "--root", root}, {"topic", "list"}} {
		n.refused(6, []string{dead.Addr, "try: "}, verb...)
	}
	n.refused(6, []string{dead.HTTP, "try: "}, "run", topic)
	n.clean(root) // it needs nobody

	last.Kill() // and one of three is no majority
	n.listen, n.web = c.Addr(), left.HTTP
	began := time.Now()
	n.refused(6, []string{"try: "}, "run", path, "--timeout", "3s")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("run --timeout 3s took %s to say that it reaches too few", took)
	}
	n.eventually("the node left says that it decides nothing", patience, func() bool {
		_, code, said := n.try("run", topic, "--wait", "--timeout", "5s")
		return code == 6 && strings.Contains(said, "error: ")
	})
}
