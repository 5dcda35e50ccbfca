// Package cmd holds the test that keeps the house in order: who may import
// whom, how long a file may be, and what pure state machines must not touch.
package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms maps each package to the packages of the project it imports, "*" to what
// it likes. A new package is one new row here and one in ARCHITECTURE.md; a door
// that nobody goes through any more is closed.
var rooms = map[string][]string{
	"offsets":           {},
	"broker/vfs":        {},
	"broker/record":     {"offsets"},
	"broker/wire":       {"broker/vfs", "offsets"},
	"broker/log":        {"broker/record", "broker/vfs", "offsets"},
	"broker/replica":    {"broker/log", "broker/record", "broker/vfs", "offsets"},
	"broker/peer":       {"offsets"},
	"broker/controller": {"broker/log", "broker/peer", "broker/record", "broker/vfs", "offsets"},
	"broker/group":      {"broker/record", "offsets"},
	"broker": {
		"broker/controller", "broker/group", "broker/log", "broker/peer", "broker/record", "broker/replica",
		"broker/vfs", "broker/wire", "offsets",
	},
	"broker/chaos":                  {},
	"broker/model":                  {},
	"broker/model/mutants":          {},
	"broker/compat":                 {},
	"broker/compat/bench":           {},
	"broker/compat/peer":            {},
	"broker/brokertest":             {"broker", "broker/vfs", "broker/wire", "offsets"},
	"consumer":                      {"broker/record", "offsets"},
	"consumer/admin":                {"consumer", "offsets"},
	"formats":                       {"formats/avro", "formats/protobuf"},
	"formats/avro":                  {},
	"formats/registry":              {"formats", "formats/protobuf"},
	"formats/registry/registrytest": {}, // for tests
	"formats/protobuf":              {},
	"formats/parquet":               {"formats"},
	"formats/arrow":                 {"formats"},
	"formats/jsonl":                 {"formats"},
	"formats/formatstest":           {"formats"}, // for tests
	"formats/readers":               {},          // tests only
	"loader":                        {"consumer", "formats", "formats/arrow", "formats/jsonl", "formats/parquet", "formats/registry", "loader/sink", "offsets"},
	"loader/sink":                   {},
	"loader/sink/local":             {"broker/vfs", "loader/sink"},
	"loader/sink/hdfs":              {"loader/sink"},
	"loader/sink/hdfs/mini":         {"broker/compat/peer"}, // for tests
	"loader/sink/sinktest":          {"loader/sink"},
	"loader/engine/local":           {"loader"},
	"loader/engine/hadoop":          {"loader", "loader/sink"},
	"loader/engine/hadoop/mini":     {"broker/compat/peer", "loader/sink/hdfs/mini"}, // for tests
	"loader/engine/kubernetes":      {"loader", "loader/sink"},
	"loader/engine/enginetest":      {"broker", "broker/brokertest", "broker/compat/peer", "consumer", "formats", "loader", "loader/sink"}, // for tests
	"jobs":                          {"formats", "formats/protobuf", "formats/registry", "loader", "loader/sink", "offsets"},
	"cmd":                           {},
	"cmd/sawlog":                    {"*"},
	"cmd/sawlog/api":                {"*"},
	"cmd/sawlog/api/apitest":        {}, // for tests
	"cmd/sawlog/console":            {"*"},
	"cmd/sawlog/config":             {"*"},
	"cmd/sawlog/output":             {"*"},
	"cmd/sawlog/demo":               {"*"},
	"cmd/sawlog/systemd":            {},
	"packaging":                     {}, // tests only
	"packaging/deb":                 {},
	"loader/engine/kubernetes/kubetest": {
		"broker/compat/peer", "loader/engine/enginetest", // for tests
	},
}

