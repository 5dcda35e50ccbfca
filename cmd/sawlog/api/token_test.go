package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "0123456789abcdef0123456789abcdef"

// guarded is a server with a token and the pages of a console that says who it is.
func guarded(t *testing.T) http.Handler {
	t.Helper()
	w := newWorld(t)
	return New(Config{
		Jobs: w.jobs, Cluster: fakeCluster{}, Token: NewToken([]byte(secret)), Loopback: true, Version: "9.9",
		Console: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "the console") }),
		Checks:  map[string]func() error{"broker": func() error { return fmt.Errorf("partition 7 is offline") }},
	})
}

// sent sends a request; header is pairs of name and value.
func sent(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8088"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	if method == http.MethodPost && !strings.HasPrefix(target, "/api/") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// loggedIn logs a browser in and returns its cookie.
func loggedIn(t *testing.T, h http.Handler) *http.Cookie {
	t.Helper()
	w := sent(h, "POST", "/login", url.Values{"token": {secret}, "next": {"/console/jobs/a?day=1"}}.Encode())
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/jobs/a?day=1" || len(cookies) != 1 {
		t.Fatalf("logging in: %d %v", w.Code, w.Header())
	}
	return cookies[0]
}

// TestTokenIsAskedFor: what shows something wants the token, what tells only that
// a server lives and is ready does not, and says no more.
func TestTokenIsAskedFor(t *testing.T) {
	h := guarded(t)
	bearer := []string{"Authorization", "Bearer " + secret}
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		says         string
	}{
		{"GET", "/livez", nil, 200, "ok"},
		{"GET", "/readyz", nil, 503, "not ready"},
		{"GET", "/readyz?verbose", nil, 503, "not ready"},
		{"GET", "/readyz?verbose", bearer, 503, "partition 7 is offline"},
		{"GET", "/metrics", nil, 401, "wants a token"},
		{"GET", "/metrics", bearer, 200, "go_goroutines"},
		{"GET", "/debug/pprof/", nil, 401, ""},
		{"GET", "/api/v1/nothing", nil, 401, "--token FILE"},
		{"GET", "/nothing", nil, 401, ""},
		{"GET", "/api/v1/jobs", bearer, 200, "jobs"},
		{"GET", "/api/v1/jobs", []string{"Authorization", "Bearer " + secret + "x"}, 401, "not this server's token"},
		{"GET", "/api/v1/jobs", []string{"Authorization", "Bearer "}, 401, "not this server's token"},
		{"GET", "/api/v1/jobs", []string{"Authorization", "Basic " + secret}, 401, "wants a token"},
		{"GET", "/api/v1/jobs", []string{"Cookie", "sawlog=" + secret}, 401, "wants a token"},
		{"GET", "/console/", nil, 303, ""},
		{"GET", "/", nil, 303, ""},
		{"GET", "/console/", bearer, 200, "the console"},
		{"GET", "/console/", []string{"Authorization", "Bearer wrong"}, 401, ""},
		{"GET", "/console/static/console.css", nil, 200, "the console"},
		{"GET", "/console/static/../jobs", nil, 307, ""}, // the mux cleans the path, and then it is asked for
		{"POST", "/console/jobs/a/pause", nil, 303, ""},
		{"GET", "/login", nil, 200, "Token of this server"},
		{"GET", "/login", bearer, 303, ""},
	} {
		w := sent(h, c.method, c.path, "", c.header...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %v: %d %s, want %d %q", c.method, c.path, c.header, w.Code, w.Body, c.status, c.says)
		}
		if c.header == nil && strings.Contains(w.Body.String(), "offline") {
			t.Errorf("%s %s tells everybody why: %s", c.method, c.path, w.Body)
		}
		if told := w.Header().Get("WWW-Authenticate") != ""; told != (w.Code == 401) {
			t.Errorf("%s %s: WWW-Authenticate %v", c.method, c.path, told)
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s %s tells the token", c.method, c.path)
		}
	}
	if at := sent(h, "GET", "/console/jobs/a?x=1", "").Header().Get("Location"); at != "/login?next=%2Fconsole%2Fjobs%2Fa%3Fx%3D1" {
		t.Errorf("led to %q", at)
	}
	// A strict cookie isn't sent by who follows a link from elsewhere: the page
	// asks for itself once more.
	if w := sent(h, "GET", "/console/", "", "Sec-Fetch-Site", "cross-site"); w.Code != 200 || !strings.Contains(w.Body.String(), `http-equiv="refresh"`) {
		t.Errorf("a link from elsewhere: %d %s", w.Code, w.Body)
	}
	// A proxy in front names the server as the world does.
	if w := sent(h, "GET", "/api/v1/jobs", "", append(bearer, "Host", "sawlog.example")...); w.Code != 200 {
		t.Errorf("behind a proxy: %d %s", w.Code, w.Body)
	}
}

