package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// program is a foreign client as a command: its first arguments are write, read
// and suite, as testdata/go/line says.
type program struct {
	name string
	argv []string
}

// room is where what foreign clients need is put: outside the sources.
const room = "../../bin/compat"

// foreign starts the broker that foreign clients are run against: Sawlog, or
// Apache Kafka with SAWLOG_COMPAT_PEER=kafka. The golden files hold for both.
func foreign(t testing.TB, o peer.Options) *peer.Server {
	t.Helper()
	if os.Getenv("SAWLOG_COMPAT_PEER") == "kafka" {
		o.Args = append(slices.Clone(o.Args), noDelay+"=0")
		return peer.Kafka(t, o)
	}
	o.Topics = maps.Clone(o.Topics)
	if o.Topics == nil {
		o.Topics = map[string]string{}
	}
	o.Topics[noDelay] = "0"
	return peer.Sawlog(t, o)
}

// noDelay is 0 here, so that a group's first generation is there at once: 3 s a
// group otherwise.
const noDelay = "group.initial.rebalance.delay.ms"

// run carries out one verb and gives what it printed.
func (p program) run(t testing.TB, input []byte, args ...string) []byte {
	t.Helper()
	out, err := p.try(t, input, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", p.name, strings.Join(args, " "), err)
	}
	return out
}

func (p program) try(t testing.TB, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return execute(ctx, "", nil, input, append(append([]string{}, p.argv...), args...)...)
}

// execute runs a command; an error carries what the command said.
func execute(ctx context.Context, dir string, env []string, input []byte, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		const most = 4000
		text := said.String()
		return out.Bytes(), fmt.Errorf("%w\n%s", err, text[max(0, len(text)-most):])
	}
	return out.Bytes(), nil
}

// goProgram builds a command of the module in testdata/go.
func goProgram(t testing.TB, name string) program {
	t.Helper()
	return program{name, []string{once(t, "go "+name, func() (string, error) {
		path, err := filepath.Abs(filepath.Join(room, "go", name))
		if err != nil {
			return "", err
		}
		return path, buildGo("build", "-o", path, "./"+name)
	})}}
}

// goTests compiles the tests of a package of another module; dir is the folder
// of its sources, where some of them look for files.
func goTests(t testing.TB, pkg string) (path, dir string) {
	t.Helper()
	path = once(t, "go test "+pkg, func() (string, error) {
		path, err := filepath.Abs(filepath.Join(room, "go", filepath.Base(pkg)+".test"))
		if err != nil {
			return "", err
		}
		return path, buildGo("test", "-c", "-o", path, pkg)
	})
	dir = once(t, "go list "+pkg, func() (string, error) {
		out, err := execute(context.Background(), "testdata/go", nil, nil, "go", "list", "-f", "{{.Dir}}", pkg)
		return strings.TrimSpace(string(out)), err
	})
	return path, dir
}

