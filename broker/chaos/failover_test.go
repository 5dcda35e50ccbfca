//go:build linux

package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
	"sawlog/broker/record"
)

var (
	roundsFlag = flag.Int("rounds", 2, "how often TestFailover kills a broker, and how often the active controller")
	topicsFlag = flag.Int("topics", 100, "topics of TestFailover, of a hundred partitions each")
	idleFlag   = flag.Duration("idle", 30*time.Second, "how long TestFailover watches what idle brokers use")
)

// partitionsPerTopic makes 10,000 partitions of a hundred topics.
const partitionsPerTopic = 100

// The last of many partitions takes writes again soon after a broker or the
// active controller was killed. Measured from the kill by one record for each
// partition, acks=all: those the dead broker led need a leader, the others have
// to do without it as a follower. A miss of a limit is a failure.
func TestFailover(t *testing.T) {
	dir := room(t, "failover")
	c, err := openCluster(t, dir, shape{size: cmp.Or(*nodesFlag, 3)})
	if err != nil {
		t.Fatal(err)
	}
	replicas := min(3, len(c.nodes))
	var topics []string
	began := time.Now()
	for i := range *topicsFlag {
		topics = append(topics, fmt.Sprintf("t%03d", i))
		if err := c.createTopic(topics[i], partitionsPerTopic, replicas, map[string]string{"min.insync.replicas": fmt.Sprint(min(2, replicas))}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d partitions of %d replicas made in %s", *topicsFlag*partitionsPerTopic, replicas, time.Since(began).Round(time.Millisecond))
	settle := func() {
		t.Helper()
		if err := await(5*time.Minute, func() error { return c.healed(topics...) }); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	idle(t, c)
	all := everyPartition(t, c, topics)
	balance(t, all)
	// Partitions that are in use have been written to.
	times, spent := writeToAll(t, c.nodes, all, nil)
	t.Logf("the first writes to all partitions took %s, of half of them %s; %s", slices.Max(times).Round(time.Millisecond), median(times).Round(time.Millisecond), spent)
	var broker, controller, starts, restarts []time.Duration
	beside := watchOthers(t, c.nodes)
	for round := range 2 * *roundsFlag {
		lead := c.controller()
		victim := c.node(lead)
		if round%2 == 0 {
			victim = c.nodes[(int(lead)+round/2%2)%len(c.nodes)] // one that isn't
			if victim.id == lead && len(c.nodes) > 1 {
				victim = c.nodes[int(lead)%len(c.nodes)]
			}
		}
		times, spent := writeToAll(t, c.nodes, all, victim)
		last := slices.Max(times)
		t.Logf("round %d: node %d killed (controller %d): the last partition took writes after %s, half of them after %s; %s", round, victim.id, lead, last.Round(time.Millisecond), median(times).Round(time.Millisecond), spent)
		restarts = append(restarts, launched(t, victim))
		if round%2 == 0 {
			broker = append(broker, last)
		} else {
			controller = append(controller, last)
		}
		settle()
		starts = append(starts, restart(t, victim))
		settle()
		if err := c.electPreferred(); err != nil {
			t.Logf("preferred leaders: %v", err)
		}
		settle()
		all = everyPartition(t, c, topics)
	}
	t.Logf("the last partition after a broker was killed: %s", spread(broker))
	t.Logf("the last partition after the controller was killed: %s", spread(controller))
	t.Logf("start after a clean stop, until ready: %s", spread(starts))
	t.Logf("start after a kill, until ready: %s", spread(restarts))
	if len(c.nodes) > 1 { // a broker alone has to start first
		beside.judge(t, "the last partition after a broker was killed", broker, time.Second)
		beside.judge(t, "the last partition after the controller was killed", controller, 2*time.Second)
	}
	beside.judge(t, "start after a clean stop", starts, 5*time.Second)
}

// median is the middle one of times.
func median(times []time.Duration) time.Duration {
	all := slices.Sorted(slices.Values(times))
	return all[len(all)/2]
}

// spread is p50 and max of times.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("p50 %s, max %s of %d", all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), len(all))
}

// everyPartition is what the first node says of all.
func everyPartition(t *testing.T, c *cluster, topics []string) []partition {
	t.Helper()
	all, err := partitions(c.nodes[0].kafka, topics...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// balance tells how many partitions each node leads.
func balance(t *testing.T, all []partition) {
	t.Helper()
	count := map[int32]int{}
	for _, p := range all {
		count[p.Leader]++
	}
	t.Logf("leaders: %v", count)
}

// idle tells what brokers use while nothing happens.
func idle(t *testing.T, c *cluster) {
	t.Helper()
	var before []time.Duration
	for _, n := range c.nodes {
		used, err := n.cpu()
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, used)
	}
	time.Sleep(*idleFlag)
	for i, n := range c.nodes {
		used, err := n.cpu()
		if err != nil {
			t.Fatal(err)
		}
		memory, files, err := n.holds()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("node %d idle: %.1f %% of a core, %d MiB of memory, %d open files", n.id, 100*(used-before[i]).Seconds()/idleFlag.Seconds(), memory>>20, files)
	}
}

// restart stops a node cleanly and says how long it takes to be ready again.
func restart(t *testing.T, n *node) time.Duration {
	t.Helper()
	if err := n.stop(patience); err != nil {
		t.Error(err)
	}
	return launched(t, n)
}

// launched starts a node and says how long it takes to be ready.
func launched(t *testing.T, n *node) time.Duration {
	t.Helper()
	began := time.Now()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if err := await(patience, n.ready); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// volley is how many partitions one request writes to.
const volley = 500

// writeToAll kills a node, unless it is nil, and says how long after that each
// partition took a record with acks=all, and what that cost. A cluster of one
// node is started again at once; else the node stays dead.
func writeToAll(t *testing.T, nodes []*node, all []partition, victim *node) ([]time.Duration, string) {
	t.Helper()
	alone := len(nodes) == 1
	survivors := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n == victim && !alone })
	a := takeAim(t, all, func(p partition) int32 {
		// The next replica in order is the one that will lead.
		i := slices.IndexFunc(p.Replicas, func(r int32) bool { return victim == nil || r != victim.id || alone })
		if victim == nil || p.Leader != victim.id {
			return p.Leader
		}
		return p.Replicas[i]
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var ready, wg sync.WaitGroup
	began := make(chan struct{})
	for i, n := range survivors {
		for range 2 {
			ready.Add(1)
			wg.Go(func() { a.shoot(ctx, survivors, i, ready.Done, began, n.kafka) })
		}
	}
	ready.Wait()
	spent := spend(t, survivors)
	a.killed = time.Now()
	if victim != nil {
		victim.kill()
	}
	close(began)
	if alone {
		if err := nodes[0].start(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		t.Errorf("%d partitions take no writes", a.left)
	}
	said := spent.end(t, a.killed, victim)
	cancel()
	wg.Wait()
	return a.times, said + a.refusals()
}

// target is a partition to be written to.
type target struct {
	index int
	place
}

// aim is what is still to be written to, by the node that is tried next.
type aim struct {
	batch  record.Batch
	killed time.Time

	mu    sync.Mutex
	at    map[int32][]target
	times []time.Duration
	left  int
	why   map[int16]int // errors since, by code
	done  chan struct{}
}

// takeAim is all partitions, each at the node that is tried first.
func takeAim(t *testing.T, all []partition, at func(partition) int32) *aim {
	t.Helper()
	a := &aim{at: map[int32][]target{}, times: make([]time.Duration, len(all)), left: len(all), why: map[int16]int{}, done: make(chan struct{})}
	for i, p := range all {
		a.at[at(p)] = append(a.at[at(p)], target{i, p.place})
	}
	batch, err := produceRequest(place{}, value{Producer: "failover"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.batch = batch.Topics[0].Partitions[0].Records
	return a
}

// refusals tells which answers the clients got that were no acknowledgements.
func (a *aim) refusals() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all strings.Builder
	for code, n := range a.why {
		_, _ = fmt.Fprintf(&all, ", code %d %d times", code, n)
	}
	return all.String()
}

// take is the next volley for a node.
func (a *aim) take(id int32) []target {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(volley, len(a.at[id]))
	some := a.at[id][:n:n]
	a.at[id] = a.at[id][n:]
	return some
}

// again puts targets back, to be tried at a node.
func (a *aim) again(id int32, some []target) {
	a.mu.Lock()
	a.at[id] = append(a.at[id], some...)
	a.mu.Unlock()
}

// shoot writes to one node's partitions until all are written to.
func (a *aim) shoot(ctx context.Context, nodes []*node, self int, ready func(), began <-chan struct{}, addr string) {
	id := nodes[self].id
	conn, err := peer.Dial(ctx, addr)
	ready()
	<-began
	for ctx.Err() == nil {
		if err != nil {
			if conn, err = peer.Dial(ctx, addr); err != nil {
				time.Sleep(5 * time.Millisecond) // another process starts
				continue
			}
		}
		some := a.take(id)
		if len(some) == 0 {
			select {
			case <-a.done:
				_ = conn.Close() // nothing is on it
				return
			case <-time.After(2 * time.Millisecond):
			}
			continue
		}
		var resp kmsg.Response
		if resp, err = conn.Ask(a.request(some), 20*time.Second); err != nil {
			_ = conn.Close() // it may be broken
			a.again(id, some)
			continue
		}
		if failed := a.heard(some, resp.(*kmsg.ProduceResponse)); len(failed) > 0 {
			time.Sleep(5 * time.Millisecond) // another process acts
			a.again(nodes[(self+1)%len(nodes)].id, failed)
		}
	}
	if err == nil {
		_ = conn.Close() // nothing is on it
	}
}

// request writes to all targets at once.
func (a *aim) request(some []target) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 15_000
	at := map[string]int{}
	for _, s := range some {
		i, ok := at[s.Topic]
		if !ok {
			i = len(req.Topics)
			at[s.Topic] = i
			req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: s.Topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, kmsg.ProduceRequestTopicPartition{Partition: s.Partition, Records: a.batch})
	}
	return req
}

// heard notes which partitions were written to and returns the others.
func (a *aim) heard(some []target, resp *kmsg.ProduceResponse) []target {
	took := time.Since(a.killed)
	code := map[place]int16{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			code[place{t.Topic, p.Partition}] = p.ErrorCode
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []target
	for _, s := range some {
		if why, ok := code[s.place]; !ok || why != 0 {
			a.why[why]++
			failed = append(failed, s)
			continue
		}
		a.times[s.index] = took
		if a.left--; a.left == 0 {
			close(a.done)
		}
	}
	return failed
}
