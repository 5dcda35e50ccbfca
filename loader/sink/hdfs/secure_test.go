package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"github.com/jcmturner/gokrb5/v8/keytab"
	krbservice "github.com/jcmturner/gokrb5/v8/service"
	"github.com/jcmturner/gokrb5/v8/spnego"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
)

// lifetime is that of a loader's tickets here: long enough for the slowest machine to use
// one, short enough to see several in one test.
const lifetime = 20 * time.Second

// kerberized starts a cluster that wants tickets, with this protection of the
// wire, and says what its clients have to know.
func kerberized(t *testing.T, protection string, conf ...string) (*mini.Cluster, sink.Access) {
	t.Helper()
	c := mini.Start(t, mini.Options{
		Kerberos: true,
		Conf:     append(conf, "hadoop.rpc.protection="+protection, "dfs.data.transfer.protection="+protection),
	})
	c.Site(t, protection, lifetime)
	c.Do("mkdir /w 777")
	return c, sink.Access{Keytab: c.Keytab(), Principal: mini.Principal}
}

// openAs returns a sink on a folder, by the identity in access.
func openAs(t *testing.T, root string, access sink.Access) *Sink {
	t.Helper()
	s, err := Open(t.Context(), root, access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the cluster may be gone
	return s
}

func TestKerberos(t *testing.T) {
	c, access := kerberized(t, "authentication")
	t.Run("tickets are renewed", func(t *testing.T) { outlives(t, c, access) })
	t.Run("logins are refused", func(t *testing.T) { refusedLogins(t, c, access) })
	t.Run("doctor", func(t *testing.T) {
		found := Examine(t.Context(), c.URI("/w"), access)
		if f := first(found); f != nil {
			t.Fatalf("%s: %v", f.Check, f.Err)
		}
		if f := found[1]; f.Check != "login" || !strings.Contains(f.Detail, "sawlog@EXAMPLE.COM, ticket until "+time.Now().UTC().Format(time.DateOnly)) {
			t.Errorf("the login: %+v", f)
		}
	})
	t.Run("web servers", func(t *testing.T) { negotiates(t, c, access) })
	t.Run("the wire is bare", func(t *testing.T) {
		if heard := overheard(t, c, access); !heard.word(secretRow) || !heard.word(secretName) {
			t.Error("what is sent as it is wasn't heard: the listener is deaf")
		}
	})
}

// outlives has a sink live longer than its tickets, while NameNodes forget its
// connections.
func outlives(t *testing.T, c *mini.Cluster, access sink.Access) {
	s := openAs(t, c.URI("/w/tickets"), access)
	if err := s.MkdirAll("a"); err != nil {
		t.Fatal(err)
	}
	for round, until := 0, time.Now().Add(2*lifetime+lifetime/2); time.Now().Before(until); round++ {
		name := "a/" + string(rune('a'+round))
		if err := sink.Write(s, name, []byte("row")); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got, err := s.ReadFile(name); err != nil || string(got) != "row" {
			t.Fatalf("round %d: %q, %v", round, got, err)
		}
		c.Do("restart-nn")
		time.Sleep(lifetime / 4) // as a run does between two files
	}
}

// Requests to web servers carry a ticket where they are asked for one.
func negotiates(t *testing.T, c *mini.Cluster, access sink.Access) {
	who, err := Identify(c.URI("/w"), access)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keytab.Load(filepath.Join(c.Kerberos, "hdfs.keytab"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(spnego.SPNEGOKRB5Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), keys, krbservice.KeytabPrincipal("HTTP/localhost")))
	defer server.Close()
	for _, ticket := range []bool{false, true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(server.URL, "127.0.0.1", "localhost", 1), nil)
		if err == nil && ticket {
			err = who.Negotiate(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // the status says it
		if want := map[bool]int{false: http.StatusUnauthorized, true: http.StatusOK}[ticket]; resp.StatusCode != want {
			t.Errorf("with a ticket: %t: %s, want %d", ticket, resp.Status, want)
		}
	}
	t.Setenv("HADOOP_CONF_DIR", "")
	if who, err := Identify(c.URI("/w"), sink.Access{}); err != nil || who != nil {
		t.Errorf("without Kerberos there is nothing to negotiate: %v", err)
	}
}

// Who can't log in is told by whom, by what and why, at once and with the code
// of a refusal.
func refusedLogins(t *testing.T, c *mini.Cluster, access sink.Access) {
	noKeys := filepath.Join(t.TempDir(), "none.keytab")
	if err := os.WriteFile(noKeys, []byte{5, 2}, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]struct {
		access sink.Access
		want   string
	}{
		"no such keytab":     {sink.Access{Keytab: "/nowhere.keytab", Principal: access.Principal}, "/nowhere.keytab"},
		"keys of before":     {sink.Access{Keytab: c.OldKeytab(t), Principal: access.Principal}, "the keys are not those the KDC has"},
		"no keys":            {sink.Access{Keytab: noKeys, Principal: access.Principal}, "none.keytab"},
		"another principal":  {sink.Access{Keytab: access.Keytab, Principal: "other@EXAMPLE.COM"}, "only of sawlog@EXAMPLE.COM"},
		"no tickets":         {sink.Access{}, "run kinit"},
		"a realm of nowhere": {sink.Access{Keytab: access.Keytab, Principal: "sawlog@ELSEWHERE.ORG"}, "ELSEWHERE.ORG"},
	} {
		start := time.Now()
		_, err := openAs(t, c.URI("/w"), p.access).List("")
		if !errors.Is(err, fs.ErrPermission) || sink.ClassOf(err) != sink.Permanent || !strings.Contains(err.Error(), p.want) {
			t.Errorf("%s: %v (%v), want one of permission with %q", what, err, sink.ClassOf(err), p.want)
		}
		if took := time.Since(start); took > usual.patient/2 {
			t.Errorf("%s: was tried for %v", what, took)
		}
	}
	// The identity counts: a folder of somebody else stays closed to it.
	c.Do("mkdir /theirs 700")
	err := openAs(t, c.URI("/theirs/root"), access).MkdirAll("")
	if !errors.Is(err, fs.ErrPermission) || sink.ClassOf(err) != sink.Permanent {
		t.Errorf("a folder of somebody else: %v (%v)", err, sink.ClassOf(err))
	}
}

const (
	secretRow  = "a row nobody else may read"
	secretName = "secret-folder"
)

// overheard writes a file and reads it, and gives what went over the wire.
func overheard(t *testing.T, c *mini.Cluster, access sink.Access) *listener {
	t.Helper()
	s := openAs(t, c.URI("/w/wire"), access)
	heard := &listener{}
	options, _, err := s.target.options(heard.dial, heard.dial)
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = hdfs.NewClient(options); err != nil {
		t.Fatal(err)
	}
	s.hangUp = s.client.Close
	body := bytes.Repeat([]byte(secretRow+"\n"), 20_000)
	if err := s.MkdirAll(secretName); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(s, secretName+"/f", body); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadFile(secretName + "/f"); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("read %d bytes, %v; want the %d that were written", len(got), err, len(body))
	}
	return heard
}

// With privacy nobody who listens learns a name or a byte of a file, neither
// from what is asked nor from what is answered.
func TestPrivacy(t *testing.T) {
	c, access := kerberized(t, "privacy", "dfs.encrypt.data.transfer.cipher.suites=AES/CTR/NoPadding")
	heard := overheard(t, c, access)
	for _, word := range []string{secretRow, secretName} {
		if heard.word(word) {
			t.Errorf("%q can be read on the wire", word)
		}
	}
}

// A DataNode without AES protects the wire in a way the library writes by but
// can't read; that is told at once, and by what helps.
func TestIntegrityIsRefused(t *testing.T) {
	c, access := kerberized(t, "integrity")
	s := openAs(t, c.URI("/w/signed"), access)
	if err := s.MkdirAll("d"); err != nil {
		t.Fatal(err) // the NameNode's side works
	}
	if err := sink.Write(s, "d/f", []byte("row")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := s.ReadFile("d/f")
	if !errors.Is(err, sink.ErrRefused) || !strings.Contains(err.Error(), "dfs.encrypt.data.transfer.cipher.suites") {
		t.Errorf("%v, want a refusal that says what to set", err)
	}
	if took := time.Since(start); took > usual.patient/2 {
		t.Errorf("was tried for %v", took)
	}
}

// listener keeps what goes over connections.
type listener struct {
	mu    sync.Mutex
	bytes []byte
}

func (l *listener) word(w string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.bytes, []byte(w))
}

func (l *listener) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &heardConn{conn, l}, err
}

type heardConn struct {
	net.Conn
	l *listener
}

func (c *heardConn) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	c.l.bytes = append(c.l.bytes, p...)
	c.l.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.mu.Lock()
	c.l.bytes = append(c.l.bytes, p[:n]...)
	c.l.mu.Unlock()
	return n, err
}
