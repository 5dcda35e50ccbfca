package packaging

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// image is what the last stage of the Dockerfile says.
type image struct {
	env             []string
	user, workdir   string
	volumes, expose []string
	copies          [][2]string // from the stage before, to
	entry, cmd      []string
	health          []string
}

func readDockerfile(t *testing.T) image {
	t.Helper()
	raw, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(raw), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the image is not made from scratch")
	}
	var im image
	words := func(text string) []string {
		return strings.Fields(strings.NewReplacer(`[`, " ", `]`, " ", `"`, " ", `,`, " ").Replace(text))
	}
	for line := range strings.Lines(last) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "ENV":
			im.env = append(im.env, strings.Fields(rest)...)
		case "USER":
			im.user = rest
		case "WORKDIR":
			im.workdir = rest
		case "VOLUME":
			im.volumes = append(im.volumes, strings.Fields(rest)...)
		case "EXPOSE":
			im.expose = append(im.expose, strings.Fields(rest)...)
		case "COPY":
			f := strings.Fields(rest)
			im.copies = append(im.copies, [2]string{f[len(f)-2], f[len(f)-1]})
		case "ENTRYPOINT":
			im.entry = words(rest)
		case "CMD":
			im.cmd = words(rest)
		case "HEALTHCHECK":
			_, health, _ := strings.Cut(rest, "CMD")
			im.health = words(health)
		case "", "#", "STOPSIGNAL":
		default:
			if !strings.HasPrefix(line, "#") {
				t.Fatalf("the test does not know %q", line)
			}
		}
	}
	return im
}

// rootFS lays out the image's root as COPY does; /proc and /dev are what a
// container runtime mounts.
func (im image) rootFS(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range im.copies {
		to := filepath.Join(root, c[1])
		switch c[0] {
		case "/out/sawlog":
			body, err := os.ReadFile(peer.Binary(t))
			if err == nil {
				err = os.WriteFile(to, body, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		default:
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// TestImage runs what the Dockerfile makes: nothing but the binary in a root that
// can't be written to, as a user who is nobody, in a network of its own. It loads,
// so tasks find what they need, and its health check tells that it serves.
func TestImage(t *testing.T) {
	if os.Getuid() != 0 {
		peer.Lacks(t, "root, for a root file system of its own")
	}
	unshare, chroot := peer.Tool(t, "unshare"), peer.Tool(t, "chroot")
	if err := exec.Command(unshare, "-m", "true").Run(); err != nil {
		peer.Lacks(t, "the right to mount: "+err.Error())
	}
	im := readDockerfile(t)
	if im.user != "65532:65532" || strings.Join(im.expose, " ") != "9092 9093 8088" {
		t.Errorf("user %s, ports %v", im.user, im.expose)
	}
	root, dir := im.rootFS(t), t.TempDir()
	var script strings.Builder
	fmt.Fprintf(&script, "set -e\nmount --make-rprivate /\nmount --bind %[1]s %[1]s\nmount -o remount,ro,bind %[1]s\nmount --rbind /proc %[1]s/proc\nmount --rbind /dev %[1]s/dev\n", root)
	for i, v := range im.volumes {
		volume := filepath.Join(dir, fmt.Sprintf("volume-%d", i))
		if err := os.Mkdir(volume, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(volume, 65532, 65532); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&script, "mount --bind %s %s%s\n", volume, root, v)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	kafka, web := freeAddress(t), freeAddress(t)
	env := append([]string{"SAWLOG_ADVERTISE=" + kafka, "SAWLOG_INSECURE=true", "SAWLOG_SERVER=http://" + web, "SAWLOG_BROKERS=" + kafka}, im.env...)
	for i, e := range env { // other servers of this machine have the image's ports
		e = strings.Replace(e, "SAWLOG_LISTEN=0.0.0.0:9092", "SAWLOG_LISTEN="+strings.Replace(kafka, "127.0.0.1", "0.0.0.0", 1), 1)
		env[i] = strings.Replace(e, "SAWLOG_HTTP=0.0.0.0:8088", "SAWLOG_HTTP="+strings.Replace(web, "127.0.0.1", "0.0.0.0", 1), 1)
	}
	inside := func(args ...string) *exec.Cmd {
		text := script.String() + fmt.Sprintf("exec %s --userspec=%s %s \"$@\"\n", chroot, im.user, root)
		c := exec.Command(unshare, append([]string{"-m", "sh", "-c", text, "sh"}, args...)...)
		c.Env = append(env, "PATH="+os.Getenv("PATH"))
		return c
	}

	server := inside(append(im.entry, im.cmd...)...)
	var said strings.Builder
	server.Stderr, server.SysProcAttr = &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := inside(im.health...).CombinedOutput(); err == nil {
		t.Errorf("healthy before it was started: %s", out)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, said.String())
		}
	}()
	awaitReady(t, web)
	if out, err := inside(im.health...).CombinedOutput(); err != nil {
		t.Errorf("the health check of a server that is ready: %v: %s", err, out)
	}

	job := filepath.Join(dir, "job.yaml")
	text := "name: clicks\nsource: {topics: [clicks]}\ntime: {field: ts, format: rfc3339}\noutput: {root: 'file:///var/lib/sawlog/warehouse/clicks'}\n"
	lines := filepath.Join(dir, "lines")
	for path, body := range map[string]string{job: text, lines: "{\"ts\":\"2026-11-29T14:00:00Z\",\"n\":1}\n{\"ts\":\"2026-11-29T15:00:00Z\",\"n\":2}\n"} {
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := []string{"-b", kafka, "--server", "http://" + web}
	run(t, append([]string{"topic", "create", "clicks"}, at...)...)
	run(t, append([]string{"produce", "clicks", lines}, at...)...)
	run(t, append([]string{"job", "apply", job}, at...)...)
	if out := run(t, append([]string{"run", "clicks", "--wait", "-o", "json"}, at...)...); !strings.Contains(out, `"rows": 2`) && !strings.Contains(out, `"rows":2`) {
		t.Errorf("a load in the image: %s", out)
	}
}

// run runs the command line, which must succeed.
func run(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command(peer.Binary(t), args...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("sawlog %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func awaitReady(t *testing.T, web string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // another process acts
		if resp, err := http.Get("http://" + web + "/readyz"); err == nil {
			ok := resp.StatusCode == http.StatusOK
			if resp.Body.Close() == nil && ok {
				return
			}
		}
	}
	t.Fatalf("not ready within 30 s at %s", web)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // it was only tried
	return l.Addr().String()
}
