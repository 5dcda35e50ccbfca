package compat_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// trio starts three brokers that foreign clients are run against: Sawlog, or
// Apache Kafka with SAWLOG_COMPAT_PEER=kafka.
func trio(t testing.TB) *peer.Cluster {
	t.Helper()
	if os.Getenv("SAWLOG_COMPAT_PEER") == "kafka" {
		return peer.KafkaCluster(t, 3, peer.Options{Args: []string{noDelay + "=0", "min.insync.replicas=2"}})
	}
	return peer.SawlogCluster(t, 3, peer.Options{Topics: map[string]string{noDelay: "0"}})
}

// TestKgoCluster runs the test suite of franz-go's client on three brokers, all
// its topics with three replicas.
func TestKgoCluster(t *testing.T) {
	path, dir := goTests(t, kgoPackage)
	excluded := readList(t, kgoList)
	c := trio(t)
	env := kgoEnv(c.Addr(), clusterRecords(), "3")
	judge(t, "kgo on three brokers", runTests(t, dir, env, path, "-test.timeout=9m", "-test.skip="+testPattern(excluded, "fails")), without(excluded, "fails"))
}

// TestKgoClusterRestarts runs it while one broker after the other is stopped or
// killed, round after round: no test has to be left out for that.
func TestKgoClusterRestarts(t *testing.T) {
	path, dir := goTests(t, kgoPackage)
	excluded := readList(t, kgoList)
	c := trio(t)
	r := rolling(t, c)
	env := kgoEnv(c.Addr(), clusterRecords(), "3")
	results := runTests(t, dir, env, path, "-test.timeout=9m", "-test.skip="+testPattern(excluded, "fails"))
	for range 3 {
		for _, name := range cutOff(results) {
			t.Logf("%s was cut off, so once more: %s", name, results[name].said)
			maps.Copy(results, runTests(t, dir, env, path, "-test.timeout=3m", "-test.run="+testPattern(map[string]exclusion{name: {}}, "")))
		}
	}
	stops, kills := r.end()
	judge(t, "kgo on three brokers that are restarted", results, without(excluded, "fails"))
	t.Logf("%d stops and %d kills meanwhile", stops, kills)
	if stops+kills < 6 {
		t.Errorf("only %d times was a broker restarted before it was through", stops+kills)
	}
}

// restartsTold are what kgo tells its user when a restart comes at the wrong
// time, as it may on any cluster, and the suite takes for a failure: a join or
// its sync was cut off, or the controller went while it decided.
var restartsTold = []string{"poll got unexpected errs: [{ 0 unable to join group session: ", "unable to create topic"}

// cutOff are the tests that failed for nothing but what restarts may do.
func cutOff(results map[string]result) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		told := func(what string) bool { return strings.Contains(r.said, what) }
		if r.state == "FAIL" && slices.ContainsFunc(restartsTold, told) {
			all = append(all, name)
		}
	}
	return all
}

// clusterRecords is how many records kgo's chains of groups carry on three
// brokers: each costs three times what it does on one.
func clusterRecords() string {
	if os.Getenv("SAWLOG_COMPAT_RECORDS") != "" {
		return etlRecords()
	}
	return "20000"
}

// without is a list but for the tests that end so.
func without(list map[string]exclusion, how string) map[string]exclusion {
	left := maps.Clone(list)
	maps.DeleteFunc(left, func(_ string, e exclusion) bool { return e.how == how })
	return left
}

// A round restarts each broker once. Between rounds the groups come to rest: a
// member that leaves shortly before a restart is missed for its session timeout,
// and kgo gives up on a join that is cut off late (see restartBurst).
const (
	rollBegin = 3 * time.Second
	rollPause = 22 * time.Second
)

// roll is brokers being restarted in turn.
type roll struct {
	stop         chan struct{}
	ended        chan struct{}
	stops, kills int
}

// rolling restarts one broker after the other in rounds, as an operator does: the
// next once all replicas are in sync again. Every fourth is killed.
func rolling(t *testing.T, c *peer.Cluster) *roll {
	r := &roll{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for i, pause := 0, rollBegin; ; i++ {
			select {
			case <-r.stop:
				return
			case <-time.After(pause): // clients act
			}
			pause = 0
			if (i+1)%len(c.Nodes) == 0 {
				pause = rollPause
			}
			if err := c.InSync(time.Minute); err != nil {
				t.Error(err)
				return
			}
			s := c.Nodes[i%len(c.Nodes)]
			if i%4 == 3 {
				r.kills++
				s.Kill()
			} else {
				r.stops++
			}
			s.Restart()
		}
	}()
	t.Cleanup(func() { r.end() })
	return r
}

// end lets the broker that is being restarted come back.
func (r *roll) end() (stops, kills int) {
	select {
	case <-r.ended:
	case r.stop <- struct{}{}:
		<-r.ended
	}
	return r.stops, r.kills
}
