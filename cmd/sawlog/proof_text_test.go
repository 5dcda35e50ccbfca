package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// TestRealAccessLog loads an access log by its pattern, with declared types, and
// compares every row with what DuckDB's own regular expressions make of the file.
// One line lacks its last quote and is kept aside.
func TestRealAccessLog(t *testing.T) {
	t.Parallel()
	input := filepath.Join(realData(t), "weblogs", "apache_logs.gz")
	needPython(t)
	n := startNode(t)
	n.run("produce", "access", input, "-z", "zstd")
	path, root := n.job("access", `decode: {value: text, pattern: combined}
schema:
  - {name: host, type: string}
  - {name: ts, type: timestamp_ms, from: [time]}
  - {name: method, type: string}
  - {name: path, type: string}
  - {name: status, type: int32}
  - {name: bytes, type: int64}
  - {name: referer, type: string}
  - {name: agent, type: string}
time: {field: time, format: '%d/%b/%Y:%H:%M:%S %z'}
`)
	o := n.load(path)
	if o.Rows != 9_999 || o.Quarantined != 1 || len(o.Hours) != 84 {
		t.Fatalf("%d rows, %d quarantined, %d hours", o.Rows, o.Quarantined, len(o.Hours))
	}
	const groups = `^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+) [^"]*" (\d+) (\S+) "([^"]*)" "([^"]*)"$`
	names := "['host', 'ts', 'method', 'path', 'status', 'bytes', 'referer', 'agent']"
	theirs := fmt.Sprintf(`select r.host, strptime(r.ts, '%%d/%%b/%%Y:%%H:%%M:%%S %%z')::timestamptz as ts, r.method, r.path, r.status::int as status,
		nullif(r.bytes, '-')::bigint as bytes, nullif(r.referer, '-') as referer, nullif(r.agent, '-') as agent
		from (select regexp_extract(line, '%s', %s) as r from read_csv('%s', columns = {'line': 'VARCHAR'}, delim = '\t', quote = '', escape = '', header = false) where regexp_matches(line, '%s'))`,
		groups, names, input, groups)
	ours := fmt.Sprintf("select host, ts, method, path, status, bytes, referer, agent from read_parquet('%s/*/*/*.parquet')", root)
	var got [][3]int64
	duck(t, root, fmt.Sprintf("select (select count(*) from (%[1]s)), (select count(*) from (%[1]s except all %[2]s)), (select count(*) from (%[2]s except all %[1]s))", ours, theirs), &got)
	if want := [][3]int64{{9_999, 0, 0}}; !slices.Equal(got, want) {
		t.Errorf("rows, ours that are not theirs, theirs that are not ours: %v, want %v", got, want)
	}
	n.again(root, 85)
}
