package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sawlog/jobs"
)

const (
	// heartbeat is how often an idle event stream sends a comment.
	heartbeat = 15 * time.Second
	// slowest is how long one write to a reader of events may take.
	slowest = 30 * time.Second
)

// events streams what happens as server-sent events. A reader that falls behind
// is cut off and connects again, saying by Last-Event-ID what it saw last.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	feed, missed, known, cancel := s.Jobs.Follow(r.Header.Get("Last-Event-ID"))
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := stream{w: w, flush: http.NewResponseController(w), job: r.URL.Query().Get("job")}
	begin := "retry: 2000\n: sawlog events\n\n"
	if !known {
		begin += "event: reread\ndata: {}\n\n"
	}
	if out.say(begin) != nil {
		return
	}
	for _, ev := range missed {
		if out.event(ev) != nil {
			return
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			err = out.say(": still here\n\n")
		case ev, ok := <-feed:
			if !ok {
				return
			}
			err = out.event(ev)
		}
		if err != nil {
			return
		}
	}
}

// stream writes to one reader, and does not wait for one that stands still.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	job   string // whose events are sent; "" = of all
}

func (s stream) event(ev *jobs.Event) error {
	if s.job != "" && ev.Job != s.job {
		return nil
	}
	data, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	return s.say(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", ev.Mark, ev.Kind, data))
}

func (s stream) say(text string) error {
	_ = s.flush.SetWriteDeadline(time.Now().Add(slowest)) // a writer without one does not stand still
	if _, err := fmt.Fprint(s.w, text); err != nil {
		return err
	}
	return s.flush.Flush()
}
