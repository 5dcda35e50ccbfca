package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/jobs"
)

// payloads are values that compress well, badly, and not at all.
func payloads() [][]byte {
	rnd := rand.New(rand.NewPCG(3, 14))
	all := [][]byte{[]byte("x"), bytes.Repeat([]byte("same "), 4000), []byte(`{"a":"é\u0000","b":[1,2,3]}`)}
	for _, size := range []int{100, 5_000, 70_000, 300_000} {
		noise := make([]byte, size)
		for i := range noise {
			noise[i] = byte('!' + rnd.IntN(90))
		}
		all = append(all, noise)
	}
	return all
}

// dumpCodecs are the codecs of the batches in the segments of a topic.
func (n *node) dumpCodecs(topic string) map[string]int {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, "data", topic+"-*", "*.log"))
	if err != nil || len(files) == 0 {
		n.t.Fatalf("no segment of %s: %v", topic, err)
	}
	found := map[string]int{}
	for line := range strings.Lines(string(n.run(append([]string{"log", "dump"}, files...)...))) {
		for word := range strings.FieldsSeq(line) {
			if name, ok := strings.CutPrefix(word, "codec="); ok {
				found[name]++
			}
		}
	}
	return found
}

func TestProofCodecsKgo(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, codec := range kgoCodecs {
		n.run("topic", "create", name, "--partitions", "1")
		var records []*kgo.Record
		for i, value := range payloads() {
			records = append(records, &kgo.Record{Topic: name, Key: fmt.Append(nil, i), Value: value, Headers: []kgo.RecordHeader{{Key: "h", Value: value[:1]}}})
		}
		n.send([]kgo.Opt{kgo.ProducerBatchCompression(codec)}, records...)
		back := n.readAll(name)
		for i, r := range back {
			if !bytes.Equal(r.Value, records[i].Value) || !bytes.Equal(r.Key, records[i].Key) || len(r.Headers) != 1 || !bytes.Equal(r.Headers[0].Value, r.Value[:1]) {
				t.Errorf("%s: record %d came back changed", name, i)
			}
		}
		if found := n.dumpCodecs(name); len(back) != len(records) || found[name] == 0 {
			t.Errorf("%s: %d of %d records back, batches %v", name, len(back), len(records), found)
		}
	}
}

// TestProofCodecsKcat sends with librdkafka in each codec and reads with
// librdkafka and kgo.
func TestProofCodecsKcat(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		missing(t, "kcat")
	}
	t.Parallel() // it waits for groups
	n := startNode(t)
	kcat := func(stdin []byte, args ...string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", n.listen, "-m", "30"}, args...)...)
		var said bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kcat %v: %v: %s", args, err, said.String())
		}
		return out
	}
	var lines bytes.Buffer
	for i := range 500 {
		// Each gets smaller by itself: librdkafka sends as it is what doesn't, and on a
		// busy machine a batch may be one record.
		fmt.Fprintf(&lines, "%d:%s\n", i, strings.Repeat("boards and planks ", 6+i%20))
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "kcat-" + codec
		n.run("topic", "create", topic, "--partitions", "1")
		kcat(lines.Bytes(), "-P", "-t", topic, "-K", ":", "-z", codec)
		back := kcat(nil, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-K", ":")
		if !bytes.Equal(back, lines.Bytes()) {
			t.Errorf("%s: kcat reads %d bytes, sent %d", codec, len(back), lines.Len())
		}
		var again bytes.Buffer
		for _, r := range n.readAll(topic) {
			fmt.Fprintf(&again, "%s:%s\n", r.Key, r.Value)
		}
		if !bytes.Equal(again.Bytes(), lines.Bytes()) {
			t.Errorf("%s: kgo reads other bytes than kcat sent", codec)
		}
		if found := n.dumpCodecs(topic); found[codec] == 0 || len(found) != 1 {
			t.Errorf("%s: log dump shows batches %v", codec, found)
		}
	}
	// As a group: what was committed before a crash is not read again.
	if back := kcat(nil, "-G", "sawyers", "-q", "-c", "500", "-X", "auto.offset.reset=earliest", "-K", ":", "kcat-gzip"); !bytes.Equal(back, lines.Bytes()) {
		t.Errorf("the group reads %d bytes, want %d", len(back), lines.Len())
	}
	n.kill()
	n.start()
	kcat([]byte("a:new\nb:er\n"), "-P", "-t", "kcat-gzip", "-K", ":", "-z", "snappy")
	if back := kcat(nil, "-G", "sawyers", "-q", "-c", "2", "-X", "auto.offset.reset=earliest", "-K", ":", "kcat-gzip"); string(back) != "a:new\nb:er\n" {
		t.Errorf("the group reads on with %.60q", back)
	}
}

