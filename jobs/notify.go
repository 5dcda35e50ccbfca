package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"time"
)

// Notice is what receivers get: the JSON body of a webhook, or the standard
// input of a program.
type Notice struct {
	Event   string    `json:"event"` // failed | stale | sealed
	Job     string    `json:"job"`
	At      time.Time `json:"at"`
	Dataset string    `json:"dataset,omitempty"`
	Run     string    `json:"run,omitempty"`
	Status  string    `json:"status,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Ledger  *int64    `json:"ledger,omitempty"`
	Hours   []string  `json:"hours,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Sender delivers one notice to one receiver.
type Sender func(ctx context.Context, to Notify, body []byte) error

// mailer delivers notices in order, with retries, apart from the scheduler.
type mailer struct {
	send   Sender
	logger *slog.Logger
	box    chan letter
}

type letter struct {
	to   Notify
	body []byte
	what string
}

// mailRoom is how many notices may wait; beyond it they are dropped with a word
// in the log.
const mailRoom = 1000

func newMailer(send Sender, logger *slog.Logger) *mailer {
	if send == nil {
		send = deliver
	}
	return &mailer{send: send, logger: logger, box: make(chan letter, mailRoom)}
}

// post queues a notice for every receiver of a job that asked for its kind.
func (m *mailer) post(spec *Spec, n Notice) {
	body, err := json.Marshal(n)
	if err != nil {
		m.logger.Error("notice not written", "job", n.Job, "err", err)
		return
	}
	for _, to := range spec.Notify {
		if !slices.Contains(to.On, n.Event) {
			continue
		}
		select {
		case m.box <- letter{to: to, body: body, what: n.Event + " " + n.Job}:
		default:
			m.logger.Error("notice dropped: too many wait", "job", n.Job, "event", n.Event)
		}
	}
}

func (m *mailer) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-m.box:
			m.deliver(ctx, l)
		}
	}
}

// notifyTries is how often a notice is tried before it is given up.
const notifyTries = 5

func (m *mailer) deliver(ctx context.Context, l letter) {
	pause := time.Second
	for try := 1; ; try++ {
		err := m.send(ctx, l.to, l.body)
		if err == nil || ctx.Err() != nil {
			return
		}
		if try == notifyTries {
			m.logger.Error("notice given up", "what", l.what, "tries", try, "err", err)
			return
		}
		m.logger.Warn("notice not delivered yet", "what", l.what, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 4
	}
}

// deliver posts to a webhook or runs a program.
func deliver(ctx context.Context, to Notify, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if to.Webhook == "" {
		cmd := exec.CommandContext(ctx, to.Exec[0], to.Exec[1:]...)
		cmd.Stdin = bytes.NewReader(body)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", to.Exec[0], err, bytes.TrimSpace(out[:min(len(out), 200)]))
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // only so that the connection can be used again
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("webhook answered %s", resp.Status)
	}
	return nil
}

// notify tells receivers of a run's end: that it failed, or which hours it sealed.
func (w *work) notify() {
	s, r := w.s, w.run
	n := Notice{Job: r.Job, At: s.now(), Dataset: r.Dataset, Run: r.Run, Status: r.Status, Reason: r.Reason, Ledger: r.Ledger}
	switch {
	case r.Status == Failed || r.Status == Partial:
		n.Event = "failed"
		s.mail.post(w.spec, n)
	case r.Status == Committed && r.Ledger != nil && w.wants("sealed"):
		view, err := s.c.Runner.View(s.ctx, w.spec, w.set)
		if err != nil {
			s.c.Logger.Warn("sealed hours not told", "run", r.Run, "err", err)
			return
		}
		for _, at := range sortedKeys(view.Hours) {
			if f := view.Hours[at]; f.Sealed && f.SealedIn == *r.Ledger {
				n.Hours = append(n.Hours, time.Unix(at, 0).UTC().Format(time.RFC3339))
			}
		}
		if len(n.Hours) > 0 {
			n.Event = "sealed"
			s.mail.post(w.spec, n)
		}
	}
}

func (w *work) wants(event string) bool {
	return slices.ContainsFunc(w.spec.Notify, func(n Notify) bool { return slices.Contains(n.On, event) })
}