func buildGo(args ...string) error {
	_, err := execute(context.Background(), "testdata/go", []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off"}, nil, append([]string{"go"}, args...)...)
	return err
}

// pythonProgram is a script of testdata/python in an environment that holds
// what requirements.txt names.
func pythonProgram(t testing.TB, name string) program {
	t.Helper()
	python := peer.Tool(t, "python3")
	home := once(t, "python", func() (string, error) {
		home, err := filepath.Abs(filepath.Join(room, "python"))
		if err != nil {
			return "", err
		}
		return home, install(home, []string{"testdata/python/requirements.txt"}, func(ctx context.Context) error {
			if _, err := execute(ctx, "", nil, nil, python, "-m", "venv", "--clear", home); err != nil {
				return err
			}
			_, err := execute(ctx, "", nil, nil, filepath.Join(home, "bin", "pip"), "install", "--quiet", "--only-binary", ":all:", "-r", "testdata/python/requirements.txt")
			return err
		})
	})
	return program{name, []string{filepath.Join(home, "bin", "python"), "-B", filepath.Join("testdata", "python", name+".py")}}
}

// nodeProgram is a script of testdata/node, copied to where npm has put what
// package-lock.json names, since imports are looked up beside the script.
func nodeProgram(t testing.TB, name string) program {
	t.Helper()
	node, npm := peer.Tool(t, "node"), peer.Tool(t, "npm")
	home := once(t, "node", func() (string, error) {
		home, err := filepath.Abs(filepath.Join(room, "node"))
		if err != nil {
			return "", err
		}
		manifests := []string{"testdata/node/package.json", "testdata/node/package-lock.json"}
		err = install(home, manifests, func(ctx context.Context) error {
			for _, from := range manifests {
				if err := duplicate(from, filepath.Join(home, filepath.Base(from))); err != nil {
					return err
				}
			}
			_, err := execute(ctx, "", nil, nil, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", home)
			return err
		})
		if err != nil {
			return "", err
		}
		scripts, err := filepath.Glob("testdata/node/*.mjs")
		for _, from := range scripts {
			err = errors.Join(err, duplicate(from, filepath.Join(home, filepath.Base(from))))
		}
		return home, err
	})
	return program{name, []string{node, filepath.Join(home, name+".mjs")}}
}

// install fills a folder unless the manifests it was last filled from are the
// same.
func install(home string, manifests []string, fill func(context.Context) error) error {
	var now []byte
	for _, m := range manifests {
		b, err := os.ReadFile(m)
		if err != nil {
			return err
		}
		now = append(now, b...)
	}
	mark := filepath.Join(home, "installed")
	if before, err := os.ReadFile(mark); err == nil && bytes.Equal(before, now) {
		return nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := fill(ctx); err != nil {
		return err
	}
	return os.WriteFile(mark, now, 0o600)
}

func duplicate(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// prepared holds what this test process has built or installed, by name.
var prepared sync.Map

// once does work of a name a single time; what can't be done is lacking.
func once(t testing.TB, name string, do func() (string, error)) string {
	t.Helper()
	f, _ := prepared.LoadOrStore(name, sync.OnceValues(do))
	path, err := f.(func() (string, error))()
	if err != nil {
		peer.Lacks(t, fmt.Sprintf("%s: %v", name, err))
	}
	return path
}

// step is what a program saw at one point of its scenario.
type step struct {
	Step string          `json:"step"`
	Got  json.RawMessage `json:"got"`
}

// scenario runs a program's suite and compares every step with the golden file.
// SAWLOG_COMPAT_UPDATE=1 writes the file anew.
func scenario(t *testing.T, p program, golden string, args ...string) {
	t.Helper()
	out, err := p.try(t, nil, append([]string{"suite"}, args...)...)
	got := steps(t, out)
	if err != nil {
		t.Errorf("%s ended after %d steps: %v", p.name, len(got), err)
	}
	if os.Getenv("SAWLOG_COMPAT_UPDATE") != "" {
		if err := os.WriteFile(golden, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	passed, failed := 0, 0
	for i, w := range steps(t, want) {
		switch {
		case i >= len(got):
			failed++
			t.Errorf("%s: step %q was not reached", p.name, w.Step)
		case got[i].Step != w.Step || !bytes.Equal(got[i].Got, w.Got):
			failed++
			t.Errorf("%s: step %q\n got %s\nwant %s of %q", p.name, got[i].Step, got[i].Got, w.Got, w.Step)
		default:
			passed++
		}
	}
	if extra := len(got) - passed - failed; extra > 0 {
		t.Errorf("%s: %d steps more than the golden file has", p.name, extra)
	}
	t.Logf("%s: %d steps as expected, %d not", strings.TrimSuffix(filepath.Base(golden), ".golden"), passed, failed)
}

func steps(t testing.TB, out []byte) []step {
	t.Helper()
	var all []step
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s step
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not a step: %v in\n%s", err, out)
		}
		all = append(all, s)
	}
}
