package peer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// Classpath names the jars of Kafka's broker, tools and clients.
func Classpath(t testing.TB) string { return jars(t, "java", manifest) }

// jars names the jars that the pom in a folder of the project asks for; they are
// kept in bin/compat under the name. They are resolved by Maven when the pom
// isn't the one of last time.
func jars(t testing.TB, name, folder string) string {
	t.Helper()
	dir := root(t)
	home := filepath.Join(dir, "bin", "compat", name)
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
	pom := filepath.Join(dir, folder, "pom.xml")
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
	found, err := filepath.Glob(filepath.Join(home, "lib", "*.jar"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no jars in %s: %v", home, err)
	}
	return strings.Join(found, string(os.PathListSeparator))
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

// javaClasses compiles testdata/java-tools and names its class path.
func javaClasses(t testing.TB) string {
	t.Helper()
	return classes(t, "java-tools", "broker/compat/testdata/java-tools", filepath.Join(manifest, "pom.xml"), Classpath(t))
}

// Classes compiles the Java sources in a folder of the project against the jars
// its pom.xml asks for, and names their class path and the folder.
func Classes(t testing.TB, name, folder string) (classpath, home string) {
	t.Helper()
	return classes(t, name+"-classes", folder, filepath.Join(folder, "pom.xml"), jars(t, name, folder)), filepath.Join(root(t), folder)
}

// classes compiles the sources in a folder. The classes are kept in bin/compat by
// what they were made of.
func classes(t testing.TB, name, folder, pom, jars string) string {
	t.Helper()
	home := root(t)
	sources, err := filepath.Glob(filepath.Join(home, folder, "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no Java sources in %s: %v", folder, err)
	}
	sum := sha256.New()
	for _, name := range append(sources, filepath.Join(home, pom)) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(b), b) // a hash takes everything
	}
	dir := filepath.Join(home, "bin/compat", name, hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err != nil {
		fresh := fmt.Sprintf("%s.%d", dir, os.Getpid())
		cmd := exec.Command(Tool(t, "javac"), append([]string{"-nowarn", "-d", fresh, "-cp", jars}, sources...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("javac: %v\n%s", err, out)
		}
		if err := os.Rename(fresh, dir); err != nil {
			// Another process was quicker; what it made is the same.
			if _, err := os.Stat(dir); err != nil {
				t.Fatal(err)
			}
			_ = os.RemoveAll(fresh) // a copy nobody reads
		}
	}
	return dir + string(os.PathListSeparator) + jars
}

// JavaMain is a command that runs a main class of testdata/java-tools or of
// Kafka's in a process of its own.
func JavaMain(t testing.TB, main string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := Java(t, main, args...)
	for i, arg := range cmd.Args {
		if arg == "-cp" {
			cmd.Args[i+1] = javaClasses(t)
		}
	}
	return cmd
}
