package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Notice is what receivers get: the JSON body of a webhook, or the standard
// input of a program. One may come more than once: run and event tell which it is.
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

// Told is a notice of a run's end to one receiver. It is in the record that ends
// the run, so that a server which dies before it is delivered, or is not sure,
// delivers it when it is back.
type Told struct {
	N     int    `json:"n"` // of this run
	Event string `json:"event"`
	To    string `json:"to"`    // where it goes, and which of the receivers there
	State string `json:"state"` // pending | delivered | given up | nothing to tell
	Tries int    `json:"tries,omitempty"`
	Error string `json:"error,omitempty"`
}

// The states of a notice.
const (
	ToldPending   = "pending"
	ToldDelivered = "delivered"
	ToldGivenUp   = "given up"
	ToldNothing   = "nothing to tell" // no hour was sealed
)

// toldKept is how many notices of a run are remembered, of all its rounds.
const toldKept = 20

// Sender delivers one notice to one receiver.
type Sender func(ctx context.Context, to Notify, body []byte) error

// name says where a receiver's notices go, without what may be secret in it, and
// tells it from others there by the start of a hash: it is the same wherever it
// stands in the job's list.
func (n *Notify) name() string {
	if n.Webhook == "" {
		return "exec " + n.Exec[0] + " #" + mark(n.Exec...)
	}
	host := ""
	if u, err := url.Parse(n.Webhook); err == nil {
		host = u.Scheme + "://" + u.Host
	}
	return "webhook " + host + " #" + mark(n.Webhook)
}

// oldName is what a release before this one named the receiver at a place of the
// job's list; notices may be pending from then.
func (n *Notify) oldName(i int) string {
	name, _, _ := strings.Cut(n.name(), " #")
	return strconv.Itoa(i) + " " + name
}

// mark is short enough to tell nothing of a secret.
func mark(words ...string) string {
	h := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(h[:3])
}

// event is what the end of a run is to its receivers; empty = nothing.
func (r *Run) event() string {
	switch {
	case r.Status == Failed || r.Status == Partial:
		return "failed"
	case r.Status == Committed && r.Ledger != nil:
		return "sealed"
	}
	return ""
}

// notices adds to a run that has ended who is to be told.
func (w *work) notices() {
	r, event := w.run, w.run.event()
	if event == "" {
		return
	}
	r.Notices = slices.Clone(r.Notices)
	for _, to := range w.spec.Notify {
		if !slices.Contains(to.On, event) {
			continue
		}
		n := 0
		if last := len(r.Notices) - 1; last >= 0 {
			n = r.Notices[last].N + 1
		}
		r.Notices = append(r.Notices, Told{N: n, Event: event, To: to.name(), State: ToldPending})
	}
	r.Notices = r.Notices[max(0, len(r.Notices)-toldKept):]
}

// post delivers the pending notices of a run, apart from the caller.
func (s *Scheduler) post(spec *Spec, set Set, r *Run) {
	r = r.clone()
	for _, told := range r.Notices {
		if told.State != ToldPending {
			continue
		}
		s.errands.begin("a notice of run "+r.Run, func() {
			to := receiver(spec, &told)
			if to == nil {
				told.State, told.Error = ToldGivenUp, "the job has no such receiver any more"
			} else {
				s.tell(*to, &told, r.Ended.Add(toldPatience), func(ctx context.Context) (*Notice, error) { return s.notice(ctx, spec, set, r, told.Event) })
			}
			s.settle(r.Run, told)
		})
	}
}

// postAll delivers what an earlier process left pending.
func (s *Scheduler) postAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.f.runs {
		j := s.f.jobs[r.Job]
		if j != nil && j.spec != nil && slices.ContainsFunc(r.Notices, func(t Told) bool { return t.State == ToldPending }) {
			s.post(j.spec, j.set(r), r)
		}
	}
}

// receiver finds who a notice is for, as the job is now.
func receiver(spec *Spec, told *Told) *Notify {
	for i := range spec.Notify {
		if to := &spec.Notify[i]; (to.name() == told.To || to.oldName(i) == told.To) && slices.Contains(to.On, told.Event) {
			return to
		}
	}
	return nil
}