// TestLogin: a browser's cookie is not the token, ends, can be taken away, and
// leads nowhere but to the console.
func TestLogin(t *testing.T) {
	h := guarded(t)
	c := loggedIn(t, h)
	if strings.Contains(c.Value, secret) || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.MaxAge != 24*3600 {
		t.Errorf("cookie %+v", c)
	}
	cookie := c.Name + "=" + c.Value
	for path, want := range map[string]int{"/console/": 200, "/api/v1/jobs": 200, "/metrics": 200, "/login": 303} {
		if w := sent(h, "GET", path, "", "Cookie", cookie); w.Code != want {
			t.Errorf("%s with the cookie: %d", path, w.Code)
		}
	}
	for name, value := range map[string]string{
		"cut": c.Value[:len(c.Value)-1], "longer life": "9" + c.Value, "another": NewToken([]byte(strings.ToUpper(secret))).session(time.Now()), "none": "", "the token": secret,
	} {
		if w := sent(h, "GET", "/api/v1/jobs", "", "Cookie", c.Name+"="+value); w.Code != 401 {
			t.Errorf("a cookie that is %s: %d", name, w.Code)
		}
	}
	if w := sent(h, "POST", "/login", "token="+secret, "X-Forwarded-Proto", "https"); !w.Result().Cookies()[0].Secure {
		t.Error("behind TLS the cookie is not for TLS only")
	}
	for _, next := range []string{"https://evil.example/console/", "//evil.example/console/", "/console/\\evil", "/api/v1/jobs", "javascript:alert(1)", ""} {
		w := sent(h, "POST", "/login", url.Values{"token": {secret}, "next": {next}}.Encode())
		if at := w.Header().Get("Location"); at != "/console/" {
			t.Errorf("next=%s led to %q", next, at)
		}
	}
	w := sent(h, "POST", "/login", url.Values{"token": {"<wrong>"}, "next": {`/console/"><script>`}}.Encode())
	if w.Code != 401 || len(w.Result().Cookies()) != 0 || strings.Contains(w.Body.String(), "<script>") || !strings.Contains(w.Body.String(), "not this server") {
		t.Errorf("a wrong token: %d %s", w.Code, w.Body)
	}
	out := sent(h, "POST", "/logout", "", "Cookie", cookie)
	if gone := out.Result().Cookies(); out.Code != 303 || len(gone) != 1 || gone[0].Name != c.Name || gone[0].MaxAge >= 0 {
		t.Errorf("logged out: %d %v", out.Code, gone)
	}
	if open := New(Config{}); sent(open, "GET", "/login", "").Code != 303 || sent(open, "POST", "/login", "token=x").Code != 303 {
		t.Error("a server without a token has nothing to log in to")
	}
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := NewToken([]byte(secret))
		value := token.session(time.Now())
		time.Sleep(sessionLife - time.Second)
		if !token.made(value) {
			t.Error("it ended early")
		}
		time.Sleep(time.Second)
		if token.made(value) {
			t.Error("it did not end")
		}
	})
}

