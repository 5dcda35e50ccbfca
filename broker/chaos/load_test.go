//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var forFlag = flag.Duration("for", time.Minute, "how long TestNoFalseFence keeps a cluster under full load")

// hot is the topic of a full load, small enough on the disk for a long one.
const (
	hot           = "hot"
	hotPartitions = 12
)

var hotConfig = map[string]string{"retention.bytes": "67108864", "segment.bytes": "33554432", "min.insync.replicas": "2"}

// A cluster at full load, with ten thousand partitions beside, is left as it is:
// no broker is taken out of service by mistake, no leader is replaced, and the
// active controller stays the one it is.
func TestNoFalseFence(t *testing.T) {
	c, err := openCluster(t, room(t, "load"), shape{size: cmp.Or(*nodesFlag, 3)})
	if err != nil {
		t.Fatal(err)
	}
	topics := []string{hot}
	if err := c.createTopic(hot, hotPartitions, 3, hotConfig); err != nil {
		t.Fatal(err)
	}
	for i := range *topicsFlag {
		topics = append(topics, fmt.Sprintf("t%03d", i))
		if err := c.createTopic(topics[i+1], partitionsPerTopic, 3, map[string]string{"min.insync.replicas": "2"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := await(5*time.Minute, func() error { return c.healed(topics...) }); err != nil {
		t.Fatal(err)
	}
	before, spent := counts(t, c), spend(t, c.nodes)
	began := time.Now()
	l := fullLoad(t, c, *forFlag)
	took := time.Since(began)
	t.Logf("%s of load: %d records written, %.0f MB/s, read %.0f MB/s, the longest commit took %s; %s", took.Round(time.Second),
		l.written.Load(), float64(l.bytes.Load())/took.Seconds()/1e6, float64(l.read.Load())/took.Seconds()/1e6, time.Duration(l.longest.Load()).Round(time.Millisecond), spent.end(t, began, nil))
	after := counts(t, c)
	for _, name := range mustStand {
		if before[name] != after[name] {
			t.Errorf("%s went from %v to %v", name, before[name], after[name])
		}
	}
	t.Logf("ISRs shrank %v times", after["sawlog_isr_shrinks_total"]-before["sawlog_isr_shrinks_total"])
	for _, n := range c.nodes {
		said, err := os.ReadFile(n.logFile())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(said, []byte(`"fenced":true`)) {
			t.Errorf("node %d says that a broker was taken out of service:\n%s", n.id, tail(n.logFile()))
		}
	}
}

// mustStand are the numbers that a load doesn't move.
var mustStand = []string{"sawlog_leader_elections_total", "sawlog_metadata_term", "sawlog_brokers_fenced"}

// counts reads numbers of all nodes, and adds them up by name.
func counts(t *testing.T, c *cluster) map[string]float64 {
	t.Helper()
	sum := map[string]float64{}
	for _, n := range c.nodes {
		resp, err := http.Get("http://" + n.http + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), " ")
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				sum[name] += v
			}
		}
		if err := resp.Body.Close(); err != nil || lines.Err() != nil {
			t.Fatal(err, lines.Err())
		}
	}
	return sum
}

// load counts what clients got done.
type load struct{ written, bytes, read, longest atomic.Int64 }

// fullLoad writes and reads as fast as the machine can, for a time.
func fullLoad(t *testing.T, c *cluster, d time.Duration) *load {
	t.Helper()
	l := &load{}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	value := make([]byte, 1024)
	_, _ = rand.Read(value) // it never fails
	var wg sync.WaitGroup
	for range 3 {
		producer := client(t, c, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000))
		wg.Go(func() {
			for ctx.Err() == nil {
				from := time.Now()
				producer.Produce(ctx, &kgo.Record{Topic: hot, Value: value}, func(r *kgo.Record, err error) {
					if err != nil && ctx.Err() == nil {
						t.Errorf("a record was not written: %v", err)
					}
					if err == nil {
						l.written.Add(1)
						l.bytes.Add(int64(len(r.Value)))
						l.longest.Store(max(l.longest.Load(), int64(time.Since(from))))
					}
				})
			}
		})
		reader := client(t, c, kgo.ConsumeTopics(hot))
		wg.Go(func() {
			for ctx.Err() == nil {
				fetches := reader.PollFetches(ctx)
				fetches.EachRecord(func(r *kgo.Record) { l.read.Add(int64(len(r.Value))) })
			}
		})
	}
	wg.Wait()
	return l
}

// client is one that ends with the test.
func client(t *testing.T, c *cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
