package hadoop

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sawlog/loader"
	"sawlog/loader/engine/enginetest"
	"sawlog/loader/sink"
)

const secret = "a2V5cyBvZiBldGw="

// login is that of a driver whose keytab is there.
func login() *Login {
	l := &Login{Principal: "etl/h1@EX.ORG", Keytab: "/etc/etl.keytab", Negotiate: func(*http.Request) error { return nil }}
	l.Pack = func() (string, map[string]string, error) {
		if l.Keytab == "gone" {
			return "", nil, os.ErrNotExist
		}
		return "sent:keytab", map[string]string{"keytab": secret}, nil
	}
	return l
}

// The keytab goes along where the job says so, and nobody but the command gets to
// see it: not its arguments or environment, nor what stands in the root. The
// command logs in by it either way.
func TestKeytabGoesAlong(t *testing.T) {
	t.Setenv("HADOOP_CLIENT_OPTS", "-Xmx1g")
	krb5 := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(krb5, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KRB5_CONFIG", "/nonexistent/krb5.conf:"+krb5+":/etc/krb5.conf")
	for _, send := range []bool{true, false} {
		w := enginetest.New(t, openTemp(t))
		c := newCluster(t)
		e := engine(c, w.Driver.Sink)
		e.Login, e.SendKeytab = login(), send
		w.Driver.Engine, w.Driver.Access = e, sink.Access{Keytab: "/etc/etl.keytab", Principal: "etl/_HOST"}
		w.Produce(500)
		w.Load(w.Plan(), "r1", 1470)
		call := c.calls[0]
		if got := call.Secrets["keytab"]; (got == secret) != send || len(c.calls) != 1 {
			t.Errorf("sent: %t: %d calls, the first with %q", send, len(c.calls), got)
		}
		for _, want := range []string{"KRB5PRINCIPAL=etl/h1@EX.ORG", "KRB5KEYTAB=/etc/etl.keytab", "HADOOP_CLIENT_OPTS=-Xmx1g -Djava.security.krb5.conf=" + krb5} {
			if !slices.Contains(call.Env, want) {
				t.Errorf("the command is called without %s", want)
			}
		}
		lines := c.apps[0].lines[0]
		if by := `"keytab":"sent:keytab","principal":"etl/h1@EX.ORG"`; strings.Contains(lines, by) != send {
			t.Errorf("sent: %t: a task is told %s", send, lines)
		}
		for _, text := range slices.Concat(call.Args, call.Env, c.apps[0].lines) {
			if strings.Contains(text, secret) || strings.HasPrefix(text, "HADOOP_USER_NAME=") {
				t.Errorf("sent: %t: %s", send, text)
			}
		}
		for name, text := range w.Tree() {
			if strings.Contains(text, secret) || strings.Contains(text, "sent:keytab") {
				t.Errorf("sent: %t: %s holds the keys, or their name", send, name)
			}
		}
	}
}

// What can't be sent is told before anything is submitted.
func TestLoginsThatTasksCantHave(t *testing.T) {
	for keytab, says := range map[string]string{"": "kinit", "gone": "not exist"} {
		w := enginetest.New(t, openTemp(t))
		c := newCluster(t)
		e := engine(c, w.Driver.Sink)
		e.Login, e.SendKeytab = login(), true
		e.Login.Keytab = keytab
		w.Driver.Engine = e
		w.Produce(50)
		_, err := w.Driver.Run(t.Context(), w.Plan(), loader.RunAsk{Run: "r1", Memory: 256 << 20})
		if loader.ExitCode(err) != loader.ExitAuth || !strings.Contains(err.Error(), says) || len(c.calls) > 0 {
			t.Errorf("keytab %q: %v, %d calls", keytab, err, len(c.calls))
		}
		if told := (*loader.Error)(nil); keytab == "" && (!errors.As(err, &told) || !strings.Contains(told.Hint, "send_keytab")) {
			t.Errorf("%v: want a way out", err)
		}
	}
}
