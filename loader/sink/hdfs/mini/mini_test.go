package mini

import (
	"strings"
	"testing"

	"github.com/colinmarc/hdfs/v2"
)

// TestStarts starts a cluster, restarts what it is made of and asks for its root;
// it is one process, and ends with its input.
func TestStarts(t *testing.T) {
	c := Start(t, Options{HA: true, DataNodes: 2})
	if len(c.NameNodes) != 2 {
		t.Fatalf("NameNodes %v", c.NameNodes)
	}
	list := func() {
		t.Helper()
		client, err := hdfs.NewClient(hdfs.ClientOptions{Addresses: c.NameNodes, User: "root"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }() // nothing was written
		if _, err := client.ReadDir("/"); err != nil {
			t.Fatal(err)
		}
	}
	list()
	for _, command := range []string{"mkdir /d 755", "restart-nn", "stop-dn 0", "start-dn", "kill-nn", "start-nn", "safemode on", "safemode off"} {
		if answer := c.Do("%s", command); answer != command {
			t.Errorf("%s answered %q", command, answer)
		}
	}
	list()
	if _, err := c.Try("nonsense"); err == nil || !strings.Contains(err.Error(), "no such command") {
		t.Errorf("a command that isn't one: %v", err)
	}
	if c.Do("failover") != "1" || c.Do("failover") != "0" {
		t.Error("the second NameNode did not become the active one")
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.process.Ended()
}
