package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// bound is a memory cgroup: what the processes in it may have, their page cache
// included.
type bound struct{ dir string }

// newBound makes one that lasts as long as the test; nil where this machine has
// none that may be made.
func newBound(t testing.TB, bytes int64) *bound {
	t.Helper()
	const root = "/sys/fs/cgroup"
	// Where memory is a controller of version 2, groups below the root have it
	// once this is written; it may be there already, or not be ours to write.
	_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0o644)
	for _, at := range []struct{ root, limit string }{
		{root, "memory.max"},
		{filepath.Join(root, "memory"), "memory.limit_in_bytes"},
	} {
		dir := filepath.Join(at.root, "sawlog-bench-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // its processes have ended: their cleanups run before
		limit := filepath.Join(dir, at.limit)
		if _, err := os.Stat(limit); err != nil {
			continue // a folder, not a group
		}
		if err := os.WriteFile(limit, strconv.AppendInt(nil, bytes, 10), 0o644); err != nil {
			continue
		}
		return &bound{dir}
	}
	return nil
}

// take puts a process in.
func (b *bound) take(t testing.TB, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0o644); err != nil {
		t.Fatal(err)
	}
}
