package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

const told = "notify: [{webhook: 'https://hooks.example/s3cret', on: [failed, sealed]}, {exec: [page], on: [failed, stale]}]\n"

// box gathers what receivers got.
type box struct {
	mu  sync.Mutex
	got []string
	err error
}

func (b *box) take(to Notify, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return err
	}
	who := "page"
	if to.Webhook != "" {
		who = "hook"
	}
	b.got = append(b.got, fmt.Sprintf("%s %s %s %d", who, n.Event, n.Run, len(n.Hours)))
	return nil
}

func (b *box) refuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *box) all() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.got, "; ")
}

// TestNoticesAreAtLeastOnce: receivers that take nothing for hours, and a server
// that is restarted meanwhile, lose no notice; what became of each is in the run.
func TestNoticesAreAtLeastOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		var b box
		w.sent = b.take
		b.refuse(errors.New("busy"))
		w.runner.fails(func(run string, _ int) error {
			if strings.HasSuffix(run, "T020000Z") {
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return nil
		})
		w.apply(hourly + told)
		to(2*time.Hour + 30*time.Minute)
		if got := b.all(); got != "" {
			t.Fatalf("got %s", got)
		}
		r, err := w.s.Run("pageviews-hourly-20000101T020000Z")
		if err != nil || len(r.Notices) != 2 || r.Notices[0].State != ToldPending {
			t.Fatalf("got %+v, %v", r, err)
		}
		w.restart()
		to(3 * time.Hour)
		b.refuse(nil)
		to(4 * time.Hour)
		got := b.all()
		for _, want := range []string{"hook sealed pageviews-hourly-20000101T010000Z 1", "hook failed pageviews-hourly-20000101T020000Z 0", "page failed pageviews-hourly-20000101T020000Z 0"} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%d times: %s: %s", strings.Count(got, want), want, got)
			}
		}
		r, err = w.s.Run("pageviews-hourly-20000101T020000Z")
		if err != nil || r.Notices[0].State != ToldDelivered || r.Notices[1].State != ToldDelivered || !strings.HasPrefix(r.Notices[0].To, "webhook https://hooks.example #") || strings.Contains(r.Notices[0].To, "s3cret") {
			t.Errorf("got %+v, %v", r.Notices, err)
		}
		w.restart()
		to(4*time.Hour + 4*time.Minute)
		if again := b.all(); again != got {
			t.Errorf("delivered notices come again: %s", again)
		}
	})
}

// TestNoticesAreGivenUp: after a day, and when nobody is there to take them any more.
func TestNoticesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		var b box
		w.sent = b.take
		b.refuse(errors.New("busy"))
		w.runner.fails(func(string, int) error { return &loader.Error{Code: loader.ExitConflict, Msg: "no"} })
		w.apply(minimal + told)
		runs, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly"})
		if err != nil {
			t.Fatal(err)
		}
		to(time.Hour)
		w.apply(minimal + strings.Replace(told, ", {exec: [page], on: [failed, stale]}", "", 1))
		w.restart()
		to(2 * time.Hour)
		r, err := w.s.Run(runs[0].Run)
		if err != nil || r.Notices[0].State != ToldPending || r.Notices[1].State != ToldGivenUp {
			t.Fatalf("got %+v, %v", r.Notices, err)
		}
		to(25 * time.Hour)
		r, err = w.s.Run(runs[0].Run)
		if err != nil || r.Notices[0].State != ToldGivenUp || r.Notices[0].Error != "busy" || r.Notices[0].Tries < 100 {
			t.Errorf("got %+v, %v", r.Notices, err)
		}
	})
}

func TestStaleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		var b box
		w.sent = b.take
		w.apply(minimal + told + "freshness: 1h\n")
		to(3 * time.Hour)
		if got := b.all(); got != "page stale  0" {
			t.Errorf("got %s", got)
		}
	})
}

// TestDeliver sends for real, and names no secret when it can't.
func TestDeliver(t *testing.T) {
	var got string
	status := http.StatusOK
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.WriteHeader(status)
	}))
	defer hook.Close()
	if err := deliver(t.Context(), Notify{Webhook: hook.URL + "/s3cret"}, []byte(`{"event":"failed"}`)); err != nil || got != `POST application/json {"event":"failed"}` {
		t.Errorf("got %s, %v", got, err)
	}
	status = http.StatusBadGateway
	if err := deliver(t.Context(), Notify{Webhook: hook.URL}, nil); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
	hook.Close()
	if err := deliver(t.Context(), Notify{Webhook: hook.URL + "/s3cret"}, nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "got")
	if err := deliver(t.Context(), Notify{Exec: []string{"tee", file}}, []byte("{}")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{}" {
		t.Errorf("got %s, %v", text, err)
	}
	if err := deliver(t.Context(), Notify{Exec: []string{"sh", "-c", "echo why >&2; exit 3"}}, nil); err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("got %v", err)
	}
}

// TestReceiversAreKnownByWhatTheyAre: pending notices reach who they are for after the
// list of receivers changed its order, got others, and lost some.
func TestReceiversAreKnownByWhatTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		var b box
		w.sent = b.take
		b.refuse(errors.New("busy"))
		w.runner.fails(func(string, int) error { return &loader.Error{Code: loader.ExitConflict, Msg: "no"} })
		const (
			first  = "{webhook: 'https://hooks.example/s3cret', on: [failed]}"
			second = "{webhook: 'https://hooks.example/other', on: [failed]}"
			third  = "{exec: [page, me], on: [failed]}"
		)
		w.apply(minimal + "notify: [" + first + ", " + second + ", " + third + "]\n")
		if _, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly"}); err != nil {
			t.Fatal(err)
		}
		to(time.Minute)
		w.apply(minimal + "notify: [{exec: [page, you]}, " + third + ", " + first + "]\n")
		w.restart()
		b.refuse(nil)
		to(10 * time.Minute)
		r := w.s.Runs(RunFilter{})[0]
		states := map[string]string{}
		for _, told := range r.Notices {
			states[told.To] = told.State
		}
		hook, other := Notify{Webhook: "https://hooks.example/s3cret"}, Notify{Webhook: "https://hooks.example/other"}
		page := Notify{Exec: []string{"page", "me"}}
		if len(states) != 3 || states[hook.name()] != ToldDelivered || states[page.name()] != ToldDelivered || states[other.name()] != ToldGivenUp {
			t.Errorf("%v", states)
		}
	})
}
