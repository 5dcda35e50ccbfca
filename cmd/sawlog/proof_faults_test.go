package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const textJob = "decode: {value: text}\n"

// lines makes a topic of n short records.
func (n *node) lines(topic string, count int) {
	n.t.Helper()
	n.run("topic", "create", topic, "--partitions", "1")
	n.send(nil, numbered(topic, 0, count)...)
}

func numbered(topic string, from, to int) []*kgo.Record {
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	return records
}

// TestProofUnreachable asks brokers that are not there, and one that takes the
// connection and never answers: exit code 6 within the timeout.
func TestProofUnreachable(t *testing.T) {
	t.Parallel()
	n := bare(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	job, root := n.job("none", textJob)
	var waiting sync.WaitGroup
	for _, broker := range []string{"127.0.0.1:1", silent.Addr().String()} {
		for _, verb := range [][]string{
			{"run", job},
			{"plan", job},
			{"replay", "t", "--range", "0..1", "--to", "out"},
			{"consume", "t", "--range", "0..1"},
			{"produce", "t", job},
			{"topic", "list"},
			{"group", "list"},
		} {
			waiting.Go(func() {
				begun := time.Now()
				n.refused(6, []string{broker}, append(verb, "-b", broker, "--timeout", "1500ms")...)
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("%v at %s took %s with --timeout 1500ms", verb, broker, took)
				}
			})
		}
	}
	waiting.Wait()
	if _, err := os.Stat(root); err == nil {
		t.Error("a run that reached no broker made its root")
	}
}

// TestProofRootInTheWay loads into a path that is a file, and below one.
func TestProofRootInTheWay(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.lines("t", 10)
	file := n.write("file", "not a folder")
	for _, root := range []string{file, filepath.Join(file, "below")} {
		path := n.write("t.yaml", "name: t\nsource: {topics: [t]}\noutput: {root: 'file://"+root+"'}\n"+textJob)
		n.refused(4, []string{file, "no folder"}, "run", path)
		n.refused(4, []string{file, "no folder"}, "plan", path)
		n.refused(4, []string{file, "no folder"}, "verify", "--root", root)
	}
	if string(mustRead(t, file)) != "not a folder" {
		t.Error("the file was changed")
	}
}

