//go:build linux

package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/compat/peer"
)

// foreigner is a client library of others at work on a topic of its own, which
// is named after it: an idempotent producer and a group of one. Both speak in
// lines:
//
//	sent PARTITION OFFSET KEY SEQUENCE        failed KEY SEQUENCE WHY
//	got PARTITION OFFSET KEY SEQUENCE         committed PARTITION OFFSET
type foreigner struct {
	name  string
	tools []string // that a machine has to have
	// produce ends with its input, consume with SIGTERM. One that is fed is given
	// records as KEY:SEQUENCE and answers for all of them by how it ends.
	produce, consume func(t testing.TB, brokers string) *exec.Cmd
	fed              bool
	excuse           string // a complaint after which its group member may end as it likes

	h        *history
	log      string
	producer *speaker
	consumer *speaker
	input    io.Closer
	feeder   sync.WaitGroup
	stop     chan struct{}
	given    []sent // to one that is fed
}

// speaker is a process whose lines are heard.
type speaker struct {
	*exec.Cmd
	heard sync.WaitGroup // its last line
	done  chan struct{}  // closed when it need not live any more
}

const (
	foreignPartitions = 3
	foreignPace       = 20 * time.Millisecond
)

// foreigners are those a run has beside kgo, every fourth run.
func foreigners() []*foreigner {
	return []*foreigner{
		{
			name: "java", tools: []string{"java", "javac", "mvn"},
			produce: func(t testing.TB, brokers string) *exec.Cmd {
				return peer.JavaMain(t, "Storm", "produce", brokers, "java", strconv.Itoa(keysOf), strconv.Itoa(int(foreignPace.Milliseconds())))
			},
			consume: func(t testing.TB, brokers string) *exec.Cmd {
				return peer.JavaMain(t, "Storm", "consume", brokers, "java", "java")
			},
		},
		{
			// Told that another broker coordinates its group now, it never asks again
			// where the group stands (its issue 5586).
			name: "librdkafka", tools: []string{"kcat"}, fed: true, excuse: "Failed to fetch committed offsets",
			// -E: it goes on when its last connection ends.
			produce: func(_ testing.TB, brokers string) *exec.Cmd {
				return exec.Command("kcat", "-b", brokers, "-q", "-E", "-P", "-t", "librdkafka", "-K", ":", "-X", "enable.idempotence=true", "-X", "linger.ms=1")
			},
			consume: func(_ testing.TB, brokers string) *exec.Cmd {
				return exec.Command("kcat", "-b", brokers, "-q", "-E", "-u", "-f", "got %p %o %k %s\n", "-X", "auto.offset.reset=earliest",
					"-X", "session.timeout.ms=10000", "-X", "auto.commit.interval.ms=500", "-G", "librdkafka", "librdkafka")
			},
		},
	}
}

// lacks says which of its tools this machine has not.
func (f *foreigner) lacks() error {
	for _, tool := range f.tools {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("no client %s: %w", f.name, err)
		}
	}
	return nil
}

// begin starts both processes; what they complain of goes to a log in dir.
func (f *foreigner) begin(t testing.TB, h *history, dir string, seeds []string) error {
	f.h, f.stop = h, make(chan struct{})
	brokers := strings.Join(seeds, ",")
	f.log = filepath.Join(dir, f.name+".log")
	cmd := f.produce(t, brokers)
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	f.input = input
	if f.producer, err = f.speak(t, cmd); err != nil {
		return err
	}
	if f.consumer, err = f.speak(t, f.consume(t, brokers)); err != nil {
		return err
	}
	if f.fed {
		f.feeder.Go(func() { f.feed(input) })
	}
	return nil
}

// speak starts a process and listens to it. It dies with the test.
func (f *foreigner) speak(t testing.TB, cmd *exec.Cmd) (*speaker, error) {
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := &speaker{Cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal of death comes when the thread ends that started it
		started <- errors.Join(cmd.Start(), log.Close())
		<-s.done
	}()
	t.Cleanup(func() { close(s.done) })
	if err := <-started; err != nil {
		return nil, err
	}
	s.heard.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if err := f.hear(lines.Text()); err != nil {
				f.h.complain("%s says %q: %v", f.name, lines.Text(), err)
			}
		}
	})
	return s, nil
}

// hear notes what a line says.
func (f *foreigner) hear(line string) error {
	var p int32
	var offset, seq int64
	var key string
	verb, rest, _ := strings.Cut(line, " ")
	now := f.h.now()
	var err error
	switch verb {
	case "sent", "got":
		_, err = fmt.Sscan(rest, &p, &offset, &key, &seq)
	case "committed":
		_, err = fmt.Sscan(rest, &p, &offset)
	default:
		err = errors.New("a producer that may try for minutes gave up")
	}
	if err != nil {
		return err
	}
	at, val := place{f.name, p}, value{Producer: f.name, Key: key, Seq: seq}
	switch verb {
	case "sent":
		f.h.send(sent{place: at, value: val, Verdict: acked, Offset: offset, Node: -1, To: now})
	case "got": // a group reads again what it hadn't committed
		f.h.see(seen{groupReader, at, found{val, offset, anyEpoch}})
	case "committed": // by the only member, one after the other
		f.h.commit(commit{Group: f.name, place: at, Offset: offset, From: now, To: now})
	}
	return nil
}

// feed gives the producer records until told to stop.
func (f *foreigner) feed(to io.Writer) {
	tick := time.NewTicker(foreignPace)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("k%d", n%keysOf)
		if _, err := fmt.Fprintf(to, "%s:%d\n", key, n); err != nil {
			f.h.complain("%s takes no more records: %v", f.name, err)
			return
		}
		f.given = append(f.given, sent{place: place{f.name, anyPartition}, value: value{Producer: f.name, Key: key, Seq: n}, Offset: -1, Node: -1, From: f.h.now()})
	}
}

// end lets the producer get its answers, then the consumer end.
func (f *foreigner) end(limit time.Duration) error {
	close(f.stop)
	f.feeder.Wait()
	late := time.AfterFunc(limit, func() {
		_ = f.producer.Process.Kill() // that shows in how it ends
		_ = f.consumer.Process.Kill()
	})
	defer late.Stop()
	err := f.input.Close()
	f.producer.heard.Wait()
	if err = errors.Join(err, f.producer.Wait()); err != nil {
		err = fmt.Errorf("the producer of %s: %w", f.name, err)
	}
	for _, s := range f.given {
		if err == nil {
			s.Verdict = acked
		}
		s.To = f.h.now()
		f.h.send(s)
	}
	_ = f.consumer.Process.Signal(syscall.SIGTERM) // one that is gone shows in how it ended
	f.consumer.heard.Wait()
	// A JVM that ends by a signal says so.
	ended := f.consumer.Wait()
	if ended == nil || f.consumer.ProcessState.ExitCode() == 128+int(syscall.SIGTERM) {
		return err
	}
	said, readErr := os.ReadFile(f.log)
	if f.excuse != "" && readErr == nil && strings.Contains(string(said), f.excuse) {
		return err
	}
	return errors.Join(err, fmt.Errorf("the group member of %s: %w: %s", f.name, ended, tail(f.log)))
}

// valueOf reads what a record says, by whose topic it is in.
func valueOf(r *kgo.Record) (value, error) {
	if r.Topic == events || r.Topic == state {
		return parseValue(r.Value)
	}
	seq, err := strconv.ParseInt(string(r.Value), 10, 64)
	return value{Producer: r.Topic, Key: string(r.Key), Seq: seq}, err
}
