package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// guarded are three nodes of one cluster whose HTTP sides are HTTPS and want one
// token.
type guarded struct {
	*node // where they are run from
	nodes [3]struct{ listen, peer, web string }
	pool  *x509.CertPool
	env   []string
	token string // FILE
}

// startThreeGuarded founds the cluster: the nodes start together, by one list.
func startThreeGuarded(t *testing.T) *guarded {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{node: &node{t: t, dir: t.TempDir()}, pool: x509.NewCertPool()}
	g.bin = filepath.Join(g.dir, "sawlog")
	g.token = filepath.Join(g.dir, "token")
	cert, key := signed(t, g.dir, "shared")
	text, err := os.ReadFile(cert)
	if err != nil || !g.pool.AppendCertsFromPEM(text) || os.Symlink(self, g.bin) != nil || os.WriteFile(g.token, []byte(apiToken+"\n"), 0o600) != nil {
		t.Fatal("the files of the nodes can't be made", err)
	}
	g.env = []string{"SSL_CERT_FILE=" + cert, "SAWLOG_TOKEN="}
	var peers []string
	for i := range g.nodes {
		g.nodes[i].listen, g.nodes[i].peer, g.nodes[i].web = freePort(t), freePort(t), freePort(t)
		peers = append(peers, g.nodes[i].peer)
	}
	for i, n := range g.nodes {
		c := g.spawn(g.env, "serve", "--node-id", fmt.Sprint(i+1), "--data", filepath.Join(g.dir, fmt.Sprint("data", i)), "--listen", n.listen, "--peer", n.peer,
			"--http", n.web, "--join", strings.Join(peers, ","), "--http-token", g.token, "--http-cert", cert, "--http-key", key)
		t.Cleanup(func() { c.killAll(); c.wait(patience) })
	}
	client := g.browser(nil)
	for _, n := range g.nodes {
		g.eventually("node "+n.web+" is ready", patience, func() bool {
			resp, err := client.Get("https://" + n.web + "/readyz")
			if err != nil {
				return false
			}
			return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		})
	}
	return g
}

// browser follows no redirect.
func (g *guarded) browser(jar http.CookieJar) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.pool}}, Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// cli runs the command line against a node and wants an exit code.
func (g *guarded) cli(code, node int, token string, args ...string) string {
	g.t.Helper()
	n := g.nodes[node]
	args = append(args, "--brokers", n.listen, "--server", "https://"+n.web)
	if token != "" {
		args = append(args, "--token", token)
	}
	c := g.spawn(g.env, args...)
	if got := c.wait(patience); got != code {
		g.t.Errorf("node %d: sawlog %s: exit code %d, want %d: %s", node+1, strings.Join(args, " "), got, code, c.said.String())
	}
	return c.out.String()
}

// TestTokenOverThreeNodes: whichever node is asked, the right token is let in by
// command line, API and console, also where another node answers, and no other
// is; a login on one node counts on all.
func TestTokenOverThreeNodes(t *testing.T) {
	t.Parallel()
	g := startThreeGuarded(t)
	wrong := filepath.Join(g.dir, "wrong")
	if err := os.WriteFile(wrong, []byte(strings.Repeat("x", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, _ := g.job("clicks", "time: {field: ts}\n")
	g.cli(0, 0, "", "topic", "create", "clicks", "--partitions", "3")
	g.cli(0, 0, g.token, "job", "apply", path)
	jar, err := cookiejar.New(nil) // cookies know no ports, so these are of all three
	if err != nil {
		t.Fatal(err)
	}
	person := g.browser(jar)
	login, err := person.PostForm("https://"+g.nodes[0].web+"/login", url.Values{"token": {apiToken}})
	if err != nil || login.Body.Close() != nil || login.StatusCode != http.StatusSeeOther {
		t.Fatalf("login: %+v, %v", login, err)
	}
	for i, n := range g.nodes {
		g.cli(0, i, g.token, "job", "pause", "clicks", "--reason", fmt.Sprint("by node ", i+1))
		if out := g.cli(0, (i+1)%3, g.token, "job", "list"); !strings.Contains(out, "paused") {
			t.Errorf("paused by node %d, the next one says %s", i+1, out)
		}
		g.cli(0, i, g.token, "job", "resume", "clicks")
		g.cli(5, i, "", "job", "list")
		g.cli(5, i, wrong, "job", "pause", "clicks")
		for _, c := range []struct {
			client       *http.Client
			token, where string
			status       int
			holds        string
		}{
			{g.browser(nil), apiToken, "/api/v1/jobs", http.StatusOK, `"clicks"`},
			{g.browser(nil), "", "/api/v1/jobs", http.StatusUnauthorized, "token"},
			{g.browser(nil), strings.Repeat("x", 32), "/api/v1/jobs", http.StatusUnauthorized, "token"},
			{g.browser(nil), apiToken, "/metrics", http.StatusOK, "sawlog_"},
			{g.browser(nil), "", "/metrics", http.StatusUnauthorized, ""},
			{g.browser(nil), "", "/console/", http.StatusSeeOther, "/login"},
			{person, "", "/console/", http.StatusOK, "clicks"},
			{person, "", "/console/jobs/clicks", http.StatusOK, "clicks"},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.web+c.where, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			resp, err := c.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if closed := resp.Body.Close(); err != nil || closed != nil {
				t.Fatal(err, closed)
			}
			if said := string(body) + resp.Header.Get("Location"); resp.StatusCode != c.status || !strings.Contains(said, c.holds) {
				t.Errorf("node %d: %s with token %.8q: %d, want %d with %q: %.300s", i+1, c.where, c.token, resp.StatusCode, c.status, c.holds, said)
			}
		}
	}
}
