package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
)

// mirror copies a data set from HDFS to a folder of this machine.
func mirror(t *testing.T, root string) (dir string) {
	t.Helper()
	return mirrorAs(t, root, sink.Access{})
}

func mirrorAs(t *testing.T, root string, access sink.Access) (dir string) {
	t.Helper()
	s, err := hdfs.Open(t.Context(), root, access)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // only read
	dir = t.TempDir()
	var copyAll func(name string) error
	copyAll = func(name string) error {
		entries, err := s.List(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			from := path.Join(name, e.Name)
			if e.Dir {
				err = errors.Join(os.MkdirAll(filepath.Join(dir, from), 0o755), copyAll(from))
			} else {
				var data []byte
				if data, err = s.ReadFile(from); err == nil {
					err = os.WriteFile(filepath.Join(dir, from), data, 0o644)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := copyAll(""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// realEvents loads real events to a local disk and, by the same plan, to HDFS
// while nothing happens to it: the same names hold the same bytes. There the data
// set is verified, listed, rerun, damaged and restored, and a job goes on loading
// into another.
func (h *harmed) realEvents(far string) {
	n, t := h.node, h.node.t
	input := filepath.Join(realData(t), "github", "2021-07-21-few-hours.jsonl.gz")
	n.run("produce", "events", input, "-z", "gzip")
	text := "decode: {value: json}\ntime: {field: created_at, format: rfc3339}\n"
	job, root := n.job("events", text)
	loaded := n.load(job)
	want := treeOf(t, root)
	plan := n.takenPlan(root, "elsewhere")

	if o := n.outcome(output.OK, "run", "--plan", plan, "--root", far); o.Rows != loaded.Rows || o.Status != loader.StatusCommitted {
		t.Fatalf("%s, %d rows, want %d", o.Status, o.Rows, loaded.Rows)
	}
	if err := sameTree(treeOf(t, mirror(t, far)), want); err != nil {
		t.Fatal(err)
	}
	n.clean(far)
	var listed []outFile
	if err := json.Unmarshal(n.run("out", "ls", "--root", far, "-o", "json"), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != len(want) {
		t.Errorf("out ls lists %d files, want %d", len(listed), len(want))
	}
	if rows := n.out("out", "count", "--root", far, "rows"); rows != loaded.Rows {
		t.Errorf("out count counts %d rows, want %d", rows, loaded.Rows)
	}
	n.restored(far, listed[0].Path, int64(len(want)))
	if err := sameTree(treeOf(t, mirror(t, far)), want); err != nil {
		t.Fatal(err)
	}

	other := n.write("far.yaml", fmt.Sprintf("name: far\nsource: {topics: [events]}\noutput: {root: '%s-2'}\n", far)+text)
	if o := n.outcome(output.OK, "run", other); o.Rows != loaded.Rows {
		t.Errorf("the job loaded %d rows, want %d", o.Rows, loaded.Rows)
	}
	if o := n.outcome(output.OK, "run", other); o.Status != loader.StatusCovered {
		t.Errorf("a second run is %s", o.Status)
	}
	n.run("produce", "events", input, "-z", "zstd")
	if o := n.outcome(output.OK, "run", other); o.Rows != loaded.Rows {
		t.Errorf("the job went on with %d rows, want %d", o.Rows, loaded.Rows)
	}
	n.clean(far + "-2")
}

// restored reruns a data set on HDFS, whose files come out the same, takes one
// away, and has the rerun bring it back.
func (n *node) restored(root, name string, files int64) {
	n.t.Helper()
	rerun := func(identical, restored int64) {
		n.t.Helper()
		var r loader.RerunReport
		if err := json.Unmarshal(n.run("rerun", "0", "--root", root, "-o", "json"), &r); err != nil {
			n.t.Fatal(err)
		}
		if r.Identical != identical || r.Restored != restored || r.Changed != 0 {
			n.t.Fatalf("rerun: %d identical, %d restored, %d changed", r.Identical, r.Restored, r.Changed)
		}
	}
	rerun(files, 0)
	s, err := hdfs.Open(n.t.Context(), root, sink.Access{})
	if err == nil {
		err = errors.Join(s.Remove(name), s.Close())
	}
	if err != nil {
		n.t.Fatal(err)
	}
	out, code, said := n.try("verify", "--root", root, "-o", "json")
	if code != output.Mismatch || !strings.Contains(string(out)+said, name) {
		n.t.Fatalf("verify of a lost file: exit code %d: %s%s", code, out, said)
	}
	rerun(files-1, 1)
	n.clean(root)
}