// soleImporters names who imports a heavy library; tests are free.
var soleImporters = map[string][]string{
	"github.com/apache/arrow/go/v15":                 {"formats/parquet", "formats/arrow"},
	"github.com/hashicorp/raft":                      {"broker/controller"},
	"go.etcd.io/bbolt":                               {"offsets"},
	"github.com/twmb/franz-go/pkg/kgo":               {"consumer", "broker/brokertest", "loader/engine/enginetest", "cmd/sawlog"},
	"github.com/prometheus/client_golang":            {"cmd/sawlog/api"},
	"github.com/spf13/cobra":                         {"cmd/sawlog"},
	"github.com/vbauerster/mpb/v8":                   {"cmd/sawlog"},
	"go.yaml.in/yaml/v4":                             {"jobs", "cmd/sawlog/config", "loader/engine/kubernetes/kubetest"},
	"github.com/adhocore/gronx":                      {"jobs"},
	"github.com/pierrec/lz4/v4":                      {"broker/record"},
	"github.com/colinmarc/hdfs/v2":                   {"loader/sink/hdfs"},
	"github.com/jcmturner/gokrb5/v8":                 {"loader/sink/hdfs"},
	"github.com/twmb/avro":                           {"formats/avro"},
	"github.com/bufbuild/protocompile":               {"formats/protobuf"},
	"github.com/klauspost/compress":                  {"broker/record", "formats/parquet", "formats/jsonl", "cmd/sawlog"},
	"github.com/apache/arrow/go/v15/parquet/pqarrow": {},
}

// impure is what a state*.go must not import: it decides, its shell acts.
var impure = []string{"time", "os", "net", "sync", "math/rand", "math/rand/v2", "log/slog"}

type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "sawlog/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsGoOneWay(t *testing.T) {
	seen := map[string]bool{}
	taken := map[string]bool{} // doors, as "from to"
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "sawlog/")
		seen[name] = true
		allowed, known := rooms[name]
		if !known {
			t.Errorf("package %s has no row in the table: what does it own?", name)
			continue
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, "sawlog/"); ok {
				taken[name+" "+ours] = true
				if !slices.Contains(allowed, ours) && !slices.Contains(allowed, "*") {
					t.Errorf("%s imports %s", name, ours)
				}
				continue
			}
			for library, importers := range soleImporters {
				inLibrary := imp == library || strings.HasPrefix(imp, library+"/")
				if inLibrary && !slices.Contains(importers, name) {
					t.Errorf("%s imports %s, which only %v may", name, imp, importers)
				}
				taken[name+" "+library] = taken[name+" "+library] || inLibrary
			}
		}
	}
	for name := range rooms {
		if !seen[name] {
			t.Errorf("the table has a row for %s, which does not exist", name)
		}
	}
	for name, allowed := range rooms {
		for _, ours := range allowed {
			if ours != "*" && !taken[name+" "+ours] {
				t.Errorf("%s may import %s and does not: close that door", name, ours)
			}
		}
	}
	for library, importers := range soleImporters {
		for _, name := range importers {
			if !taken[name+" "+library] {
				t.Errorf("%s may import %s and does not: close that door", name, library)
			}
		}
	}
}

func TestStateIsPure(t *testing.T) {
	count := 0
	eachGoFile(t, func(path string) {
		base := filepath.Base(path)
		if !strings.HasPrefix(base, "state") || strings.HasSuffix(base, "_test.go") {
			return
		}
		count++
		for _, imp := range importsOf(t, path) {
			if slices.Contains(impure, imp) {
				t.Errorf("%s imports %q: a state decides, its shell acts", path, imp)
			}
		}
	})
	if count == 0 {
		t.Error("no state*.go was found: the rule guards nothing")
	}
}

func TestFileSizes(t *testing.T) {
	eachGoFile(t, func(path string) {
		ceiling := 600
		if strings.HasSuffix(path, "_test.go") {
			ceiling = 800
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(src, []byte{'\n'}); lines > ceiling {
			t.Errorf("%s has %d lines, the ceiling is %d: which second noun is in it?", path, lines, ceiling)
		}
	})
}

func TestNoJunkNames(t *testing.T) {
	junk := []string{"util", "utils", "common", "helper", "helpers", "internal", "pkg", "types", "misc", "base"}
	for _, p := range packages(t) {
		if base := filepath.Base(p.ImportPath); slices.Contains(junk, base) {
			t.Errorf("package %s: the name says nothing", p.ImportPath)
		}
		for _, file := range p.GoFiles {
			if slices.Contains(junk, strings.TrimSuffix(file, ".go")) {
				t.Errorf("%s/%s: the name says nothing", p.ImportPath, file)
			}
		}
	}
}

func eachGoFile(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importsOf(t *testing.T, path string) []string {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	block := false
	lines := bufio.NewScanner(bytes.NewReader(src))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "import (":
			block = true
		case block && line == ")":
			return imports
		case block || strings.HasPrefix(line, "import "):
			if parts := strings.Split(line, `"`); len(parts) == 3 {
				imports = append(imports, parts[1])
			}
		}
	}
	return imports
}
