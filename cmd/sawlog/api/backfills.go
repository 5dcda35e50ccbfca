package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"sawlog/jobs"
)

// Backfill is the body that makes a backfill.
type Backfill struct {
	Job       string `json:"job"`
	From      string `json:"from"`
	To        string `json:"to"`
	Only      string `json:"only,omitempty"`  // missing | failed | all
	Order     string `json:"order,omitempty"` // oldest | newest
	AcceptGap string `json:"accept_gap,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

func (s *server) backfill(w http.ResponseWriter, r *http.Request) {
	var ask Backfill
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	if ask.From == "" || ask.To == "" {
		s.fail(w, r, &Error{Code: CodeInvalid, Message: "a backfill needs from and to"})
		return
	}
	from, to, err := Trigger{From: ask.From, To: ask.To}.window()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page, err := previewPart(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	done, err := s.Jobs.Backfill(r.Context(), jobs.BackfillAsk{
		Job: ask.Job, From: from, To: to, Only: ask.Only, Order: ask.Order, By: by(r), AcceptGap: ask.AcceptGap, DryRun: ask.DryRun,
	})
	s.backfillPage(w, r, page, done, err)
}

// BackfillPage is a backfill with a page of its items.
type BackfillPage struct {
	*jobs.BackfillView
	Next string `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// backfillPage answers a backfill with a page of its items.
func (s *server) backfillPage(w http.ResponseWriter, r *http.Request, page previews, b *jobs.BackfillView, err error) {
	if err == nil && b.DryRun {
		err = page.items(b.Items)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !page.whole {
		b.Items = stretch(&page.part, b.Items)
	}
	reply(w, http.StatusOK, BackfillPage{b, page.next()})
}

// items refuses a page of another preview's items than the page before.
func (p *previews) items(all []jobs.ItemView) error {
	if p.whole {
		return nil
	}
	list := make([]jobs.Item, len(all))
	for i := range all {
		list[i] = all[i].Item
	}
	return p.same(list)
}

// BackfillList is the answer to GET /api/v1/backfills.
type BackfillList struct {
	Backfills []*jobs.BackfillView `json:"backfills"`
	Next      string               `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// listBackfills lists backfills without their items, newest first; ?job= keeps
// to one job.
func (s *server) listBackfills(w http.ResponseWriter, r *http.Request) {
	job := r.URL.Query().Get("job")
	if job != "" {
		if _, err := s.Jobs.Get(job); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	listed(s, w, r, s.Jobs.Backfills(job), false, func(b **jobs.BackfillView) string { return (*b).ID },
		func(part []*jobs.BackfillView, next string) any { return BackfillList{part, next} })
}

func (s *server) getBackfill(w http.ResponseWriter, r *http.Request) {
	page, err := partOf(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	b, err := s.Jobs.GetBackfill(r.PathValue("backfill"))
	s.backfillPage(w, r, previews{part: page}, b, err)
}

func (s *server) steerBackfill(how string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := s.Jobs.SteerBackfill(r.Context(), r.PathValue("backfill"), how, by(r))
		s.answer(w, r, b, err)
	}
}

// Backfill makes a backfill, or says what it would load: all its items.
func (c *Client) Backfill(ctx context.Context, b Backfill) (*jobs.BackfillView, error) {
	out := &jobs.BackfillView{}
	return out, c.post(ctx, "/api/v1/backfills?whole=true", b, out)
}

// Backfills lists backfills, newest first; an empty job means all jobs.
func (c *Client) Backfills(ctx context.Context, job string) ([]*jobs.BackfillView, error) {
	query := url.Values{}
	if job != "" {
		query.Set("job", job)
	}
	return pages(ctx, c, "/api/v1/backfills", query, 0, func(l *BackfillList) ([]*jobs.BackfillView, string) { return l.Backfills, l.Next })
}

// GetBackfill gets one backfill with all its items, which are frozen.
func (c *Client) GetBackfill(ctx context.Context, id string) (*jobs.BackfillView, error) {
	out := &BackfillPage{}
	query := url.Values{"limit": {strconv.Itoa(pageMost)}}
	if err := c.get(ctx, at("backfills", id), query, out); err != nil {
		return nil, err
	}
	for next := out.Next; next != ""; {
		more := &BackfillPage{}
		query.Set("after", next)
		if err := c.get(ctx, at("backfills", id), query, more); err != nil {
			return nil, err
		}
		out.Items = append(out.Items, more.Items...)
		next = more.Next
	}
	return out.BackfillView, nil
}

// BackfillState gets how far a backfill is, with one of its items at most.
func (c *Client) BackfillState(ctx context.Context, id string) (*jobs.BackfillView, error) {
	out := &BackfillPage{}
	err := c.get(ctx, at("backfills", id), url.Values{"limit": {"1"}}, out)
	return out.BackfillView, err
}

// SteerBackfill pauses, resumes, cancels or retries a backfill.
func (c *Client) SteerBackfill(ctx context.Context, id, how string) (*jobs.BackfillView, error) {
	out := &jobs.BackfillView{}
	return out, c.post(ctx, at("backfills", id, how), struct{}{}, out)
}
