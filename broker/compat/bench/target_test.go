package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
)

// target is one broker under load, or a cluster of them.
type target struct {
	*peer.Server
	others []*peer.Server // of the cluster, which topics are replicated to
	admin  *kgo.Client
}

// patience is how long an admin request may take: on a busy disk a sync waits for
// all that others wrote.
const patience = 2 * time.Minute

// cores of the brokers and of the client; where there is only one, nothing is
// pinned.
const (
	brokerCore = 0
	clientCore = 1
)

// pin moves this process to a core. Processes started from here on are there,
// too.
func pin(t testing.TB, core int) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		return
	}
	var set unix.CPUSet
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &set) // a thread may have ended
		}
	}
}

// start starts a broker on its core.
func start(t testing.TB, run func(testing.TB, peer.Options) *peer.Server, o peer.Options) *target {
	t.Helper()
	pin(t, brokerCore)
	s := run(t, o)
	pin(t, clientCore)
	return &target{Server: s, admin: client(t, s.Addr, kgo.RequestTimeoutOverhead(patience))}
}

// startCluster starts brokers that are pinned to no core: there are more of them
// than cores.
func startCluster(t testing.TB, run func(testing.TB, int, peer.Options) *peer.Cluster, n int, o peer.Options) *target {
	t.Helper()
	all := run(t, n, o).Nodes
	return &target{Server: all[0], others: all[1:], admin: client(t, all[0].Addr, kgo.RequestTimeoutOverhead(patience))}
}

// create makes a topic. It has a replica on each broker.
func (s *target) create(t testing.TB, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis = int32(patience.Milliseconds())
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, int16(1+len(s.others))
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		rt.Configs = append(rt.Configs, c)
	}
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	reply, err := r.RequestWith(ctx, s.admin)
	if err == nil {
		err = kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("%s: create %s: %v", s.Name, topic, err)
	}
	s.wait(ctx, t, topic, partitions)
}

// wait returns when every partition is served: Kafka answers CreateTopics, and
// names leaders, before that.
func (s *target) wait(ctx context.Context, t testing.TB, topic string, partitions int32) {
	t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, -1, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	r.Topics = append(r.Topics, rt)
	for {
		served := int32(0)
		reply, err := r.RequestWith(ctx, s.admin) // each leader is asked
		if err == nil {
			for _, rt := range reply.Topics {
				for _, p := range rt.Partitions {
					if p.ErrorCode == 0 {
						served++
					}
				}
			}
		}
		if served == partitions {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: only %d partitions of %s are served: %v", s.Name, served, topic, err)
		}
		time.Sleep(10 * time.Millisecond) // another process acts
	}
}

// remove deletes a topic.
func (s *target) remove(t testing.TB, topic string) {
	t.Helper()
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis = int32(patience.Milliseconds())
	r.TopicNames = []string{topic}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	reply, err := r.RequestWith(ctx, s.admin)
	if err == nil {
		err = kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("%s: delete %s: %v", s.Name, topic, err)
	}
}

// heapInuse is a gauge of the Go process behind HTTP, 0 where there is none.
func (s *target) heapInuse(t testing.TB) float64 {
	t.Helper()
	if s.HTTP == "" {
		return 0
	}
	return s.metric(t, "go_memstats_heap_inuse_bytes")
}

// metric is one of the numbers behind HTTP.
func (s *target) metric(t testing.TB, name string) float64 {
	t.Helper()
	var b bytes.Buffer
	for status := 0; status != http.StatusOK; time.Sleep(20 * time.Millisecond) { // its scheduler may still start
		if t.Context().Err() != nil {
			t.Fatalf("%s answers %d", s.HTTP, status)
		}
		reply, err := http.Get("http://" + s.HTTP + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		status = reply.StatusCode
		b.Reset()
		_, err = b.ReadFrom(reply.Body)
		_ = reply.Body.Close() // read to the end or given up
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range bytes.Lines(b.Bytes()) {
		if text, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			v, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s on %s", name, s.HTTP)
	return 0
}

// clockTick is the unit of CPU times in /proc, the same on every Linux machine
// that Go runs on.
const clockTick = 10 * time.Millisecond

// busy is the CPU time of all processes of the machine since it started.
func busy(t testing.TB) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var ticks int64
	for i, field := range bytes.Fields(line)[1:] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 3, 4, 8, 9: // idle, waiting for a disk; guests are in user's time already
		default:
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// cpu is the user and system time of the brokers so far, exited threads included,
// by the kernel's clocks of those processes: /proc/PID/stat rounds the same sums
// to 10 ms.
func (s *target) cpu(t testing.TB) time.Duration {
	t.Helper()
	const sched = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h; the id is clock_getcpuclockid(3)'s
	var sum time.Duration
	for _, one := range append([]*peer.Server{s.Server}, s.others...) {
		var now unix.Timespec
		if err := unix.ClockGettime(int32(^one.PID<<3|sched), &now); err != nil {
			t.Fatalf("%s: clock of process %d: %v", s.Name, one.PID, err)
		}
		sum += time.Duration(now.Nano())
	}
	return sum
}

// own is the CPU time of this process.
func own() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // can't fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machine describes where the figures were taken.
func machine() string {
	model := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(b) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
				model = string(bytes.TrimSpace(value))
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d × %s, Linux %s, %s", runtime.NumCPU(), model, bytes.TrimSpace(kernel), runtime.Version())
}
