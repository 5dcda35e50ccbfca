package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// front is what the HTTP port shows: from the first moment on that the node
// lives, and why it isn't ready; everything else once it has started.
type front struct {
	stage atomic.Pointer[string]
	face  atomic.Pointer[http.Handler]
}

// at notes what the start is at.
func (f *front) at(stage string) { f.stage.Store(&stage) }

// open shows the node's face from now on.
func (f *front) open(face http.Handler) { f.face.Store(&face) }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if face := f.face.Load(); face != nil {
		(*face).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.URL.Path == "/livez" {
		_, _ = fmt.Fprintln(w, "ok") // the caller went away
		return
	}
	stage := "it has begun"
	if at := f.stage.Load(); at != nil {
		stage = *at
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(w, "[-] broker: it starts: %s\nnot ready\n", stage)
}
