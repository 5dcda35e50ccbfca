package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"sawlog/cmd/sawlog/api"
)

// TestFront: before the node has started the port says that it lives, and what
// it waits for.
func TestFront(t *testing.T) {
	var f front
	said := func(path string) (int, string) {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for _, stage := range []string{"it has begun", "it waits for the active controller"} {
		if code, text := said("/livez"); code != 200 || text != "ok\n" {
			t.Errorf("/livez: %d %q", code, text)
		}
		for _, path := range []string{"/readyz", "/api/v1/jobs", "/"} {
			if code, text := said(path); code != 503 || text != "[-] broker: it starts: "+stage+"\nnot ready\n" {
				t.Errorf("%s: %d %q", path, code, text)
			}
		}
		f.at("it waits for the active controller")
	}
	f.token = api.NewToken([]byte("0123456789abcdef"))
	if code, text := said("/readyz"); code != 503 || text != "not ready\n" {
		t.Errorf("to who shows no token: %d %q", code, text)
	}
	f.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), nil)
	if code, _ := said("/readyz"); code != http.StatusTeapot {
		t.Errorf("started: %d", code)
	}
}
