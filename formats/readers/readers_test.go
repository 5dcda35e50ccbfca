package readers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sawlog/broker/compat/peer"
	"sawlog/formats"
	"sawlog/formats/arrow"
	"sawlog/formats/jsonl"
	"sawlog/formats/parquet"
)

// The form in which readers print values, and tests want them:
//
//	bool, null         themselves
//	int32, int64       a number
//	date               days since 1970-01-01, a number
//	timestamp          nanoseconds since the epoch, a string
//	decimal            the unscaled number, a string
//	float, double      a string
//	string, json       a string
//	bytes, uuid        a string: base64, hex
//	list               an array
//	map                an array of pairs
//	struct             an object

// command is a foreign reader: pyarrow, duckdb or parquet-java; of lines it is
// lines-by-python or lines-by-duckdb.
func command(t *testing.T, reader, verb string, args ...string) *exec.Cmd {
	t.Helper()
	if reader == "parquet-java" {
		java := peer.Tool(t, "java")
		classes, _ := peer.Classes(t, "readers", "formats/readers/testdata")
		return exec.Command(java, append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", classes, "Parquet", verb}, args...)...)
	}
	python := peer.Tool(t, "python3")
	if pythonLacks() != nil {
		peer.Lacks(t, "python3 with duckdb and pyarrow")
	}
	return exec.Command(python, append([]string{filepath.Join("testdata", "read.py"), verb, reader}, args...)...)
}

// pythonLacks says why what Python needs can't be loaded; loading takes a second.
var pythonLacks = sync.OnceValue(func() error {
	return exec.Command("python3", "-c", "import duckdb, pyarrow").Run()
})

// output runs a reader and gives what it printed, line by line.
func output(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// file is a written file and the rows that belong in it.
type file struct {
	name, path string
	schema     *formats.Schema
	rows       [][]any // a value for each column
}

// writer is any of the three.
type writer interface {
	Write(*formats.Columns) error
	Close() error
}

// format says how to write a file.
type format struct {
	suffix  string
	parquet parquet.Options
	arrow   arrow.Options
	jsonl   jsonl.Options
}

func (f *format) open(w io.Writer, s *formats.Schema) (writer, error) {
	switch {
	case strings.HasSuffix(f.suffix, ".parquet"):
		return parquet.NewWriter(w, s, f.parquet)
	case strings.HasSuffix(f.suffix, ".arrow"):
		return arrow.NewWriter(w, s, f.arrow)
	}
	return jsonl.NewWriter(w, s, f.jsonl)
}

// write decodes records and writes them as a file, in batches of some rows, which
// may be changed before. Readers of lines find their schema beside them.
func write(t *testing.T, dir string, f format, s *formats.Schema, records []string, batch int, change ...func(*formats.Columns)) string {
	t.Helper()
	o := formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}, Zone: "UTC"}}
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, f.suffix)
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.open(to, s)
	if err != nil {
		t.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i, record := range records {
		if _, err := d.Append(c, &formats.Message{Topic: "t", Offset: int64(i), Timestamp: 1, Value: []byte(record)}); err != nil {
			t.Fatalf("%.300s: %v", record, err)
		}
		if c.Rows() == batch || i == len(records)-1 {
			for _, fn := range change {
				fn(c)
			}
			if err := w.Write(c); err != nil {
				t.Fatal(err)
			}
			c.Reset()
		}
	}
	if err := errors.Join(w.Close(), to.Close()); err != nil {
		t.Fatal(err)
	}
	schema, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".schema", schema, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// compare has a foreign reader read files and compares every value.
func compare(t *testing.T, reader string, files []file) {
	t.Helper()
	args := make([]string, len(files))
	for i := range files {
		args[i] = files[i].path
	}
	lines := output(t, command(t, reader, "rows", args...))
	for i := range files {
		f := &files[i]
		if len(lines) == 0 {
			t.Fatalf("%s: %s: nothing read", reader, f.name)
		}
		lines = lines[1:] // the schema
		n := 0
		for ; len(lines) > 0 && lines[0] != "end"; n++ {
			if n < len(f.rows) {
				sameRow(t, reader, f, n, lines[0])
			}
			lines = lines[1:]
		}
		if n != len(f.rows) {
			t.Errorf("%s: %s: %d rows, want %d", reader, f.name, n, len(f.rows))
		}
		if len(lines) > 0 {
			lines = lines[1:]
		}
	}
}

func sameRow(t *testing.T, reader string, f *file, n int, line string) {
	t.Helper()
	d := json.NewDecoder(bufio.NewReader(strings.NewReader(line)))
	d.UseNumber()
	var row []any
	if err := d.Decode(&row); err != nil {
		t.Fatalf("%s: %s row %d: %v in %.300s", reader, f.name, n, err, line)
	}
	if len(row) != len(f.schema.Fields) {
		t.Fatalf("%s: %s row %d: %d columns, want %d", reader, f.name, n, len(row), len(f.schema.Fields))
	}
	for i := range row {
		field := &f.schema.Fields[i]
		got, want := normal(reader, field.Type, row[i]), normal(reader, field.Type, f.rows[n][i])
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %s row %d, column %q %s:\n%.600v\nwant\n%.600v", reader, f.name, n, field.Name, field.Type, got, want)
		}
	}
}

// normal makes values of one type comparable.
func normal(reader string, t *formats.Type, v any) any {
	if v == nil {
		return nil
	}
	switch t.Kind {
	case formats.Float, formats.Double:
		bits := 64
		if t.Kind == formats.Float {
			bits = 32
		}
		x, err := strconv.ParseFloat(v.(string), bits)
		if err != nil {
			return err
		}
		if x == 0 && reader == "lines-by-duckdb" {
			x = 0 // it reads the number -0 as a whole one, which has no sign
		}
		return strconv.FormatFloat(x, 'x', -1, bits)
	case formats.UUID:
		return strings.ReplaceAll(v.(string), "-", "")
	case formats.Timestamp:
		// DuckDB has one type of time with a zone, in microseconds.
		if text := v.(string); strings.HasSuffix(reader, "duckdb") && t.Unit == formats.Nanos && !t.Local {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			return n - (n%1000+1000)%1000
		}
	case formats.JSON:
		// In lines it is JSON itself, which who reads it may print otherwise.
		var x any
		if strings.HasPrefix(reader, "lines-") && json.Unmarshal([]byte(v.(string)), &x) == nil {
			return x
		}
	case formats.Decimal:
		// DuckDB reads a number with a point as a double first.
		if reader == "lines-by-duckdb" && t.Precision > 15 && t.Scale > 0 {
			x, _ := new(big.Float).SetString(v.(string))
			f, _ := x.Float64()
			return fmt.Sprintf("%.14e", f)
		}
	case formats.List:
		out := []any{}
		for _, x := range v.([]any) {
			out = append(out, normal(reader, t.Elem, x))
		}
		return out
	case formats.Map:
		out := []any{}
		for _, entry := range v.([]any) {
			pair := entry.([]any)
			out = append(out, []any{pair[0], normal(reader, t.Elem, pair[1])})
		}
		return out
	case formats.Struct:
		out := map[string]any{}
		for name, x := range v.(map[string]any) {
			for i := range t.Fields {
				if t.Fields[i].Name == name {
					out[name] = normal(reader, t.Fields[i].Type, x)
				}
			}
		}
		if len(out) != len(t.Fields) {
			return fmt.Errorf("members of %v", v)
		}
		return out
	}
	return v
}
