//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
)

var (
	runsFlag   = flag.Int("runs", 1, "how many more runs TestChaos makes, from the first seed without a result on")
	firstFlag  = flag.Uint64("first", 1, "the seed TestChaos begins to look from, so that several can run beside each other, each with its -out")
	seedsFlag  = flag.String("seeds", "", "make the runs of these seeds instead, such as 17,23; their results aren't kept")
	outFlag    = flag.String("out", "", "the results file; results.jsonl of this folder when empty")
	faultsFlag = flag.String("faults", "", "only these kinds of faults, such as kill,isolate")
	harmFlag   = flag.Duration("harm", 40*time.Second, "how long faults go on in a run")
	healFlag   = flag.Duration("heal", 20*time.Second, "how long clients work on after the last fault")
	nodesFlag  = flag.Int("nodes", 0, "how many nodes; 3, and 5 in every fourth run, when 0")
	keepFlag   = flag.Bool("keep", false, "keep the directories of runs that pass, too")
)

// home is where runs leave what they leave: beside a results file that was asked
// for.
func home(t testing.TB) string {
	t.Helper()
	dir := "../../bin/chaos"
	if *outFlag != "" {
		dir = filepath.Dir(*outFlag)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func resultsFile() string { return cmp.Or(*outFlag, "results.jsonl") }

// Clusters come to harm while clients work; nothing acknowledged is lost,
// doubled or reordered.
func TestChaos(t *testing.T) {
	before, err := readResults(resultsFile())
	if err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	for s := range strings.SplitSeq(*seedsFlag, ",") {
		if s == "" {
			continue
		}
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	kept := len(seeds) == 0
	for seed := *firstFlag; kept && len(seeds) < *runsFlag; seed++ {
		if !slices.ContainsFunc(before, func(l line) bool { return l.Seed == seed }) {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := chaos(t, seed)
			for _, f := range r.Faults {
				if f.Failed != "" {
					t.Logf("%s at %d ms could not be done: %s", f.Kind, f.At, f.Failed)
				}
			}
			for _, v := range r.Violations {
				t.Errorf("seed %d: %s: %s", seed, v.Check, v.What)
			}
			if !kept {
				t.Log(summary([]line{r.line()}))
				return
			}
			if err := addResult(resultsFile(), r.line()); err != nil {
				t.Error(err)
			}
		})
	}
	after, err := readResults(resultsFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("passed and failed so far:\n%s", summary(after))
}

// What all runs so far have shown.
func TestSummary(t *testing.T) {
	all, err := readResults(resultsFile())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s:\n%s", resultsFile(), summary(all))
}

// room is the directory of a run. It is gone after a run that passes, and moved
// aside after one that fails.
func room(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(home(t), "run-"+name)
	// What a test left mounted that was killed.
	mounted, err := filepath.Glob(filepath.Join(dir, "node*", "disk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range mounted {
		_ = unix.Unmount(at, unix.MNT_DETACH) // most are none
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The first to be registered is the last to run: nothing is mounted by then.
	t.Cleanup(func() {
		if !t.Failed() && !*keepFlag {
			_ = os.RemoveAll(dir) // what stays is removed by the next run
			return
		}
		aside := filepath.Join(home(t), "failed", name)
		_ = os.RemoveAll(aside)
		err := errors.Join(os.MkdirAll(filepath.Dir(aside), 0o755), os.Rename(dir, aside))
		t.Logf("kept in %s %v (node data: mount -o loop nodeN/disk.img)", aside, err)
	})
	return dir
}

// chaos is one run.
func chaos(t *testing.T, seed uint64) result {
	r := result{Seed: seed, Began: time.Now().UTC(), Version: version(t), Nodes: 3}
	if seed%4 == 0 {
		r.Nodes = 5
	}
	if *nodesFlag > 0 {
		r.Nodes = *nodesFlag
	}
	replicas, least := min(3, r.Nodes), strconv.Itoa(min(2, r.Nodes))
	fail := func(check string, err error) result {
		r.Violations = append(r.Violations, violation{check, err.Error()})
		return r
	}
	dir := room(t, strconv.FormatUint(seed, 10))
	c, err := openCluster(t, dir, shape{size: r.Nodes, most: r.Nodes + 2, volumes: true, network: true})
	if err != nil {
		return fail("the cluster does not come up", err)
	}
	r.Lacks = c.notes
	parts := map[string]int{events: eventsPartitions, state: statePartitions}
	c.topics = []string{events, state, "__consumer_offsets", "__sawlog_jobs"}
	// A broker whose clock is behind refuses what is more than an hour ahead of it.
	plain := map[string]string{"min.insync.replicas": least, "message.timestamp.after.max.ms": anyTime}
	guests := r.invite(seed)
	for _, g := range guests {
		parts[g.name], c.topics = foreignPartitions, append(c.topics, g.name)
		if err := c.createTopic(g.name, foreignPartitions, replicas, plain); err != nil {
			return fail("a topic can't be made", err)
		}
	}
	if err := c.createTopic(events, eventsPartitions, replicas, plain); err != nil {
		return fail("a topic can't be made", err)
	}
	if err := c.createTopic(state, statePartitions, replicas, map[string]string{
		"min.insync.replicas": least, "message.timestamp.after.max.ms": anyTime, "cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.1",
	}); err != nil {
		return fail("a topic can't be made", err)
	}
	if err := await(patience, func() error { return c.healed(events, state) }); err != nil {
		return fail("the cluster does not come up", err)
	}
	h := newHistory()
	h.Keyed[state] = true
	w, err := begin(h, c.seeds(), parts, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if err := g.begin(t, h, dir, c.seeds()); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range r.Lacks {
		t.Log("this machine lacks something: " + what)
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fail()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watchers sync.WaitGroup
	l, err := newLoads(c.binary, dir, c.seeds())
	if err != nil {
		t.Fatal(err)
	}
	watchers.Go(func() { l.keep(ctx, h, 8*time.Second) })
	for _, n := range c.nodes {
		watchers.Go(func() { watch(ctx, h, n) })
	}
	watchers.Go(func() { keepFetching(ctx, c, h, parts) })
	time.Sleep(2 * time.Second) // of clients working, before the first fault
	m := &mischief{c: c, h: h, founders: r.Nodes}
	var only []string
	if *faultsFlag != "" {
		only = strings.Split(*faultsFlag, ",")
	}
	if err := m.carryOut(planned(seed, m.able, only), *harmFlag); err != nil {
		r.Violations = append(r.Violations, violation{"a fault can't be undone", err.Error()})
	}
	r.finish(dir, c, h, w, l, m, guests, parts, func() { cancel(); watchers.Wait() })
	return r
}

// anyTime lets records be of any time.
const anyTime = "9223372036854775807"

// longPause without an acknowledgement is more than a machine under load is
// slow.
const longPause = 5 * time.Second

// invite says which foreign clients a run has, every fourth.
func (r *result) invite(seed uint64) []*foreigner {
	var guests []*foreigner
	if seed%4 != 1 {
		return nil
	}
	for _, g := range foreigners() {
		if err := g.lacks(); err != nil {
			r.Lacks = append(r.Lacks, err.Error())
			continue
		}
		guests = append(guests, g)
		r.Also = append(r.Also, g.name)
	}
	return guests
}

// finish heals, reads everything back and checks it.
func (r *result) finish(dir string, c *cluster, h *history, w *workload, l *loads, m *mischief, guests []*foreigner, parts map[string]int, stopWatching func()) {
	note := func(check string, err error) {
		if err != nil {
			r.Violations = append(r.Violations, violation{check, err.Error()})
		}
	}
	began := h.now()
	note("not healed", await(patience, func() error { return c.healed(c.topics...) }))
	healed := h.now()
	r.HealMS = (healed - began).Milliseconds()
	time.Sleep(*healFlag - min(*healFlag, healed-began))
	end := h.now()
	stopWatching()
	note("clients don't come to an end", w.end(30*time.Second))
	for _, g := range guests {
		note("clients don't come to an end", g.end(patience))
	}
	r.Faults = m.faults
	blame(r.Faults, outages(h, end, 4*probeTick))
	for _, o := range outages(h, end, 4*probeTick) {
		if o.To == end && end-o.From > longPause {
			note("not healed", fmt.Errorf("%s has taken no writes from %s to the end at %s", o.place, o.From, o.To))
		}
	}
	note("the log can't be read", readAll(h, c.seeds(), parts))
	var err error
	h.Final, err = c.groupOffsets(h, groupName, parts)
	note("group offsets can't be read", err)
	h.Final = slices.DeleteFunc(h.Final, func(o commit) bool { return o.Topic != events })
	for _, g := range guests {
		stands, err := c.groupOffsets(h, g.name, map[string]int{g.name: foreignPartitions})
		note("group offsets can't be read", err)
		h.Final = append(h.Final, stands...)
	}
	note("the load job does not end", l.toTheEnd())
	table, err := rows(l.out, events)
	note("the Parquet files can't be read", err)
	r.Violations = append(r.Violations, check(h)...)
	r.Violations = append(r.Violations, checkRows(h, table, true)...)
	note("replicas can't be compared", r.compare(c))
	r.Ops = count(h)
	r.Ops.Stale = stale(h.Commits, h.Fetched)
	r.Ops.Loads, r.Ops.Retried, r.Ops.Rows = l.committed, l.retried, len(table)
	r.Took = h.now().Seconds()
	if len(r.Violations) > 0 {
		note("the history can't be kept", r.keep(dir, h))
	}
}

// compare stops the cluster and compares what its nodes have on disk.
func (r *result) compare(c *cluster) error {
	var all []partition
	err := c.anyone(patience, func(n *node) (err error) {
		all, err = partitions(n.kafka, c.topics...)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.stopAll(patience); err != nil {
		r.Violations = append(r.Violations, violation{"a node does not stop", err.Error()})
	}
	own, dirs := map[place][]int32{}, map[int32]string{}
	for _, p := range all {
		own[p.place] = p.Replicas
	}
	for _, n := range c.nodes {
		dirs[n.id] = n.data()
	}
	logs, err := readReplicas(dirs, own)
	if err != nil {
		return err
	}
	compacted := func(topic string) bool { return topic == state || strings.HasPrefix(topic, "__") }
	quiet := func(topic string) bool { return !strings.HasPrefix(topic, "__") }
	r.Violations = append(r.Violations, checkReplicas(logs, compacted, quiet)...)
	r.Violations = append(r.Violations, checkEpochs(logs, compacted)...)
	views, err := checkViews(c)
	r.Violations = append(r.Violations, views...)
	return err
}

// watch asks a node all the while who leads what.
func watch(ctx context.Context, h *history, n *node) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := partitions(n.kafka, events, state)
		if err != nil {
			continue
		}
		for _, p := range all {
			if p.Leader >= 0 {
				h.lead(leads{p.place, p.LeaderEpoch, p.Leader, fmt.Sprintf("metadata of node %d", n.id)})
			}
		}
	}
}

// readAll reads every partition from its start to its end.
func readAll(h *history, seeds []string, parts map[string]int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl, err := kgo.NewClient(brief(seeds)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := listOffsets(ctx, cl, parts, -1)
	if err != nil {
		return err
	}
	starts, err := listOffsets(ctx, cl, parts, -2)
	if err != nil {
		return err
	}
	from := map[string]map[int32]kgo.Offset{}
	for p, at := range starts {
		h.Start[p] = at
		if from[p.Topic] == nil {
			from[p.Topic] = map[int32]kgo.Offset{}
		}
		from[p.Topic][p.Partition] = kgo.NewOffset().At(at)
		if ends[p] <= at {
			delete(ends, p)
		}
	}
	cl.AddConsumePartitions(from)
	for len(ends) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("the ends %v are not reached: %w", ends, ctx.Err())
		}
		var bad error
		fetches.EachError(func(topic string, p int32, err error) { bad = fmt.Errorf("%s/%d: %w", topic, p, err) })
		if bad != nil {
			return bad
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := place{r.Topic, r.Partition}
			v, err := valueOf(r)
			if err != nil {
				bad = fmt.Errorf("%s@%d: %w", p, r.Offset, err)
			}
			h.Log[p] = append(h.Log[p], found{v, r.Offset, r.LeaderEpoch})
			if r.Offset+1 >= ends[p] {
				delete(ends, p)
			}
		})
		if bad != nil {
			return bad
		}
	}
	return nil
}

// listOffsets asks leaders for starts (-2) or ends (-1).
func listOffsets(ctx context.Context, cl *kgo.Client, parts map[string]int, at int64) (map[place]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for topic, count := range parts {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for p := range count {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp, part.CurrentLeaderEpoch = int32(p), at, -1
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	all := map[place]int64{}
	err := await(patience, func() error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("%s/%d: error %d", t.Topic, p.Partition, p.ErrorCode)
				}
				all[place{t.Topic, p.Partition}] = p.Offset
			}
		}
		return nil
	})
	return all, err
}

// version is what the command line under test says it is, or else the commit of
// the tree it was built from.
func version(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(peer.Binary(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Fields(string(out)); len(said) > 1 && said[1] != "dev" {
		return said[1]
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "dev" // a tree without its history
	}
	return strings.TrimSpace(string(commit))
}
