package hadoop

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"sawlog/loader"
	"sawlog/loader/sink"
)

var discard = slog.New(slog.DiscardHandler)

// recorded answers with what a ResourceManager of Hadoop 3.5 answered
// (testdata/NAME.json).
func recorded(t *testing.T, name string) *resourceManager {
	t.Helper()
	return answering(t, http.StatusOK, mustRead(t, "testdata/"+name+".json"))
}

func answering(t *testing.T, status int, text string) *resourceManager {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/json" || r.URL.Query().Get("user.name") != "etl" {
			t.Errorf("%s asks as %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	m, err := newResourceManager([]string{server.URL}, "etl", nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// States of applications, as the ResourceManager writes them.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		file  string
		ended bool
		fails string // part of the error; "" = none
	}{
		{"accepted", false, ""},
		{"running", false, ""},
		{"succeeded", true, ""},
		{"failed", true, "FAILED: Task failed task_"},
		{"killed", true, "KILLED: Application application_"},
	} {
		a := &application{rm: recorded(t, c.file), id: "application_1", log: discard}
		s, err := a.State(t.Context())
		if err != nil || s.Ended != c.ended || (s.Err != nil) != (c.fails != "") || !strings.HasPrefix(s.Text, "application_") {
			t.Errorf("%s: %+v %v", c.file, s, err)
		}
		if c.fails != "" && (!strings.Contains(s.Err.Error(), c.fails) || loader.ExitCode(s.Err) != loader.ExitUnavailable) {
			t.Errorf("%s: %v", c.file, s.Err)
		}
	}
}

func TestTagged(t *testing.T) {
	list, err := recorded(t, "apps").tagged(t.Context(), "x")
	if err != nil || len(list) != 2 || list[0].ID >= list[1].ID {
		t.Errorf("%+v %v", list, err)
	}
	for text, n := range map[string]int{
		`{"apps":null}`: 0, `{"apps":{}}`: 0, `{}`: 0,
		`{"apps":{"app":{"id":"application_1_0001","state":"RUNNING"}}}`:                                          1,
		`{"apps":{"app":[{"id":"application_1_10000"},{"id":"application_1_9999"},{"id":"application_1_0002"}]}}`: 3,
	} {
		list, err := answering(t, http.StatusOK, text).tagged(t.Context(), "x")
		if err != nil || len(list) != n || n == 3 && (list[0].ID != "application_1_0002" || list[2].ID != "application_1_10000") {
			t.Errorf("%s: %+v %v", text, list, err)
		}
	}
}

func TestAnswersWithoutSuccess(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		code   int
		says   string
	}{
		{http.StatusOK, "This is standby RM. The redirect url is: /", loader.ExitUnavailable, "standby"},
		{http.StatusForbidden, `{"RemoteException":{"exception":"ForbiddenException","message":"User x cannot"}}`, loader.ExitAuth, "User x cannot"},
		{http.StatusUnauthorized, "<html>", loader.ExitAuth, "401"},
		{http.StatusServiceUnavailable, "", loader.ExitUnavailable, "503"},
		{http.StatusBadRequest, `{"RemoteException":{"message":"no such tag"}}`, loader.ExitConflict, "no such tag"},
	} {
		_, err := answering(t, c.status, c.text).tagged(t.Context(), "x")
		if loader.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s: %v, want exit code %d", c.status, c.text, err, c.code)
		}
	}
	a := &application{rm: answering(t, http.StatusNotFound, mustRead(t, "testdata/unknown.json")), id: "application_1", log: discard}
	if s, err := a.State(t.Context()); err != nil || !s.Ended || loader.ExitCode(s.Err) != loader.ExitUnavailable {
		t.Errorf("an application nobody knows: %+v %v", s, err)
	}
}

func mustRead(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Of several ResourceManagers the active one is asked: a standby one sends there,
// or says that it is none, or is gone.
func TestStandbyIsPassedOver(t *testing.T) {
	kills := 0
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut && string(body) == `{"state":"KILLED"}` {
			kills++
		}
		_, _ = io.WriteString(w, `{"app":{"id":"application_1_0001","state":"KILLED","finalStatus":"KILLED"}}`)
	}))
	defer active.Close()
	sends := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, active.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer sends.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Refresh", "3; url=/")
		_, _ = io.WriteString(w, "Can not find any active RM. Will retry in next 3 seconds.")
	}))
	defer page.Close()
	for _, addrs := range [][]string{{sends.URL}, {page.URL, active.URL}, {"http://127.0.0.1:1", active.URL}} {
		m, err := newResourceManager(addrs, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &application{rm: m, id: "application_1_0001", log: discard}
		if err := a.Kill(t.Context()); err != nil {
			t.Errorf("%v: %v", addrs, err)
		}
		if s, err := a.State(t.Context()); err != nil || !s.Ended {
			t.Errorf("%v: %+v %v", addrs, s, err)
		}
		if kills != 1 {
			t.Errorf("%v: killed %d times", addrs, kills)
		}
		kills = 0
		if last := m.urls[0].String(); len(addrs) > 1 && last != active.URL {
			t.Errorf("%v: %s is asked first", addrs, last)
		}
	}
	for _, addrs := range [][]string{nil, {"rm1:8088"}, {"//"}} {
		if _, err := newResourceManager(addrs, "", nil); loader.ExitCode(err) != loader.ExitUsage {
			t.Errorf("%v: %v", addrs, err)
		}
	}
}

