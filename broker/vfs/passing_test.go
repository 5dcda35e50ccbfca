package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const passingSize = 8 << 20

// passingFile is a file on disk of which nothing is in memory.
func passingFile(t *testing.T) (File, []byte) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789abcde\n"), passingSize/16)
	f, err := OS.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	evict(t, f)
	return f, data
}

func evict(t *testing.T, f File) {
	t.Helper()
	fd, _ := f.Fd()
	if err := unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, f, passingSize); n > 0 {
		message := "the file system of the temporary folder keeps files in memory (%d bytes): set TMPDIR to one on a disk"
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatalf(message, n)
		}
		t.Skipf(message, n)
	}
}

// resident is how many of a file's first bytes are in memory.
func resident(t *testing.T, f File, first uint64) int64 {
	t.Helper()
	fd, _ := f.Fd()
	var got unix.Cachestat_t
	if err := unix.Cachestat(uint(fd), &unix.CachestatRange{Len: first}, &got, 0); err != nil {
		t.Fatalf("cachestat, which Linux has since 6.5: %v", err)
	}
	return int64(got.Cache) * int64(os.Getpagesize())
}

// A passing reader gets every byte and leaves the page cache as it was: what was
// not there isn't there afterwards, and what was there is.
func TestPassing(t *testing.T) {
	f, data := passingFile(t)
	const size = 1 << 20
	all := func() {
		t.Helper()
		buf := make([]byte, 100_000)
		for from := int64(0); from < passingSize; from += size {
			p := NewPassing(Region{File: f, Pos: from, Len: size})
			for pos := from; pos < from+size; pos += int64(len(buf)) {
				want := data[pos:min(pos+int64(len(buf)), from+size)]
				if n, err := p.ReadAt(buf[:len(want)], pos); err != nil || !bytes.Equal(buf[:n], want) {
					t.Fatalf("at %d: %d bytes, %v", pos, n, err)
				}
			}
			p.Done()
		}
	}
	all()
	if left := resident(t, f, passingSize); left > passingSize/8 {
		t.Errorf("%d of %d bytes stay in memory", left, passingSize)
	}
	warm := func() {
		t.Helper()
		if _, err := io.ReadFull(io.NewSectionReader(f, 0, passingSize), make([]byte, passingSize)); err != nil {
			t.Fatal(err)
		}
	}
	evict(t, f)
	warm()
	all()
	if left := resident(t, f, passingSize); left < passingSize {
		t.Errorf("%d bytes were in memory for others, %d are left", passingSize, left)
	}

	// As on a file system without RWF_DONTCACHE, where the read itself fills memory.
	evict(t, f)
	p := NewPassing(Region{File: f, Len: size})
	warm()
	p.Done()
	if left := resident(t, f, size); left > 0 {
		t.Errorf("%d bytes of a region that wasn't in memory stay there", left)
	}
	buf := make([]byte, 100)
	if n, err := NewPassing(Region{File: f, Len: passingSize}).ReadAt(buf, passingSize-40); n != 40 || !errors.Is(err, io.EOF) {
		t.Errorf("over the end: %d bytes, %v", n, err)
	}
}

func TestPassingInMemory(t *testing.T) {
	f, err := NewMem().OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
		t.Fatal(err)
	}
	p := NewPassing(Region{File: f, Pos: 1, Len: 4})
	defer p.Done()
	buf := make([]byte, 4)
	if n, err := p.ReadAt(buf, 1); err != nil || string(buf[:n]) != "ello" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}