// notice makes what is told of a run; nil = nothing.
func (s *Scheduler) notice(ctx context.Context, spec *Spec, set Set, r *Run, event string) (*Notice, error) {
	n := &Notice{Event: event, Job: r.Job, At: r.Ended, Dataset: r.Dataset, Run: r.Run, Status: r.Status, Reason: r.Reason, Ledger: r.Ledger}
	if event != "sealed" {
		return n, nil
	}
	view, err := s.c.Runner.View(ctx, spec, set)
	if err != nil {
		return nil, err
	}
	for _, at := range sortedKeys(view.Hours) {
		if f := view.Hours[at]; f.Sealed && f.SealedIn == *r.Ledger {
			n.Hours = append(n.Hours, time.Unix(at, 0).UTC().Format(time.RFC3339))
		}
	}
	if len(n.Hours) == 0 {
		return nil, nil
	}
	return n, nil
}

// settle writes down what became of a notice, unless this process is ending.
func (s *Scheduler) settle(run string, told Told) {
	if told.State == ToldPending {
		return
	}
	s.act.Lock()
	defer s.act.Unlock()
	r, err := s.run(run)
	if err != nil {
		return // it was forgotten meanwhile
	}
	i := slices.IndexFunc(r.Notices, func(t Told) bool { return t.N == told.N })
	if i < 0 {
		return
	}
	r.Notices = slices.Clone(r.Notices)
	r.Notices[i] = told
	if err := s.append(s.ctx, runEntry(r)); err != nil {
		s.c.Logger.Warn("notice not written down, it will come again", "run", run, "err", err)
	}
}

const (
	// toldPatience is how long a notice is tried before it is given up.
	toldPatience = 24 * time.Hour
	// toldPause bounds the pause between two tries, which begins with a second.
	toldPause = 5 * time.Minute
	// toldAtOnce is how many notices are on their way at a time.
	toldAtOnce = 8
)

// tell delivers a notice, trying again until its time is up. It leaves it pending
// when the scheduler ends.
func (s *Scheduler) tell(to Notify, told *Told, until time.Time, notice func(context.Context) (*Notice, error)) {
	for pause := time.Second; ; pause = min(4*pause, toldPause) {
		told.Tries++
		some, err := s.tellOnce(to, notice)
		switch {
		case s.ctx.Err() != nil:
			return
		case err == nil && !some:
			told.State = ToldNothing
			return
		case err == nil:
			told.State, told.Error = ToldDelivered, ""
			return
		}
		told.Error = err.Error()
		if !s.now().Before(until) {
			told.State = ToldGivenUp
			s.c.Logger.Error("notice given up", "event", told.Event, "to", told.To, "tries", told.Tries, "err", err)
			return
		}
		s.c.Logger.Warn("notice not delivered yet", "event", told.Event, "to", told.To, "again_in", pause, "err", err)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *Scheduler) tellOnce(to Notify, notice func(context.Context) (*Notice, error)) (some bool, err error) {
	select {
	case s.telling <- struct{}{}:
		defer func() { <-s.telling }()
	case <-s.ctx.Done():
		return false, s.ctx.Err()
	}
	n, err := notice(s.ctx)
	if err != nil || n == nil {
		return false, err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	send := s.c.Notify
	if send == nil {
		send = deliver
	}
	return true, send(s.ctx, to, body)
}

// tellStale tells receivers that a job has gone stale. That is not written down:
// a job that is still stale when a server begins is told of again.
func (s *Scheduler) tellStale(spec *Spec, n Notice) {
	for _, to := range spec.Notify {
		if slices.Contains(to.On, n.Event) {
			told := &Told{Event: n.Event, To: to.name(), State: ToldPending}
			s.errands.begin("a notice of job "+n.Job, func() {
				s.tell(to, told, n.At.Add(toldPatience), func(context.Context) (*Notice, error) { return &n, nil })
			})
		}
	}
}

// deliver posts to a webhook or runs a program.
func deliver(ctx context.Context, to Notify, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if to.Webhook == "" {
		cmd := exec.CommandContext(ctx, to.Exec[0], to.Exec[1:]...)
		cmd.Stdin = bytes.NewReader(body)
		cmd.WaitDelay = time.Second // what it left running may hold its output open
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
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return asked.Err // it names the URL, which may hold a secret
	}
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
