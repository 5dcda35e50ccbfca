package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
)

//go:embed login.html
var loginText string

var loginPage = template.Must(template.New("login").Parse(loginText))

// Paths that ask for no token: whether the node lives and is ready, the way in
// and out, and what the page of the way in looks like.
func (s *server) open(path string) bool {
	switch path {
	case "/livez", "/readyz", "/login", "/logout":
		return true
	}
	return strings.HasPrefix(path, "/console/static/")
}

// known lets through who shows the token or a cookie. People are shown the way
// in, programs are told.
func (s *server) known(next http.Handler) http.Handler {
	if s.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		err := s.Token.check(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/console/") || r.Header.Get("Authorization") != "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="sawlog"`)
			s.fail(w, r, err)
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet:
			// Who follows a link from elsewhere sends no strict cookie; a page of
			// our own that asks again does.
			s.page(w, http.StatusOK, login{Again: true})
		default:
			http.Redirect(w, r, "/login?next="+url.QueryEscape(s.after(r.URL.RequestURI(), r.Method)), http.StatusSeeOther)
		}
	})
}

// after is where a login leads: a page of the console.
func (s *server) after(next, method string) string {
	const front = "/console/"
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, front) || strings.Contains(next, `\`) || method == http.MethodPost {
		return front
	}
	return next
}

func (s *server) routeLogin(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		next := s.after(r.URL.Query().Get("next"), r.Method)
		if s.Token.Admits(r) {
			http.Redirect(w, r, next, http.StatusSeeOther)
			return
		}
		s.page(w, http.StatusOK, login{Next: next})
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		next := s.after(r.PostFormValue("next"), http.MethodGet)
		if s.Token != nil {
			if err := s.Token.try(r, strings.TrimSpace(r.PostFormValue("token"))); err != nil {
				e := asError(err)
				s.page(w, e.Status, login{Next: next, Wrong: e.Message, Hint: e.Hint})
				return
			}
			http.SetCookie(w, s.Token.cookie(r, s.Token.session(time.Now())))
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		if s.Token != nil {
			http.SetCookie(w, s.Token.cookie(r, ""))
		}
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	})
}

// login is what the page of the way in shows.
type login struct {
	Next, Wrong, Hint string
	Again             bool // it asks for itself once more, as a page of this server
}

func (s *server) page(w http.ResponseWriter, status int, l login) {
	var b bytes.Buffer
	if err := loginPage.Execute(&b, l); err != nil {
		panic("login page: " + err.Error()) // the template is part of the binary
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader went away
}
