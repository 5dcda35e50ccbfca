package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sawlog/loader"
)

// TestProofNumbers loads integers that fit in nothing common: each is there to
// its last digit, and what is no number is one bad record.
func TestProofNumbers(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.values("numbers", `{"a":327267367867168100000}`, `{"b":9007199254740993}`, `{"c":9223372036854775807}`, `{"d":9223372036854775808}`,
		`{"e":-9223372036854775809}`, `{"f":1e400}`, `{"g":0.1}`, `{"h":1E5}`, `{"i":-0}`, `{"j":-9223372036854775808}`)
	path, root := n.job("numbers", "decode: {value: json}\n")
	if o := n.outcome(0, "run", path); o.Rows != 9 || o.Quarantined != 1 {
		t.Fatalf("%d rows, %d quarantined", o.Rows, o.Quarantined)
	}
	var got [][]string
	duck(t, root, "select max(a)::varchar, max(b)::varchar, max(c)::varchar, max(d)::varchar, max(e)::varchar, max(g)::varchar, max(h)::varchar, typeof(max(h)), max(j)::varchar, count(*)::varchar from ROWS", &got)
	want := `[["327267367867168100000","9007199254740993","9223372036854775807","9223372036854775808","-9223372036854775809","0.1","100000.0","DOUBLE","-9223372036854775808","9"]]`
	if raw, err := json.Marshal(got); err != nil || string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
	if bad := string(n.run("out", "head", "--root", root, "--quarantine")); !strings.Contains(bad, `"offset":5`) {
		t.Errorf("quarantine: %s", bad)
	}
	n.run("verify", "--root", root, "--against-log")
}

// TestProofEmptyAndNull loads fields that are only null or empty, and their
// values an hour later: both hours are read together. Four states of a list stay
// apart.
func TestProofEmptyAndNull(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	const job = "decode: {value: json}\ntime: {field: at, format: rfc3339}\n"
	n.values("empty", `{"at":"2026-10-01T00:00:00Z","items":[]}`, `{"at":"2026-10-01T00:00:01Z","a":1,"c":null}`)
	path, root := n.job("empty", job)
	if o := n.outcome(0, "run", path); o.Rows != 2 || o.Quarantined != 0 {
		t.Fatalf("%+v", o)
	}
	var alone [][]any
	duck(t, root, "select a from ROWS order by _offset", &alone)
	if raw, err := json.Marshal(alone); err != nil || string(raw) != `[[null],[1]]` {
		t.Errorf("the first hour alone: %s", raw)
	}
	n.more("empty", `{"at":"2026-10-01T01:00:00Z","items":[1,2],"c":"x"}`, `{"at":"2026-10-01T01:00:01Z","items":[null],"c":""}`,
		`{"at":"2026-10-01T01:00:02Z","items":null}`, `{"at":"2026-10-01T01:00:03Z","items":[]}`, `{"at":"2026-10-01T01:00:04Z","items":[1,null,2]}`)
	if o := n.outcome(0, "run", path); o.Rows != 5 || o.Quarantined != 0 {
		t.Fatalf("%+v", o)
	}
	var got [][]any
	duck(t, root, "select a, c, items from ROWS order by _offset", &got)
	want := `[[null,null,null],[1,null,null],[null,"x",[1,2]],[null,"",[null]],[null,null,null],[null,null,[]],[null,null,[1,null,2]]]`
	if raw, err := json.Marshal(got); err != nil || string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
	n.run("verify", "--root", root, "--against-log")
}

// TestProofNothingToLoad runs over a topic without records, and over one with bad
// records only: no file without rows, and no failure.
func TestProofNothingToLoad(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "void", "--partitions", "2")
	path, root := n.job("void", "decode: {value: json}\n")
	for range 2 {
		if o := n.outcome(0, "run", path); o.Status != "covered" || o.Files != 0 {
			t.Errorf("of nothing: %+v", o)
		}
	}
	n.more("void", "x", "[1]", "{")
	if out := string(n.run("plan", path, "--scan")); !regexp.MustCompile(`(?m)^quarantined +3$`).MatchString(out) {
		t.Errorf("plan --scan says nothing of bad records:\n%s", out)
	}
	var o loader.Outcome
	out, code, said := n.try("run", path, "-o", "json")
	if err := json.Unmarshal(out, &o); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, said)
	}
	if want := "records in quarantine: 3; their bytes and the reason: sawlog out head --root file://" + root + " --quarantine"; !strings.Contains(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if o.Rows != 0 || o.Quarantined != 3 || o.Files != 1 || len(o.Hours) != 0 {
		t.Errorf("of bad records: %+v", o)
	}
	if o := n.outcome(0, "run", path); o.Status != "covered" {
		t.Errorf("once more: %+v", o)
	}
	if tree := treeOf(t, root); len(tree) != 1 { // each opens by its footer
		t.Errorf("files %v", tree)
	}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() == 0 && info.Mode().IsRegular() {
			t.Errorf("%s is empty: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.run("verify", "--root", root, "--against-log")
}
