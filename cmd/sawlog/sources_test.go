package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sawlog/cmd/sawlog/config"
)

// TestConsoleOfAServer: the pages of a real server find their sources, with the
// scheduler here, and those that need none of it without.
func TestConsoleOfAServer(t *testing.T) {
	dir := t.TempDir()
	cfg, err := config.Load("", map[string]string{"data": dir, "listen": "127.0.0.1:0", "peer": "127.0.0.1:0", "http": "127.0.0.1:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	get := func(h http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = s.httpAddr
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	pages := map[string]string{"topics": "sawlog topic create", "groups": "No groups yet", "cluster": "1 of 1 up", "settings": dir}
	for page, word := range pages {
		if code, text := get(s.face(nil), "/console/"+page); code != http.StatusOK || !strings.Contains(text, word) {
			t.Errorf("%s without the scheduler: %d\n%s", page, code, text)
		}
	}
	if code, _ := get(s.face(nil), "/console/jobs"); code != http.StatusServiceUnavailable {
		t.Errorf("jobs without the scheduler: %d, want the node that has it, of which there is none", code)
	}
	pages["outputs"], pages[""] = "No data sets yet", "1 of 1 up"
	for page, word := range pages {
		if code, text := get(s.face(s.jobs.scheduler()), "/console/"+page); code != http.StatusOK || !strings.Contains(text, word) {
			t.Errorf("%s: %d\n%s", page, code, text)
		}
	}
}
