package hadoop

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check  string
	Detail string
	Err    error  // with its exit code
	Advice string // what to do about the error
}

// Examine looks at what a run with tasks of this memory (bytes) would need,
// without submitting anything. What can't be asked after another thing failed is
// left out.
func Examine(ctx context.Context, s Settings, access sink.Access, login *Login, memory int64) []Finding {
	found := []Finding{examineCommand(s), examineBinary(s)}
	if login != nil {
		found = append(found, examineLogin(login, s.SendKeytab))
	}
	rm, err := newResourceManager(s.ResourceManagers, userOf(access, login), login)
	if err != nil {
		return append(found, Finding{Check: "ResourceManager", Err: err})
	}
	info := rm.examine(ctx)
	if found = append(found, info); info.Err != nil {
		return found
	}
	return append(found, rm.examineNodes(ctx, containerMB(memory)))
}

func examineCommand(s Settings) Finding {
	command := s.command()
	at, err := exec.LookPath(command[0])
	if err != nil {
		err = &loader.Error{Code: loader.ExitUsage, Err: err}
	}
	return Finding{
		Check: "command " + strings.Join(command, " "), Detail: at, Err: err,
		Advice: "install Hadoop's client, or say under run.hadoop.command how Hadoop Streaming is called",
	}
}

func examineBinary(s Settings) Finding {
	switch {
	case s.Binary == "":
		self, err := os.Executable()
		return Finding{Check: "binary", Detail: self + ", which each application ships", Err: err}
	case strings.Contains(s.Binary, "://"):
		return Finding{Check: "binary", Detail: "shipped from " + s.Binary}
	}
	return Finding{Check: "binary", Detail: s.Binary + " on every node"}
}

// examineLogin wants a login that tasks have, too, on a cluster with Kerberos:
// they get no delegation tokens, which the HDFS client of a task can't use.
func examineLogin(l *Login, send bool) Finding {
	f := Finding{Check: "login of tasks"}
	if f.Err = l.check(); f.Err != nil {
		f.Advice = f.Err.(*loader.Error).Hint
		return f
	}
	if !send {
		f.Detail = fmt.Sprintf("%s by %s, which has to lie at that path on every node, readable by whoever containers run as", l.Principal, l.Keytab)
		return f
	}
	if _, _, err := l.Pack(); err != nil {
		f.Err, f.Advice = &loader.Error{Code: loader.ExitAuth, Err: err}, "klist -kt KEYTAB tells the principals of a keytab"
		return f
	}
	f.Detail = fmt.Sprintf("%s by %s; its keys go along with each application", l.Principal, l.Keytab)
	if p := l.protection(); p != "privacy" {
		f.Detail += fmt.Sprintf("; hadoop.rpc.protection is %s, so that they can be read on the wire between servers", p)
	}
	return f
}

// examine asks who the ResourceManager is.
func (m *resourceManager) examine(ctx context.Context) Finding {
	f := Finding{Check: "ResourceManager", Advice: "run.hadoop.resource_manager names its web address, http://HOST:8088 unless yarn.resourcemanager.webapp.address says another"}
	var have struct {
		ClusterInfo struct{ State, HAState, HadoopVersion, RMStateStoreName string }
	}
	if f.Err = m.ask(ctx, http.MethodGet, "info", nil, nil, &have); f.Err != nil {
		return f
	}
	c := have.ClusterInfo
	f.Detail = fmt.Sprintf("%s: %s, Hadoop %s", m.urls[0], strings.ToLower(cmp.Or(c.HAState, c.State)), c.HadoopVersion)
	if strings.HasSuffix(c.RMStateStoreName, "NullRMStateStore") {
		f.Detail += "; applications do not outlive its restart"
	}
	if c.State != "STARTED" {
		f.Err = &loader.Error{Code: loader.ExitUnavailable, Msg: fmt.Sprintf("%s is %s", m.urls[0], c.State)}
	}
	return f
}

// examineNodes wants a node that a task fits on.
func (m *resourceManager) examineNodes(ctx context.Context, want int64) Finding {
	f := Finding{Check: "nodes", Advice: "give tasks less run.memory, or nodes more yarn.nodemanager.resource.memory-mb"}
	var have struct {
		Nodes *struct {
			Node many[struct{ AvailMemoryMB, UsedMemoryMB int64 }]
		}
	}
	if f.Err = m.ask(ctx, http.MethodGet, "nodes", url.Values{"states": {"RUNNING"}}, nil, &have); f.Err != nil {
		return f
	}
	var nodes int
	var most, room int64
	if have.Nodes != nil {
		nodes = len(have.Nodes.Node)
		for _, n := range have.Nodes.Node {
			most = max(most, n.AvailMemoryMB+n.UsedMemoryMB)
			room += n.AvailMemoryMB / want
		}
	}
	f.Detail = fmt.Sprintf("%d run; the largest has %d MB, a task takes %d; room for %d now", nodes, most, want, room)
	if most < want {
		f.Err = &loader.Error{Code: loader.ExitConflict, Msg: fmt.Sprintf("a task takes %d MB, the largest of %d nodes that run has %d", want, nodes, most)}
	}
	return f
}
