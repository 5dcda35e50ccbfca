package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// traced are the calls that move or sync bytes.
const traced = "read,readv,recvfrom,recvmsg,pread64,preadv,preadv2,write,writev,sendto,sendmsg,pwrite64,pwritev,pwritev2," +
	"sendfile,splice,copy_file_range,fsync,fdatasync,sync_file_range,syncfs,msync,fallocate"

// call is one system call on a file or socket.
type call struct {
	name   string
	on     string // what the first descriptor is: a path, TCP:[…]
	file   string // of sendfile: the path it sends from
	result int64
}

// trace follows the system calls of a process; the returned function ends it and
// says what it saw.
func trace(t *testing.T, pid int) (end func() []call) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "strace")
	// -yy says what descriptors are, -s 0 leaves the bytes out.
	cmd := exec.Command(peer.Tool(t, "strace"), "-f", "-yy", "-s", "0", "-e", "trace="+traced, "-o", out, "-p", strconv.Itoa(pid))
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() || !strings.Contains(lines.Text(), "attached") {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		peer.Lacks(t, "the right to trace a process: "+lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	return func() []call {
		_ = cmd.Process.Signal(syscall.SIGINT) // it lets go of the process
		_ = cmd.Wait()                         // its exit is that of a signal
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return calls(b)
	}
}

var (
	began   = regexp.MustCompile(`^(\d+) +(\w+)\((\d+)<([^>]*)>`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	ended   = regexp.MustCompile(` = (-?\d+)[^=]*$`)
	second  = regexp.MustCompile(`^\d+ +sendfile\(\d+<.*>, \d+<([^>]*)>`)
)

// calls reads strace's output. A call that another thread's came between is in
// two lines.
func calls(b []byte) []call {
	var all []call
	open := map[string]int{} // thread → its unfinished call
	result := func(line []byte, i int) {
		if m := ended.FindSubmatch(line); m != nil {
			all[i].result, _ = strconv.ParseInt(string(m[1]), 10, 64)
		}
	}
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if m := resumed.FindSubmatch(line); m != nil {
			if i, ok := open[string(m[1])]; ok {
				result(line, i)
				delete(open, string(m[1]))
			}
			continue
		}
		m := began.FindSubmatch(line)
		if m == nil {
			continue
		}
		c := call{name: string(m[2]), on: string(m[4])}
		if f := second.FindSubmatch(line); f != nil {
			c.file = string(f[1])
		}
		all = append(all, c)
		if bytes.Contains(line, []byte("<unfinished")) {
			open[string(m[1])] = len(all) - 1
		} else {
			result(line, len(all)-1)
		}
	}
	return all
}

func TestCallsOfAnOutput(t *testing.T) {
	got := calls([]byte(`101 pwrite64(12</d/bench-0/0.log>, ""..., 16541, 0) = 16541
101 sendfile(9<TCP:[127.0.0.1:9092->127.0.0.1:5]>, 12</d/bench-0/0.log>, [0] => [70], 70 <unfinished ...>
102 read(9<TCP:[127.0.0.1:9092->127.0.0.1:5]>, 0xc0001, 65536) = -1 EAGAIN (Resource temporarily unavailable)
101 <... sendfile resumed>) = 70
103 fsync(7</d/bench-1/0.log> <unfinished ...>
103 <... fsync resumed>) = 0
`))
	want := []call{
		{"pwrite64", "/d/bench-0/0.log", "", 16541},
		{"sendfile", "TCP:[127.0.0.1:9092-", "/d/bench-0/0.log", 70},
		{"read", "TCP:[127.0.0.1:9092-", "", -1},
		{"fsync", "/d/bench-1/0.log", "", 0},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// tally is what a trace says of one topic and the clients' sockets.
type tally struct {
	writes    map[string]int // to a partition's segment, by path
	syncs     []string       // of any file
	other     []string       // writes to any other file of the topic
	sent      int            // replies and parts of them, but for sendfile
	received  int            // reads of sockets that brought something
	sendfiles int            // that sent something
	sentfile  int64          // bytes by sendfile
	copied    int64          // bytes of segments read into memory
}

func count(all []call, topic string) tally {
	r := tally{writes: map[string]int{}}
	for _, c := range all {
		socket := strings.HasPrefix(c.on, "TCP:")
		ours := strings.Contains(c.on, "/"+topic+"-")
		segment := ours && strings.HasSuffix(c.on, ".log")
		switch c.name {
		case "pwrite64", "pwritev", "pwritev2", "write", "writev", "sendto", "sendmsg":
			switch {
			case socket && c.result > 0:
				r.sent++
			case segment:
				r.writes[c.on]++
			case ours:
				r.other = append(r.other, c.name+" "+c.on)
			}
		case "read", "readv", "recvfrom", "recvmsg", "pread64", "preadv", "preadv2":
			switch {
			case socket && c.result > 0:
				r.received++
			case segment:
				r.copied += max(c.result, 0)
			}
		case "sendfile":
			if c.result > 0 {
				r.sendfiles++
				r.sentfile += c.result
			}
		case "fsync", "fdatasync", "sync_file_range", "syncfs", "msync":
			r.syncs = append(r.syncs, c.name+" "+c.on)
		case "fallocate":
		default:
			r.other = append(r.other, c.name+" "+c.on)
		}
	}
	return r
}

// TestCalls counts the system calls of a server under requests sent one after
// the other: a Produce costs one write for each partition and no sync, a Fetch
// sends from the files.
func TestCalls(t *testing.T) {
	const partitions, requests = 4, 50
	const topic = "calls"
	s := start(t, peer.Sawlog, peer.Options{})
	s.create(t, topic, partitions, load{Flush: "never"}.configs())
	p := produceFrame(t, topic, indexes(partitions), 1024, "none", time.Now().UnixMilli())
	if n := replayProduce(t.Context(), t, s.Addr, p.frame, 1, 5); n != 5 { // files are made, pools filled
		t.Fatalf("%d of 5 requests were acknowledged", n)
	}

	// A server keeps where the brokers are reached soon after it started.
	for settled := false; !settled; {
		end := trace(t, s.PID)
		time.Sleep(500 * time.Millisecond)
		settled = len(count(end(), topic).syncs) == 0
	}

	c := dial(t, s.Addr)
	in := newFrames(c)
	end := trace(t, s.PID)
	for range requests {
		if _, err := c.Write(p.frame); err != nil {
			t.Fatal(err)
		}
		body, err := in.next()
		if err == nil {
			err = acknowledged(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := count(end(), topic)
	t.Logf("%d Produce requests for %d partitions: %+v", requests, partitions, got)
	for path, n := range got.writes {
		// A few may have passed before all threads were traced.
		if n > requests || n < requests-2 {
			t.Errorf("%d writes to %s, want one for each of %d requests", n, path, requests)
		}
	}
	if len(got.writes) != partitions {
		t.Errorf("%d partitions were written, want %d", len(got.writes), partitions)
	}
	if len(got.syncs) > 0 || len(got.other) > 0 {
		t.Errorf("syncs %v and writes %v, want none", got.syncs, got.other)
	}
	if got.sent > requests {
		t.Errorf("%d sends for %d replies", got.sent, requests)
	}

	// Each reply has the log's first MiB or what there is of it, by partition.
	f := newFetcher(t, s.Addr, topic, partitions, 0)
	if _, err := f.once(); err != nil {
		t.Fatal(err)
	}
	end = trace(t, s.PID)
	var records int64
	for range requests {
		f.rewind()
		n, err := f.once()
		if err != nil {
			t.Fatal(err)
		}
		records += n
	}
	got = count(end(), topic)
	t.Logf("%d Fetch requests for %d partitions, %d records of 1 KiB: %+v", requests, partitions, records, got)
	bytes := records * 1024
	if got.sentfile < bytes*9/10 {
		t.Errorf("sendfile sent %d bytes of %d", got.sentfile, bytes)
	}
	if got.copied > bytes/20 {
		t.Errorf("%d bytes of segments were read into memory, to send %d", got.copied, bytes)
	}
	if len(got.syncs) > 0 || len(got.other) > 0 || len(got.writes) > 0 {
		t.Errorf("syncs %v, writes %v %v, want none", got.syncs, got.writes, got.other)
	}
	if got.sent > requests*(partitions+1) {
		t.Errorf("%d sends of memory for %d replies with %d partitions", got.sent, requests, partitions)
	}
}
