package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/loader"
	"sawlog/loader/sink/hdfs/mini"
)

var firstHour = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// wide makes n records of one partition: a third in one busy hour, the rest
// over many hours; no more than two in an hour share an id, some cannot be read.
func wide(topic string, partition int32, n, hours int) []*kgo.Record {
	return wideAt(topic, partition, n, func(i int, rnd *rand.Rand) int {
		if i%3 == 0 {
			return 0
		}
		return rnd.IntN(hours)
	})
}

// wideAt is wide with the hour of each record.
func wideAt(topic string, partition int32, n int, hour func(i int, rnd *rand.Rand) int) []*kgo.Record {
	rnd := rand.New(rand.NewPCG(uint64(partition), 4))
	var records []*kgo.Record
	for i := range n {
		at := firstHour.Add(time.Duration(hour(i, rnd))*time.Hour + time.Duration(rnd.IntN(3600))*time.Second)
		pair, id := i/8*4+i%4, [64]byte{}
		if i >= 32_000 {
			pair = i
		}
		for j := 0; j < len(id); j += sha256.Size {
			sum := sha256.Sum256(fmt.Append(nil, partition, " ", pair, " ", j))
			copy(id[j:], sum[:])
		}
		value := fmt.Appendf(nil, `{"at":%q,"id":"%x","user":"u%d","n":%d,"ratio":%d.5,"ok":%t,"deep":{"tags":["a","t%d"],"note":%s},"a":%d,"b":"b","c":%d}`,
			at.Format(time.RFC3339), id, rnd.IntN(50), i, rnd.IntN(1000), i%2 == 0,
			rnd.IntN(9), []string{"null", `"quoted \"words\""`, `"plain"`}[i%3], i%7, i%11)
		if i%97 == 0 {
			value = value[:len(value)/2]
		}
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: value})
	}
	return records
}

func byHand(codec string) []kgo.Opt {
	return []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgoCodecs[codec]), kgo.ProducerBatchMaxBytes(200_000)}
}

// processes is how many carry one plan out: five, and fifty in a soak.
func processes() int {
	if inSoak() {
		return 50
	}
	return 5
}

// copies are where the processes that carry one plan out write to: this machine's
// disk and, in a soak, HDFS in turn.
type copies struct {
	n   *node
	far *mini.Cluster // nil = none
}

func startCopies(t *testing.T, n *node) copies {
	c := copies{n: n}
	if inSoak() {
		c.far = mini.Start(t, mini.Options{DataNodes: 2, Conf: []string{"dfs.replication=2"}})
	}
	return c
}

func (c copies) root(i int) string {
	name := fmt.Sprintf("copy-%02d", i)
	if c.far != nil && i%5 > 2 {
		return c.far.URI("/copies/" + name)
	}
	return filepath.Join(c.n.dir, name)
}

// tree is what a process wrote.
func (c copies) tree(root string) map[string]string {
	if strings.HasPrefix(root, "hdfs:") {
		root = mirror(c.n.t, root)
	}
	return treeOf(c.n.t, root)
}

// drop makes room.
func (c copies) drop(root string) {
	if strings.HasPrefix(root, "hdfs:") {
		return
	}
	if err := os.RemoveAll(root); err != nil {
		c.n.t.Fatal(err)
	}
}

