package log

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// scaleBatch is one record of zeros, of which only the first bytes need to be
	// on disk: files of such batches are sparse, and their CRC is right.
	scaleBatch = 64 << 10
)

// zeroBatch is a batch of an exact size with one record of zeros.
func zeroBatch(t testing.TB, size int) record.Batch {
	t.Helper()
	for value := size - record.HeaderSize - 16; ; value++ {
		w := record.NewBuilder(record.None, 0)
		w.Append(record.Record{Timestamp: testNow, Value: make([]byte, value)})
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == size {
			return b
		}
		if len(b) > size {
			t.Fatalf("no batch of %d bytes", size)
		}
	}
}

// sparseLog leaves the files of a killed process: total bytes in segments of a
// size, one record a batch.
func sparseLog(t testing.TB, dir string, total, segment int64) {
	t.Helper()
	d := openTest(t, vfs.OS, dir)
	if _, err := d.Create(testTP, testID, DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	d.failed.Store(true) // leave as a killed process does
	_ = d.Close()
	head := zeroBatch(t, scaleBatch)[:128]
	at := int64(0)
	for ; at*scaleBatch < total; at += segment / scaleBatch {
		f, err := os.Create(filepath.Join(dir, folderName(testTP), offsetName(offsets.Offset(at), logSuffix)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range segment / scaleBatch {
			binary.BigEndian.PutUint64(head, uint64(at+i))
			if _, err := f.WriteAt(head, i*scaleBatch); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Truncate(segment); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, runningName), running{stateRunning, "boot-1", 1}.encode(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cpuTime is the processor time this process has taken.
func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecovery starts on a log of 1 GiB after a kill with nothing below the
// recovery point: every byte is read and under its CRC.
func BenchmarkRecovery(b *testing.B) {
	for _, segment := range []int64{gib, 16 * mib} {
		b.Run(fmt.Sprintf("%dMiB_segments", segment/mib), func(b *testing.B) {
			dir := b.TempDir()
			sparseLog(b, dir, gib, segment)
			began := cpuTime(b)
			for b.Loop() {
				d := openTest(b, vfs.OS, dir)
				if l, ok := d.Log(testTP, testID); !ok || l.End() != gib/scaleBatch {
					b.Fatalf("found %v", ok)
				}
				d.failed.Store(true) // leave as a killed process does
				_ = d.Close()
				if err := vfs.Replace(vfs.OS, filepath.Join(dir, runningName), running{stateRunning, "boot-1", 1}.encode()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/GiB")
			b.ReportMetric((cpuTime(b)-began).Seconds()/float64(b.N), "cpu-s/GiB")
		})
	}
}

// scaling is how large the two logs are, in segments, how often they are
// compared, and how far the costs may be apart.
type scaling struct {
	small, large int64
	rounds       int
	apart        float64
}

// scalingOf is a twentieth of the whole, with room for a busy machine, unless
// SAWLOG_SCALE is set: to 1, or to how many segments the large log has.
func scalingOf() scaling {
	n, err := strconv.ParseInt(os.Getenv("SAWLOG_SCALE"), 10, 64)
	switch {
	case err != nil:
		return scaling{small: 100, large: 1000, rounds: 9, apart: 3}
	case n > 1:
		return scaling{small: 1024, large: n, rounds: 29, apart: 1.1}
	}
	return scaling{small: 1024, large: 20_000, rounds: 29, apart: 1.1}
}

// scaled is one of the logs that are compared.
type scaled struct {
	disk *Disk
	log  *Log
	at   offsets.Offset // where reading goes on
	buf  []byte
}

// openScaled recovers a log, stops, and opens it again; all of it is told.
func openScaled(t *testing.T, dir string) *scaled {
	t.Helper()
	began, cpu := time.Now(), cpuTime(t)
	d := openTest(t, vfs.OS, dir)
	recovery, recoveryCPU := time.Since(began), cpuTime(t)-cpu
	must(t, d.Close())
	before := heapInUse()
	began, cpu = time.Now(), cpuTime(t)
	d = openTest(t, vfs.OS, dir)
	open, openCPU := time.Since(began), cpuTime(t)-cpu
	if !d.CleanStart() {
		t.Fatal("not a clean start")
	}
	l, _ := d.Log(testTP, testID)
	heap, n := heapInUse()-before, int64(len(l.look().segments))
	if n >= 1000 && heap/n > 1024 {
		t.Errorf("a segment takes %d bytes of memory", heap/n)
	}
	t.Logf("%d segments, %d GiB: recovery after a kill %v (%v of processor), clean start %v (%v), %d bytes of memory a segment",
		n, l.Size()/gib, recovery.Round(time.Millisecond), recoveryCPU.Round(time.Millisecond), open.Round(time.Millisecond), openCPU.Round(time.Millisecond), heap/n)
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionMs = mib, -1
	l.SetConfig(c)
	must(t, d.Tick(time.UnixMilli(testNow)))
	return &scaled{disk: d, log: l, buf: make([]byte, mib)}
}

// scaleChunk is how much is read or appended between two looks at the clock.
const scaleChunk = 32 * mib

// read reads a chunk.
func (s *scaled) read(t *testing.T) {
	for n := 0; n < scaleChunk; {
		r, err := s.log.Read(s.at, mib, s.log.End(), true)
		must(t, err)
		for _, region := range r.Regions {
			if _, err := region.File.ReadAt(s.buf[:region.Len], region.Pos); err != nil {
				t.Fatal(err)
			}
		}
		n += r.Bytes
		if s.at = r.Next; s.at >= s.log.End() {
			s.at = s.log.Start()
		}
		r.Release()
	}
}

// append appends a chunk.
func (s *scaled) append(t *testing.T) {
	batches := []record.Batch{zeroBatch(t, scaleBatch)}
	for range scaleChunk / scaleBatch {
		if _, err := s.log.Append(batches, Append{Epoch: 1, Now: testNow}); err != nil {
			t.Fatal(err)
		}
	}
}

// lookUp reads single batches here and there.
func (s *scaled) lookUp(t *testing.T) {
	for range 500 {
		s.at = (s.at + 7919*31) % s.log.End()
		r, err := s.log.Read(s.at, 1, s.log.End(), true)
		must(t, err)
		r.Release()
	}
}

// TestScale compares 20 GiB in 20,000 segments with 1 GiB in 1,000: an append and a
// read cost the same. A look-up here and there has to open its files, for fewer stay
// open than there are, and is only told. The whole takes minutes and two gigabytes of
// disk, under SAWLOG_SCALE=1; else it is a twentieth of that. Both logs take turns at
// short pieces of work, and the median of the ratios counts, so that a busy machine
// does not decide.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures, and has one goroutine")
	}
	scale, root := scalingOf(), t.TempDir()
	sparseLog(t, filepath.Join(root, "small"), scale.small*mib, mib)
	sparseLog(t, filepath.Join(root, "large"), scale.large*mib, mib)
	small, large := openScaled(t, filepath.Join(root, "small")), openScaled(t, filepath.Join(root, "large"))
	for _, work := range []struct {
		name string
		do   func(*scaled, *testing.T)
	}{{"read", (*scaled).read}, {"look up", (*scaled).lookUp}, {"append", (*scaled).append}} {
		rounds := scale.rounds // and two more: less than the small log, so that both meet each segment once
		var ratios []float64
		var costs [2][]float64
		for round := range rounds + 2 {
			var spent [2]time.Duration
			for turn := range 2 {
				which := (round + turn) % 2
				s := []*scaled{small, large}[which]
				cpu := cpuTime(t)
				work.do(s, t)
				spent[which] = cpuTime(t) - cpu
			}
			if round >= 2 { // the first ones open files
				ratios = append(ratios, float64(spent[1])/float64(spent[0]))
				costs[0] = append(costs[0], spent[0].Seconds())
				costs[1] = append(costs[1], spent[1].Seconds())
			}
		}
		slices.Sort(ratios)
		slices.Sort(costs[0])
		slices.Sort(costs[1])
		median := ratios[rounds/2]
		t.Logf("%s: large/small %.3f of processor time (quartiles %.3f..%.3f); %.1f and %.1f ms a piece", work.name, median,
			ratios[rounds/4], ratios[rounds*3/4], 1000*costs[0][rounds/2], 1000*costs[1][rounds/2])
		if work.name != "look up" && median > scale.apart {
			t.Errorf("%s: %.3f times", work.name, median)
		}
	}
	must(t, small.disk.Close())
	must(t, large.disk.Close())
}
