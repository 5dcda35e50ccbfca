package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// verifiable is a VerifiableProducer or VerifiableConsumer in a process of its
// own, and the events it prints.
type verifiable struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has said its last

	mu     sync.Mutex
	events []verifiableEvent
	news   chan struct{} // closed and made anew with every event
}

// verifiableEvent is a line of either tool; each kind fills what it has.
type verifiableEvent struct {
	Name       string
	Value      string
	Key        *string
	Topic      string
	Partition  int
	Offset     int64
	Partitions []struct {
		Topic     string
		Partition int
	}
	Success bool
	Sent    int
	Acked   int
	Error   string
	Message string
}

func startVerifiable(t *testing.T, tool, name string, args ...string) *verifiable {
	t.Helper()
	v := &verifiable{
		t: t, name: name, done: make(chan struct{}), news: make(chan struct{}),
		cmd: peer.JavaMain(t, "org.apache.kafka.tools."+tool, args...),
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.done)
		v.listen(out)
	}()
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill() // it may have ended
		<-v.done
		_ = v.cmd.Wait() // how it ended was judged where it matters
	})
	return v
}

func (v *verifiable) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e verifiableEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			v.t.Errorf("%s: %v in %q", v.name, err, lines.Text())
			continue
		}
		v.mu.Lock()
		v.events = append(v.events, e)
		close(v.news)
		v.news = make(chan struct{})
		v.mu.Unlock()
	}
}

// all is what it has said so far.
func (v *verifiable) all() []verifiableEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.events)
}

// until waits for what it says to satisfy; what names it in a failure.
func (v *verifiable) until(what string, enough func([]verifiableEvent) bool) {
	v.t.Helper()
	limit := time.After(javaPatience)
	for {
		v.mu.Lock()
		events, news := v.events, v.news
		v.mu.Unlock()
		if enough(events) {
			return
		}
		select {
		case <-news:
		case <-v.done:
			if enough(v.all()) {
				return
			}
			v.t.Fatalf("%s ended without %s: %s", v.name, what, tell(v.all()))
		case <-limit:
			v.t.Fatalf("%s: no %s after %s: %s", v.name, what, javaPatience, tell(events))
		}
	}
}

// tell is the end of what was said, for a message.
func tell(events []verifiableEvent) string {
	return fmt.Sprintf("%d events, the last %+v", len(events), events[max(0, len(events)-3):])
}

// stop ends it as an operator would and waits.
func (v *verifiable) stop() {
	v.t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		v.t.Fatalf("%s: %v", v.name, err)
	}
	v.ended()
}

func (v *verifiable) ended() {
	v.t.Helper()
	select {
	case <-v.done:
	case <-time.After(javaPatience):
		v.t.Fatalf("%s: no end after %s: %s", v.name, javaPatience, tell(v.all()))
	}
}

// kill ends it as a crash would.
func (v *verifiable) kill() {
	v.t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		v.t.Fatalf("%s: %v", v.name, err)
	}
	<-v.done
}

// named picks the events of a name.
func named(events []verifiableEvent, name string) []verifiableEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e verifiableEvent) bool { return e.Name != name })
}

// holds tells whether the last word on partitions is that it has n.
func holds(n int) func([]verifiableEvent) bool {
	return func(events []verifiableEvent) bool {
		for i := len(events) - 1; i >= 0; i-- {
			switch events[i].Name {
			case "partitions_assigned":
				return len(events[i].Partitions) == n
			case "partitions_revoked":
				return false
			}
		}
		return false
	}
}

// place is where a record lies.
type place struct {
	partition int
	offset    int64
}

// acked are the values a producer was promised, by where they lie.
func acked(t *testing.T, producer *verifiable) map[place]string {
	t.Helper()
	list := map[place]string{}
	for _, e := range named(producer.all(), "producer_send_success") {
		at := place{e.Partition, e.Offset}
		if other, ok := list[at]; ok {
			t.Errorf("%s: %q and %q were both acknowledged at %v", producer.name, other, e.Value, at)
		}
		list[at] = e.Value
	}
	return list
}

