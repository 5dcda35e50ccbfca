package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestBodiesThatDoNotCome: a request whose body stays away is given up, whether
// its sender is known or not; those that come whole may take as long to answer
// as they need.
func TestBodiesThatDoNotCome(t *testing.T) {
	defer func(before time.Duration) { bodyPatience = before }(bodyPatience)
	bodyPatience = 100 * time.Millisecond
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // it is in memory
		select {
		case <-time.After(4 * bodyPatience):
		case <-r.Context().Done():
		}
		say(w, http.StatusOK, fmt.Sprintf("%d of %d, gone: %v\n", len(text), r.ContentLength, r.Context().Err() != nil))
	})
	known := "Authorization: Bearer " + secret + "\r\n"
	for name, c := range map[string]struct{ request, says string }{
		"a form, before a login":     {"POST /login HTTP/1.1\r\nContent-Length: 100\r\n", "400"},
		"a part of a form":           {"POST /login HTTP/1.1\r\nContent-Length: 100\r\n\r\ntoken=", "400"},
		"pieces":                     {"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "400"},
		"who shows no token":         {"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n", "401"},
		"a page of another":          {"POST /api/v1/jobs HTTP/1.1\r\nOrigin: http://evil.example\r\nContent-Length: 100\r\n", "403"},
		"who is known":               {"POST /api/v1/jobs HTTP/1.1\r\n" + known + "Content-Length: 100\r\n", "400"},
		"a read with a body":         {"GET /api/v1/jobs HTTP/1.1\r\n" + known + "Content-Length: 100\r\n", "400"},
		"to another node, in pieces": {"POST /api/v1/jobs HTTP/1.1\r\n" + known + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "2 of 2, gone: false"},
		"to another node, without":   {"POST /api/v1/jobs HTTP/1.1\r\n" + known, "0 of 0, gone: false"},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(New(Config{Token: NewToken([]byte(secret)), Elsewhere: slow}))
			defer web.Close() // it waits for the requests
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // it was read
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			head, body, _ := strings.Cut(c.request, "\r\n\r\n")
			_, _ = fmt.Fprintf(conn, "%s\r\nHost: 127.0.0.1\r\n\r\n%s", strings.TrimSpace(head), body) // the answer tells
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }() // it was read
			text, err := io.ReadAll(resp.Body)
			if err != nil || !strings.Contains(resp.Status+" "+string(text), c.says) {
				t.Errorf("%s %s %v, want %q", resp.Status, text, err, c.says)
			}
		})
	}
}

// TestLongBodies are refused as such, also where another node would answer.
func TestLongBodies(t *testing.T) {
	h := New(Config{Elsewhere: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, http.StatusTeapot, "") })})
	for _, size := range []int{bodyLimit, bodyLimit + 1} {
		want := map[bool]int{false: http.StatusTeapot, true: http.StatusBadRequest}[size > bodyLimit]
		if w := sent(h, "POST", "/api/v1/jobs", strings.Repeat("x", size)); w.Code != want {
			t.Errorf("%d bytes: %d %s, want %d", size, w.Code, w.Body, want)
		}
	}
}