// TestGuesses: after ten wrong tokens those from there are refused as too many for
// the rest of a minute; the right one, others, and who is logged in, don't notice.
// However many places guess, they are counted in bounded memory.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := NewToken([]byte(secret))
		try := func(from, given string) int {
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.RemoteAddr = from
			r.Header.Set("Authorization", "Bearer "+given)
			if err := token.check(r); err != nil {
				return asError(err).Status
			}
			return 200
		}
		const evil, good = "192.0.2.7:4000", "192.0.2.8:4000"
		for range guessesAllowed {
			if got := try(evil, "x"); got != 401 {
				t.Fatalf("a guess: %d", got)
			}
		}
		if a, b, c := try(evil, "x"), try("192.0.2.7:9", secret), try(good, secret); a != 429 || b != 200 || c != 200 {
			t.Errorf("after too many: %d, the right one %d, %d from elsewhere", a, b, c)
		}
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.RemoteAddr = evil
		r.AddCookie(token.cookie(r, token.session(time.Now())))
		if !token.Admits(r) {
			t.Error("who is logged in is kept out by the guesses of others behind his proxy")
		}
		time.Sleep(guessSpan)
		if got := try(evil, "x"); got != 401 {
			t.Errorf("a minute later: %d", got)
		}
		for range guessesAllowed {
			try("[2001:db8:1:2::1]:1", "x")
		}
		if same, other := try("[2001:db8:1:2:ffff::9]:1", "x"), try("[2001:db8:1:3::1]:1", "x"); same != 429 || other != 401 {
			t.Errorf("of the same customer %d, of another %d", same, other)
		}
		for i := range 3 * guessersKept {
			token.guesses.wrong(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), time.Now())
		}
		if n := len(token.guesses.by); n > guessersKept+1 {
			t.Errorf("%d places are remembered", n)
		}
		if got := try("192.0.2.99:1", "x"); got != 429 {
			t.Errorf("one of very many guessers: %d", got)
		}
	})
	h := guarded(t)
	w := sent(h, "POST", "/login", "token=x")
	for range guessesAllowed {
		w = sent(h, "POST", "/login", "token=x")
	}
	if w.Code != 429 || !strings.Contains(w.Body.String(), "too many wrong tokens") {
		t.Errorf("guesses by the form: %d %s", w.Code, w.Body)
	}
	loggedIn(t, h)
}

// writers are all routes that change something, of the API, of the console and of
// the login, with names put in for what varies.
func writers(t *testing.T) [][2]string {
	t.Helper()
	var all [][2]string
	named := regexp.MustCompile(`\{[a-z]+\}`)
	for _, r := range (&server{}).routes() {
		if r.method != "GET" {
			all = append(all, [2]string{r.method, base + named.ReplaceAllString(r.path, "x")})
		}
	}
	pages := 0
	writes := regexp.MustCompile(`^(POST|PUT|PATCH|DELETE) (/(?:console|login|logout).*)$`)
	add := func(method, path string) {
		all = append(all, [2]string{method, named.ReplaceAllString(path, "x")})
		pages++
	}
	for _, dir := range []string{".", "../console"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(source, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit: // a pattern of a mux
					if s, err := strconv.Unquote(n.Value); err == nil {
						if found := writes.FindStringSubmatch(s); found != nil {
							add(found[1], found[2])
						}
					}
				case *ast.CompositeLit: // what people can have done, by its path
					if of, ok := n.Type.(*ast.MapType); ok && fmt.Sprint(of.Value) == "act" {
						for _, e := range n.Elts {
							path, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
							if err != nil {
								t.Fatal(err)
							}
							add("POST", "/console/"+path)
						}
					}
				}
				return true
			})
		}
	}
	if len(all) < 42 || pages < 25 {
		t.Fatalf("only %d writing routes were found, %d of them pages", len(all), pages)
	}
	return all
}

