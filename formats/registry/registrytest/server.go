// Package registrytest is a schema registry in memory with the public REST
// surface, as far as serializers and readers of records need it, for tests: it can
// be put out of order and asks for a login.
package registrytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Reference names a schema that another needs.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

type schema struct {
	id         uint32
	kind, text string
	refs       []Reference
}

// Server is a registry. Its fields are set before it is used.
type Server struct {
	*httptest.Server
	User, Password string // "" = nobody is asked

	mu       sync.Mutex
	byID     map[uint32]*schema
	subjects map[string][]*schema
	down     int // requests still to be answered with 503
	asked    int
}

// New starts a registry; Close ends it.
func New() *Server {
	s := &Server{byID: map[uint32]*schema{}, subjects: map[string][]*schema{}}
	s.Server = httptest.NewServer(s)
	return s
}

// Register adds a version to a subject and gives the schema's id.
func (s *Server) Register(subject, kind, text string, refs ...Reference) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(subject, kind, text, refs, func(*schema) bool { return false })
}

// Down has the next n requests fail.
func (s *Server) Down(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = n
}

// Asked counts requests.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.down > 0 {
		s.down--
		refuse(w, http.StatusServiceUnavailable, 50003, "not now")
		return
	}
	if user, password, _ := r.BasicAuth(); s.User != "" && (user != s.User || password != s.Password) {
		refuse(w, http.StatusUnauthorized, 40101, "who are you?")
		return
	}
	path := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i, word := range path {
		path[i], _ = url.PathUnescape(word) // it was escaped by net/url
	}
	switch {
	case r.Method == http.MethodPost && path[0] == "subjects" && (len(path) == 2 || len(path) == 3 && path[2] == "versions"):
		s.takeSchema(w, r, path[1], len(path) == 3)
	case len(path) == 3 && path[0] == "schemas" && path[1] == "ids":
		s.answerID(w, path[2])
	case len(path) >= 3 && path[0] == "subjects" && path[2] == "versions":
		s.answerSubject(w, path[1], path[3:])
	default:
		refuse(w, http.StatusNotFound, 404, "no such path")
	}
}

// takeSchema registers the schema of a request, or only looks it up. One that is
// known keeps its id, whatever its subject.
func (s *Server) takeSchema(w http.ResponseWriter, r *http.Request, subject string, register bool) {
	var ask struct {
		Text string      `json:"schema"`
		Kind string      `json:"schemaType"`
		Refs []Reference `json:"references"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		refuse(w, http.StatusUnprocessableEntity, 42201, err.Error())
		return
	}
	same := func(have *schema) bool {
		return have.kind == cmp.Or(ask.Kind, "AVRO") && have.text == ask.Text && slices.Equal(have.refs, ask.Refs)
	}
	at := slices.IndexFunc(s.subjects[subject], same)
	switch {
	case at < 0 && !register:
		refuse(w, http.StatusNotFound, 40403, "Schema not found")
		return
	case at < 0:
		s.add(subject, cmp.Or(ask.Kind, "AVRO"), ask.Text, ask.Refs, same)
		at = len(s.subjects[subject]) - 1
	}
	found := s.subjects[subject][at]
	fields := found.fields(at + 1)
	fields["subject"], fields["id"] = subject, found.id
	answer(w, fields)
}

// add adds a version to a subject, with the id of a schema that is the same.
func (s *Server) add(subject, kind, text string, refs []Reference, same func(*schema) bool) uint32 {
	added := &schema{uint32(len(s.byID) + 1), kind, text, refs}
	for _, have := range s.byID {
		if same(have) {
			added = have
		}
	}
	s.byID[added.id] = added
	s.subjects[subject] = append(s.subjects[subject], added)
	return added.id
}

func (s *Server) answerID(w http.ResponseWriter, text string) {
	id, err := strconv.ParseUint(text, 10, 32)
	found := s.byID[uint32(id)]
	if err != nil || found == nil {
		refuse(w, http.StatusNotFound, 40403, "Schema "+text+" not found")
		return
	}
	answer(w, found.fields(0))
}

func (s *Server) answerSubject(w http.ResponseWriter, subject string, version []string) {
	all := s.subjects[subject]
	if len(all) == 0 {
		refuse(w, http.StatusNotFound, 40401, "Subject '"+subject+"' not found.")
		return
	}
	if len(version) == 0 {
		numbers := make([]int, len(all))
		for i := range all {
			numbers[i] = i + 1
		}
		answer(w, numbers)
		return
	}
	n, err := strconv.Atoi(version[0])
	if version[0] == "latest" {
		n, err = len(all), nil
	}
	if err != nil || n < 1 || n > len(all) {
		refuse(w, http.StatusNotFound, 40402, "Version "+version[0]+" not found.")
		return
	}
	fields := all[n-1].fields(n)
	fields["subject"], fields["id"] = subject, all[n-1].id
	answer(w, fields)
}

// fields is a schema's answer; Avro's type is left out, as by the original.
func (s *schema) fields(version int) map[string]any {
	out := map[string]any{"schema": s.text}
	if version > 0 {
		out["version"] = version
	}
	if s.kind != "AVRO" {
		out["schemaType"] = s.kind
	}
	if len(s.refs) > 0 {
		out["references"] = s.refs
	}
	return out
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	_ = json.NewEncoder(w).Encode(v) // the client sees a broken answer
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error_code":%d,"message":%q}`, code, message)
}
