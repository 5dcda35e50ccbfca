package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Sawlog runs `sawlog serve` until the test ends.
func Sawlog(t testing.TB, o Options) *Server {
	t.Helper()
	s := sawlog(t, 1, o)
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// sawlog is a server that is yet to be started.
func sawlog(t testing.TB, id int, o Options) *Server {
	t.Helper()
	s := &Server{Name: "sawlog", ID: int32(id), Addr: address(t, o.Port), HTTP: address(t, 0), t: t, env: o.Env}
	room := t.TempDir()
	s.Dir, s.LogFile = o.Dir, filepath.Join(room, "sawlog.log")
	if s.Dir == "" {
		s.Dir = filepath.Join(room, "data")
	}
	file := filepath.Join(room, "sawlog.yaml")
	if err := os.WriteFile(file, settings(o.Topics), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := o.Binary
	if binary == "" {
		binary = Binary(t)
	}
	s.argv = append([]string{binary, "serve", "--config", file, "--data", s.Dir, "--listen", s.Addr, "--http", s.HTTP}, o.Args...)
	return s
}

// settings is a settings file with topic defaults, every value a quoted string.
func settings(topics map[string]string) []byte {
	if len(topics) == 0 {
		return nil
	}
	lines := []string{}
	for name, value := range topics {
		lines = append(lines, fmt.Sprintf("  %s: %q\n", name, value))
	}
	slices.Sort(lines)
	return []byte("topics:\n" + strings.Join(lines, ""))
}

// Binary is the path of the command line, built from the tree the test is of, or
// what SAWLOG_BINARY names: another release, to compare with.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SAWLOG_BINARY"); path != "" {
		return path
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built builds once in a process.
var built = sync.OnceValues(build)

// build puts the binary in place by a rename, so that another test process can
// go on running the one it has.
func build() (string, error) {
	dir, err := project()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", "compat", "sawlog")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	cmd := exec.Command("go", "build", "-o", fresh, "./cmd/sawlog")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of the command line: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
}