// consumed compares what members of a group have read with what was promised:
// everything at least once, each at its place, and how much of it twice.
func consumed(t *testing.T, promised map[place]string, members ...*verifiable) (twice int) {
	t.Helper()
	read := map[place]string{}
	for _, m := range members {
		for _, e := range named(m.all(), "record_data") {
			at := place{e.Partition, e.Offset}
			if other, ok := read[at]; ok {
				twice++
				if other != e.Value {
					t.Errorf("%s: %q at %v, where %q was read before", m.name, e.Value, at, other)
				}
			}
			read[at] = e.Value
		}
	}
	lost, wrong := 0, 0
	for at, value := range promised {
		switch got, ok := read[at]; {
		case !ok:
			lost++
		case got != value:
			wrong++
		}
	}
	if lost > 0 || wrong > 0 {
		t.Errorf("of %d acknowledged records %d were never read and %d read as another", len(promised), lost, wrong)
	}
	return twice
}

// readAll waits until the members together have read everything that was
// promised.
func readAll(t *testing.T, promised map[place]string, members ...*verifiable) {
	t.Helper()
	limit := time.Now().Add(javaPatience)
	for {
		read := map[place]bool{}
		for _, m := range members {
			for _, e := range named(m.all(), "record_data") {
				read[place{e.Partition, e.Offset}] = true
			}
		}
		missing := 0
		for at := range promised {
			if !read[at] {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("%d of %d acknowledged records are still unread", missing, len(promised))
			return
		}
		time.Sleep(50 * time.Millisecond) // any of several processes may be the next to speak
	}
}

// TestJavaVerifiable has Kafka's verifiable producer and consumers work through
// deaths of the broker and of a member: classic groups, dynamic and static.
func TestJavaVerifiable(t *testing.T) {
	d := startJava(t)
	for kind, test := range map[string]func(*testing.T, *javaDriver, *peer.Server){
		"quiet":   verifiableQuiet,
		"dynamic": func(t *testing.T, d *javaDriver, s *peer.Server) { verifiableStorm(t, d, s, "dynamic", false) },
		"static":  func(t *testing.T, d *javaDriver, s *peer.Server) { verifiableStorm(t, d, s, "static", true) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, d, peer.Sawlog(t, peer.Options{}))
		})
	}
}

func verifiableTopic(t *testing.T, d *javaDriver, server *peer.Server, name string) {
	t.Helper()
	d.run(t, "", javaClass("topics"), "--bootstrap-server", server.Addr, "--create", "--topic", name, "--partitions", "4").ok()
}

func verifiableConsumer(t *testing.T, server *peer.Server, topic, instance string) *verifiable {
	t.Helper()
	args := []string{
		"--bootstrap-server", server.Addr, "--topic", topic, "--group-id", topic + "-g", "--verbose",
		"--reset-policy", "earliest", "--session-timeout", "6000", "--group-protocol", "classic",
	}
	if strings.HasPrefix(instance, "static") {
		args = append(args, "--group-instance-id", instance)
	}
	return startVerifiable(t, "VerifiableConsumer", instance, args...)
}

