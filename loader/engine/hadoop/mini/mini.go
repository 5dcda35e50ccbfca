// Package mini starts YARN clusters with their HDFS in one JVM, for tests:
// Apache Hadoop as it comes from Maven, driven by testdata/MiniYarn.java, and
// Hadoop Streaming beside it. Containers are processes of their own.
//
// A cluster comes to harm by commands (Do):
//
//	stop-node PORT       end the NodeManager with this web port, and its containers
//	start-nodes          start all NodeManagers that were stopped
package mini

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
	hdfs "sawlog/loader/sink/hdfs/mini"
)

// Cluster is a running HDFS and YARN, stopped when its test ends.
type Cluster struct {
	*hdfs.Cluster
	ResourceManager string   // URL of its web address
	Streaming       []string // command that runs Hadoop Streaming
}

// where the Java sources and their pom lie.
const sources = "loader/engine/hadoop/mini/testdata"

// Options says what cluster is started.
type Options struct {
	Nodes    int  // NodeManagers
	Kerberos bool // a KDC, and servers that want its tickets; containers run as who runs the test all the same
}

// Start runs a cluster until the test ends. A test on a machine without a JVM or
// Maven is skipped by name, and so is one that is to be short.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	java, err := filepath.EvalSymlinks(peer.Tool(t, "java"))
	if err != nil {
		t.Fatal(err)
	}
	program := hdfs.Program{
		Name: "yarn", Sources: sources, Main: "MiniYarn", Args: []string{"--nodes", strconv.Itoa(o.Nodes)},
		Env: []string{"JAVA_HOME=" + filepath.Dir(filepath.Dir(java))}, // of the containers
	}
	kerberos := ""
	if o.Kerberos {
		kerberos = filepath.Join(t.TempDir(), "kerberos")
		program.Args = append(program.Args, "--kerberos", kerberos)
	}
	c := &Cluster{Cluster: hdfs.Run(t, program)}
	c.Kerberos = kerberos
	t.Cleanup(func() {
		c.Kill()
		// Containers outlive their NodeManager.
		for pids := c.Processes(""); len(pids) > 0; pids = c.Processes("") {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
			time.Sleep(20 * time.Millisecond) // the kernel takes them away
		}
	})
	c.ResourceManager = c.Do("rm")
	script := filepath.Join(c.Dir, "streaming")
	if err := os.WriteFile(script, []byte(c.script()), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Streaming = []string{script}
	return c
}

// script is what stands for `mapred streaming`: a JVM with the configuration of
// the cluster's clients.
func (c *Cluster) script() string {
	site, temp := filepath.Join(c.Dir, "site"), filepath.Join(c.Dir, "tmp")
	var words []string
	for _, word := range c.Java {
		words = append(words, fmt.Sprintf("'%s'", word))
	}
	return fmt.Sprintf("#!/bin/sh\nmkdir -p '%s'\nexec %s $HADOOP_CLIENT_OPTS -Djava.io.tmpdir='%s' -cp '%s:%s' org.apache.hadoop.streaming.HadoopStreaming \"$@\"\n",
		temp, strings.Join(words, " "), temp, site, c.Classpath)
}

// Processes are those of containers whose command line holds a text, without the
// shells that started them.
func (c *Cluster) Processes(text string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*") // of a pattern that is right
	for _, dir := range found {
		cwd, err := os.Readlink(dir + "/cwd")
		if err != nil || !strings.HasPrefix(cwd, c.Dir) {
			continue
		}
		exe, err := os.Readlink(dir + "/exe")
		line, failed := os.ReadFile(dir + "/cmdline")
		if err != nil || failed != nil || text != "" && filepath.Base(exe) == "bash" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if words := strings.ReplaceAll(string(line), "\x00", " "); err == nil && strings.Contains(words, text) {
			pids = append(pids, pid)
		}
	}
	return pids
}
