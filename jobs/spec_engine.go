package jobs

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"sawlog/loader/sink"
)

// This file reads where the tasks of a run are carried out: run.engine and what
// belongs to it.

// The engines a job may name.
const (
	EngineLocal      = "local"
	EngineHadoop     = "hadoop"
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
	r.Engine = run.oneOf("engine", EngineLocal, EngineLocal, EngineHadoop, EngineKubernetes)
	s.readEngineOf(run, EngineHadoop, s.readHadoop)
	s.readEngineOf(run, EngineKubernetes, s.readKubernetes)
	switch {
	case r.Engine == EngineHadoop && len(r.Hadoop.ResourceManagers) == 0:
		run.say("engine", "hadoop needs the ResourceManager's web address: hadoop: {resource_manager: 'http://HOST:8088'}")
	case r.Engine == EngineKubernetes && r.Kubernetes.Image == "":
		run.say("engine", "kubernetes needs an image that holds the sawlog binary: kubernetes: {image: …}")
	}
	if r.Engine != EngineLocal {
		s.checkReach(run)
	}
}

// readEngineOf reads what belongs to one engine.
func (s *Spec) readEngineOf(run *section, engine string, read func(*section)) {
	sec := run.sub(engine)
	if sec == nil {
		return
	}
	s.note(sec)
	read(sec)
	sec.done()
	if s.Run.Engine != engine {
		run.say(engine, "is for engine: %s, not %s", engine, s.Run.Engine)
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
	if s.Output.Root != "" {
		if err := s.Run.CheckRoot(s.Output.Root, s.Output.Access); err != nil {
			run.say("engine", "%s", err)
		}
	}
	if s.Run.OneMachine(s.Output.Root, s.Output.Access) {
		return
	}
	if addr := OnLoopback(s.Source.Brokers); addr != "" {
		run.say("engine", "%s: no task reaches a broker on loopback (%s): have it advertise an address of the network, %s", s.Run.Engine, addr, s.Run.OrOneMachine())
	}
}

// CheckRoot wants a root that the engine's machines share and can reach.
func (r *RunRule) CheckRoot(root string, access sink.Access) error {
	if r.Engine == EngineLocal {
		return nil
	}
	if !strings.HasPrefix(root, "hdfs://") {
		return fmt.Errorf("%s needs a root that all its machines share: it is %s, want hdfs://NAMENODE/PATH", r.Engine, root)
	}
	if r.Engine == EngineHadoop && strings.ContainsAny(strings.ReplaceAll(root, "{topic}", ""), ",{}[]*?\\ ") {
		return fmt.Errorf("hadoop: root %s: Hadoop would take , { } [ ] * ? \\ or a blank for a pattern", root)
	}
	if addr := OnLoopback(nameNodes(root, access)); addr != "" && !r.OneMachine(root, access) {
		return fmt.Errorf("%s: no task reaches a NameNode on loopback (%s): name it by an address of the network, %s", r.Engine, addr, r.OrOneMachine())
	}
	return nil
}

// nameNodes are those a root is reached by, as far as the job names them.
func nameNodes(root string, access sink.Access) []string {
	names := slices.Clone(access.Namenodes)
	if u, err := url.Parse(root); err == nil && u.Scheme == "hdfs" && len(names) == 0 {
		names = append(names, u.Host)
	}
	return names
}

// OneMachine tells whether tasks that load into a root have this machine's
// loopback: pods with the network of their node, and a YARN cluster whose
// ResourceManager and NameNodes listen there.
func (r *RunRule) OneMachine(root string, access sink.Access) bool {
	switch r.Engine {
	case EngineKubernetes:
		return r.Kubernetes.HostNetwork
	case EngineHadoop:
		servers := nameNodes(root, access)
		for _, addr := range r.Hadoop.ResourceManagers {
			if u, err := url.Parse(addr); err == nil {
				servers = append(servers, u.Host)
			}
		}
		return !slices.ContainsFunc(servers, func(addr string) bool { return !loopback(addr) })
	}
	return true
}

// OrOneMachine says what to do where the cluster is this one machine.
func (r *RunRule) OrOneMachine() string {
	if r.Engine == EngineHadoop {
		return "or ResourceManager and NameNodes by loopback where the cluster is this one machine"
	}
	return "or set kubernetes.host_network on a cluster of this one machine"
}

// OnLoopback is the first of these addresses, HOST or HOST:PORT, that means the
// machine it is used on; "" if none does.
func OnLoopback(addrs []string) string {
	if i := slices.IndexFunc(addrs, loopback); i >= 0 {
		return addrs[i]
	}
	return ""
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
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
