package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

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

// stuck is a connection to who takes nothing: a write waits for its deadline.
type stuck struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *stuck) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }

func (s *stuck) Write([]byte) (int, error) {
	if until := time.Until(s.deadline); until <= 0 || until > slowest {
		return 0, fmt.Errorf("it may take %s", until)
	}
	return 0, os.ErrDeadlineExceeded
}

// TestForwardEvents: what a reader saw last reaches the node that knows what came
// since, his token, too; one that takes nothing holds nothing up.
func TestForwardEvents(t *testing.T) {
	gone := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		if r.Header.Get("Last-Event-ID") != "a-7" || r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Cookie") != "c=1" {
			t.Errorf("the leader sees %v", r.Header)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := fmt.Fprint(w, "data: 1\n\n"); err != nil || http.NewResponseController(w).Flush() != nil || r.Context().Err() != nil {
				return
			}
		}
	}))
	defer leader.Close()
	f := newForward(func() broker.JournalLeader {
		return broker.JournalLeader{Node: 2, HTTP: strings.TrimPrefix(leader.URL, "http://")}
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", nil)
	r.Header.Set("Last-Event-ID", "a-7")
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Cookie", "c=1")
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		f.ServeHTTP(&stuck{ResponseRecorder: httptest.NewRecorder()}, r)
	}()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the leader goes on sending")
	}
}
