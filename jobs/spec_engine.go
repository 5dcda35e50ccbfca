package jobs

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// This file reads where the tasks of a run are carried out: run.engine and what
// belongs to it.

// The engines a job may name.
const (
	EngineLocal      = "local"
	EngineKubernetes = "kubernetes"
)

// Kubernetes says how an engine of that name reaches its cluster, and what the
// pods are made of.
type Kubernetes struct {
	Kubectl        []string // how kubectl is called; empty = kubectl
	Context        string   // empty = the current one
	Namespace      string   // empty = that of the context
	Image          string
	Command        []string // of the image that is the sawlog binary; empty = sawlog
	ServiceAccount string
	HostNetwork    bool
	Mounts         []Mount
}

// Mount is a secret or a config map that pods find as files in Path.
type Mount struct {
	Secret    string
	ConfigMap string
	Path      string
}

func (s *Spec) readEngine(run *section) {
	r := &s.Run
	r.Engine = EngineLocal
	switch engine := run.text("engine", EngineLocal); engine {
	case "hadoop":
		run.say("engine", "hadoop "+notYet+": want local or kubernetes")
	default:
		r.Engine = run.oneOf("engine", EngineLocal, EngineLocal, EngineKubernetes)
	}
	sec := run.sub("kubernetes")
	if sec != nil {
		s.note(sec)
		s.readKubernetes(sec)
		sec.done()
	}
	switch {
	case r.Engine != EngineKubernetes && sec != nil:
		run.say("kubernetes", "is for engine: kubernetes, not %s", r.Engine)
	case r.Engine == EngineKubernetes && r.Kubernetes.Image == "":
		run.say("engine", "kubernetes needs an image that holds the sawlog binary: kubernetes: {image: …}")
	}
	if r.Engine != EngineLocal {
		s.checkReach(run)
	}
}

func (s *Spec) readKubernetes(sec *section) {
	k := &s.Run.Kubernetes
	k.Kubectl = sec.words("kubectl")
	k.Context = sec.text("context", "")
	k.Namespace = sec.text("namespace", "")
	k.Image = sec.text("image", "")
	k.Command = sec.words("command")
	k.ServiceAccount = sec.text("service_account", "")
	k.HostNetwork = sec.boolean("host_network", false)
	node := sec.get("mounts")
	if node == nil {
		return
	}
	if node.Kind != yaml.SequenceNode {
		sec.say("mounts", "want a list, such as - {secret: kafka, path: /etc/sawlog/kafka}")
		return
	}
	for i, item := range node.Content {
		m := sec.r.section(item, fmt.Sprintf("run.kubernetes.mounts[%d]", i))
		if m == nil {
			continue
		}
		mount := Mount{Secret: m.text("secret", ""), ConfigMap: m.text("config_map", ""), Path: m.text("path", "")}
		if (mount.Secret == "") == (mount.ConfigMap == "") {
			m.r.say(m.node, m.key, "want either secret: NAME or config_map: NAME")
		}
		if !path.IsAbs(mount.Path) || strings.HasPrefix(path.Clean(mount.Path), "/sawlog") {
			m.r.say(m.node, m.key, "path %q: want an absolute path, outside of /sawlog, which tasks use", mount.Path)
		}
		m.done()
		k.Mounts = append(k.Mounts, mount)
	}
}

// checkReach wants what machines of a cluster can reach: a root they share, and
// brokers and NameNodes that aren't on loopback.
func (s *Spec) checkReach(run *section) {
	if root := s.Output.Root; root != "" && !strings.HasPrefix(root, "hdfs://") {
		run.say("engine", "%s needs a root that all its machines share: output.root is %s, want hdfs://NAMENODE/PATH", s.Run.Engine, root)
	}
	if s.Run.Kubernetes.HostNetwork {
		return
	}
	names := slices.Clone(s.Output.Access.Namenodes)
	if u, err := url.Parse(s.Output.Root); err == nil && u.Scheme == "hdfs" {
		names = append(names, u.Host)
	}
	if addr := OnLoopback(names); addr != "" {
		run.say("engine", "%s: no pod reaches a NameNode on loopback (%s): name it by an address of the network, or set kubernetes.host_network on a cluster of this one machine", s.Run.Engine, addr)
	}
	if addr := OnLoopback(s.Source.Brokers); addr != "" {
		run.say("engine", "%s: no pod reaches a broker on loopback (%s): have it advertise an address of the network, or set kubernetes.host_network on a cluster of this one machine", s.Run.Engine, addr)
	}
}

// OnLoopback is the first of these addresses, HOST or HOST:PORT, that means the
// machine it is used on; "" if none does.
func OnLoopback(addrs []string) string {
	for _, addr := range addrs {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = strings.Trim(addr, "[]")
		}
		ip := net.ParseIP(host)
		if host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
			return addr
		}
	}
	return ""
}

// explainKubernetes prints run.kubernetes; nothing for other engines.
func explainKubernetes(e *explainer, r *RunRule) {
	if r.Engine != EngineKubernetes {
		return
	}
	e.section("kubernetes", func(c *explainer) {
		k := &r.Kubernetes
		c.list("kubectl", k.Kubectl)
		c.scalar("context", k.Context)
		c.scalar("namespace", k.Namespace)
		c.scalar("image", k.Image)
		c.list("command", k.Command)
		c.scalar("service_account", k.ServiceAccount)
		c.plain("host_network", fmt.Sprint(k.HostNetwork))
		mounts := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(k.Mounts) == 0 {
			mounts.Style = yaml.FlowStyle
		}
		for _, m := range k.Mounts {
			node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
			for _, kv := range [][2]string{{"secret", m.Secret}, {"config_map", m.ConfigMap}, {"path", m.Path}} {
				if kv[1] != "" {
					node.Content = append(node.Content, text(kv[0]), text(kv[1]))
				}
			}
			mounts.Content = append(mounts.Content, node)
		}
		c.add("mounts", mounts)
	})
}
