// Package registrytest is a schema registry in memory with the public REST
// surface, for tests: it can be put out of order and asks for a login.
package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	added := &schema{uint32(len(s.byID) + 1), kind, text, refs}
	s.byID[added.id] = added
	s.subjects[subject] = append(s.subjects[subject], added)
	return added.id
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
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(path) == 3 && path[0] == "schemas" && path[1] == "ids":
		s.answerID(w, path[2])
	case len(path) >= 3 && path[0] == "subjects" && path[2] == "versions":
		s.answerSubject(w, path[1], path[3:])
	default:
		refuse(w, http.StatusNotFound, 404, "no such path")
	}
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
