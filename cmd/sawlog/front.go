package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"sawlog/cmd/sawlog/api"
)

// front is what the HTTP port shows: from the first moment on that the node
// lives, and why it isn't ready; everything else once it has started.
type front struct {
	token  *api.Token // nil = everybody may know why
	stage  atomic.Pointer[string]
	opened atomic.Pointer[opened]
}

// opened is a node that has started.
type opened struct {
	face   http.Handler
	broker serving
}

// serving is what is asked of a broker that has started.
type serving interface {
	Ready() error
	Addr() string
}

// at notes what the start is at.
func (f *front) at(stage string) { f.stage.Store(&stage) }

// open shows the node's face from now on.
func (f *front) open(face http.Handler, b serving) { f.opened.Store(&opened{face, b}) }

// ready is nil where /readyz answers 200, else what it says.
func (f *front) ready() error {
	if o := f.opened.Load(); o != nil {
		return o.broker.Ready()
	}
	return errors.New(f.starts())
}

// broker is where the broker listens; "" before it does.
func (f *front) broker() string {
	if o := f.opened.Load(); o != nil {
		return o.broker.Addr()
	}
	return ""
}

// starts says what the start is at.
func (f *front) starts() string {
	if at := f.stage.Load(); at != nil {
		return "it starts: " + *at
	}
	return "it starts: it has begun"
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o := f.opened.Load(); o != nil {
		o.face.ServeHTTP(w, r)
		return
	}
	if r.ContentLength != 0 { // nobody reads the body, and the next request comes behind it
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // what can't wait, doesn't
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.URL.Path == "/livez" {
		_, _ = fmt.Fprintln(w, "ok") // the caller went away
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	if f.token.Admits(r) {
		_, _ = fmt.Fprintf(w, "[-] broker: %s\n", f.starts())
	}
	_, _ = fmt.Fprintln(w, "not ready")
}
