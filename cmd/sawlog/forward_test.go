package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sawlog/broker"
)

// TestForward: what needs the scheduler reaches the node that runs it as it was
// sent, and its answer comes back as it is made.
func TestForward(t *testing.T) {
	more := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 2 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i) // the test reads it, or fails
				_ = http.NewResponseController(w).Flush()
				<-more
			}
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			t.Error("the leader is to judge an origin that was judged")
		}
		w.Header().Set("X-Asked", r.Method+" "+r.URL.String()+" "+string(body)+" "+r.Header.Get("Sawlog-User"))
		w.WriteHeader(http.StatusTeapot)
	}))
	defer leader.Close()
	near := httptest.NewServer(newForward(func() broker.JournalLeader {
		return broker.JournalLeader{Node: 2, HTTP: strings.TrimPrefix(leader.URL, "http://")}
	}))
	defer near.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, near.URL+"/api/v1/jobs/a%2Fb/pause?x=1", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sawlog-User", "me")
	req.Header.Set("Origin", near.URL)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // it is empty
	if have := resp.Header.Get("X-Asked"); have != "POST /api/v1/jobs/a%2Fb/pause?x=1 {} me" || resp.StatusCode != http.StatusTeapot {
		t.Errorf("the leader was asked %q, and answered %d", have, resp.StatusCode)
	}

	resp, err = http.Get(near.URL + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	lines := bufio.NewScanner(resp.Body)
	for i := range 2 { // each comes before the next is sent
		if !lines.Scan() || lines.Text() != fmt.Sprint("data: ", i) || !lines.Scan() {
			t.Fatalf("event %d: %q %v", i, lines.Text(), lines.Err())
		}
		more <- struct{}{}
	}
}

// TestForwardHasNobody: where there is no leader to pass a request on to, the
// answer says so, and whether asking again is safe.
func TestForwardHasNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := silent.Addr().String()
	_ = silent.Close() // nobody listens there now
	breaking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer breaking.Close()
	for _, c := range []struct {
		name   string
		leader broker.JournalLeader
		passed bool // by another node already
		status int
		says   string
	}{
		{"none", broker.JournalLeader{Node: -1}, false, 503, "no node leads"},
		{"this one soon", broker.JournalLeader{Node: 1, Here: true}, false, 503, "on its way"},
		{"each takes the other for it", broker.JournalLeader{Node: 2, HTTP: refusing}, true, 503, "on its way"},
		{"no address", broker.JournalLeader{Node: 2}, false, 503, "tells no HTTP address"},
		{"not reached", broker.JournalLeader{Node: 2, HTTP: refusing}, false, 503, "node 2 runs the scheduler and is not reached"},
		{"died meanwhile", broker.JournalLeader{Node: 2, HTTP: strings.TrimPrefix(breaking.URL, "http://")}, false, 502, "look before asking again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForward(func() broker.JournalLeader { return c.leader })
			r := httptest.NewRequest(http.MethodPost, "/api/v1/backfills", strings.NewReader("{}"))
			if c.passed {
				r.Header.Set(forwardedHeader, "1")
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("answer %d %s", w.Code, w.Body)
			}
			if again := w.Header().Get("Retry-After") != ""; again != (c.status == 503) {
				t.Errorf("may be asked again: %v", again)
			}
		})
	}
}
