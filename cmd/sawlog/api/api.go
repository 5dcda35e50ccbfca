// Package api is the HTTP side of a server: /api/v1 for jobs, runs, data sets
// and the cluster, health, metrics and profiles, and the client of all that.
// It carries no rules of its own: jobs and the loader decide.
package api

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"sawlog/broker"
	"sawlog/jobs"
	"sawlog/loader"
)

// Config is what the handler stands in front of. Fields that are nil answer
// "not available".
type Config struct {
	Jobs *jobs.Scheduler
	// Elsewhere answers what needs Jobs while that is nil.
	Elsewhere http.Handler

	Cluster Cluster                       // topics, groups; OverKafka makes one
	Broker  func() broker.Snapshot        // numbers for /metrics
	Place   func() broker.ClusterSnapshot // the same of its place in the cluster
	Console http.Handler                  // serves /console/ and below
	Logger  *slog.Logger
	Version string
	// Loopback says that the listener is reachable from this machine only: then
	// a request must name this machine, so that no foreign page can reach it by
	// a name that resolves here.
	Loopback bool
	// Names are the addresses, HOST:PORT, that the server was told of itself.
	// Beyond loopback it answers to these hosts, and to what no foreign page can
	// have bound to it: addresses, and names without a dot.
	Names []string
	// Token is asked for by everything but /livez, /readyz and the way in; nil =
	// by nothing. It keeps out what Loopback and Names are to keep out, too.
	Token *Token
	// Checks are what /readyz asks, by name.
	Checks map[string]func() error
	// Tickets are the Kerberos logins of the jobs. One that fails is told, but
	// a broker whose loads can't log in is ready all the same.
	Tickets func() []Ticket

	// Plan says what a run of one data set of a job would do.
	Plan func(ctx context.Context, s *jobs.Spec, set jobs.Set, ask jobs.Ask) (*jobs.Planned, error)
	// Rerun remakes a run's files from its plan; Verify checks a run or, with
	// run empty, the data set. Both answer what is printed as JSON.
	Rerun  func(ctx context.Context, s *jobs.Spec, set jobs.Set, run string) (any, error)
	Verify func(ctx context.Context, s *jobs.Spec, set jobs.Set, run string) (any, error)
	// Detail reads a run's plan and its commit, nil where it has none.
	Detail func(ctx context.Context, s *jobs.Spec, run *jobs.Run) (*loader.Plan, *loader.Record, error)
	// Fold reads a data set's ledger; nil without an error = nothing loaded yet.
	Fold func(ctx context.Context, s *jobs.Spec, set jobs.Set) (*loader.Fold, error)
}

// server holds the configuration behind the handlers.
type server struct {
	Config
	lag lagCache
}

// New makes the handler of everything under the server's HTTP address.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{Config: c}
	mux := http.NewServeMux()
	elsewhere := map[string]bool{} // what comes after /api/v1/
	for _, r := range s.routes() {
		kind, _, _ := strings.Cut(r.path[1:], "/")
		switch {
		case !r.jobs || c.Jobs != nil || c.Elsewhere == nil:
			mux.HandleFunc(r.method+" "+base+r.path, r.do)
		case !elsewhere[kind]: // whole, so that a newer node's new routes are reached by it
			elsewhere[kind] = true
			mux.Handle(base+"/"+kind, c.Elsewhere)
			mux.Handle(base+"/"+kind+"/", c.Elsewhere)
		}
	}
	s.routeLogin(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: "no such resource: " + r.Method + " " + r.URL.Path})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.metrics())
	profiles(mux)
	if c.Console != nil {
		mux.Handle("/console/", c.Console)
		mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusFound))
	}
	return s.guard(s.known(s.whole(mux)))
}

// base is where the API's routes lie.
const base = "/api/v1"

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the caller went away
}

// profiles serves pprof to this machine only, whoever else may connect.
func profiles(mux *http.ServeMux) {
	local := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				say(w, http.StatusForbidden, "profiles are for this machine only\n")
				return
			}
			h(w, r)
		}
	}
	mux.HandleFunc("GET /debug/pprof/", local(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", local(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", local(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", local(pprof.Trace))
}

// policy is the content security policy of every page: own files only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// bodyLimit bounds what a request may send.
const bodyLimit = 1 << 20

// guard keeps foreign pages out and sets the headers every answer has.
func (s *server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &Error{Status: http.StatusForbidden, Code: CodeForbidden, Message: "a page of another origin may not change anything here"})
	}))
	guarded := origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Also where the answer needs no body: what is unread of it is passed
			// over, and it may never come.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)) // a reader without one does not stand still
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !strings.HasPrefix(r.URL.Path, "/console/") {
			h.Set("Cache-Control", "no-store")
		}
		if err := s.misnamed(r.Host); err != nil {
			s.fail(w, r, err)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// bodyPatience is how long the body of a request may take to come.
var bodyPatience = 30 * time.Second

// whole reads the body of a request before anything is done with it.
func (s *server) whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
		if err != nil {
			if _, long := errors.AsType[*http.MaxBytesError](err); !long {
				err = &Error{Code: CodeInvalid, Message: "the request's body did not come whole: " + err.Error()}
			}
			s.fail(w, r, err)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // where there is none, none was set
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
		next.ServeHTTP(w, r)
	})
}

// misnamed refuses a Host header by which a foreign page may reach a server that
// asks for no token: a name of the page's owner that resolves to the server makes
// its answers the page's own.
func (s *server) misnamed(hostport string) error {
	host := hostOf(hostport)
	switch {
	case s.Token != nil:
		return nil
	case s.Loopback && !localHost(host):
		return &Error{
			Status: http.StatusForbidden, Code: CodeForbidden, Message: "this server listens on loopback and does not answer to the name " + hostport,
			Hint: "use http://localhost or http://127.0.0.1",
		}
	case s.Loopback || net.ParseIP(host) != nil || !strings.Contains(host, "."):
		return nil
	case slices.ContainsFunc(s.Names, func(name string) bool { return strings.EqualFold(hostOf(name), host) }):
		return nil
	}
	return &Error{
		Status: http.StatusForbidden, Code: CodeForbidden, Message: "this server asks for no token and does not answer to the name " + hostport,
		Hint: "use its address, or the host of its --http or --advertise; with --http-token FILE it answers to every name",
	}
}

// hostOf is the host of an address with or without a port.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host
}

// localHost tells whether a host names this machine.
func localHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Version is the answer to GET /api/v1/version.
type Version struct {
	Version string `json:"version"`
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, Version{s.Version})
}

// document is made by TestDocument.
//
//go:embed openapi.json
var document []byte

func (s *server) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document) // the caller went away
}

// ready answers whether the server can do its work; with ?verbose a line for
// each check, but not to who shows no token where one is asked for.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	var lines strings.Builder
	status := http.StatusOK
	for _, name := range sortedNames(s.Checks) {
		if err := s.Checks[name](); err != nil {
			status = http.StatusServiceUnavailable
			lines.WriteString("[-] " + name + ": " + err.Error() + "\n")
		} else {
			lines.WriteString("[+] " + name + " ok\n")
		}
	}
	for _, t := range s.tickets() {
		lines.WriteString(t.line())
	}
	text := "ok\n"
	if status != http.StatusOK {
		text = "not ready\n"
	}
	if (r.URL.Query().Has("verbose") || status != http.StatusOK) && s.Token.Admits(r) {
		text = lines.String() + text
	}
	say(w, status, text)
}
