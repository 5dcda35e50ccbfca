package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRealFolders loads page views into a folder for each value of a field, which
// DuckDB reads as a column of its own (Hive's way), equal to the one in the files.
func TestRealFolders(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	const some = 2500
	input := n.write("logs.json", firstLines(t, filepath.Join(realData(t), "kibana-sample", "logs.json.gz"), some))
	n.run("produce", "logs", input, "-z", "snappy")
	path, root := n.job("logs", "decode: {value: json}\ntime: {field: timestamp, format: rfc3339}\npartition_by: {unit: day, fields: [extension, response]}\n")
	o := n.load(path)
	if o.Rows != some || o.Quarantined != 0 {
		t.Fatalf("%d rows, %d quarantined", o.Rows, o.Quarantined)
	}
	files := fmt.Sprintf("read_parquet('%s/*/*/*/*.parquet', hive_partitioning = true)", root)
	theirs := fmt.Sprintf("(select extension, response, count(*) as n from read_json('%s', format = 'newline_delimited') group by all)", input)
	var got [][3]int64
	duck(t, root, fmt.Sprintf(`select (select count(*) from %[1]s where coalesce(extension_2, '') is distinct from coalesce(nullif(extension, '__HIVE_DEFAULT_PARTITION__'), '') or response_2::varchar is distinct from response::varchar),
		(select count(*) from (select nullif(extension_2, '') as e, response_2::int as r, count(*) as n from %[1]s group by all
			except all select nullif(extension, '') as e, response::int as r, sum(n) as n from %[2]s group by all)),
		(select count(*) from %[1]s)`, files, theirs), &got)
	if want := [][3]int64{{0, 0, some}}; !slices.Equal(got, want) {
		t.Errorf("rows in another folder than their value's, groups of other sizes than the input's, rows: %v, want %v", got, want)
	}
	// pyarrow finds the same by a filter on a folder's value.
	script := "import json, sys, pyarrow.dataset as ds\n" +
		"d = ds.dataset(sys.argv[1], format='parquet', partitioning='hive')\n" +
		"t = d.to_table(filter=(ds.field('extension') == 'css') & (ds.field('response') == 404), columns=['extension_2', 'response_2'])\n" +
		"print(json.dumps([d.count_rows(), t.num_rows, sorted(set(t['extension_2'].to_pylist() + [str(r) for r in t['response_2'].to_pylist()]))]))\n"
	out, err := exec.Command("python3", "-c", script, root).Output()
	if want := fmt.Sprintf(`[%d, %d, ["404", "css"]]`, some, theirCount(t, root, input)); err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("pyarrow: %s, %v, want %s", out, err, want)
	}
	n.run("verify", "--root", root, "--against-log")
}

// firstLines are those of a packed file.
func firstLines(t *testing.T, name string, n int) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewScanner(in)
	for lines.Buffer(nil, 1<<20); n > 0 && lines.Scan(); n-- {
		out.Write(append(lines.Bytes(), '\n'))
	}
	if lines.Err() != nil || n > 0 {
		t.Fatalf("%s lacks %d lines, %v", name, n, lines.Err())
	}
	return out.String()
}

// theirCount is how many lines of the input have one value of both fields.
func theirCount(t *testing.T, root, input string) int64 {
	t.Helper()
	var got [][1]int64
	duck(t, root, fmt.Sprintf("select count(*) from read_json('%s', format = 'newline_delimited') where extension = 'css' and response::varchar = '404'", input), &got)
	if got[0][0] == 0 {
		t.Fatal("the input has no such line")
	}
	return got[0][0]
}
