package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/compat/peer"
)

// The test binary is also a server process to be killed: with this variable set
// it serves a data directory until it dies.
const serveVariable = "SAWLOG_BROKER_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVariable); dir != "" {
		b, err := broker.Open(context.Background(), broker.Config{Dir: dir, Listen: os.Getenv(serveVariable + "_LISTEN")})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("serving", b.Addr())
		fmt.Println("failed", <-b.Failed())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// process is a broker in a process of its own.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func startProcess(t *testing.T, dir, listen string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveVariable+"="+dir, serveVariable+"_LISTEN="+listen)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "serving ")
	if err != nil || !ok {
		t.Fatalf("the process says %q, %v", line, err)
	}
	p := &process{cmd: cmd, addr: addr}
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be dead already
	_ = p.cmd.Wait()         // it was killed: its state tells nothing
}

// acknowledged is what producers were promised.
type acknowledged struct {
	mu      sync.Mutex
	offsets map[string]int64 // by value
}

func TestKilledBrokerKeepsWhatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir, peer.Address(t))
	acked := &acknowledged{offsets: map[string]int64{}}
	ctx, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	var count atomic.Int64
	for n := range 3 {
		producers.Go(func() {
			produceForever(ctx, t, p.addr, n, acked, &count)
		})
	}
	for round := range 4 {
		want := int64(1500 * (round + 1))
		for deadline := time.Now().Add(20 * time.Second); count.Load() < want; {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d records acknowledged, want %d", round, count.Load(), want)
			}
			time.Sleep(time.Millisecond)
		}
		p.kill()
		p = startProcess(t, dir, p.addr)
	}
	stop()
	producers.Wait()
	checkAcknowledged(t, p.addr, acked)
	t.Logf("%d records acknowledged over 4 kills", count.Load())
}

// produceForever sends numbered records with acks=all and idempotence, and notes
// each that was acknowledged. A record whose fate is unknown is not sent again:
// kgo does that below, where sequences keep it from being doubled.
func produceForever(ctx context.Context, t *testing.T, addr string, n int, acked *acknowledged, count *atomic.Int64) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("crash"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	var window sync.WaitGroup
	slots := make(chan struct{}, 200)
	for i := 0; ctx.Err() == nil; i++ {
		value := fmt.Sprintf("%d-%d", n, i)
		slots <- struct{}{}
		window.Add(1)
		c.Produce(context.Background(), &kgo.Record{Value: []byte(value)}, func(r *kgo.Record, err error) {
			defer window.Done()
			<-slots
			if err != nil {
				if !errors.Is(err, kgo.ErrClientClosed) {
					t.Errorf("%s: %v", value, err)
				}
				return
			}
			acked.mu.Lock()
			acked.offsets[value] = r.Offset
			acked.mu.Unlock()
			count.Add(1)
		})
	}
	window.Wait()
}

// checkAcknowledged reads everything: each acknowledged record is there once, at
// its offset, and each producer's records are in order.
func checkAcknowledged(t *testing.T, addr string, acked *acknowledged) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("crash"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.ProduceSync(within(t), &kgo.Record{Topic: "crash", Value: []byte("end")}).First()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int64{}
	last := map[string]int{}
	for next := int64(0); next <= w.Offset; {
		f := c.PollFetches(within(t))
		for _, e := range f.Errors() {
			t.Fatal(e.Err)
		}
		for _, r := range f.Records() {
			if r.Offset != next {
				t.Fatalf("offset %d where %d was due", r.Offset, next)
			}
			next++
			value := string(r.Value)
			if before, twice := seen[value]; twice {
				t.Errorf("%s is at %d and at %d", value, before, r.Offset)
			}
			seen[value] = r.Offset
			if who, number, ok := strings.Cut(value, "-"); ok {
				n, err := strconv.Atoi(number)
				if before, any := last[who]; err != nil || any && n != before+1 {
					t.Errorf("%s follows %s-%d: %v", value, who, before, err)
				}
				last[who] = n
			}
		}
	}
	for value, offset := range acked.offsets {
		if at, ok := seen[value]; !ok || at != offset {
			t.Errorf("%s was acknowledged at %d, found at %d, %v", value, offset, at, ok)
		}
	}
}
