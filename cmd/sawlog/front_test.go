package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// TestFrontWaitsForNoBody: a request whose body never comes is answered, and let go.
func TestFrontWaitsForNoBody(t *testing.T) {
	web := httptest.NewServer(new(front))
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // until the server closes it
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("%q, %v", answer, err)
	}
}
