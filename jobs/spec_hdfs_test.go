package jobs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sawlog/loader/sink"
)

// onHDFS is a job whose root is on HDFS, with these settings of output.hdfs.
func onHDFS(settings string) string {
	return "name: a\nsource: {topics: [pageviews]}\noutput:\n  root: hdfs://warehouse/pageviews\n  hdfs: {" + settings + "}\n"
}

func TestHDFSIsReadAndExplained(t *testing.T) {
	for settings, want := range map[string]sink.Access{
		"": {},
		"namenodes: ['nn1:8020', nn2], user: loader, replication: 2, block_size: 256MiB": {
			Namenodes: []string{"nn1:8020", "nn2"}, User: "loader", Replication: 2, BlockSize: 256 << 20,
		},
		"keytab: /etc/sawlog/loader.keytab, principal: loader/_HOST@EXAMPLE.ORG": {
			Keytab: "/etc/sawlog/loader.keytab", Principal: "loader/_HOST@EXAMPLE.ORG",
		},
	} {
		s := mustParse(t, onHDFS(settings))
		if !reflect.DeepEqual(s.Output.Access, want) {
			t.Errorf("%s: %+v", settings, s.Output.Access)
		}
		text, err := s.Explain()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text, "explained.yaml")
		if err != nil {
			t.Fatalf("the explained file does not parse: %v\n%s", err, text)
		}
		if fmt.Sprintf("%+v", again.Output.Access) != fmt.Sprintf("%+v", want) { // an empty list is as good as none
			t.Errorf("%s: explained and read again it is %+v\n%s", settings, again.Output.Access, text)
		}
		for _, key := range []string{"namenodes:", "user:", "keytab:", "principal:", "replication:", "block_size:"} {
			if !strings.Contains(string(text), "    "+key) {
				t.Errorf("%s: job explain doesn't tell %s\n%s", settings, key, text)
			}
		}
	}
}

// Credentials are paths, and neither they nor the store's settings are any
// part of what a run depends on.
func TestHDFSIsNoPartOfTheLoad(t *testing.T) {
	var loads []any
	for _, settings := range []string{"", "keytab: /etc/a.keytab, principal: a@B, replication: 1, block_size: 1MiB"} {
		s := mustParse(t, onHDFS(settings))
		l, err := s.Load("", time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, l)
	}
	if !reflect.DeepEqual(loads[0], loads[1]) {
		t.Errorf("the load knows how its root is reached:\n%+v\n%+v", loads[0], loads[1])
	}
}

func TestHDFSProblems(t *testing.T) {
	for _, c := range []struct{ settings, want string }{
		{"namenode: a", "job.yaml:5:10: output.hdfs.namenode: unknown key; did you mean namenodes?"},
		{"namenodes: ['a:b']", `job.yaml:5:21: output.hdfs.namenodes: "a:b": want HOST or HOST:PORT`},
		{"namenodes: [a, a]", "output.hdfs.namenodes: names an address twice"},
		{"keytab: /k", "output.hdfs.principal: is missing"},
		{"principal: p@R", "output.hdfs.keytab: is missing"},
		{"keytab: k, principal: p@R", `job.yaml:5:18: output.hdfs.keytab: "k": want an absolute path`},
		{"keytab: '${file:/k}', principal: p@R", "write the path as it is"},
		{"keytab: /k, principal: 'a b'", `output.hdfs.principal: "a b": want NAME[/HOST]@REALM`},
		{"keytab: /k, principal: p@R, user: u", "job.yaml:5:44: output.hdfs.user: stands beside principal"},
		{"replication: 0", "job.yaml:5:23: output.hdfs.replication: want a whole number from 1 to 512"},
		{"block_size: 1KiB", "output.hdfs.block_size: 1KiB is too small: want 1MiB or more"},
		{"block_size: 1048577", "output.hdfs.block_size: want a multiple of 512 bytes"},
	} {
		_, err := Parse([]byte(onHDFS(c.settings)), "job.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.settings, err, c.want)
		}
	}
	_, err := Parse([]byte(strings.Replace(minimal, "pageviews}\n", "pageviews, hdfs: {user: u}}\n", 1)), "job.yaml")
	if err == nil || !strings.Contains(err.Error(), "output.hdfs: is for roots on HDFS") {
		t.Errorf("beside a root on a disk: %v", err)
	}
}
