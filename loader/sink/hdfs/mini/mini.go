// Package mini starts HDFS clusters in one JVM, for tests: the NameNodes and
// DataNodes of Apache Hadoop as they come from Maven, driven by
// testdata/MiniHdfs.java.
//
// A cluster comes to harm by commands (Do), each answered by a line:
//
//	stop-dn N            end the DataNode with this index
//	start-dn             start all DataNodes that were stopped
//	restart-nn           end the NameNode and start it on its files
//	kill-nn, start-nn    the same in two steps
//	failover             make the other of two NameNodes the active one
//	safemode on|off
//	mkdir PATH MODE      a folder, with its permissions in octal
//	ec PATH [POLICY]     a folder that is erasure-coded, XOR-2-1-1024k unless said
//	ez PATH              a folder that is an encryption zone; Conf has to name hadoop.security.key.provider.path
//	quota PATH N         limit the names below a folder
//	space-quota PATH N   limit the bytes below a folder, replicas counted
package mini

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// Options says what cluster is started.
type Options struct {
	DataNodes int      // 1 when zero
	HA        bool     // two NameNodes instead of one
	Kerberos  bool     // a KDC, and services that want its tickets
	Conf      []string // KEY=VALUE of hdfs-site.xml and core-site.xml
	Java      []string // flags of the JVM beside the usual ones
}

// Cluster is a running HDFS, stopped when its test ends.
type Cluster struct {
	NameNodes []string // HOST:PORT
	Dir       string   // all its files
	Kerberos  string   // folder of krb5.conf, client.keytab (principal sawlog) and hdfs.keytab; empty without
	LogFile   string   // what it complained of
	Java      []string // the JVM and its flags, but for the class path
	Classpath string

	t       testing.TB
	process *peer.Process
	mu      sync.Mutex // one command at a time
	in      io.WriteCloser
	out     *bufio.Reader
}

// where the Java source and its pom lie.
const sources = "loader/sink/hdfs/mini/testdata"

// patience is how long a cluster may take to start or to do a command: a JVM
// that gets a tenth of a core needs minutes.
const patience = 8 * time.Minute

// Start runs a cluster until the test ends. A test on a machine without a JVM
// or Maven is skipped by name, and so is one that is to be short.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	args := []string{"--datanodes", strconv.Itoa(max(1, o.DataNodes))}
	if o.HA {
		args = append(args, "--ha")
	}
	kerberos := ""
	if o.Kerberos {
		kerberos = filepath.Join(t.TempDir(), "kerberos")
		args = append(args, "--kerberos", kerberos)
	}
	for _, kv := range o.Conf {
		args = append(args, "--conf", kv)
	}
	c := Run(t, Program{Name: "hdfs", Sources: sources, Main: "MiniHdfs", Java: o.Java, Args: args})
	c.Kerberos = kerberos
	return c
}

// Program is a Java main that speaks as MiniHdfs.java does: READY and the
// addresses of NameNodes, then an answer for each command.
type Program struct {
	Name    string   // what its jars and classes are kept under
	Sources string   // folder of the project: Java, pom.xml, log4j.properties
	Main    string   // its class, which takes --dir DIR for all its files
	Java    []string // flags of the JVM beside the usual ones
	Args    []string
	Env     []string // beside that of the test
}

// Run starts a cluster by a program of its own.
func Run(t testing.TB, p Program) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	java := peer.Tool(t, "java")
	classes, home := peer.Classes(t, p.Name, p.Sources)
	dir := t.TempDir()
	c := &Cluster{
		Dir: filepath.Join(dir, "dfs"), LogFile: filepath.Join(dir, p.Name+".log"), t: t,
		Java: slices.Concat([]string{java}, flags(home), p.Java), Classpath: classes,
	}
	c.launch(slices.Concat(c.Java, []string{"-cp", classes, p.Main, "--dir", c.Dir}, p.Args), p.Env)
	ready := c.line()
	addrs, ok := strings.CutPrefix(ready, "READY ")
	if !ok {
		t.Fatalf("the cluster did not start: %q\n%s", ready, c.Complaints())
	}
	c.NameNodes = strings.Split(addrs, ",")
	return c
}

// flags are those of the JVM: what Hadoop's own launcher opens on Java 17 and
// later, and little memory.
func flags(home string) []string {
	list := []string{
		"-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+IgnoreUnrecognizedVMOptions",
		"-Dlog4j.configuration=file:" + filepath.Join(home, "log4j.properties"), "-Djava.net.preferIPv4Stack=true",
		"--enable-native-access=ALL-UNNAMED", "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
		"--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
	}
	for _, name := range []string{
		"java.io", "java.lang", "java.lang.reflect", "java.math", "java.net", "java.text", "java.util", "java.util.concurrent",
		"java.util.zip", "sun.security.util", "sun.security.x509",
	} {
		list = append(list, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	return list
}

// launch starts the JVM with pipes to and from it; it dies with the test.
func (c *Cluster) launch(argv, env []string) {
	c.t.Helper()
	pipes := func(cmd *exec.Cmd) (err error) {
		cmd.Stdout = nil // the log takes standard error only
		if c.in, err = cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		c.out = bufio.NewReader(out)
		return cmd.Start()
	}
	process, err := peer.Launch{Argv: argv, Env: env, LogFile: c.LogFile, How: pipes}.Start()
	if err != nil {
		c.t.Fatal(err)
	}
	c.process = process
	c.t.Cleanup(process.Kill) // nothing of it is used again
}

// line reads the next answer; a cluster that gives none is killed.
func (c *Cluster) line() string {
	late := time.AfterFunc(patience, c.process.Kill)
	defer late.Stop()
	text, err := c.out.ReadString('\n')
	if err != nil {
		return "no answer: " + err.Error()
	}
	return strings.TrimSpace(text)
}

// Do carries out a command and returns what it answered.
func (c *Cluster) Do(format string, args ...any) string {
	c.t.Helper()
	answer, err := c.Try(format, args...)
	if err != nil {
		c.t.Fatalf("%v\n%s", err, c.Complaints())
	}
	return answer
}

// Try carries out a command that may be refused. It may be called on any
// goroutine.
func (c *Cluster) Try(format string, args ...any) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	command := fmt.Sprintf(format, args...)
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	answer, ok := strings.CutPrefix(c.line(), "OK ")
	if !ok {
		return "", fmt.Errorf("%s: %s", command, answer)
	}
	return answer, nil
}

// Freeze stops the JVM where it is until Thaw: servers that take connections
// and don't answer.
func (c *Cluster) Freeze() { c.signal(syscall.SIGSTOP) }

// Kill ends the JVM at once, as the end of the test does.
func (c *Cluster) Kill() { c.process.Kill() }

// Thaw lets the JVM go on.
func (c *Cluster) Thaw() { c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s os.Signal) {
	c.t.Helper()
	if err := c.process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// Complaints are the last lines of the cluster's log.
func (c *Cluster) Complaints() string {
	text, err := os.ReadFile(c.LogFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	const most = 4000
	return string(text[max(0, len(text)-most):])
}

// URI is that of a folder, by the address of the first NameNode.
func (c *Cluster) URI(path string) string { return "hdfs://" + c.NameNodes[0] + path }
