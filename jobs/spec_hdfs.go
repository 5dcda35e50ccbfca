package jobs

import (
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"sawlog/loader/sink"
)

// This file reads output.hdfs: how a root on HDFS is reached and how its files
// are kept. What stands there names files on the node, never what is in them.

// principalName is NAME[/HOST][@REALM].
var principalName = regexp.MustCompile(`^[^\s/@]+(/[^\s/@]+)?(@[^\s/@]+)?$`)

func (s *Spec) readHDFS(out *section) {
	sec := out.sub("hdfs")
	if sec == nil {
		return
	}
	s.note(sec)
	if s.Output.Root != "" && !strings.HasPrefix(s.Output.Root, "hdfs://") {
		out.say("hdfs", "is for roots on HDFS, the root is %s", s.Output.Root)
	}
	a := &s.Output.Access
	a.Namenodes = sec.words("namenodes")
	for _, addr := range a.Namenodes {
		if err := checkNamenode(addr); err != nil {
			sec.say("namenodes", "%s", err)
		}
	}
	if sorted := slices.Sorted(slices.Values(a.Namenodes)); len(slices.Compact(sorted)) != len(a.Namenodes) {
		sec.say("namenodes", "names an address twice")
	}
	a.User = sec.text("user", "")
	a.Keytab = parsed(sec, "keytab", "", checkKeytab)
	a.Principal = parsed(sec, "principal", "", func(text string) (string, error) {
		if !principalName.MatchString(text) {
			return "", fmt.Errorf("%q: want NAME[/HOST]@REALM", text)
		}
		return text, nil
	})
	switch {
	case sec.has("keytab") && !sec.has("principal"):
		sec.missing("principal", "whose key of the keytab is used, as NAME@REALM")
	case sec.has("principal") && !sec.has("keytab"):
		sec.missing("keytab", "the path of the file that holds the principal's keys")
	case sec.has("keytab") && sec.has("user"):
		sec.say("user", "stands beside principal, which says who the user is: give one of the two")
	}
	a.Replication = int(sec.integer("replication", 0, 1, 512))
	a.BlockSize = sec.size("block_size", 0, 1<<20)
	if a.BlockSize%512 != 0 {
		sec.say("block_size", "want a multiple of 512 bytes, which HDFS keeps a checksum of")
	}
	sec.done()
}

// checkNamenode wants HOST or HOST:PORT.
func checkNamenode(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, "8020"
	}
	n, errPort := strconv.Atoi(port)
	if host == "" || errPort != nil || n < 1 || n > 65535 || strings.ContainsAny(host, "/ ") {
		return fmt.Errorf("%q: want HOST or HOST:PORT", text)
	}
	return nil
}

func checkKeytab(text string) (string, error) {
	if strings.HasPrefix(text, "${file:") {
		return "", fmt.Errorf("%q: write the path as it is: the keys stand in the file, only its path is kept", text)
	}
	if !path.IsAbs(text) {
		return "", fmt.Errorf("%q: want an absolute path, which every node that loads has", text)
	}
	return text, nil
}

// explainHDFS prints output.hdfs; nothing for other roots.
func explainHDFS(e *explainer, root string, a sink.Access) {
	if !strings.HasPrefix(root, "hdfs://") {
		return
	}
	e.section("hdfs", func(c *explainer) {
		c.list("namenodes", a.Namenodes)
		for _, kv := range [][2]string{{"user", a.User}, {"keytab", a.Keytab}, {"principal", a.Principal}} {
			if kv[1] != "" {
				c.scalar(kv[0], kv[1])
			} else {
				c.null(kv[0])
			}
		}
		if a.Replication > 0 {
			c.plain("replication", strconv.Itoa(a.Replication))
		} else {
			c.null("replication")
		}
		if a.BlockSize > 0 {
			c.scalar("block_size", FormatSize(a.BlockSize))
		} else {
			c.null("block_size")
		}
	})
}

// null writes a setting that is left to somebody else.
func (e *explainer) null(key string) {
	e.add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"})
}
