package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// events streams what happens as server-sent events: run, task, hour, job;
// ?job= keeps to one job. A reader that falls behind is cut off and connects
// again.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	feed, cancel := s.Jobs.Subscribe()
	defer cancel()
	job := r.URL.Query().Get("job")
	out := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if _, err := fmt.Fprint(w, "retry: 2000\n: sawlog events\n\n"); err != nil || out.Flush() != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		case ev, ok := <-feed:
			if !ok {
				return
			}
			if job != "" && ev.Job != job {
				continue
			}
			data, err := json.Marshal(ev)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", ev.ID, ev.Kind, data); err != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
	}
}