// verifiableQuiet: nothing happens but members who come and leave in order, so
// every record is read exactly once.
func verifiableQuiet(t *testing.T, d *javaDriver, server *peer.Server) {
	const topic, count = "verifiable-quiet", 2000
	verifiableTopic(t, d, server, topic)
	one := verifiableConsumer(t, server, topic, "one")
	one.until("all four partitions", holds(4))
	producer := startVerifiable(t, "VerifiableProducer", "producer", "--bootstrap-server", server.Addr, "--topic", topic,
		"--max-messages", strconv.Itoa(count), "--throughput", "500", "--acks", "-1", "--repeating-keys", "7", "--value-prefix", "3")
	two := verifiableConsumer(t, server, topic, "two")
	two.until("two partitions", holds(2))
	one.until("two partitions", holds(2))
	producer.ended()
	promised := acked(t, producer)
	if data := named(producer.all(), "tool_data"); len(promised) != count || len(data) != 1 || data[0].Sent != count || data[0].Acked != count {
		t.Errorf("%d of %d acknowledged; the tool says %+v", len(promised), count, data)
	}
	keys := map[string]bool{}
	for _, e := range named(producer.all(), "producer_send_success") {
		keys[*e.Key] = true
		if !strings.HasPrefix(e.Value, "3.") {
			t.Fatalf("a value without its prefix: %+v", e)
		}
	}
	if len(keys) != 7 {
		t.Errorf("%d keys, want 7", len(keys))
	}
	readAll(t, promised, one, two)
	two.stop()
	one.until("all four partitions again", holds(4))
	one.stop()
	if twice := consumed(t, promised, one, two); twice != 0 {
		t.Errorf("%d records were read twice", twice)
	}
	for _, m := range []*verifiable{one, two} {
		for _, e := range named(m.all(), "offsets_committed") {
			if !e.Success {
				t.Errorf("%s: a commit failed: %+v", m.name, e)
			}
		}
	}
	described := d.run(t, "", javaClass("consumer-groups"), "--bootstrap-server", server.Addr, "--describe", "--group", topic+"-g")
	sum := int64(0)
	for _, line := range described.out[1:] {
		field := strings.Fields(line)
		if field[5] != "0" {
			t.Errorf("a lag at the end: %s", line)
		}
		sum += integer(field[3])
	}
	if sum != count {
		t.Errorf("committed up to %d, want %d", sum, count)
	}
	t.Logf("quiet: %d records, each read exactly once", count)
}

// verifiableStorm: while the producer sends, the broker is killed and restarted
// and a member is killed. What was acknowledged is read at least once.
func verifiableStorm(t *testing.T, d *javaDriver, server *peer.Server, kind string, static bool) {
	const count = 4000
	topic := "verifiable-" + kind
	verifiableTopic(t, d, server, topic)
	one, two := verifiableConsumer(t, server, topic, kind+"-one"), verifiableConsumer(t, server, topic, kind+"-two")
	one.until("two partitions", holds(2))
	two.until("two partitions", holds(2))
	producer := startVerifiable(t, "VerifiableProducer", "producer", "--bootstrap-server", server.Addr, "--topic", topic,
		"--max-messages", strconv.Itoa(count), "--throughput", "400", "--acks", "-1")
	sent := func(n int) func([]verifiableEvent) bool {
		return func(events []verifiableEvent) bool { return len(named(events, "producer_send_success")) >= n }
	}
	producer.until("a thousand acknowledged", sent(1000))
	server.Kill()
	server.Restart()
	producer.until("some more after a kill", sent(1500))
	two.kill()
	one.until("the partitions of a member that died", holds(4))
	members := []*verifiable{one, two}
	if static {
		// It comes back under its name and takes its place.
		back := verifiableConsumer(t, server, topic, kind+"-two")
		back.until("its partitions back", holds(2))
		members = append(members, back)
	}
	server.Restart()
	producer.ended()
	promised := acked(t, producer)
	if len(promised) < count/3 {
		t.Errorf("only %d of %d were acknowledged", len(promised), count)
	}
	readAll(t, promised, members...)
	for _, m := range members {
		if m != two {
			m.stop()
		}
	}
	twice := consumed(t, promised, members...)
	if twice > count/2 {
		t.Errorf("%d records were read twice: commits were lost", twice)
	}
	failed := len(named(producer.all(), "producer_send_error"))
	t.Logf("%s: %d acknowledged, %d refused while the broker was down, %d read twice", kind, len(promised), failed, twice)
}
