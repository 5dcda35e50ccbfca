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
	bodyPatience = 300 * time.Millisecond
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

// TestNamesOfTheServer: without a token a server answers to no name that somebody
// else may have bound to its address; a token makes up for that.
func TestNamesOfTheServer(t *testing.T) {
	names := []string{"0.0.0.0:8088", ":8088", "Kafka1.example:9092", "", "[2001:db8::1]:9093"}
	for _, c := range []struct {
		host          string
		beyond, local int
	}{
		{"192.0.2.7:8088", 200, 403},
		{"192.0.2.7", 200, 403},
		{"127.0.0.1:8088", 200, 200},
		{"[::1]:8088", 200, 200},
		{"[2001:db8::9]:8088", 200, 403},
		{"localhost:8088", 200, 200},
		{"LOCALHOST", 200, 200},
		{"sawlog-1:8088", 200, 403},
		{"kafka1.example:8088", 200, 403},
		{"KAFKA1.EXAMPLE", 200, 403},
		{"evil.example:8088", 403, 403},
		{"evil.example", 403, 403},
		{"evil.kafka1.example:8088", 403, 403},
		{"kafka1.example.evil.example:8088", 403, 403},
		{"127.0.0.1.evil.example:8088", 403, 403},
		{"evil.:8088", 403, 403},
		{"0x7f.1", 403, 403},
	} {
		for listens, want := range map[bool]int{false: c.beyond, true: c.local} {
			w := sent(New(Config{Names: names, Loopback: listens}), "GET", "/api/v1/version", "", "Host", c.host)
			if w.Code != want || want == 403 && !listens && !strings.Contains(w.Body.String(), "--http-token") {
				t.Errorf("%s, on loopback %v: %d %s, want %d", c.host, listens, w.Code, w.Body, want)
			}
		}
		known := New(Config{Token: NewToken([]byte(secret)), Names: names})
		if w := sent(known, "GET", "/api/v1/version", "", "Host", c.host, "Authorization", "Bearer "+secret); w.Code != 200 {
			t.Errorf("%s with the token: %d", c.host, w.Code)
		}
	}
}

// TestBodiesOfHTTP2 are waited for as long as others; an answer may take longer.
func TestBodiesOfHTTP2(t *testing.T) {
	defer func(before time.Duration) { bodyPatience = before }(bodyPatience)
	bodyPatience = 300 * time.Millisecond
	web := httptest.NewUnstartedServer(New(Config{Elsewhere: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // it is in memory
		for range 4 {
			_ = http.NewResponseController(w).Flush() // the test reads it, or fails
			time.Sleep(bodyPatience)
		}
		say(w, http.StatusOK, fmt.Sprintf("%s %d", r.Proto, len(text)))
	})}))
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	never, end := io.Pipe()
	defer func() { _ = end.Close() }() // who waits for it is gone
	for says, body := range map[string]io.Reader{"HTTP/2.0 0": nil, "HTTP/2.0 2": strings.NewReader("{}"), "did not come whole": never} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/api/v1/jobs", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil || !strings.Contains(string(text), says) {
			t.Errorf("%s %s %v, want %q", resp.Status, text, err, says)
		}
	}
}