func TestExamine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, name, _ := strings.Cut(r.URL.Path, "/cluster/")
		_, _ = io.WriteString(w, mustRead(t, "testdata/"+name+".json"))
	}))
	defer server.Close()
	s := Settings{ResourceManagers: []string{server.URL}, Command: []string{os.Args[0]}}
	for _, f := range Examine(t.Context(), s, sink.Access{User: "etl"}, nil, 512<<20) {
		if f.Err != nil || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, c := range []struct {
		keytab, protection string
		send               bool
		code               int
		says               string
	}{
		{"", "", false, loader.ExitAuth, "send_keytab"},
		{"", "", true, loader.ExitAuth, "send_keytab"},
		{"/etc/etl.keytab", "", false, 0, "/etc/etl.keytab, which has to lie at that path on every node"},
		{"/etc/etl.keytab", "", true, 0, "hadoop.rpc.protection is authentication"},
		{"/etc/etl.keytab", "privacy", true, 0, "/etc/etl.keytab; its keys go along"},
		{"gone", "", true, loader.ExitAuth, "klist"},
	} {
		s, l := s, login()
		s.SendKeytab, l.Keytab, l.Protection = c.send, c.keytab, c.protection
		found := Examine(t.Context(), s, sink.Access{User: "nobody"}, l, 512<<20)
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == "login of tasks" })
		if i < 0 || loader.ExitCode(found[i].Err) != c.code || !strings.Contains(found[i].Detail+found[i].Advice, c.says) {
			t.Errorf("%+v: %+v", c, found)
		}
		if strings.Contains(found[i].Detail, "wire") != (c.protection == "" && c.send && c.code == 0) {
			t.Errorf("%+v: %s", c, found[i].Detail)
		}
	}
	for _, c := range []struct {
		change func(*Settings)
		memory int64
		check  string
		code   int
	}{
		{func(s *Settings) { s.Command = []string{"no-such-hadoop"} }, 512 << 20, "command no-such-hadoop", loader.ExitUsage},
		{func(s *Settings) { s.ResourceManagers = []string{"http://127.0.0.1:1"} }, 512 << 20, "ResourceManager", loader.ExitUnavailable},
		{func(*Settings) {}, 1 << 40, "nodes", loader.ExitConflict},
	} {
		bad := s
		c.change(&bad)
		failed := 0
		for _, f := range Examine(t.Context(), bad, sink.Access{}, nil, c.memory) {
			if f.Err != nil {
				if failed++; f.Check != c.check || loader.ExitCode(f.Err) != c.code || f.Advice == "" {
					t.Errorf("%+v: want %s to fail with %d", f, c.check, c.code)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%s: %d findings failed", c.check, failed)
		}
	}
}

// A ticket is put into each request, also into one that is sent on, which goes to
// another host.
func TestNegotiate(t *testing.T) {
	asked := map[string]string{}
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked["active"] = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"apps":null}`)
	}))
	defer active.Close()
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked["standby"] = r.Header.Get("Authorization")
		http.Redirect(w, r, active.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer standby.Close()
	m, err := newResourceManager([]string{standby.URL}, "", &Login{Negotiate: func(r *http.Request) error {
		r.Header.Set("Authorization", "Negotiate for "+r.URL.Host)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.tagged(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]*httptest.Server{"standby": standby, "active": active} {
		if want := "Negotiate for " + strings.TrimPrefix(server.URL, "http://"); asked[name] != want {
			t.Errorf("%s was asked with %q, want %q", name, asked[name], want)
		}
	}
	if m, err = newResourceManager([]string{active.URL}, "", &Login{Negotiate: func(*http.Request) error { return os.ErrPermission }}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.tagged(t.Context(), "x"); loader.ExitCode(err) != loader.ExitAuth {
		t.Errorf("without a ticket: %v", err)
	}
}
