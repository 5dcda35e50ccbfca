package parquet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"sawlog/formats"
)

// readers is the process of testdata/read.py that all tests ask: what it needs takes
// a second to load. It ends with this one.
var readers = sync.OnceValues(func() (*foreignReaders, error) {
	cmd := exec.Command("python3", filepath.Join("testdata", "read.py"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &foreignReaders{in, bufio.NewReader(out)}, cmd.Start()
})

type foreignReaders struct {
	in  io.Writer
	out *bufio.Reader
}

// ask asks a question and gives the answer, a line each.
func (r *foreignReaders) ask(args []string) ([]byte, error) {
	question, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if _, err := r.in.Write(append(question, '\n')); err != nil {
		return nil, err
	}
	return r.out.ReadBytes('\n')
}

// foreign has a foreign reader read a file.
func foreign(t *testing.T, out any, args ...string) {
	t.Helper()
	r, err := readers()
	if err != nil {
		missing(t, "python3 with duckdb and pyarrow", err)
	}
	text, err := r.ask(args)
	if err != nil {
		if absent := exec.Command("python3", "-c", "import duckdb, pyarrow.parquet").Run(); absent != nil {
			missing(t, "python3 with duckdb and pyarrow", absent)
		}
		t.Fatalf("%s: %v", args, err)
	}
	var failed struct {
		Error string `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(text, &failed), json.Unmarshal(text, out)); err != nil || failed.Error != "" {
		t.Fatalf("%s: %v\n%s", args, err, failed.Error)
	}
}

// missing skips a test that lacks something, loudly, or fails it where all
// must run.
func missing(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
		t.Fatalf("%s is missing: %v", what, err)
	}
	t.Skipf("skipped: %s is missing: %v", what, err)
}

// foreignFile is what read.py prints.
type foreignFile struct {
	Rows       []map[string]any  `json:"rows"`
	Schema     map[string]string `json:"schema"`
	Stats      [][]any           `json:"stats"`
	GroupBytes [][]int64         `json:"group_bytes"`
}

// foreignCounts is what read.py prints where rows are only counted.
type foreignCounts struct {
	Rows struct {
		Counts []int `json:"counts"`
	} `json:"rows"`
}

// decode decodes JSON values into new columns.
func decode(t *testing.T, s *formats.Schema, o formats.Options, values ...string) *formats.Columns {
	t.Helper()
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i, v := range values {
		m := formats.Message{Topic: "t", Partition: 1, Offset: int64(i), Timestamp: 1000, Value: []byte(v)}
		if _, err := d.Append(c, &m); err != nil {
			t.Fatalf("value %d: %v", i, err)
		}
	}
	return c
}

// writeFile writes batches as a file.
func writeFile(t *testing.T, s *formats.Schema, o Options, batches ...*formats.Columns) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, s, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range batches {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// eachProfile runs a test under every writer profile.
func eachProfile(t *testing.T, test func(t *testing.T, profile int)) {
	t.Helper()
	for profile := 1; profile <= Profile; profile++ {
		t.Run(fmt.Sprintf("profile %d", profile), func(t *testing.T) { test(t, profile) })
	}
}

// recordTime is the options of JSON whose time is the record's own.
func recordTime() formats.Options {
	return formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}, Zone: "UTC"}}
}

func createFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // closed for reading already
	return f
}
