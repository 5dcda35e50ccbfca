package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sawlog/broker/compat/peer"
	"sawlog/loader/engine/kubernetes/kubetest"
)

func TestMain(m *testing.M) {
	kubetest.Main()
	if len(os.Args) > 1 && os.Args[1] == "task" { // a child of the local engine
		main()
	}
	// Tests wait for servers, clocks and timeouts more than they work: twice as many
	// go on at a time as there are processors, unless -parallel says otherwise.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"sawlog": main})
}

// TestScripts runs the command line as a person would: each script is a
// conversation with a server of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Values[serverKey{}] = &running{}
			env.Values[nodesKey{}] = map[string]*clusterNode{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":  serverCommand,
			"node":    nodeCommand,
			"endnode": endNodeCommand,
			"unready": unreadyCommand,
			"crash":   crashCommand,
			"stop":    stopCommand,
			"flip":    flipCommand,
			"subst":   substCommand,
			"json":    jsonCommand,
			"code":    codeCommand,
		},
	})
}

// running is the server process of a script.
type running struct{ cmd *exec.Cmd }

type serverKey struct{}

// serverCommand starts `sawlog serve`, or starts it again on the same data:
// server [FLAG…]. It sets SAWLOG_BROKERS and SAWLOG_SERVER.
func serverCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("server takes no !")
	}
	listen, web := ts.Getenv("SAWLOG_BROKERS"), strings.TrimPrefix(ts.Getenv("SAWLOG_SERVER"), "http://")
	if listen == "" {
		listen, web = freeAddress(ts), freeAddress(ts)
	}
	data := ts.MkAbs("data")
	cmd := exec.Command(self(ts), append([]string{"serve", "--data", data, "--listen", listen, "--http", web}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"))
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "broker ") || strings.HasPrefix(lines.Text(), "error") {
				ready <- lines.Text()
			}
		}
		close(ready)
	}()
	select {
	case line, ok := <-ready:
		if !ok || !strings.HasPrefix(line, "broker ") {
			ts.Fatalf("the server did not start: %s", line)
		}
	case <-time.After(patience):
		ts.Fatalf("the server did not start within %v", patience)
	}
	ts.Setenv("SAWLOG_BROKERS", listen)
	ts.Setenv("SAWLOG_SERVER", "http://"+web)
	ts.Value(serverKey{}).(*running).cmd = cmd
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
}

// crashCommand ends the server as kill -9 does.
func crashCommand(ts *testscript.TestScript, _ bool, _ []string) {
	_ = end(ts, syscall.SIGKILL) // killed is how it ended
}

// stopCommand ends the server as an operator does; it must end cleanly.
func stopCommand(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(end(ts, syscall.SIGTERM)) }

func end(ts *testscript.TestScript, signal syscall.Signal) error {
	cmd := ts.Value(serverKey{}).(*running).cmd
	ts.Check(cmd.Process.Signal(signal))
	late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		ts.Fatalf("the server did not end within 10 s of the signal")
	}
	return err
}

// flipCommand changes one byte in the middle of the first file a pattern
// matches.
func flipCommand(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("no file matches %s", args[0])
	}
	raw, err := os.ReadFile(found[0])
	ts.Check(err)
	raw[len(raw)/2] ^= 1
	ts.Check(os.WriteFile(found[0], raw, 0o644))
}

// jsonCommand checks a field of the last standard output: json PATH VALUE, the
// path as python's json would print it.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	got, err := jsonPath([]byte(ts.ReadFile("stdout")), args[0])
	ts.Check(err)
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], got)
	}
}

// codeCommand runs sawlog and compares its exit code: code N ARG….
func codeCommand(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(self(ts), args[1:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); err != nil {
		var ok bool
		if exit, ok = err.(*exec.ExitError); !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func self(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if name := filepath.Join(dir, "sawlog"); isExecutable(name) {
			return name
		}
	}
	ts.Fatalf("no sawlog on the script's PATH")
	return ""
}

func isExecutable(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode()&0o111 != 0
}

// freeAddress finds a port that stays free while a server is down.
func freeAddress(ts *testscript.TestScript) string {
	addr, release, err := peer.Hold()
	ts.Check(err)
	ts.Defer(release)
	return addr
}

// substCommand writes the script's folder into files where they say $WORK.
func substCommand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := strings.ReplaceAll(ts.ReadFile(name), "$WORK", ts.Getenv("WORK"))
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// invoke runs the command line in this process.
func invoke(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code = run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}
