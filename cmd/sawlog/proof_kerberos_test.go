package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/sink/hdfs/mini"
)

// TestProofKerberos loads into an HDFS that wants tickets, from the command line
// and on a server, which tells until when they last; and with a keytab of before
// the password was changed, which ends with code 5 and is told before the next run.
func TestProofKerberos(t *testing.T) {
	c := mini.Start(t, mini.Options{Kerberos: true, Conf: []string{"dfs.data.transfer.protection=authentication"}})
	c.Site(t, "authentication", 20*time.Second)
	c.Do("mkdir /warehouse 777")
	n := startNode(t)
	n.run("topic", "create", "views", "--partitions", "1")
	n.send(byHand("zstd"), wide("views", 0, 3000, 4)...)
	job := func(name, root, access string) string {
		return n.write(name+".yaml", fmt.Sprintf("name: %s\nsource: {topics: [views]}\noutput: {root: '%s', merge_partitions: never%s}\n", name, root, access)+
			"decode: {value: json}\ntime: {field: at, format: rfc3339}\n")
	}
	by := func(keytab string) string {
		return fmt.Sprintf(", hdfs: {keytab: '%s', principal: '%s'}", keytab, mini.Principal)
	}
	dir := filepath.Join(n.dir, "local")
	local := n.outcome(output.OK, "run", job("local", "file://"+dir, ""))

	root := c.URI("/warehouse/views")
	far := job("far", root, by(c.Keytab()))
	if o := n.outcome(output.OK, "run", far); o.Rows != local.Rows || o.Status != loader.StatusCommitted {
		t.Errorf("%s, %d rows, want %d", o.Status, o.Rows, local.Rows)
	}
	// What has no job of its own is reached as a job file says, or flags do.
	n.run("rerun", "0", "--job", far)
	n.run("replay", "views", "--range", "views/0=0..100", "--to", c.URI("/warehouse/again"), "--time", "at", "--job", far)
	login := []string{"--hdfs-keytab", c.Keytab(), "--hdfs-principal", mini.Principal}
	n.run(append([]string{"verify", "--root", root}, login...)...)
	n.run(append([]string{"rerun", "0", "--root", c.URI("/warehouse/again")}, login...)...)
	plan := n.write("plan.json", string(n.run("plan", job("planned", c.URI("/warehouse/planned"), by(c.Keytab())), "-o", "json")))
	if o := n.outcome(output.OK, "run", "--plan", plan); o.Rows != local.Rows || o.Status != loader.StatusCommitted {
		t.Errorf("a plan: %s, %d rows, want %d", o.Status, o.Rows, local.Rows)
	}
	n.run("job", "apply", far)
	n.send(byHand("zstd"), wide("views", 0, 1000, 4)...)
	if o := n.outcome(output.OK, "run", "far", "--wait"); o.Rows == 0 || o.Status != loader.StatusCommitted {
		t.Errorf("on the server: %s, %d rows", o.Status, o.Rows)
	}
	n.eventually("the server has tried the login", 30*time.Second, func() bool {
		return strings.Contains(n.get("/readyz?verbose"), mini.Principal+", ticket until "+time.Now().UTC().Format(time.DateOnly))
	})
	if text := n.get("/metrics"); !strings.Contains(text, `sawlog_kerberos_login_ok{principal="`+mini.Principal+`"`) || !strings.Contains(text, "sawlog_kerberos_ticket_expires_timestamp_seconds{") {
		t.Error("the metrics tell nothing of the ticket")
	}

	n.refused(output.Auth, []string{"old.keytab", "the keys are not those the KDC has"}, "run", job("old", root, by(c.OldKeytab(t))))
	n.run("job", "apply", job("far", root, by(c.OldKeytab(t))))
	n.eventually("the server tells that the login fails", 30*time.Second, func() bool {
		return strings.Contains(n.get("/readyz?verbose"), "[!] login for ") && strings.Contains(n.get("/metrics"), mini.Principal) && strings.HasSuffix(n.get("/readyz"), "ok\n")
	})
	n.refused(output.Auth, []string{"old.keytab"}, "run", "far", "--wait")
}

// get is what the server answers to a path.
func (n *node) get(path string) string {
	n.t.Helper()
	resp, err := http.Get("http://" + n.web + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