// tmpfs mounts a small file system; only root may.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "the right to mount a small file system (root)")
	}
	dir := t.TempDir()
	if err := mountTmpfs(dir, size); err != nil {
		missing(t, fmt.Sprintf("a small file system (mount: %v)", err))
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestProofFullDiskLoad fills the disk of the data set: the run says so, and
// goes through once there is room.
func TestProofFullDiskLoad(t *testing.T) {
	small := tmpfs(t, "4m")
	n := startNode(t)
	n.run("topic", "create", "full", "--partitions", "1")
	n.send(byHand("zstd"), wide("full", 0, 3000, 3)...)
	ballast := filepath.Join(small, "ballast")
	fill(t, ballast, 200<<10)
	root := filepath.Join(small, "data")
	path := n.write("full.yaml", "name: full\nsource: {topics: [full]}\noutput: {root: 'file://"+root+"'}\nrun: {retries: 1}\n"+numbersJob)
	said := n.refused(6, []string{"no space left"}, "run", path)
	t.Logf("full: %s", strings.TrimSpace(said))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if o := n.outcome(0, "run", path); o.Rows+o.Quarantined != 3000 {
		t.Errorf("%d rows, %d quarantined", o.Rows, o.Quarantined)
	}
	n.clean(root)
}

// fill writes a file until at most left bytes are free.
func fill(t *testing.T, path string, left int64) {
	t.Helper()
	free, err := freeBytes(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, max(0, free-left)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodeOn is a node whose data is on a disk of a size.
func nodeOn(t *testing.T, size string) (n *node, disk string) {
	t.Helper()
	disk = tmpfs(t, size)
	n = bare(t)
	if err := os.Symlink(disk, filepath.Join(n.dir, "data")); err != nil {
		t.Fatal(err)
	}
	n.start()
	t.Cleanup(n.kill)
	return n, disk
}

// TestProofFullDiskBroker fills the disk of the broker: producers are told,
// readers are served, and it goes on once there is room.
func TestProofFullDiskBroker(t *testing.T) {
	n, small := nodeOn(t, "24m")
	n.lines("disk", 100)
	ballast := filepath.Join(small, "ballast")
	fill(t, ballast, 64<<10)
	big := make([]byte, 500<<10)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	c := n.client(kgo.RecordRetries(2), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(4*time.Second))
	err := c.ProduceSync(ctx, &kgo.Record{Topic: "disk", Value: big}).FirstErr()
	if err == nil {
		t.Fatal("a record larger than the disk was acknowledged")
	}
	t.Logf("full: %v", err)
	n.roomAgain(ballast, big)
}

// roomAgain reads the 100 records of a full disk, removes the file that fills it,
// and sends one record more, which a kill doesn't take.
func (n *node) roomAgain(filler string, big []byte) {
	t := n.t
	t.Helper()
	if got := n.readAll("disk"); len(got) != 100 {
		t.Errorf("%d records are read from a full disk, want 100", len(got))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n.send(nil, &kgo.Record{Topic: "disk", Value: big})
	n.kill()
	n.start()
	if got := n.readAll("disk"); len(got) != 101 || len(got[100].Value) != len(big) {
		t.Errorf("%d records after the disk was full, want 101", len(got))
	}
}

// segment is the newest file of a kind in a partition's folder.
func (n *node) segment(partition, kind string) string {
	n.t.Helper()
	found, err := filepath.Glob(filepath.Join(n.dir, "data", partition, "*."+kind))
	if err != nil || len(found) == 0 {
		n.t.Fatalf("no .%s in %s: %v", kind, partition, err)
	}
	return found[len(found)-1]
}

// stop ends the server as an operator does.
func (n *node) stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil && n.cmd.ProcessState.ExitCode() > 0 {
		n.t.Fatalf("the server ended with %v", err)
	}
	n.cmd = nil
}

// change rewrites a file.
func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	if err := os.WriteFile(path, how(mustRead(t, path)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flipMiddle(b []byte) []byte { b[len(b)/2] ^= 0x40; return b }

func cutTail(b []byte) []byte { return b[:len(b)-len(b)/3] }

// TestProofDamagedLog changes files under a server: the damage is named, and
// every other partition is served.
func TestProofDamagedLog(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.lines("sound", 200)
	for _, topic := range []string{"flipped", "cutoff", "noindex"} {
		n.run("topic", "create", topic, "--partitions", "1", "--config", "index.interval.bytes=1")
		for i := range 20 { // a batch each
			n.send([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, numbered(topic, 10*i, 10*i+10)...)
		}
	}
	n.stop()
	change(t, n.segment("cutoff-0", "log"), cutTail)
	change(t, n.segment("noindex-0", "index"), flipMiddle)
	change(t, n.segment("noindex-0", "timeindex"), cutTail)
	n.start()
	n.ready()
	whole := n.segment("flipped-0", "log")
	change(t, whole, flipMiddle) // while it is served
	if got := n.readAll("sound"); len(got) != 200 {
		t.Errorf("%d records of the sound topic, want 200", len(got))
	}
	if got := n.readAll("noindex"); len(got) != 200 {
		t.Errorf("%d records past damaged indexes, want 200", len(got))
	}
	if got := n.readAll("cutoff"); len(got) < 50 || len(got) > 140 || string(got[len(got)-1].Value) != fmt.Sprintf(`{"n":%d}`, len(got)-1) {
		t.Errorf("%d records of a segment cut off by a third", len(got))
	}
	n.send(nil, numbered("cutoff", 500, 510)...)
	// The flipped batch: dump names file and position, a load the offset.
	n.refused(8, []string{filepath.Base(whole), "at byte"}, "log", "dump", whole)
	path, root := n.job("flipped", textJob)
	n.refused(8, []string{"flipped/0", "offset 100"}, "run", path)
	if found, _ := filepath.Glob(filepath.Join(root, "dt=*")); len(found) > 0 {
		t.Error("a load of damaged records published something")
	}
	out, code, said := n.try("consume", "flipped", "--range", "earliest..latest", "--timeout", "5s")
	if code != 8 || !strings.Contains(said, "flipped/0") || strings.Count(string(out), "\n") != 100 {
		t.Errorf("consume past the damage: exit code %d, %d records before it: %s", code, strings.Count(string(out), "\n"), said)
	}
	good, _ := n.job("sound", textJob)
	if o := n.outcome(0, "run", good); o.Rows != 200 {
		t.Errorf("%d rows of the sound topic", o.Rows)
	}
	// It starts again with the damage in place, and serves the others.
	n.kill()
	n.start()
	n.ready()
	if got := n.readAll("sound"); len(got) != 200 {
		t.Errorf("%d records of the sound topic after a start beside damage, want 200", len(got))
	}
}

// TestProofDamagedLedger changes the files a data set is remembered by: each
// command that needs one names it and ends with 8.
func TestProofDamagedLedger(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.lines("kept", 50)
	path, root := n.job("kept", textJob)
	n.load(path)
	n.send(nil, numbered("kept", 50, 80)...)
	n.load(path)
	plans, err := filepath.Glob(filepath.Join(root, "_sawlog", "plans", "*", "plan.json"))
	if err != nil || len(plans) < 2 {
		t.Fatalf("%d plans: %v", len(plans), err)
	}
	commits, err := filepath.Glob(filepath.Join(root, "_sawlog", "ledger", "*", "commit.json"))
	if err != nil || len(commits) != 2 {
		t.Fatalf("%d commits: %v", len(commits), err)
	}
	hows := map[string]func([]byte) []byte{
		"flipped": flipMiddle, "cut off": cutTail, "empty": func([]byte) []byte { return nil },
	}
	for how, apply := range hows {
		for i, file := range commits {
			sound := mustRead(t, file)
			change(t, file, apply)
			for _, verb := range [][]string{{"verify", "--root", root}, {"run", path}, {"out", "count", "--root", root}} {
				said := n.refused(8, []string{fmt.Sprintf("ledger/%012d", i)}, verb...)
				if t.Failed() {
					t.Fatalf("%s: %s", how, said)
				}
			}
			change(t, file, func([]byte) []byte { return sound })
		}
		for _, file := range plans {
			sound := mustRead(t, file)
			change(t, file, apply)
			id := filepath.Base(filepath.Dir(file))
			if strings.Contains(string(mustRead(t, commits[1])), `"plan":"`+id) {
				n.refused(8, []string{"plans/" + id}, "rerun", id, "--root", root)
			}
			change(t, file, func([]byte) []byte { return sound })
		}
	}
	n.clean(root)
	plan := n.write("plan.json", string(n.run("plan", path, "--range", "kept/0=80..80", "-o", "json")))
	sound := mustRead(t, plan)
	change(t, plan, cutTail)
	n.refused(2, []string{plan, "no plan file"}, "run", "--plan", plan)
	change(t, plan, func([]byte) []byte {
		return []byte(strings.Replace(string(sound), `"dataset": "kept"`, `"dataset": "kepp"`, 1))
	})
	n.refused(8, []string{plan, "changed or cut off"}, "run", "--plan", plan)
}

// frame is a request with its size in front.
func frame(key, version int16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)          // correlation
	b = binary.BigEndian.AppendUint16(b, ^uint16(0)) // no client id
	b = append(b, body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// TestProofHostileFrames sends what no client sends while a client works on.
func TestProofHostileFrames(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	const topic = "peace"
	n.run("topic", "create", topic, "--partitions", "2")
	s := n.stream(topic, 2, 5*time.Millisecond)
	rnd := rand.New(rand.NewPCG(9, 9))
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	frames := map[string][]byte{
		"size 0":              {0, 0, 0, 0},
		"size -1":             {0xff, 0xff, 0xff, 0xff},
		"size 2^31-1":         {0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 9, 1, 2, 3},
		"size 3":              {0, 0, 0, 3, 0, 3, 0},
		"key 999":             frame(999, 0),
		"key -1":              frame(-1, 0),
		"metadata 99":         frame(3, 99),
		"produce 99":          frame(0, 99, noise[:100]...),
		"versions 99":         frame(18, 99),
		"produce of noise":    frame(0, 7, noise...),
		"fetch of noise":      frame(1, 11, noise...),
		"join of noise":       frame(11, 5, noise...),
		"create of 2^31 more": frame(19, 2, 0x7f, 0xff, 0xff, 0xff),
		"noise":               noise,
		"half a frame":        frame(3, 1, 0, 0, 0, 0)[:9],
		"http":                []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"tls":                 {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9, 9, 9},
	}
	for range 200 {
		size := 1 + rnd.IntN(400)
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(rnd.Uint32())
		}
		frames[fmt.Sprintf("random %d", len(frames))] = frame(int16(rnd.IntN(70)), int16(rnd.IntN(14)), body...)
	}
	var all sync.WaitGroup
	turns := make(chan struct{}, 32)
	for what, raw := range frames {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			conn, err := net.DialTimeout("tcp", n.listen, 3*time.Second)
			if err != nil {
				t.Errorf("%s: the broker takes no connection any more: %v", what, err)
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(400 * time.Millisecond))
			if _, err = conn.Write(raw); err == nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20)) // an answer, or the end, or nothing for a while
			}
		})
	}
	all.Wait()
	// An old or strange ApiVersions is answered with the versions there are.
	conn, err := net.Dial("tcp", n.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(frame(18, 99)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(conn, head); err != nil || binary.BigEndian.Uint32(head[4:]) != 7 || binary.BigEndian.Uint16(head[8:]) != 35 {
		t.Errorf("ApiVersions 99 is answered with % x, %v: want UNSUPPORTED_VERSION", head, err)
	}
	acked, failed := s.end(t)
	if len(failed) > 0 {
		t.Errorf("%d records of the other client failed", len(failed))
	}
	if len(acked) < 100 {
		t.Errorf("the other client sent %d records meanwhile", len(acked))
	}
	if peak := peakMemory(t, n.cmd.Process.Pid); peak > 400<<20 {
		t.Errorf("the server took %d MiB at its peak", peak>>20)
	}
	checkLog(t, n.readAll(topic), acked)
}

// peakMemory is the most memory a process had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	for line := range strings.Lines(string(mustRead(t, fmt.Sprintf("/proc/%d/status", pid)))) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("the system does not tell the peak of memory")
	return 0
}

// trim deletes records below an offset.
func (n *node) trim(topic string, below int64) {
	n.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = below
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 5000
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, n.client())
	if err != nil {
		n.t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != below {
		n.t.Fatalf("delete records: %+v", p)
	}
}
