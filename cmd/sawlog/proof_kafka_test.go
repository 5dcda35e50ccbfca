package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/compat/peer"
	"sawlog/loader"
)

// abroad is a command line that talks to Apache Kafka and has no server of ours.
func abroad(t *testing.T, k *peer.Server) *node {
	t.Helper()
	n := bare(t)
	n.listen = k.Addr
	return n
}

// transactions is a topic of a foreign cluster and the producers that write it.
type transactions struct {
	n     *node
	topic string
	ends  map[int32]int64 // of the partitions, as they should be
}

func (x *transactions) producer(id string) *kgo.Client {
	x.n.t.Helper()
	return x.n.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// put sends records to a partition and waits for them; nil = no transaction.
func (x *transactions) put(c *kgo.Client, partition int32, count int) {
	x.n.t.Helper()
	if c == nil {
		c = x.n.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer c.Close()
	}
	ctx, cancel := context.WithTimeout(x.n.t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: x.topic, Partition: partition, Value: fmt.Appendf(nil, "%d/%d", partition, x.ends[partition]+int64(i))})
	}
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		x.n.t.Fatal(err)
	}
	x.ends[partition] += int64(count)
}

func (x *transactions) begin(c *kgo.Client) {
	x.n.t.Helper()
	if err := c.BeginTransaction(); err != nil {
		x.n.t.Fatal(err)
	}
}

// end ends a transaction over partitions and waits for its markers.
func (x *transactions) end(c *kgo.Client, how kgo.TransactionEndTry, partitions ...int32) {
	x.n.t.Helper()
	ctx, cancel := context.WithTimeout(x.n.t.Context(), time.Minute)
	defer cancel()
	if err := c.EndTransaction(ctx, how); err != nil {
		x.n.t.Fatal(err)
	}
	for _, p := range partitions {
		x.ends[p]++
	}
	x.n.eventually("the markers are written", time.Minute, func() bool {
		var lines []partitionLine
		if err := json.Unmarshal(x.n.run("topic", "offsets", x.topic, "-o", "json"), &lines); err != nil {
			x.n.t.Fatal(err)
		}
		for _, l := range lines {
			if l.End != x.ends[l.Partition] {
				return false
			}
		}
		return true
	})
}

// loads runs the job and wants these ranges, and that nothing is left then.
func (x *transactions) loads(job string, want ...loader.OutcomeRange) {
	x.n.t.Helper()
	o := x.n.outcome(0, "run", job)
	var rows int64
	for i := range want {
		want[i].Topic = x.topic
		rows += want[i].Data
	}
	if fmt.Sprint(o.Ranges) != fmt.Sprint(want) || o.Rows != rows || o.Quarantined != 0 {
		x.n.t.Errorf("loaded %d rows of\n%+v, want %d of\n%+v", o.Rows, o.Ranges, rows, want)
	}
	begun := time.Now()
	if o := x.n.outcome(0, "run", job); o.Status != "covered" || o.Rows != 0 {
		x.n.t.Errorf("once more: %s, %d rows", o.Status, o.Rows)
	}
	if took := time.Since(begun); took > 20*time.Second {
		x.n.t.Errorf("a load of nothing took %s", took)
	}
}

// TestProofFromKafka loads from Apache Kafka itself.
func TestProofFromKafka(t *testing.T) {
	t.Parallel()
	needPython(t)
	k := peer.Kafka(t, peer.Options{Heap: "384m"})
	t.Run("transactions", func(t *testing.T) { foreignTransactions(abroad(t, k)) })
	t.Run("the same bytes", func(t *testing.T) { sameBytes(abroad(t, k), startNode(t)) })
}

// foreignTransactions loads from Apache Kafka what transactions left
// there: committed, aborted and open ones, their markers last, their batches
// interleaved. Offsets are accounted for exactly and nothing is loaded twice.
func foreignTransactions(n *node) {
	t := n.t
	x := &transactions{n: n, topic: "tx", ends: map[int32]int64{}}
	n.run("topic", "create", x.topic, "--partitions", "4", "--replication-factor", "1")
	a, b, c := x.producer("a"), x.producer("b"), x.producer("c")
	for range 4 { // a batch and a marker each: data at 0, 2, 4 and 6
		x.begin(a)
		x.put(a, 0, 1)
		x.end(a, kgo.TryCommit, 0)
	}
	x.begin(a)
	x.put(a, 1, 3)
	x.end(a, kgo.TryCommit, 1)
	x.begin(b) // an aborted batch is the last one, and the log ends with its marker
	x.put(b, 1, 2)
	x.end(b, kgo.TryAbort, 1)
	x.begin(a) // interleaved with one that aborts and one without a transaction
	x.begin(b)
	x.put(a, 2, 3)
	x.put(b, 2, 2)
	x.put(nil, 2, 2)
	x.put(a, 2, 1)
	x.end(b, kgo.TryAbort, 2)
	x.end(a, kgo.TryCommit, 2)
	x.put(nil, 3, 1)
	x.begin(a)
	x.put(a, 3, 2)
	x.end(a, kgo.TryAbort, 3)
	x.put(nil, 3, 1)
	x.begin(c) // stays open: what follows it waits
	x.put(c, 2, 2)

	path, root := n.job("tx", textJob)
	x.loads(path,
		loader.OutcomeRange{Partition: 0, Start: 0, End: 8, Account: loader.Account{Data: 4, Control: 4}},
		loader.OutcomeRange{Partition: 1, Start: 0, End: 7, Account: loader.Account{Data: 3, Control: 2, Aborted: 2}},
		loader.OutcomeRange{Partition: 2, Start: 0, End: 10, Account: loader.Account{Data: 6, Control: 2, Aborted: 2}},
		loader.OutcomeRange{Partition: 3, Start: 0, End: 5, Account: loader.Account{Data: 2, Control: 1, Aborted: 2}})
	x.put(nil, 2, 1) // behind the open transaction
	if o := n.outcome(0, "run", path); o.Status != "covered" {
		t.Errorf("behind an open transaction: %s, %+v", o.Status, o.Ranges)
	}
	x.end(c, kgo.TryCommit, 2)
	x.loads(path, loader.OutcomeRange{Partition: 2, Start: 10, End: 14, Account: loader.Account{Data: 3, Control: 1}})
	x.begin(a) // markers and aborted records alone: offsets go on, no row comes
	x.put(a, 0, 2)
	x.end(a, kgo.TryAbort, 0)
	x.loads(path, loader.OutcomeRange{Partition: 0, Start: 8, End: 11, Account: loader.Account{Control: 1, Aborted: 2}})
	if rows, distinct := rowsOf(t, root); rows != 18 || distinct != 18 {
		t.Errorf("%d rows, %d different, want 18", rows, distinct)
	}
	n.clean(root)
	n.run("verify", "--root", root, "--against-log")
	x.cuts()
	x.uncommitted()
}

