package sink

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A scratch file holds what is written to it, and stands in no folder.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	for name, in := range map[string]string{"a folder": dir, "the system's": ""} {
		t.Setenv("TMPDIR", dir)
		f, err := Scratch(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := f.WriteString("0123456789"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if n, err := f.ReadAt(got, 7); n != 3 || !errors.Is(err, io.EOF) || string(got[:n]) != "789" {
			t.Errorf("%s: read %q, %v", name, got[:n], err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: it holds %v, %v", name, left, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Scratch(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}