// TestForeignPagesChangeNothing: a page of another origin, in a browser that is
// logged in, can call no route that changes something; nor can a name that was
// bound to this machine.
func TestForeignPagesChangeNothing(t *testing.T) {
	h := guarded(t)
	c := loggedIn(t, h)
	cookie := c.Name + "=" + c.Value
	for _, route := range writers(t) {
		for name, header := range map[string][]string{
			"by its site":     {"Cookie", cookie, "Sec-Fetch-Site", "cross-site"},
			"of the same one": {"Cookie", cookie, "Sec-Fetch-Site", "same-site"},
			"by its origin":   {"Cookie", cookie, "Origin", "https://evil.example"},
			"of no origin":    {"Cookie", cookie, "Origin", "null"},
			"another port":    {"Cookie", cookie, "Origin", "http://127.0.0.1:9999"},
		} {
			if w := sent(h, route[0], route[1], "", header...); w.Code != http.StatusForbidden {
				t.Errorf("%s %s, a foreign page %s: %d %s", route[0], route[1], name, w.Code, w.Body)
			}
		}
		if w := sent(h, route[0], route[1], "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin"); route[1] != "/login" && (w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized) {
			t.Errorf("%s %s: our own page is kept out: %d", route[0], route[1], w.Code)
		}
		if w := sent(h, route[0], route[1], ""); !strings.HasPrefix(route[1], "/log") && w.Code != http.StatusUnauthorized && w.Header().Get("Location") != "/login?next=%2Fconsole%2F" {
			t.Errorf("%s %s without the token: %d", route[0], route[1], w.Code)
		}
		if w := sent(New(Config{Loopback: true}), route[0], route[1], "", "Host", "rebound.example:8088"); w.Code != http.StatusForbidden {
			t.Errorf("%s %s by a rebound name: %d", route[0], route[1], w.Code)
		}
	}
}

// TestPolicyEverywhere: every answer, errors and pages of others included, has
// the policy that lets a page use own files only, and none can be framed.
func TestPolicyEverywhere(t *testing.T) {
	h := guarded(t)
	c := loggedIn(t, h)
	paths := []string{"/", "/login", "/livez", "/readyz", "/metrics", "/nothing", "/console/", "/console/nothing", "/console/static/console.js", "/debug/pprof/"}
	for _, r := range (&server{}).routes() {
		if r.method == "GET" && r.kind != "text/event-stream" {
			paths = append(paths, base+regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(r.path, "x"))
		}
	}
	for _, path := range paths {
		for _, header := range [][]string{nil, {"Cookie", c.Name + "=" + c.Value}, {"Authorization", "Bearer x"}, {"Host", "x.example"}} {
			w := sent(h, "GET", path, "", header...)
			got := w.Header()
			if csp := got.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
				t.Errorf("%s: policy %q", path, csp)
			}
			if got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: %v", path, got)
			}
			if !strings.HasPrefix(path, "/console/") && got.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be kept", path)
			}
			if html := w.Body.String(); strings.HasPrefix(got.Get("Content-Type"), "text/html") {
				for _, bad := range []string{"<script>", "<style", " style=", " onclick=", "javascript:"} {
					if strings.Contains(html, bad) && path != "/debug/pprof/" {
						t.Errorf("%s holds %q, which the policy forbids", path, bad)
					}
				}
			}
		}
	}
}

// TestTokenOfTheClient: a client shows its token, and is told what is missing.
func TestTokenOfTheClient(t *testing.T) {
	web := httptest.NewServer(guarded(t))
	defer web.Close()
	c, err := NewClient(web.URL, "ann")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Jobs(t.Context())
	if e := asError(err); e.ExitCode() != 5 || !strings.Contains(e.Hint, "SAWLOG_TOKEN") {
		t.Errorf("without: %+v", e)
	}
	c.Token = secret
	if list, err := c.Jobs(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("with: %v, %v", list, err)
	}
	c.Token = "wrong"
	for range guessesAllowed {
		_, err = c.Jobs(t.Context())
	}
	if e := asError(err); e.ExitCode() != 5 {
		t.Errorf("with another: %+v", e)
	}
	_, err = c.Jobs(t.Context())
	if e := asError(err); e.ExitCode() != 6 || e.Status != http.StatusTooManyRequests {
		t.Errorf("too often: %+v", e)
	}
}
