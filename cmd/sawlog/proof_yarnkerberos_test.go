package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	hadoop "sawlog/loader/engine/hadoop/mini"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
	"sawlog/loader/sink/hdfs/mini"
)

// TestProofYARNKerberos loads by tasks on a YARN cluster that wants tickets, as
// its HDFS and its web servers do. Nobody has run kinit, and no node has a keytab:
// the driver logs in, and so does the command that submits; the keys go along with
// the application, and tasks fetch tickets by them, several in the time of one
// task. What is loaded is, byte for byte, what this machine's own tasks make. The
// keys are nowhere but in the credentials of containers, and gone with them.
func TestProofYARNKerberos(t *testing.T) {
	input := filepath.Join(realData(t), "github", "2021-07-21-few-hours.jsonl.gz")
	c := hadoop.Start(t, hadoop.Options{Nodes: 2, Kerberos: true})
	c.Site(t, "authentication", 30*time.Second)
	resp, err := http.Get(c.ResourceManager + "/ws/v1/cluster/info")
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%s without a ticket: %s", c.ResourceManager, resp.Status)
	}
	n := startNode(t)
	y := startYARN(n, c)
	n.run("topic", "create", "events", "--partitions", "3")
	for p := range 3 {
		n.run("produce", "events", input, "--partition", strconv.Itoa(p))
	}
	root := y.URI("/warehouse/events")
	job := func(name, keytab, more string) string {
		by := fmt.Sprintf(", hdfs: {keytab: '%s', principal: '%s'}", keytab, mini.Principal)
		return n.write(name+".yaml", y.text("events", root, "128KiB", by, more))
	}
	const send = "    send_keytab: true\n"
	n.refused(output.Auth, []string{"old.keytab", "the keys are not those the KDC has"}, "run", job("old", c.OldKeytab(t), send))
	// Only this test moves it, so only the driver finds it.
	keytab := filepath.Join(t.TempDir(), "load.keytab")
	if err := os.Rename(c.Keytab(), keytab); err != nil {
		t.Fatal(err)
	}
	path := job("sent", keytab, send)
	if text := string(n.run("doctor", "hadoop", path)); !strings.Contains(text, "go along with each application") {
		t.Errorf("the doctor: %s", text)
	}

	access := sink.Access{Keytab: keytab, Principal: mini.Principal}
	who, err := hdfs.Identify(root, access)
	if err != nil {
		t.Fatal(err)
	}
	_, secrets, err := who.Pack()
	if err != nil {
		t.Fatal(err)
	}
	keys := []byte(secrets["sawlog.keytab"])
	y.freeze()
	run := n.spawn(nil, "run", path, "-v", "-o", "json")
	n.eventually("every split is carried out twice at a time", yarnPatience, func() bool { return len(y.Processes(onTask)) == 6 })
	held := holders(t, c.Dir, keys)
	if len(held) == 0 {
		t.Error("no container holds the keys: whoever looks for them is blind")
	}
	for _, name := range held {
		if !strings.HasSuffix(name, "tokens") || !keptFromOthers(c.Dir, name) {
			t.Errorf("%s holds the keys for all to read", name)
		}
	}
	for _, pid := range y.Processes("") {
		for _, of := range []string{"cmdline", "environ"} {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, of)); err == nil && bytes.Contains(text, keys) {
				t.Errorf("the %s of a container shows the keys", of)
			}
		}
	}
	y.thaw()
	if code := run.wait(yarnPatience); code != output.OK {
		t.Fatalf("exit code %d: %s\n%s", code, run.said.String(), c.Complaints())
	}
	var o loader.Outcome
	if err := json.Unmarshal(run.out.Bytes(), &o); err != nil || o.Status != loader.StatusCommitted || o.Rows != 3*800 {
		t.Fatalf("%s, %d rows, %v", o.Status, o.Rows, err)
	}
	n.eventually("the keys are gone with the containers", yarnPatience, func() bool { return len(holders(t, c.Dir, keys)) == 0 })
	if bytes.Contains(run.said.Bytes(), keys) || bytes.Contains(run.out.Bytes(), keys) {
		t.Error("the driver tells the keys")
	}
	n.undisturbed(mirrorAs(t, root, access), filepath.Join(n.dir, "local"))
	n.run("verify", "--root", root, "--hdfs-keytab", keytab, "--hdfs-principal", mini.Principal)
}

// holders are the files below a folder that hold a text.
func holders(t *testing.T, dir string, text []byte) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what comes and goes meanwhile
		}
		at, err := d.Info()
		if err != nil || at.Size() > 16<<20 { // a binary
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, text) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keptFromOthers tells that a file, or a folder on the way to it from dir, keeps out who
// is neither its owner nor of its group, as Hadoop keeps the tokens of containers.
func keptFromOthers(dir, path string) bool {
	for ; path != dir; path = filepath.Dir(path) {
		if at, err := os.Stat(path); err == nil && at.Mode().Perm()&0o005 == 0 {
			return true
		}
	}
	return false
}
