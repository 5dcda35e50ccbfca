package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// dumpBase is the time of the first record that is filled in, in ms: yesterday,
// rounded, so that retention leaves it alone.
func dumpBase() int64 { return time.Now().Add(-24*time.Hour).Unix() / 3600 * 3600_000 }

var (
	dumpBatch = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (-?\d+) producerEpoch: (-?\d+) ` +
		`partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: (?:OptionalLong.empty|OptionalLong\[\d+\]) position: (\d+) (CreateTime|LogAppendTime): (-?\d+) size: (\d+) magic: 2 compresscodec: (\w+) crc: \d+ isvalid: true$`)
	dumpRecord = regexp.MustCompile(`^\| offset: (\d+) (?:CreateTime|LogAppendTime): (\d+) keySize: -?\d+ valueSize: -?\d+ sequence: (-?\d+) headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?$`)
	dumpIndex  = regexp.MustCompile(`^offset: (\d+) position: (\d+)$`)
	dumpTime   = regexp.MustCompile(`^timestamp: (\d+) offset: (\d+)$`)
	dumpState  = regexp.MustCompile(`^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: OptionalLong.empty lastTimestamp: \d+ firstSequence: (\d+) lastSequence: (\d+) lastOffset: (\d+) offsetDelta: (\d+) timestamp: \d+$`)
	dumpEmpty  = regexp.MustCompile(`^Index timestamp: \d+, log timestamp: -1$`)
	dumpHeader = regexp.MustCompile(`^Dumping |^Log starting offset: |\.index is empty\.$`)
	dumpFault  = regexp.MustCompile(`(?i)mismatch|exception|not found|isvalid: false|invalid bytes|is not|error|corrupt`)
)

// dumped is one segment as kafka-dump-log tells it.
type dumped struct {
	records []string // "offset time key value headers"
	batches []dumpedBatch
	size    int64 // end of the last batch
}

type dumpedBatch struct {
	base, last   int64
	position     int64
	producer     int64
	lastSequence int64
	codec, clock string
}

// dumpLog runs kafka-dump-log and fails on every line that tells of a fault.
func dumpLog(t *testing.T, d *javaDriver, args ...string) []string {
	t.Helper()
	r := d.run(t, "", javaClass("dump-log"), args...)
	faults := slices.DeleteFunc(slices.Clone(r.out), func(line string) bool { return !dumpFault.MatchString(line) })
	faults = append(faults, dumpComplaints(r.err)...)
	if r.code != 0 || len(faults) > 0 {
		t.Errorf("%s: exit %d, %d faults, first %q", r.what, r.code, len(faults), faults[:min(3, len(faults))])
	}
	return r.out
}

// dumpComplaints is what the tool says on standard error without what it says
// of Kafka's own segments, too: it takes the first offset of a segment that
// doesn't begin at 0 for one that follows -1, and finds no time in a batch whose
// records compaction has taken, though the batch has one.
func dumpComplaints(lines []string) []string {
	var left []string
	for i := 0; i < len(lines); i++ {
		if i+1 < len(lines) && strings.HasPrefix(lines[i], "Non-consecutive offsets in ") && strings.HasPrefix(lines[i+1], "-1 is followed by ") {
			i++
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i], "Found timestamp mismatch in ") && dumpEmpty.MatchString(lines[i+1]) {
			i++
			continue
		}
		left = append(left, lines[i])
	}
	return left
}

// segmentOf reads a segment record by record; positions and sequences must be
// without gap or overlap.
func segmentOf(t *testing.T, d *javaDriver, file string) dumped {
	t.Helper()
	var s dumped
	sequence := int64(-1) // of the next record
	for _, line := range dumpLog(t, d, "--files", file, "--print-data-log", "--deep-iteration") {
		if m := dumpBatch.FindStringSubmatch(line); m != nil {
			b := dumpedBatch{base: integer(m[1]), last: integer(m[2]), producer: integer(m[6]), lastSequence: integer(m[5]), position: integer(m[8]), clock: m[9], codec: m[12]}
			if b.position != s.size {
				t.Errorf("%s: a batch at %d, expected at %d", file, b.position, s.size)
			}
			s.size = b.position + integer(m[11])
			sequence = integer(m[4])
			s.batches = append(s.batches, b)
		} else if m := dumpRecord.FindStringSubmatch(line); m != nil {
			if got := integer(m[3]); got < sequence {
				t.Errorf("%s: sequence %d after %d in %q", file, got, sequence, line)
			}
			sequence = integer(m[3])
			s.records = append(s.records, strings.Join([]string{m[1], m[2], m[5], m[6], m[4]}, " "))
		} else if !dumpHeader.MatchString(line) {
			t.Errorf("%s: unexpected %q", file, line)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() != s.size {
		t.Errorf("%s: the tool saw %d bytes, there are %d (%v)", file, s.size, info.Size(), err)
	}
	return s
}

// filled is what Fill writes, as segmentOf tells it.
func filled(count, keys, length int, base int64) []string {
	var list []string
	for i := range count {
		key, value, header := "", fmt.Sprintf("v-%d", i), ""
		if keys > 0 {
			key = fmt.Sprintf("k-%d", i%keys)
		}
		value += strings.Repeat(".", max(0, length-len(value)))
		if i%10 == 0 {
			header = "i"
		}
		list = append(list, strings.Join([]string{strconv.Itoa(i), strconv.FormatInt(base+int64(i), 10), key, value, header}, " "))
	}
	return list
}

func integer(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // the patterns let digits through only
	}
	return n
}

// TestJavaDump lets Kafka's own tool read what Sawlog leaves on the disk: logs
// of every codec, both clocks, indexes, snapshots of producers, what a crash and
// a compaction leave, and the topic of groups.
func TestJavaDump(t *testing.T) {
	server := peer.Sawlog(t, peer.Options{})
	d := startJava(t)
	base := dumpBase()
	create := func(topic string, configs ...string) {
		args := []string{"--bootstrap-server", server.Addr, "--create", "--topic", topic}
		for _, c := range configs {
			args = append(args, "--config", c)
		}
		d.run(t, "", javaClass("topics"), args...).ok()
	}
	fill := func(topic, codec string, count, keys, length int, settings ...string) {
		args := append([]string{server.Addr, topic, codec, strconv.Itoa(count), strconv.Itoa(keys), strconv.FormatInt(base, 10), strconv.Itoa(length)}, settings...)
		d.run(t, "", "Fill", args...).ok()
	}
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	for _, codec := range codecs {
		create("dump-"+codec, "segment.bytes=1048576", "index.interval.bytes=2048")
		fill("dump-"+codec, codec, 3000, 7, 600, "batch.size=20000")
	}
	create("dump-plain")
	fill("dump-plain", "none", 500, 0, 20, "enable.idempotence=false", "acks=1", "batch.size=1000")
	create("dump-stamped", "message.timestamp.type=LogAppendTime", "compression.type=zstd")
	fill("dump-stamped", "gzip", 500, 7, 100)
	create("dump-compact", "cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01", "index.interval.bytes=1024")
	fill("dump-compact", "none", 6000, 10, 600, "batch.size=8000")
	d.run(t, "", javaClass("console-consumer"), "--bootstrap-server", server.Addr, "--topic", "dump-plain", "--group", "dump-g",
		"--from-beginning", "--max-messages", "500")
	compacted(t, server)

	// A crash in between: what recovery left is read, too.
	server.Kill()
	server.Restart()
	server.Stop()

	for _, codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			checkFolder(t, d, filepath.Join(server.Dir, "dump-"+codec+"-0"), codec, "CreateTime", filled(3000, 7, 600, base))
		})
	}
	t.Run("without producer id", func(t *testing.T) {
		checkFolder(t, d, filepath.Join(server.Dir, "dump-plain-0"), "none", "CreateTime", filled(500, 0, 20, base))
	})
	t.Run("stamped and converted", func(t *testing.T) {
		folder := filepath.Join(server.Dir, "dump-stamped-0")
		records, _ := checkIndexes(t, d, folder, "zstd", "LogAppendTime")
		compareRecords(t, folder, untimed(records), untimed(filled(500, 7, 100, base)))
	})
	t.Run("compacted", func(t *testing.T) { checkCompacted(t, d, filepath.Join(server.Dir, "dump-compact-0"), base) })
	t.Run("groups", func(t *testing.T) { checkGroupLog(t, d, server) })
	t.Run("notices", func(t *testing.T) { checkNotices(t, d, filepath.Join(server.Dir, "dump-none-0")) })
}

// untimed leaves the clock out of records.
func untimed(records []string) []string {
	list := []string{}
	for _, r := range records {
		part := strings.SplitN(r, " ", 3)
		list = append(list, part[0]+" "+part[2])
	}
	return list
}

// checkFolder compares all segments of a folder with what was produced.
func checkFolder(t *testing.T, d *javaDriver, folder, codec, clock string, want []string) {
	t.Helper()
	records, batches := checkIndexes(t, d, folder, codec, clock)
	compareRecords(t, folder, records, want)
	if len(batches) < 2 {
		t.Errorf("%s: only %d batches", folder, len(batches))
	}
}

// checkIndexes reads all files of a folder and checks each against the log.
func checkIndexes(t *testing.T, d *javaDriver, folder, codec, clock string) ([]string, []dumpedBatch) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%s: no logs, %v", folder, err)
	}
	var records []string
	var batches []dumpedBatch
	last := map[int64]int64{} // last sequence by producer
	for _, file := range logs {
		stem := strings.TrimSuffix(file, ".log")
		s := segmentOf(t, d, file)
		for _, b := range s.batches {
			if b.codec != codec || b.clock != clock {
				t.Errorf("%s: batch %d is of %s and %s, want %s and %s", file, b.base, b.codec, b.clock, codec, clock)
			}
			if b.producer >= 0 {
				last[b.producer] = b.lastSequence
			}
		}
		both := stem + ".index," + stem + ".timeindex"
		for _, line := range dumpLog(t, d, "--files", both, "--verify-index-only") {
			if !dumpHeader.MatchString(line) {
				t.Errorf("%s: %s", both, line)
			}
		}
		for _, line := range dumpLog(t, d, "--files", both, "--index-sanity-check") {
			if !dumpHeader.MatchString(line) && !strings.HasSuffix(line, "index passed sanity check.") {
				t.Errorf("%s: %s", both, line)
			}
		}
		checkEntries(t, dumpLog(t, d, "--files", both), stem, s)
		records, batches = append(records, s.records...), append(batches, s.batches...)
	}
	checkSnapshots(t, d, folder, last)
	return records, batches
}

// checkEntries holds each index entry against the batch it points to.
func checkEntries(t *testing.T, lines []string, stem string, s dumped) {
	t.Helper()
	positions, times := 0, 0
	for _, line := range lines {
		if m := dumpIndex.FindStringSubmatch(line); m != nil {
			positions++
			i := slices.IndexFunc(s.batches, func(b dumpedBatch) bool { return b.position == integer(m[2]) })
			if i < 0 || integer(m[1]) < s.batches[i].base || integer(m[1]) > s.batches[i].last {
				t.Errorf("%s.index: %q points to no batch of its offset", stem, line)
			}
		} else if m := dumpTime.FindStringSubmatch(line); m != nil {
			times++
			if first := s.batches[0].base; integer(m[2]) < first || integer(m[2]) > s.batches[len(s.batches)-1].last {
				t.Errorf("%s.timeindex: %q is outside the segment", stem, line)
			}
		} else if !dumpHeader.MatchString(line) {
			t.Errorf("%s: unexpected %q", stem, line)
		}
	}
	if s.size > 100_000 && (positions < 10 || times < 10) {
		t.Errorf("%s: %d bytes with %d and %d index entries", stem, s.size, positions, times)
	}
}

// checkSnapshots compares the last snapshot of producers with the log.
func checkSnapshots(t *testing.T, d *javaDriver, folder string, last map[int64]int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.snapshot"))
	if err != nil || len(files) == 0 {
		if len(last) > 0 || err != nil {
			t.Errorf("%s: no snapshot of %d producers, %v", folder, len(last), err)
		}
		return
	}
	told := map[int64]int64{}
	transactions := false
	for _, line := range dumpLog(t, d, "--files", files[len(files)-1]) {
		if m := dumpState.FindStringSubmatch(line); m != nil {
			told[integer(m[1])] = integer(m[5])
			transactions = transactions || m[3] != "-1"
		} else if !dumpHeader.MatchString(line) {
			t.Errorf("%s: unexpected %q", folder, line)
		}
	}
	if transactions {
		t.Errorf("%s: the snapshot has coordinator epochs without a transaction", folder)
	}
	for id, sequence := range last {
		if told[id] != sequence {
			t.Errorf("%s: the snapshot has sequence %d of producer %d, the log %d", folder, told[id], id, sequence)
		}
	}
	if len(told) != len(last) {
		t.Errorf("%s: producers %v, want %v", folder, told, last)
	}
}

// compacted waits until the cleaner has been at the first segment.
func compacted(t *testing.T, server *peer.Server) {
	t.Helper()
	file := filepath.Join(server.Dir, "dump-compact-0", fmt.Sprintf("%020d.log", 0))
	limit := time.Now().Add(javaPatience)
	for {
		if info, err := os.Stat(file); err == nil && info.Size() < 1<<19 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: not compacted after %s", file, javaPatience)
		}
		time.Sleep(100 * time.Millisecond) // nothing tells of a cleaning
	}
}

// checkCompacted wants every record of the dump to be one that was produced, at
// its offset, and the last of each key among them.
func checkCompacted(t *testing.T, d *javaDriver, folder string, base int64) {
	t.Helper()
	const count, keys = 6000, 10
	records, batches := checkIndexes(t, d, folder, "none", "CreateTime")
	all := filled(count, keys, 600, base)
	if len(records) >= count*3/4 {
		t.Errorf("%s: %d of %d records are left", folder, len(records), count)
	}
	before := int64(-1)
	for _, r := range records {
		offset := integer(r[:strings.IndexByte(r, ' ')])
		if offset <= before || offset >= count || all[offset] != r {
			t.Errorf("%s: %.60q is no record that was produced there", folder, r)
		}
		before = offset
	}
	for _, r := range all[count-keys:] {
		if !slices.Contains(records, r) {
			t.Errorf("%s: %.60q, the last of its key, is gone", folder, r)
		}
	}
	if end := batches[len(batches)-1].last; end != count-1 {
		t.Errorf("%s: ends at %d, want %d", folder, end, count-1)
	}
}

// checkGroupLog decodes the topic of groups.
func checkGroupLog(t *testing.T, d *javaDriver, server *peer.Server) {
	t.Helper()
	folder := filepath.Join(server.Dir, fmt.Sprintf("__consumer_offsets-%d", GroupPartition("dump-g")))
	lines := dumpLog(t, d, "--files", filepath.Join(folder, fmt.Sprintf("%020d.log", 0)), "--offsets-decoder")
	var got []string
	for _, line := range lines {
		if _, body, ok := strings.Cut(line, " headerKeys: [] "); ok {
			got = append(got, body)
		}
	}
	want := []string{
		`key: {"type":"2","data":{"group":"dump-g"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":1,"protocol":"range","leader":"<member>","currentStateTimestamp":<#>,"members":[{"memberId":"<member>","groupInstanceId":null,"clientId":"console-consumer","clientHost":"/127.0.0.1","rebalanceTimeout":300000,"sessionTimeout":45000,"subscription":{"topics":["dump-plain"],"userData":null,"ownedPartitions":[],"generationId":-1,"rackId":null},"assignment":{"assignedPartitions":[{"topic":"dump-plain","partitions":[0]}],"userData":null}}]}}`,
		`key: {"type":"1","data":{"group":"dump-g","topic":"dump-plain","partition":0}} payload: {"version":"4","data":{"offset":500,"leaderEpoch":0,"metadata":"","commitTimestamp":<#>,"topicId":"<topic>"}}`,
		`key: {"type":"2","data":{"group":"dump-g"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":2,"protocol":null,"leader":null,"currentStateTimestamp":<#>,"members":[]}}`,
	}
	if err := javaMatch(map[string]string{}, want, got); err != nil {
		t.Errorf("%s: %v", folder, err)
	}
}

// checkNotices damages copies: a dump that says nothing then would prove nothing.
func checkNotices(t *testing.T, d *javaDriver, folder string) {
	t.Helper()
	room := t.TempDir()
	name := fmt.Sprintf("%020d", 0)
	for _, c := range []struct {
		ext   string
		at    int
		flag  string
		wants string
	}{
		{".log", 5000, "--deep-iteration", "isvalid: false"},
		{".index", 3, "--verify-index-only", "Mismatches in "},
		{".timeindex", 11, "--verify-index-only", "Index timestamp mismatch"},
	} {
		for _, ext := range []string{".log", ".index", ".timeindex"} {
			b, err := os.ReadFile(filepath.Join(folder, name+ext))
			if err != nil {
				t.Fatal(err)
			}
			if ext == c.ext {
				b[c.at] ^= 1
			}
			if err := os.WriteFile(filepath.Join(room, name+ext), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := d.run(t, "", javaClass("dump-log"), "--files", filepath.Join(room, name+c.ext), c.flag)
		if all := strings.Join(append(r.out, r.err...), "\n"); !dumpFault.MatchString(all) {
			t.Errorf("a damaged %s passes: %.300q", c.ext, all)
		}
	}
}
