package log

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// crashRuns is how often a crash test is repeated: SAWLOG_CRASH_RUNS, else what
// fits in a run of all tests.
func crashRuns(t *testing.T, usual int) int {
	text := os.Getenv("SAWLOG_CRASH_RUNS")
	switch {
	case text == "" && testing.Short():
		return max(1, usual/8)
	case text == "":
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SAWLOG_CRASH_RUNS=%s: want a number of runs", text)
	}
	return n
}

// The process that gets killed: told by these what to do.
const (
	killDirEnv   = "SAWLOG_LOG_KILL_DIR"
	killAckedEnv = "SAWLOG_LOG_KILL_ACKED" // per partition, the sequence after the last acknowledged one
)

const killPartitions = 4

// killConfig is the setting of a partition: small segments, and each its own
// way of flushing.
func killConfig(partition int) Config {
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionMs = 30_000, -1
	switch partition {
	case 1:
		c.FlushMessages = 1
	case 2:
		c.FlushMs = 5
	case 3:
		c.SegmentBytes = 3_000
	}
	return c
}

func killTP(partition int) offsets.TopicPartition {
	return offsets.TopicPartition{Topic: "killed", Partition: int32(partition)}
}

// killBatch is the batch of a producer that begins with a sequence: its size and
// content are a function of that, so that a retry is equal.
func killBatch(t testing.TB, partition int, seq int32) record.Batch {
	rnd := rand.New(rand.NewPCG(uint64(partition), uint64(seq)))
	w := record.NewBuilder(record.Codec(rnd.IntN(5)), 0)
	w.Producer(int64(100+partition), 3, seq)
	for i := range 1 + rnd.IntN(9) {
		w.Append(record.Record{Timestamp: testNow + int64(seq), Value: fmt.Appendf(nil, "%d/%d %s", partition, int(seq)+i, value(rnd.IntN(200)))})
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKillLoop kills an idempotent writer of several partitions at random
// moments, many times over, on real files. Each time every acknowledged record
// is there, in order and once; what the log remembers of the producer is what
// its batches tell; and the writer goes on with what it had not heard of.
func TestKillLoop(t *testing.T) {
	if dir := os.Getenv(killDirEnv); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	runs := crashRuns(t, 60)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	dir := t.TempDir()
	acked := make([]int32, killPartitions)
	duplicates := 0
	for run := range runs {
		duplicates += killOnce(t, dir, acked, time.Duration(rnd.IntN(60))*time.Millisecond)
		d, err := OpenDisk(vfs.OS, dir, DiskConfig{})
		must(t, err)
		if !d.SameBoot() && kernelBootID() != "" {
			t.Fatal("the kill is taken for a power cut")
		}
		for p := range killPartitions {
			checkKilled(t, d, p, acked[p], fmt.Sprintf("run %d, partition %d", run, p))
		}
		d.failed.Store(true) // leave without the mark of a clean stop
		_ = d.Close()        // says so
	}
	total := int32(0)
	for _, n := range acked {
		total += n
	}
	t.Logf("%d runs: %d records acknowledged, %d retries answered as duplicates", runs, total, duplicates)
}

// killOnce runs the writer until some time after its first acknowledgement and
// notes what it acknowledged.
func killOnce(t *testing.T, dir string, acked []int32, after time.Duration) (duplicates int) {
	t.Helper()
	state, err := json.Marshal(acked)
	must(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillLoop$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, killAckedEnv+"="+string(state))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // it may have ended
		}
		var p, seq int
		var dup bool
		if _, err := fmt.Sscanf(lines.Text(), "%d %d %t", &p, &seq, &dup); err != nil {
			t.Fatalf("the writer says %q", lines.Text())
		}
		if int32(seq) < acked[p] {
			t.Fatalf("partition %d went back from %d to %d", p, acked[p], seq)
		}
		acked[p] = int32(seq)
		if dup {
			duplicates++
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer was not killed")
	}
	return duplicates
}

// writeUntilKilled produces to all partitions from the acknowledged sequences
// on, and prints each acknowledgement.
func writeUntilKilled(t *testing.T, dir string) {
	acked := make([]int32, killPartitions)
	must(t, json.Unmarshal([]byte(os.Getenv(killAckedEnv)), &acked))
	d, err := OpenDisk(vfs.OS, dir, DiskConfig{})
	must(t, err)
	var wg sync.WaitGroup
	for p := range killPartitions {
		wg.Go(func() {
			l, err := d.Create(killTP(p), testID, killConfig(p))
			if err != nil {
				t.Error(err)
				return
			}
			l.SetConfig(killConfig(p))
			for seq := acked[p]; ; {
				b := killBatch(t, p, seq)
				count := b.Count()
				out, err := l.Append([]record.Batch{b}, Append{Epoch: 1, Now: time.Now().UnixMilli()})
				if err != nil || int32(out[0].First) != seq || int32(out[0].Last) != seq+count-1 {
					fmt.Printf("partition %d sequence %d: %+v %v\n", p, seq, out, err)
					return
				}
				seq += count
				if _, err := fmt.Printf("%d %d %t\n", p, seq, out[0].Duplicate); err != nil {
					return
				}
				if seq%97 == 0 {
					_ = d.Tick(time.Now()) // checkpoints
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Hour) // what is wrong was said
}

// checkKilled reads a whole partition and compares.
func checkKilled(t *testing.T, d *Disk, partition int, acked int32, when string) {
	t.Helper()
	l, ok := d.Log(killTP(partition), testID)
	if !ok {
		if acked > 0 {
			t.Fatalf("%s: the log is gone", when)
		}
		return
	}
	if int32(l.End()) < acked || len(l.Damage()) != 0 {
		t.Fatalf("%s: end %d, acknowledged %d, damage %v", when, l.End(), acked, l.Damage())
	}
	var replayed producers
	for at := offsets.Offset(0); at < l.End(); {
		b, err := l.ReadBytes(at, 50_000, l.End())
		must(t, err)
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			must(t, err)
			if first.BaseOffset() != at || int32(at) != first.BaseSequence() {
				t.Fatalf("%s: batch %d with sequence %d at %d", when, first.BaseOffset(), first.BaseSequence(), at)
			}
			for _, r := range decode(t, first) {
				want := fmt.Sprintf("%d/%d ", partition, r.Offset)
				if got := string(r.Value); len(got) < len(want) || got[:len(want)] != want {
					t.Fatalf("%s: offset %d holds %.20q", when, r.Offset, got)
				}
			}
			replayed.apply(first, 0)
			at, b = first.LastOffset()+1, rest
		}
	}
	id := int64(100 + partition)
	if l.End() == 0 {
		return
	}
	have, want := *l.producers.byID[id], *replayed.byID[id]
	have.seen, want.seen = 0, 0
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("%s: remembered %+v, the batches tell %+v", when, have, want)
	}
	if _, err := os.Stat(path.Join(d.dir, folderName(l.tp), partitionName)); err != nil {
		t.Fatal(err)
	}
}
