package packaging

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/broker/compat/peer"
	"sawlog/loader/engine/kubernetes/kubetest"
)

// manifest is what the tests read of any object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP   string `yaml:"clusterIP"`
		ServiceName string `yaml:"serviceName"`
		Replicas    int
		Ordinals    struct{ Start int }
		Selector    map[string]any
		Ports       []struct {
			Name       string
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		VolumeClaimTemplates []manifest `yaml:"volumeClaimTemplates"`
	}
}

type podSpec struct {
	TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
	Containers                    []container
	Volumes                       []struct{ Name string }
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe                   `yaml:"startupProbe"`
	LivenessProbe  probe                   `yaml:"livenessProbe"`
	ReadinessProbe probe                   `yaml:"readinessProbe"`
	VolumeMounts   []struct{ Name string } `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests reads the file: the whole text of each object, and what is in it.
func manifests(t *testing.T) (texts []string, all []manifest) {
	t.Helper()
	raw, err := os.ReadFile("kubernetes/sawlog.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(raw), "\n---\n")
	for _, text := range texts {
		var m manifest
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return texts, all
}

func of(t *testing.T, all []manifest, kind, name string) manifest {
	t.Helper()
	i := slices.IndexFunc(all, func(m manifest) bool { return m.Kind == kind && m.Metadata.Name == name })
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return all[i]
}

// TestManifestsFitThePublishedTypes: nothing in them is a field, or a value, that
// Kubernetes would refuse, and what they name of each other is there.
func TestManifestsFitThePublishedTypes(t *testing.T) {
	texts, all := manifests(t)
	kinds := map[string]int{}
	for i, text := range texts {
		kinds[all[i].Kind]++
		if wrong := kubetest.Check([]byte(text)); len(wrong) > 0 {
			t.Errorf("%s %s: %v", all[i].Kind, all[i].Metadata.Name, wrong)
		}
	}
	if kinds["Service"] != 2 || kinds["StatefulSet"] != 1 || kinds["PodDisruptionBudget"] != 1 || kinds["ConfigMap"] != 1 {
		t.Errorf("kinds %v", kinds)
	}
	if wrong := kubetest.Check([]byte(strings.Replace(texts[0], "clusterIP", "clusterIp", 1))); len(wrong) == 0 {
		t.Error("an unknown field passes")
	}

	set := of(t, all, "StatefulSet", "sawlog")
	box := set.Spec.Template.Spec.Containers[0]
	ports := map[string]int{}
	for _, p := range box.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, m := range all {
		want := m.Spec.Selector
		if inner, ok := want["matchLabels"].(map[string]any); ok {
			want = inner
		}
		for key, value := range want {
			if set.Spec.Template.Metadata.Labels[key] != value {
				t.Errorf("%s %s selects %s=%v, pods have %v", m.Kind, m.Metadata.Name, key, value, set.Spec.Template.Metadata.Labels)
			}
		}
		for _, p := range m.Spec.Ports {
			if ports[p.TargetPort] == 0 {
				t.Errorf("%s %s: pods have no port %s", m.Kind, m.Metadata.Name, p.TargetPort)
			}
		}
	}
	if of(t, all, "Service", set.Spec.ServiceName).Spec.ClusterIP != "None" {
		t.Errorf("the pods' names come of %s, which has an address of its own", set.Spec.ServiceName)
	}
	for _, p := range []probe{box.StartupProbe, box.LivenessProbe, box.ReadinessProbe} {
		if ports[p.HTTPGet.Port] == 0 {
			t.Errorf("a probe asks port %q", p.HTTPGet.Port)
		}
	}
	known := map[string]bool{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		known[v.Name] = true
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		known[v.Metadata.Name] = true
	}
	for _, m := range box.VolumeMounts {
		if !known[m.Name] {
			t.Errorf("no volume %s", m.Name)
		}
	}
}

// pods runs the pods of the StatefulSet as processes on this machine: pod N has
// the address 127.X.Y.N where its name and all its interfaces stand, and a folder
// where its volumes are mounted.
type pods struct {
	t       *testing.T
	set     manifest
	config  string
	dir     string
	net     string // 127.X.Y.
	running map[int]*exec.Cmd
}

func startPods(t *testing.T) *pods {
	t.Helper()
	_, all := manifests(t)
	p := &pods{
		t: t, set: of(t, all, "StatefulSet", "sawlog"), dir: t.TempDir(), running: map[int]*exec.Cmd{},
		config: of(t, all, "ConfigMap", "sawlog").Data["sawlog.yaml"],
		net:    fmt.Sprintf("127.%d.%d.", 64+os.Getpid()%128, os.Getpid()/128%256),
	}
	secret := filepath.Join(p.dir, "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster.key", "http.token"} {
		run(t, "cluster", "key", filepath.Join(secret, name))
	}
	t.Cleanup(func() {
		for n := range p.running {
			p.end(n)
		}
	})
	for n := p.set.Spec.Ordinals.Start; n < p.set.Spec.Ordinals.Start+p.set.Spec.Replicas; n++ {
		p.start(n)
	}
	return p
}

// here gives a text of the manifests the names and folders of this machine.
func (p *pods) here(n int, text string) string {
	names := []string{"0.0.0.0", p.net + strconv.Itoa(n), "/var/lib/sawlog", p.data(n), "/etc/sawlog/secret", filepath.Join(p.dir, "secret")}
	for i := range 9 {
		names = append(names, fmt.Sprintf("sawlog-%d.sawlog:", i), p.net+strconv.Itoa(i)+":")
	}
	return strings.NewReplacer(names...).Replace(text)
}

func (p *pods) data(n int) string { return filepath.Join(p.dir, fmt.Sprintf("data-%d", n)) }

func (p *pods) start(n int) {
	p.t.Helper()
	box := p.set.Spec.Template.Spec.Containers[0]
	file := filepath.Join(p.dir, fmt.Sprintf("sawlog-%d.yaml", n))
	if err := os.WriteFile(file, []byte(p.here(n, p.config)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	args := slices.Clone(box.Args)
	for i := range args {
		if args[i] == "/etc/sawlog/config/sawlog.yaml" {
			args[i] = file
		}
	}
	c := exec.Command(peer.Binary(p.t), args...)
	env := map[string]string{}
	for _, e := range box.Env {
		switch e.ValueFrom.FieldRef.FieldPath {
		case "metadata.name":
			env[e.Name] = fmt.Sprintf("sawlog-%d", n)
		case "metadata.labels['apps.kubernetes.io/pod-index']":
			env[e.Name] = strconv.Itoa(n)
		case "":
			env[e.Name] = p.here(n, strings.ReplaceAll(e.Value, "$(POD_NAME)", env["POD_NAME"]))
		default:
			p.t.Fatalf("%s: the kubelet knows no field %s", e.Name, e.ValueFrom.FieldRef.FieldPath)
		}
		c.Env = append(c.Env, e.Name+"="+env[e.Name])
	}
	log, err := os.Create(filepath.Join(p.dir, fmt.Sprintf("sawlog-%d.log", n)))
	if err != nil {
		p.t.Fatal(err)
	}
	c.Stderr, c.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		p.t.Error(err)
	}
	p.running[n] = c
}

// end stops a pod as the kubelet does.
func (p *pods) end(n int) {
	p.t.Helper()
	c := p.running[n]
	delete(p.running, n)
	grace := time.AfterFunc(time.Duration(p.set.Spec.Template.Spec.TerminationGracePeriodSeconds)*time.Second, func() { _ = c.Process.Kill() })
	_ = c.Process.Signal(syscall.SIGTERM) // it may have ended already
	if err := c.Wait(); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.dir, fmt.Sprintf("sawlog-%d.log", n)))
		p.t.Errorf("pod %d ended with %v: %s", n, err, log)
	}
	grace.Stop()
}

// ready waits until every pod passes its readiness probe.
func (p *pods) ready() {
	p.t.Helper()
	box := p.set.Spec.Template.Spec.Containers[0]
	for n := range p.running {
		said := "nothing"
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) { // other processes act
			resp, err := http.Get(fmt.Sprintf("http://%s%d:8088%s", p.net, n, box.ReadinessProbe.HTTPGet.Path))
			if err == nil {
				said = resp.Status
				_ = resp.Body.Close()
			}
			if said == "200 OK" {
				break
			}
			if time.Now().After(end) {
				log, _ := os.ReadFile(filepath.Join(p.dir, fmt.Sprintf("sawlog-%d.log", n)))
				p.t.Fatalf("pod %d is not ready after a minute: %s\n%s", n, said, log)
			}
		}
	}
}

// TestStatefulSet starts what the manifests say, and does what a cluster does to
// its pods: a rolling restart, and a volume that is replaced.
func TestStatefulSet(t *testing.T) {
	p := startPods(t)
	p.ready()
	at := func(n, port int) string { return fmt.Sprintf("%s%d:%d", p.net, n, port) }
	run(t, "topic", "create", "clicks", "--partitions", "6", "-b", at(1, 9092))
	lines := filepath.Join(p.dir, "lines")
	if err := os.WriteFile(lines, []byte("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "produce", "clicks", lines, "-b", at(2, 9092))
	for n := 3; n >= 1; n-- { // in the order of a rolling update
		p.end(n)
		p.start(n)
		p.ready()
	}
	p.end(1) // the one that founded
	if err := os.RemoveAll(p.data(1)); err != nil {
		t.Fatal(err)
	}
	p.start(1)
	p.ready()
	if status := run(t, "cluster", "brokers", "-b", at(2, 9092), "-o", "json"); strings.Count(status, p.net) < 3 {
		t.Errorf("brokers: %s", status)
	}
	if got := run(t, "consume", "clicks", "--range", "earliest..latest", "-b", at(1, 9092), "-o", "jsonl"); strings.Count(got, `"topic":"clicks"`) != 3 {
		t.Errorf("read back: %s", got)
	}
	token := filepath.Join(p.dir, "secret", "http.token")
	run(t, "job", "list", "--server", "http://"+at(3, 8088), "--token", token)
	c := exec.Command(peer.Binary(t), "job", "list", "--server", "http://"+at(3, 8088))
	if out, err := c.CombinedOutput(); err == nil || c.ProcessState.ExitCode() != 5 {
		t.Errorf("without the token: %v: %s", err, out)
	}
}