// TestSoakOnePlanSameBytes carries one plan out in fresh processes that differ
// in all that must not show, on brokers that are stopped or killed in between:
// one hash for each name.
func TestSoakOnePlanSameBytes(t *testing.T) {
	t.Parallel() // it waits for servers to stop and start
	needPython(t)
	n := startNode(t)
	const topic, hours = "wide", 80
	n.run("topic", "create", topic, "--partitions", "4")
	total := 0
	for p, count := range []int{42_000, 700, 700, 12_000} {
		n.send(byHand([]string{"zstd", "lz4", "snappy", "none"}[p]), wideAt(topic, int32(p), count, func(i int, rnd *rand.Rand) int {
			if i%16 == 0 {
				return rnd.IntN(hours)
			}
			return i % 4 // busy ones
		})...)
		total += count
	}
	path := n.write("wide.yaml", fmt.Sprintf(
		"name: wide\nsource: {topics: [wide]}\noutput: {root: 'file://%s/wide', target_file_size: 6MiB}\n", n.dir)+numbersJob)
	planPath := n.write("plan.json", string(n.run("plan", path, "--scan", "-o", "json")))
	file, err := readPlanFile(planPath)
	if err != nil {
		t.Fatal(err)
	}
	merged := false
	for _, s := range file.Plan.Splits {
		merged = merged || len(s.Ranges) > 1
	}
	if !merged || len(file.Plan.Splits) < 2 {
		t.Fatalf("%d splits, none of two partitions: %+v", len(file.Plan.Splits), file.Plan.Splits)
	}
	n.refused(2, []string{"too little"}, "run", "--plan", planPath, "--root", filepath.Join(n.dir, "tiny"), "--memory", "48MiB", "--parallelism", "1")
	memories := []string{"96MiB", "128MiB", "160MiB", "512MiB", "2GiB", "1GiB", "112MiB"}
	fetches := []string{"64KiB", "300000", "1MiB", "8MiB"}
	var want map[string]string
	var revised string
	to := startCopies(t, n)
	for i := range processes() {
		root := to.root(i)
		parallelism := []int{1, 2, 7}[i%3]
		memory := memories[i%len(memories)]
		if m := i % len(memories); m < 3 || m == 6 {
			parallelism = 1 // one file's worth of memory and not much more
		} else if m == 3 {
			parallelism = min(parallelism, 2)
		}
		carried := planPath // the columns are inferred first
		if i%5 > 0 {
			carried = revised // by the plan that came of that
		}
		c := n.spawn([]string{fmt.Sprintf("GOMAXPROCS=%d", 1+i%4)}, "run", "--plan", carried, "--root", root, "-o", "json",
			"--parallelism", fmt.Sprint(parallelism), "--memory", memory, "--fetch-bytes", fetches[i%len(fetches)])
		if code := c.wait(2 * time.Minute); code != 0 {
			t.Fatalf("run %d with %s to %s: exit code %d: %s", i, memory, root, code, c.said.String())
		}
		var o loader.Outcome
		if err := json.Unmarshal(c.out.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if o.Rows+o.Quarantined != int64(total) || o.Quarantined < 200 {
			t.Fatalf("run %d: %d rows, %d quarantined of %d records", i, o.Rows, o.Quarantined, total)
		}
		tree := to.tree(root)
		if i%2 == 0 {
			n.stop()
		} else {
			n.kill()
		}
		n.start()
		if i == 0 {
			want = tree
			n.fellBack(root)
			revised = n.takenPlan(root, filepath.Join(n.dir, "spilled"))
			n.spills(revised)
			n.clean(root)
			continue
		}
		if err := sameTree(want, tree); err != nil {
			t.Fatalf("run %d with --parallelism %d --memory %s --fetch-bytes %s: %v", i, parallelism, memory, fetches[i%len(fetches)], err)
		}
		to.drop(root)
	}
	if len(want) < 2*hours {
		t.Errorf("only %d files", len(want))
	}
}

// spills proves that the biggest split of a plan sorts on disk with little
// memory and does not with much.
func (n *node) spills(planPath string) {
	n.t.Helper()
	file, err := readPlanFile(planPath)
	if err != nil {
		n.t.Fatal(err)
	}
	stage := filepath.Join(strings.TrimPrefix(file.Root, "file://"), loader.StageDir(file.ID, 0))
	if err := os.MkdirAll(stage, 0o755); err != nil {
		n.t.Fatal(err)
	}
	for memory, want := range map[string]bool{"96MiB": true, "2GiB": false} {
		c := n.spawn(nil, "task", "exec", "--plan", planPath, "--index", "0", "--memory", memory, "-v")
		if code := c.wait(60 * time.Second); code != 0 {
			n.t.Fatalf("task exec: exit code %d: %s", code, c.said.String())
		}
		if got := strings.Contains(c.said.String(), "sorted by bucket first"); got != want {
			n.t.Errorf("a task with %s sorts on disk: %t, want %t", memory, got, want)
		}
	}
}

// fellBack proves that the column of ids outgrew its dictionary in a busy hour:
// no codec makes less than half of random hex digits, and the dictionary is
// smaller than that.
func (n *node) fellBack(root string) {
	n.t.Helper()
	var got [][2]int64
	file := fmt.Sprintf("'%s/dt=2026-10-01/hr=01/merged-*-00000.parquet'", root)
	duck(n.t, root, fmt.Sprintf(`select min(data_page_offset - dictionary_page_offset), (select count(distinct id) from read_parquet(%s))
		from parquet_metadata(%s) where path_in_schema = 'id'`, file, file), &got)
	dictionary, whole := got[0][0], got[0][1]*64
	if dictionary <= 0 || dictionary > whole*19/20 {
		n.t.Errorf("the dictionary of the ids takes %d bytes, all ids %d at least: it did not outgrow its limit", dictionary, whole)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSoakDriverKilled kills the process that carries out a run, with its
// tasks or alone, at random moments, and then lets it finish.
func TestSoakDriverKilled(t *testing.T) {
	t.Parallel() // it waits for processes
	needPython(t)
	n := startNode(t)
	const topic, total = "cut", 12_000
	rounds := rounds(t, 4)
	n.run("topic", "create", topic, "--partitions", "3")
	for p := range int32(3) {
		n.send(byHand("lz4"), wide(topic, p, total/3, 12)...)
	}
	rnd := rand.New(rand.NewPCG(5, 15))
	took := 600 * time.Millisecond
	cuts, at := 0, map[string]int{}
	round := 0
	for ; round < rounds || round < 4*rounds && len(at) < 2; round++ {
		root := filepath.Join(n.dir, "cuts", fmt.Sprint(round))
		path := n.write(fmt.Sprintf("cut-%d.yaml", round), fmt.Sprintf(
			"name: cut\nsource: {topics: [cut]}\noutput: {root: 'file://%s', target_file_size: 1MiB}\ndecode: {value: json}\ntime: {field: at, format: rfc3339}\n", root))
		for range 1 + round%2 {
			c := n.spawn(nil, "run", path, "-o", "json")
			select {
			case <-time.After(time.Duration(rnd.Int64N(int64(took)))): // the moment is the point
			case err := <-c.ended:
				c.ended <- err
			}
			if round%3 == 0 {
				_ = c.cmd.Process.Kill() // the driver alone; its tasks must follow
			} else {
				c.killAll()
			}
			if c.wait(patience) != 0 {
				cuts++
				at[phaseOf(root)]++
			}
			n.eventually("the tasks ended with their driver", patience, func() bool {
				return syscall.Kill(-c.cmd.Process.Pid, 0) == syscall.ESRCH
			})
		}
		n.outcome(0, "run", path)
		n.clean(root)
		begun := time.Now()
		n.undisturbed(root, filepath.Join(n.dir, "undisturbed", fmt.Sprint(round)))
		took = max(time.Since(begun)*3/2, 200*time.Millisecond) // inferring the schema takes longer
	}
	t.Logf("%d runs were cut off: %v", cuts, at)
	if cuts < round*2/3 || len(at) < 2 {
		t.Errorf("only %d runs were cut off, %v", cuts, at)
	}
	var got [][3]int64
	duck(t, "", fmt.Sprintf(`select regexp_extract(filename, 'cuts/(\d+)/', 1)::int r, count(*), count(distinct (_partition, _offset))
		from read_parquet('%s/cuts/*/dt=*/hr=*/*.parquet', filename=true, union_by_name=true) group by 1 order by 1`, n.dir), &got)
	want := int64(total - 3*((total/3+96)/97)) // every 97th is bad
	if len(got) != round {
		t.Errorf("%d data sets, want %d", len(got), round)
	}
	for _, g := range got {
		if g[1] != want || g[2] != want {
			t.Errorf("round %d: %d rows, %d different, want %d", g[0], g[1], g[2], want)
		}
	}
}

// phaseOf tells how far a load came that was cut off.
func phaseOf(root string) string {
	for _, p := range []struct{ pattern, phase string }{
		{"dt=*/hr=*/_manifest.json", "marking"},
		{"dt=*/hr=*/*.parquet", "publishing"},
		{"_sawlog/ledger/*/commit.json", "committed"},
		{"_sawlog/stage/*/*/*/result.json", "results"},
		{"_sawlog/stage/*/*/*", "staging"},
		{"_sawlog/plans/*", "planned"},
	} {
		if found, _ := filepath.Glob(filepath.Join(root, p.pattern)); len(found) > 0 {
			return p.phase
		}
	}
	return "nothing written"
}

// takenPlan writes the plan a data set was loaded by, for a fresh root.
func (n *node) takenPlan(root, fresh string) (planPath string) {
	n.t.Helper()
	var rec loader.Record
	if err := json.Unmarshal(mustRead(n.t, filepath.Join(root, loader.RecordPath(0))), &rec); err != nil {
		n.t.Fatal(err)
	}
	var plan loader.Plan
	if err := json.Unmarshal(mustRead(n.t, filepath.Join(root, loader.PlanPath(rec.Plan))), &plan); err != nil {
		n.t.Fatal(err)
	}
	raw, err := json.Marshal(planFile{Sawlog: planFileKind, ID: rec.Plan, Root: "file://" + fresh, Brokers: []string{n.listen}, Plan: &plan})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.write("taken.json", string(raw))
}

// undisturbed carries out the plan a data set was loaded by once more, into a
// fresh root, and compares the trees.
func (n *node) undisturbed(root, fresh string) {
	n.t.Helper()
	n.outcome(0, "run", "--plan", n.takenPlan(root, fresh))
	if err := sameTree(treeOf(n.t, fresh), treeOf(n.t, root)); err != nil {
		n.t.Fatalf("%s: %v", root, err)
	}
}

// TestProofForeignCluster loads from a node the job names, not the one at hand,
// and remakes a lost file from it.
func TestProofForeignCluster(t *testing.T) {
	t.Parallel()
	home, away := startNode(t), startNode(t)
	away.run("topic", "create", "abroad", "--partitions", "2")
	for p := range int32(2) {
		away.send(byHand("snappy"), wide("abroad", p, 500, 5)...)
	}
	root := filepath.Join(home.dir, "warehouse")
	path := home.write("abroad.yaml", fmt.Sprintf(
		"name: abroad\nsource: {topics: [abroad], brokers: ['%s']}\noutput: {root: 'file://%s'}\ndecode: {value: json}\ntime: {field: at, format: rfc3339}\n", away.listen, root))
	if o := home.outcome(0, "run", path); o.Rows+o.Quarantined != 1000 || o.Rows < 900 {
		t.Fatalf("%d rows, %d quarantined", o.Rows, o.Quarantined)
	}
	home.ready()
	home.run("job", "apply", path)
	away.send(byHand("none"), wide("abroad", 0, 100, 2)...)
	home.run("run", "abroad", "--wait") // by the server's scheduler, from the other cluster
	want := treeOf(t, root)
	if rows := home.out("out", "count", "--root", root, "rows"); rows < 1000 {
		t.Errorf("%d rows", rows)
	}
	files, err := filepath.Glob(filepath.Join(root, "dt=*", "hr=*", "*.parquet"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	home.refused(8, nil, "verify", "--root", root)
	var lost, kept loader.RerunReport
	for i, into := range []*loader.RerunReport{&lost, &kept} {
		if err := json.Unmarshal(home.run("rerun", fmt.Sprint(i), "--root", root, "-b", away.listen, "-o", "json"), into); err != nil {
			t.Fatal(err)
		}
	}
	if lost.Restored+kept.Restored != 1 || lost.Changed+kept.Changed != 0 {
		t.Errorf("rerun of both runs: %+v, %+v", lost, kept)
	}
	home.clean(root)
	if err := sameTree(want, treeOf(t, root)); err != nil {
		t.Error(err)
	}
	home.refused(8, []string{"abroad", "if the brokers asked"}, "rerun", "0", "--root", root, "-b", home.listen)
}

// out reads one number of a command's JSON.
func (n *node) out(args ...string) int64 {
	n.t.Helper()
	last := len(args) - 1
	text, err := jsonPath(n.run(append(args[:last:last], "-o", "json")...), args[last])
	if err != nil {
		n.t.Fatal(err)
	}
	var v int64
	if _, err := fmt.Sscan(text, &v); err != nil {
		n.t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestSoakTwoDrivers runs two loads at once on one data set, with ranges that
// overlap and with ranges that do not.
func TestSoakTwoDrivers(t *testing.T) {
	t.Parallel() // it waits for processes
	needPython(t)
	n := startNode(t)
	const topic = "both"
	rounds := rounds(t, 6)
	n.run("topic", "create", topic, "--partitions", "2")
	for p := range int32(2) {
		n.send(byHand("zstd"), wide(topic, p, 50*rounds, 2)...)
	}
	path, root := n.job(topic, numbersJob)
	rnd := rand.New(rand.NewPCG(8, 20))
	winners := 0
	for round := range rounds {
		start, end := 50*round, 50*(round+1)
		overlap := round%2 == 0
		ranges := [2]string{fmt.Sprintf("%s/0=%d..%d", topic, start, end), fmt.Sprintf("%s/1=%d..%d", topic, start, end)}
		if overlap { // both partitions, to the same end or not
			ranges[0] = fmt.Sprintf("%s/0-1=%d..%d", topic, start, end)
			ranges[1] = fmt.Sprintf("%s/0-1=%d..%d", topic, start, end-rnd.IntN(2)*10)
		}
		var codes [2]int
		var outs [2]loader.Outcome
		var said [2]string
		var both sync.WaitGroup
		for i := range 2 {
			c := n.spawn(nil, "run", path, "--range", ranges[i], "-o", "json")
			both.Go(func() {
				codes[i] = c.wait(40 * time.Second)
				said[i] = c.said.String()
				_ = json.Unmarshal(c.out.Bytes(), &outs[i]) // a loser prints none
			})
		}
		both.Wait()
		committed := 0
		for i := range 2 {
			switch {
			case codes[i] == 0 && outs[i].Status == "committed":
				committed++
			case overlap && (codes[i] == 4 || codes[i] == 0 && outs[i].Status == "covered"):
			default:
				t.Errorf("round %d, %s beside %s: exit code %d, %q: %s", round, ranges[i], ranges[1-i], codes[i], outs[i].Status, said[i])
			}
		}
		if want := map[bool]int{true: 1, false: 2}[overlap]; committed != want {
			t.Errorf("round %d (overlap %t): %d commits, want %d: %v %v %v", round, overlap, committed, want, codes, outs[0].Status, outs[1].Status)
		}
		winners += committed
		for _, o := range outs { // what the winner left of the round
			if o.Status == "committed" && overlap && int(o.Ranges[0].End) < end {
				n.outcome(0, "run", path, "--range", fmt.Sprintf("%s/0-1=%d..%d", topic, o.Ranges[0].End, end))
			}
		}
	}
	n.clean(root)
	rows, distinct := rowsOf(t, root)
	want := int64(2*50*rounds - 2*((50*rounds+96)/97))
	if rows != want || distinct != want {
		t.Errorf("%d rows, %d different, want %d", rows, distinct, want)
	}
	t.Logf("%d commits by racing drivers", winners)
}