// cuts loads ranges that end between an aborted batch and its marker, and inside
// the batch.
func (x *transactions) cuts() {
	t, n := x.n.t, x.n
	root := filepath.Join(n.dir, "warehouse", "cut")
	path := n.write("cut.yaml", "name: cut\nsource: {topics: [tx]}\noutput: {root: 'file://"+root+"'}\n"+textJob)
	for _, c := range []struct {
		rng  string
		want loader.OutcomeRange
	}{
		{"tx/1=0..5", loader.OutcomeRange{Start: 0, End: 5, Account: loader.Account{Data: 3, Control: 1, Aborted: 1}}},
		{"tx/1=5..6", loader.OutcomeRange{Start: 5, End: 6, Account: loader.Account{Aborted: 1}}},
		{"tx/1=6..7", loader.OutcomeRange{Start: 6, End: 7, Account: loader.Account{Control: 1}}},
	} {
		c.want.Topic, c.want.Partition = "tx", 1
		if o := n.outcome(0, "run", path, "--range", c.rng); len(o.Ranges) != 1 || o.Ranges[0] != c.want {
			t.Errorf("%s: %+v, want %+v", c.rng, o.Ranges, c.want)
		}
	}
	n.clean(root)
}

// uncommitted loads aborted records too, where a job asks for them.
func (x *transactions) uncommitted() {
	t, n := x.n.t, x.n
	root := filepath.Join(n.dir, "warehouse", "all")
	path := n.write("all.yaml", "name: all\nsource: {topics: [tx], isolation: read_uncommitted}\noutput: {root: 'file://"+root+"'}\n"+textJob)
	var data, control, aborted int64
	for _, r := range n.outcome(0, "run", path).Ranges {
		data, control, aborted = data+r.Data, control+r.Control, aborted+r.Aborted
	}
	if data != 18+8 || control != 11 || aborted != 0 {
		t.Errorf("read uncommitted: %d data, %d control, %d aborted offsets", data, control, aborted)
	}
}

// namedByIDs finds the ids of topic and plan in a file's name.
var namedByIDs = regexp.MustCompile(`-[0-9a-f]{8}-(\d{5}-\d{20}-\d{20})-[0-9a-f]{8}|(merged|quarantine/)-?[0-9a-f]{8}`)

// withoutIDs is a tree by names that say nothing of cluster, topic id and plan.
func withoutIDs(tree map[string]string) map[string]string {
	out := map[string]string{}
	for name, hash := range tree {
		out[namedByIDs.ReplaceAllString(name, "-$1$2")] = hash
	}
	return out
}

// sameBytes loads the same records from Apache Kafka and from
// Sawlog, where they lie in other batches under another codec: each file has the
// same bytes.
func sameBytes(theirs, ours *node) {
	t, total := ours.t, 0
	for i, n := range []*node{theirs, ours} {
		n.run("topic", "create", "twin", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=-1")
		total = 0
		for p, count := range []int{9000, 40, 3000} {
			records := wide("twin", int32(p), count, 12)
			for j, r := range records {
				r.Timestamp, r.Key = firstHour.Add(time.Duration(j)*time.Second), fmt.Appendf(nil, "k%d", j%50)
				r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, j)}}
			}
			opts := append(byHand([]string{"lz4", "zstd"}[i]), kgo.ProducerBatchMaxBytes([]int32{300_000, 20_000}[i]))
			n.send(opts, records...)
			total += count
		}
	}
	for _, merge := range []string{"never", "always"} {
		var trees [2]map[string]string
		for i, n := range []*node{theirs, ours} {
			root := filepath.Join(n.dir, "warehouse", merge)
			path := n.write(merge+".yaml", fmt.Sprintf("name: twin\nsource: {topics: [twin]}\noutput: {root: 'file://%s', merge_partitions: %s}\n"+
				"metadata_columns: [_topic, _partition, _offset, _timestamp, _key, _headers]\n", root, merge)+numbersJob)
			o := n.outcome(0, "run", path)
			if o.Rows+o.Quarantined != int64(total) || o.Quarantined < 100 {
				t.Fatalf("%s: %d rows, %d quarantined of %d", merge, o.Rows, o.Quarantined, total)
			}
			trees[i] = withoutIDs(treeOf(t, root))
			n.run("verify", "--root", root, "--against-log")
		}
		if err := sameTree(trees[0], trees[1]); err != nil || len(trees[0]) < 12 {
			t.Errorf("%s: %d files from Kafka, %d from Sawlog: %v", merge, len(trees[0]), len(trees[1]), err)
		}
	}
}
