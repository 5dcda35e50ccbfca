package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// run runs a program that must succeed and returns all it said.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestDpkg installs the package into a root of its own, as an image is built:
// the user is there, a changed conffile is kept, the binary serves by the shipped
// settings, and removing leaves nothing but what somebody may want to keep.
func TestDpkg(t *testing.T) {
	dpkg := peer.Tool(t, "dpkg")
	sysusers := peer.Tool(t, "systemd-sysusers")
	deb, root := made(t, peer.Binary(t)), t.TempDir()
	if list := run(t, nil, peer.Tool(t, "dpkg-deb"), "-c", deb); !strings.Contains(list, "./usr/bin/sawlog") {
		t.Fatalf("dpkg-deb lists\n%s", list)
	}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(args ...string) string {
		return run(t, []string{"PATH=" + os.Getenv("PATH") + ":" + filepath.Dir(sysusers)}, dpkg,
			append([]string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-architecture", "--force-unsafe-io", "--log=/dev/null"}, args...)...)
	}
	apply("-i", deb)
	for file, holds := range map[string]string{"var/lib/dpkg/status": "Status: install ok installed", "etc/passwd": "sawlog:x:", "etc/sawlog/sawlog.yaml": "data: /var/lib/sawlog"} {
		body, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(body), holds) {
			t.Errorf("%s: %v, no %q in it", file, err, holds)
		}
	}
	if out := apply("--verify", "sawlog"); out != "" {
		t.Errorf("dpkg --verify: %s", out)
	}
	servesByShippedSettings(t, root)

	conf := filepath.Join(root, "etc/sawlog/sawlog.yaml")
	if err := os.WriteFile(conf, []byte("rack: mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	apply("--force-confdef", "-i", deb)
	if body, err := os.ReadFile(conf); err != nil || string(body) != "rack: mine\n" {
		t.Errorf("a changed conffile after an upgrade: %q, %v", body, err)
	}
	kept := filepath.Join(root, "var/lib/sawlog/meta.properties")
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := apply("-P", "sawlog"); !strings.Contains(out, "keeps the log") {
		t.Errorf("a purge does not say what it leaves: %s", out)
	}
	for file, there := range map[string]bool{"usr/bin/sawlog": false, "etc/sawlog/sawlog.yaml": false, "var/lib/sawlog/meta.properties": true} {
		if _, err := os.Stat(filepath.Join(root, file)); (err == nil) != there {
			t.Errorf("after a purge: %s: %v", file, err)
		}
	}
}

// servesByShippedSettings starts the installed binary on the installed file;
// only what another server on this machine would take is somewhere else.
func servesByShippedSettings(t *testing.T, root string) {
	t.Helper()
	web := freeAddress(t)
	c := exec.Command(filepath.Join(root, "usr/bin/sawlog"), "serve", "-c", filepath.Join(root, "etc/sawlog/sawlog.yaml"))
	c.Env = []string{"SAWLOG_DATA=" + filepath.Join(t.TempDir(), "data"), "SAWLOG_LISTEN=" + freeAddress(t), "SAWLOG_PEER=" + freeAddress(t), "SAWLOG_HTTP=" + web}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ready := false
	for end := time.Now().Add(20 * time.Second); !ready && time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // another process acts
		if resp, err := http.Get("http://" + web + "/readyz"); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			ready = resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil || !ready {
		t.Errorf("ready %t, ended with %v: %s", ready, err, said.String())
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // it was only tried
	return l.Addr().String()
}

// mostExposed is the exposure systemd-analyze gives the unit at most, of 100.
// What is left: it uses the network, and a Java tool of Hadoop it may start needs
// memory that is written and executed.
const mostExposed = 20

// TestUnit has systemd read the unit and judge it.
func TestUnit(t *testing.T) {
	analyze := peer.Tool(t, "systemd-analyze")
	unit, err := os.ReadFile("../debian/sawlog.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sawlog.service")
	here := strings.Replace(string(unit), "/usr/bin/sawlog", peer.Binary(t), 1)
	if err := os.WriteFile(path, []byte(here), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run(t, nil, analyze, "--man=no", "verify", path); strings.Contains(out, "sawlog.service") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	run(t, nil, analyze, "security", "--offline=true", fmt.Sprintf("--threshold=%d", mostExposed), path)
	for _, line := range []string{"Type=notify", "WatchdogSec=", "TimeoutStopSec=60", "LimitNOFILE=", "KillMode=mixed", "NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=sawlog"} {
		if !strings.Contains(string(unit), line) {
			t.Errorf("the unit has no %s", line)
		}
	}
}
