package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/demo"
)

const demoDistinct = "select count(*), count(distinct (time, session)) from ROWS"

// demoOnce runs `sawlog demo --once` and checks its sums among each other.
func (n *node) demoOnce(dir string) demoSum {
	n.t.Helper()
	c := n.spawn(nil, "demo", "--once", "--dir", dir, "--hours", "3", "--rate", "40000", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json")
	if code := c.wait(3 * patience); code != 0 {
		n.t.Fatalf("demo --once: exit code %d: %s", code, c.said.String())
	}
	var sum demoSum
	if err := json.Unmarshal(c.out.Bytes(), &sum); err != nil {
		n.t.Fatalf("%v: %s", err, c.out.String())
	}
	if sum.Produced != sum.Rows+sum.Quarantined {
		n.t.Fatalf("%d produced, but %d rows and %d quarantined", sum.Produced, sum.Rows, sum.Quarantined)
	}
	return sum
}

func TestProofDemoOnce(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := bare(t)
	dir := filepath.Join(n.dir, "demo")
	root := filepath.Join(dir, "warehouse", "pageviews")
	first := n.demoOnce(dir)
	if first.Quarantined != 12 || first.Rows < 3*10_000 {
		t.Fatalf("%d rows, %d quarantined", first.Rows, first.Quarantined)
	}
	var byHour [][3]any
	duck(t, root, "select dt, hr, count(*) from ROWS group by all order by all", &byHour)
	if len(byHour) != len(first.Hours) || len(byHour) != 3 {
		t.Fatalf("DuckDB finds %d hours, the demo tells of %d", len(byHour), len(first.Hours))
	}
	for i, h := range first.Hours {
		folder := byHour[i][0].(string) + "T" + byHour[i][1].(string)
		if !strings.HasPrefix(h.Hour, folder) || float64(h.Rows) != byHour[i][2].(float64) || h.State == "filling" {
			t.Errorf("hour %+v, but DuckDB counts %v rows in %s", h, byHour[i][2], folder)
		}
	}
	// Once more on the same directory: what was sent is not sent again.
	second := n.demoOnce(dir)
	var got [][2]int64
	duck(t, root, demoDistinct, &got)
	if want := first.Rows + second.Rows; got[0] != [2]int64{want, want} {
		t.Errorf("%d rows, %d different, want %d and no twins", got[0][0], got[0][1], want)
	}
	if second.Quarantined != 12 {
		t.Errorf("the second start quarantined %d records, want 12", second.Quarantined)
	}
	n.clean(root)
	// A folder that holds something else is not taken.
	other := filepath.Join(n.dir, "other")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	n.write("other/letter.txt", "dear")
	n.refused(4, []string{"is not empty and holds no demo"}, "demo", "--once", "--dir", other)
}

// TestProofDemoLive ends a live demo by Ctrl-C, twice, and then counts: each
// page view up to the mark is in the log exactly once.
func TestProofDemoLive(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := bare(t)
	taken := map[string]bool{}
	for _, addr := range []string{"127.0.0.1:9092", "127.0.0.1:8088"} {
		if l, err := net.Listen("tcp", addr); err == nil { // else another has it, for as long as he likes
			defer func() { _ = l.Close() }()
			taken[addr] = true
		}
	}
	dir := filepath.Join(n.dir, "demo")
	var from time.Time
	for start := range 2 {
		c := n.spawn(nil, "demo", "--dir", dir, "--hours", "2", "--rate", "40000")
		addr := strings.Fields(c.says("broker ", 30*time.Second))[1]
		console := c.says("console ", 10*time.Second)
		if addr = strings.TrimSuffix(addr, ","); taken[addr] || taken[console[strings.LastIndex(console, "/")+1:]] {
			t.Fatalf("broker %s, %s: those ports are taken", addr, console)
		}
		since := c.says("page views of the time since", 30*time.Second)
		if start == 0 {
			var err error
			if from, err = time.Parse(time.RFC3339, since[strings.LastIndex(since, " ")+1:]); err != nil {
				t.Fatal(err)
			}
		}
		c.says("Ctrl-C ends it", 3*patience)
		n.listen = addr
		ends := func() (sum int64) {
			var lines []partitionLine
			if err := json.Unmarshal(n.run("topic", "offsets", "pageviews", "-o", "json"), &lines); err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				sum += l.End
			}
			return sum
		}
		before := ends()
		n.eventually("page views keep coming", patience, func() bool { return ends() > before })
		if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if code := c.wait(3 * time.Second); code != 0 {
			t.Fatalf("Ctrl-C: exit code %d: %s", code, c.said.String())
		}
	}
	n.demoOnce(dir)
	state, err := readDemoState(dir)
	if err != nil {
		t.Fatal(err)
	}
	stream := demo.Stream{Rate: 40_000}
	want := int64(len(stream.Between(from, state.Until))) + 3*40
	var got [][2]int64
	duck(t, filepath.Join(dir, "warehouse", "pageviews"), demoDistinct, &got)
	if got[0] != [2]int64{want, want} {
		t.Errorf("%d rows, %d different; the stream of [%s, %s) and the late records are %d", got[0][0], got[0][1], from, state.Until, want)
	}
}

// kgoCodecs are the codecs a client can send in.
var kgoCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}