// member consumes a topic in a group, commits what it saw, and checks that the
// offsets of a partition go up while it holds it.
type member struct {
	t       *testing.T
	client  *kgo.Client
	cancel  context.CancelFunc
	done    chan struct{}
	crowd   *crowd
	mu      sync.Mutex
	last    map[int32]int64
	records atomic.Int64
}

// crowd is what all members of a group saw.
type crowd struct {
	mu   sync.Mutex
	seen map[int32]map[int64]string // partition, offset, value
}

func (c *crowd) take(r *kgo.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[r.Partition] == nil {
		c.seen[r.Partition] = map[int64]string{}
	}
	if before, ok := c.seen[r.Partition][r.Offset]; ok && before != string(r.Value) {
		return fmt.Errorf("offset %d of partition %d was %q and is %q", r.Offset, r.Partition, before, r.Value)
	}
	c.seen[r.Partition][r.Offset] = string(r.Value)
	return nil
}

func (n *node) join(topic, group string, c *crowd) *member {
	m := &member{t: n.t, crowd: c, done: make(chan struct{}), last: map[int32]int64{}}
	forget := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, p := range lost[topic] {
			delete(m.last, p)
		}
	}
	m.client = n.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.RebalanceTimeout(5*time.Second), kgo.OnPartitionsRevoked(forget), kgo.OnPartitionsLost(forget))
	ctx, cancel := context.WithCancel(n.t.Context())
	m.cancel = cancel
	go m.loop(ctx)
	return m
}

func (m *member) loop(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		fetches := m.client.PollRecords(ctx, 500)
		records := fetches.Records()
		for _, r := range records {
			m.mu.Lock()
			if last, ok := m.last[r.Partition]; ok && r.Offset <= last {
				m.t.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset, last)
			}
			m.last[r.Partition] = r.Offset
			m.mu.Unlock()
			if err := m.crowd.take(r); err != nil {
				m.t.Error(err)
			}
		}
		m.records.Add(int64(len(records)))
		if len(records) > 0 {
			within, cancel := context.WithTimeout(ctx, 3*time.Second)
			_ = m.client.CommitRecords(within, records...) // a server that is down; they come again
			cancel()
		}
		m.client.AllowRebalance()
	}
}

func (m *member) leave() {
	m.cancel()
	<-m.done
	m.client.CloseAllowingRebalance()
}

// stream keeps producing numbered JSON records to all partitions in turn until
// it is stopped; n counts what was acknowledged.
type stream struct {
	client *kgo.Client
	stop   chan struct{}
	done   chan struct{}
	mu     sync.Mutex
	acked  []int // numbers
	failed []int
}

func (n *node) stream(topic string, partitions int, every time.Duration) *stream {
	s := &stream{stop: make(chan struct{}), done: make(chan struct{})}
	s.client = n.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.RecordRetries(1<<30), kgo.RetryTimeout(time.Minute))
	go func() {
		defer close(s.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			for range 10 {
				number := i
				at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i%5000) * 20 * time.Second)
				r := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Appendf(nil, `{"n":%d,"at":%q}`, i, at.Format(time.RFC3339))}
				s.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
					s.mu.Lock()
					defer s.mu.Unlock()
					if err != nil {
						s.failed = append(s.failed, number)
					} else {
						s.acked = append(s.acked, number)
					}
				})
				i++
			}
		}
	}()
	return s
}

