package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/cmd/sawlog/api/apitest"
	"sawlog/jobs"
)

// reader reads an event stream.
type reader struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	last  string // id of the last event
}

func (w *world) read(query, after string) *reader {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.web.URL+"/api/v1/events"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" || resp.StatusCode != 200 {
		w.t.Fatalf("%d %s", resp.StatusCode, kind)
	}
	r := &reader{t: w.t, resp: resp, lines: bufio.NewScanner(resp.Body)}
	r.until(": sawlog events")
	return r
}

// until reads up to a line; false when the stream ended before.
func (r *reader) until(line string) bool {
	for r.lines.Scan() {
		if r.lines.Text() == line {
			return true
		}
	}
	return false
}

// next reads one event; its kind is "" when the stream ended.
func (r *reader) next() (kind string, ev jobs.Event) {
	for r.lines.Scan() {
		text := r.lines.Text()
		switch {
		case strings.HasPrefix(text, "id: "):
			r.last = text[4:]
		case strings.HasPrefix(text, "event: "):
			kind = text[7:]
		case strings.HasPrefix(text, "data: "):
			if err := json.Unmarshal([]byte(text[6:]), &ev); err != nil {
				r.t.Error(err)
			}
		case text == "" && kind != "":
			return kind, ev
		}
	}
	return "", ev
}

func (r *reader) close() { _ = r.resp.Body.Close() } // it was read as far as it counts

// pauses makes n events of a job, each of another reason.
func (w *world) pauses(job string, from, n int) {
	w.t.Helper()
	for i := range n {
		if _, err := w.client.Pause(w.t.Context(), job, fmt.Sprint(from+i)); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.client.Resume(w.t.Context(), job, false); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestEventsResume: a reader that was away gets what it missed, once, in order,
// and then what happens; one whose last event nobody remembers is told to read
// anew. What is sent is what the document says.
func TestEventsResume(t *testing.T) {
	w := newWorld(t)
	w.apply(job)
	doc, err := apitest.Read(document)
	if err != nil {
		t.Fatal(err)
	}
	first := w.read("?job=pageviews-hourly", "")
	w.pauses("pageviews-hourly", 0, 1)
	if kind, ev := first.next(); kind != "job" || ev.Status != "paused" || first.last == "" {
		t.Fatalf("%s %+v", kind, ev)
	}
	last := first.last
	first.close()
	w.pauses("pageviews-hourly", 1, 3) // nobody reads
	again := w.read("", last)
	defer again.close()
	want := []string{"resumed", "paused 1, by ann", "resumed", "paused 2, by ann", "resumed", "paused 3, by ann", "resumed"}
	for i, text := range want {
		kind, ev := again.next()
		if got := strings.TrimSpace(ev.Status + " " + ev.Reason); kind != "job" || got != text {
			t.Errorf("event %d after the pause: %s %q, want %q", i, kind, got, text)
		}
		raw, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.CheckValue("jobs.Event", raw); err != nil {
			t.Error(err)
		}
	}
	w.pauses("pageviews-hourly", 4, 1)
	if _, ev := again.next(); ev.Reason != "4, by ann" {
		t.Errorf("then %+v", ev)
	}
	for _, unknown := range []string{"other-1", "7", last + "0", "\x00"} {
		r := w.read("", strings.ReplaceAll(unknown, "\x00", "-"))
		if kind, _ := r.next(); kind != "reread" {
			t.Errorf("after %q: %s", unknown, kind)
		}
		r.close()
	}
}

// TestManyReaders: a thousand readers each get every event, and cost little.
func TestManyReaders(t *testing.T) {
	const events = 20
	readers := 1000
	if testing.Short() {
		readers = 200 // as under the race detector
	}
	w := newWorld(t)
	w.apply(job)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*reader, readers)
	for i := range all {
		all[i] = w.read("", "")
		defer all[i].close()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(readers); each > 100<<10 { // both ends of the connection
		t.Errorf("a reader costs %d bytes", each)
	}
	w.pauses("pageviews-hourly", 0, events/2)
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() {
			for i := range events {
				if kind, ev := r.next(); kind != "job" || ev.ID == 0 {
					t.Errorf("event %d: %q %+v", i, kind, ev)
					return
				}
			}
		})
	}
	wg.Wait()
	began := time.Now()
	if err := w.jobs.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range all { // the scheduler has gone elsewhere
		if kind, _ := r.next(); kind != "" {
			t.Errorf("after the end: %s", kind)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the streams ended after %s", took)
	}
}

// TestEventsEndWithTheServer: readers hold no server up that stops.
func TestEventsEndWithTheServer(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	web := httptest.NewUnstartedServer(w.web.Config.Handler)
	web.Start()
	defer web.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		}
	}()
	if err := web.Config.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the stream goes on")
	}
}

// still is a connection to a reader that takes nothing once it is stopped: a
// write waits for its deadline.
type still struct {
	mu       sync.Mutex
	stopped  bool
	deadline time.Time
	got      strings.Builder
}

func (*still) Header() http.Header { return http.Header{} }
func (*still) WriteHeader(int)     {}
func (*still) FlushError() error   { return nil }

func (s *still) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	return nil
}

func (s *still) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		time.Sleep(time.Until(s.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return s.got.Write(b)
}

func (s *still) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

func (s *still) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

// TestEventsBeat: an idle stream says that it lives; a reader that stands still is
// let go in half a minute, and others don't notice.
func TestEventsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sched, err := jobs.Open(t.Context(), jobs.Config{Journal: &journal{}, Runner: runner{}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := sched.Close(); err != nil {
				t.Error(err)
			}
		}()
		s := &server{Config: Config{Jobs: sched}}
		ctx, cancel := context.WithCancelCause(t.Context())
		follow := func(w http.ResponseWriter) chan time.Time {
			ended := make(chan time.Time, 1)
			go func() {
				s.events(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events", nil))
				ended <- time.Now()
			}()
			return ended
		}
		slow, quick := &still{}, &still{}
		slowEnded, quickEnded := follow(slow), follow(quick)
		time.Sleep(46 * time.Second)
		if n := strings.Count(slow.text(), ": still here\n\n"); n != 3 {
			t.Errorf("%d beats in 46 s", n)
		}
		slow.stop()
		began := time.Now()
		if _, err := sched.Apply(t.Context(), []byte(job), "j.yaml", "ann", false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !strings.Contains(quick.text(), `"status":"applied"`) {
			t.Errorf("the other reader waits: %s", quick.text())
		}
		if at := <-slowEnded; at.Sub(began) != slowest {
			t.Errorf("it was let go after %s", at.Sub(began))
		}
		cancel(errors.New("he went away"))
		<-quickEnded
	})
}
