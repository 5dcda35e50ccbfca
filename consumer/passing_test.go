package consumer

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// A load that reads a log from its beginning leaves it out of the page cache, and
// leaves in it what others had brought there.
func TestLoadsLeaveThePageCacheAlone(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
	const records, size = 3000, 10_000
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(10),
		kgo.DefaultProduceTopic("old"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	value := strings.Repeat("x", size)
	for range records {
		cl.Produce(t.Context(), kgo.StringRecord(value), nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "old-*", "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	each := func(do func(f *os.File)) {
		for _, name := range segments {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			do(f)
			_ = f.Close()
		}
	}
	resident := func() (bytes int64) {
		each(func(f *os.File) {
			var in unix.Cachestat_t
			if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: 1 << 40}, &in, 0); err != nil {
				t.Fatalf("cachestat, which Linux has since 6.5: %v", err)
			}
			bytes += int64(in.Cache) * int64(os.Getpagesize())
		})
		return bytes
	}
	load := func() {
		t.Helper()
		c, err := Dial(t.Context(), Config{Brokers: []string{b.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		topics, _, err := Describe(t.Context(), c, []string{"old"}, "")
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(c, offsets.TopicPartition{Topic: "old"}, topics[0].ID, offsets.Range{End: records}, Options{})
		defer r.Close()
		for range records {
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Next(t.Context()); err != io.EOF {
			t.Fatalf("after the last record: %v", err)
		}
	}

	each(func(f *os.File) {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
	})
	if n := resident(); n > records*size/10 {
		message := "the file system of the temporary folder keeps files in memory (%d bytes): set TMPDIR to one on a disk"
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatalf(message, n)
		}
		t.Skipf(message, n)
	}
	load()
	if left := resident(); left > records*size/4 {
		t.Errorf("%d of %d bytes stay in the page cache", left, records*size)
	}
	if m := b.Metrics(); m.PassingBytes < records*size || m.SendfileBytes > records*size/10 {
		t.Errorf("%d bytes past the page cache, %d by sendfile", m.PassingBytes, m.SendfileBytes)
	}
	each(func(f *os.File) {
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Fatal(err)
		}
	})
	before := resident()
	load()
	if left := resident(); left < before || before < records*size {
		t.Errorf("%d bytes were in the page cache, %d are left", before, left)
	}
}
