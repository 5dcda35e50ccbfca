package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink/local"
)

// TestViewsAreReadWhenLedgersGoOn: a ledger is read again when it has another
// record, when its head is another, and when it is gone; else it is not.
func TestViewsAreReadWhenLedgersGoOn(t *testing.T) {
	root := t.TempDir()
	store, err := local.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	record := func(n int64, text string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(loader.RecordPath(n)))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reads, head := 0, int64(-1)
	var unruled error
	v := &views{}
	look := func(want int, what string) {
		t.Helper()
		view, err := v.of(store, func() (*jobs.View, error) { reads++; return &jobs.View{Head: head, BucketErr: unruled}, nil })
		if err != nil || view.Head != head {
			t.Fatalf("%s: %+v, %v", what, view, err)
		}
		if reads != want {
			t.Errorf("%s: read %d times, want %d", what, reads, want)
		}
	}
	look(1, "empty")
	look(2, "still empty: the first record may be any")
	record(0, "{}")
	head = 0
	unruled = errors.New("the plan is away")
	look(3, "its rule can't be read")
	unruled = nil
	look(4, "its rule can be read")
	look(4, "nothing new")
	record(1, "{}")
	head = 1
	look(5, "another record")
	look(5, "nothing new")
	record(1, `{"another":1}`)
	look(6, "another head")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	head = -1
	look(7, "gone")
	look(8, "still gone")
}
