package peer

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Tool is the path of a program of others. A test that lacks it is skipped by
// name, and fails under SAWLOG_TEST_REQUIRE=all.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, name)
	}
	return path
}

// Lacks ends a test for which this machine lacks something.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
		t.Fatalf("this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}

// Java is a command that runs a main class of Kafka's; its log lines go to
// standard error, from warnings on.
func Java(t testing.TB, main string, args ...string) *exec.Cmd {
	t.Helper()
	// Short lives: the quick compiler only, the collector without threads.
	return exec.Command(Tool(t, "java"), append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", logging(t), "-cp", Classpath(t), main,
	}, args...)...)
}

// logging is the flag that makes Kafka's logger quiet.
func logging(t testing.TB) string {
	return "-Dlog4j2.configurationFile=" + filepath.Join(root(t), manifest, "log4j2.properties")
}

// manifest is where the pom and the logger's settings lie.
const manifest = "broker/compat/testdata/java"

// Classpath names the jars of Kafka's broker, tools and clients. They are
// resolved by Maven when the pom isn't the one of last time.
func Classpath(t testing.TB) string {
	t.Helper()
	dir := root(t)
	home := filepath.Join(dir, "bin", "compat", "java")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	// Test processes that run beside each other resolve in turn.
	lock, err := os.OpenFile(filepath.Join(home, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // closing it ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	pom := filepath.Join(dir, manifest, "pom.xml")
	want, err := os.ReadFile(pom)
	if err != nil {
		t.Fatal(err)
	}
	stamp := filepath.Join(home, "pom.xml")
	if have, err := os.ReadFile(stamp); err != nil || !bytes.Equal(have, want) {
		if err := resolve(Tool(t, "mvn"), pom, filepath.Join(home, "lib")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stamp, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	jars, err := filepath.Glob(filepath.Join(home, "lib", "*.jar"))
	if err != nil || len(jars) == 0 {
		t.Fatalf("no jars in %s: %v", home, err)
	}
	return strings.Join(jars, string(os.PathListSeparator))
}

// resolve copies what a pom depends on into a folder.
func resolve(mvn, pom, lib string) error {
	if err := os.RemoveAll(lib); err != nil {
		return err
	}
	cmd := exec.Command(mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", pom, err, out)
	}
	return nil
}