// end stops the stream and waits for the answers to all it sent.
func (s *stream) end(t *testing.T) (acked, failed []int) {
	t.Helper()
	close(s.stop)
	<-s.done
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.client.Flush(ctx); err != nil {
		t.Fatalf("the producer's records were not answered: %v", err)
	}
	s.client.Close()
	return s.acked, s.failed
}

func numberOf(t *testing.T, value []byte) int {
	t.Helper()
	var v struct {
		N int `json:"n"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		t.Fatalf("%v: %s", err, value)
	}
	return v.N
}

// checkLog compares the log with what a stream was told: each acknowledged
// number once, no number twice, and in the order sent within a partition.
func checkLog(t *testing.T, log []*kgo.Record, acked []int) {
	t.Helper()
	found := map[int]bool{}
	last := map[int32]int{}
	for _, r := range log {
		i := numberOf(t, r.Value)
		if found[i] {
			t.Errorf("record %d is in the log twice", i)
		}
		found[i] = true
		if before, ok := last[r.Partition]; ok && i < before {
			t.Errorf("partition %d: record %d after %d", r.Partition, i, before)
		}
		last[r.Partition] = i
	}
	for _, i := range acked {
		if !found[i] {
			t.Errorf("record %d was acknowledged and is not in the log", i)
		}
	}
}

func (n *node) committedOf(group string) map[int32]int64 {
	n.t.Helper()
	var d groupDescription
	if err := json.Unmarshal(n.run("group", "describe", group, "-o", "json"), &d); err != nil {
		n.t.Fatal(err)
	}
	at := map[int32]int64{}
	for _, p := range d.Positions {
		at[p.Partition] = p.Committed
	}
	return at
}

const numbersJob = "decode: {value: json}\ntime: {field: at, format: rfc3339}\n"

// TestProofGroupAndLoads lets a group read a topic while a producer goes on,
// the same topic is loaded again and again, members come and go, and the server
// is killed.
func TestProofGroupAndLoads(t *testing.T) {
	t.Parallel() // it waits for groups
	needPython(t)
	n := startNode(t)
	const topic, partitions = "numbers", 6
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions))
	path, root := n.job(topic, numbersJob)
	s := n.stream(topic, partitions, 5*time.Millisecond)
	crowd := &crowd{seen: map[int32]map[int64]string{}}
	members := []*member{n.join(topic, "readers", crowd), n.join(topic, "readers", crowd), n.join(topic, "readers", crowd)}
	all := func() bool {
		for _, m := range members {
			if m.records.Load() == 0 {
				return false
			}
		}
		return true
	}
	n.eventually("each of three members reads", 30*time.Second, all)
	first := n.load(path)
	members[0].leave()
	members = members[1:]
	members = append(members, n.join(topic, "readers", crowd))
	n.eventually("the newcomer reads", 30*time.Second, all)
	second := n.load(path)
	before := n.committedOf("readers")
	n.kill()
	n.start()
	n.ready()
	after := n.committedOf("readers")
	if len(before) != partitions {
		t.Errorf("offsets of %d partitions were committed, want %d", len(before), partitions)
	}
	for p, at := range before {
		if after[p] < at {
			t.Errorf("partition %d: committed %d, after the crash %d", p, at, after[p])
		}
	}
	for _, m := range members {
		m.records.Store(0)
	}
	n.eventually("all members read on after the crash", 40*time.Second, all)
	third := n.load(path)
	acked, failed := s.end(t)
	if len(failed) > 0 {
		t.Errorf("%d records failed for good, such as %d", len(failed), failed[0])
	}
	fourth := n.load(path)
	log := n.readAll(topic)
	n.eventually("the group has read everything", 30*time.Second, func() bool {
		crowd.mu.Lock()
		defer crowd.mu.Unlock()
		seen := 0
		for _, p := range crowd.seen {
			seen += len(p)
		}
		return seen >= len(log)
	})
	for _, m := range members {
		m.leave()
	}
	checkLog(t, log, acked)
	for _, r := range log {
		if got := crowd.seen[r.Partition][r.Offset]; got != string(r.Value) {
			t.Fatalf("%d@%d is %q, the group saw %q", r.Partition, r.Offset, r.Value, got)
		}
	}
	want := int64(len(log))
	if rows := first.Rows + second.Rows + third.Rows + fourth.Rows; rows != want {
		t.Errorf("the loads tell of %d+%d+%d+%d rows, the log holds %d", first.Rows, second.Rows, third.Rows, fourth.Rows, want)
	}
	if rows, distinct := rowsOf(t, root); rows != want || distinct != want {
		t.Errorf("%d rows, %d different, the log holds %d", rows, distinct, want)
	}
	n.clean(root)
}

// TestSoakServerKilled kills the server at random moments while a producer and
// runs on the server go on.
func TestSoakServerKilled(t *testing.T) {
	t.Parallel() // it waits for the server to start
	needPython(t)
	n := startNode(t)
	n.ready()
	const topic, partitions = "numbers", 4
	kills := rounds(t, 4)
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions))
	path, root := n.job(topic, numbersJob+"partition_by: {lateness: 0m}\n")
	n.run("job", "apply", path)
	s := n.stream(topic, partitions, 4*time.Millisecond)
	rnd := rand.New(rand.NewPCG(6, 2026))
	interrupted, seen := map[string]bool{}, seenRuns{}
	for k := 0; k < kills || k < 10*kills && seen.cutOff() < 2; k++ {
		n.try("run", topic) // it may be refused while another is queued
		if rnd.IntN(3) > 0 {
			if id := n.running(topic); id != "" {
				interrupted[id] = true
			}
		}
		time.Sleep(time.Duration(rnd.IntN(150)) * time.Millisecond) // the moment is the point
		n.kill()
		n.start()
		n.ready()
		seen.look(n, topic)
	}
	acked, failed := s.end(t)
	if len(failed) > 0 {
		t.Errorf("%d records failed for good", len(failed))
	}
	n.run("run", topic, "--wait")
	seen.look(n, topic)
	log := n.readAll(topic)
	checkLog(t, log, acked)
	if rows, distinct := rowsOf(t, root); rows != int64(len(log)) || distinct != rows {
		t.Errorf("%d rows, %d different, the log holds %d", rows, distinct, len(log))
	}
	n.clean(root)
	for _, r := range seen {
		if !r.Good() {
			t.Errorf("run %s is %s: %s", r.Run, r.Status, r.Reason)
		}
		delete(interrupted, r.Run)
	}
	if len(interrupted) > 0 {
		t.Errorf("runs %v were forgotten", interrupted)
	}
	again := seen.cutOff()
	if again < 2 {
		t.Errorf("only %d attempts were cut off by a kill", again)
	}
	t.Logf("%d records, %d runs, %d attempts were cut off", len(log), len(seen), again)
}

type runLine struct {
	Run, Status, Reason string
	Attempt             int
}

func (n *node) runsOf(job string) []runLine {
	n.t.Helper()
	var runs []runLine
	if err := json.Unmarshal(n.run("runs", "list", "--job", job, "-o", "json"), &runs); err != nil {
		n.t.Fatal(err)
	}
	return runs
}

// running waits for a run that is under way, not for long. It asks the server
// itself: by the time a process has begun and asked, the run may be over.
func (n *node) running(job string) string {
	n.t.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		var runs struct{ Runs []jobs.Run }
		if text := n.get("/api/v1/runs?limit=5&job=" + job); json.Unmarshal([]byte(text), &runs) != nil {
			n.t.Fatal(text)
		}
		if i := slices.IndexFunc(runs.Runs, func(r jobs.Run) bool { return r.Status == jobs.Running }); i >= 0 {
			return runs.Runs[i].Run
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ""
}
