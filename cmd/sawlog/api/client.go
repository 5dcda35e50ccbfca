package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sawlog/consumer"
	"sawlog/jobs"
)

// Client speaks to a server's API. Its errors are *Error: what the server said,
// or CodeUnavailable when it could not be reached.
type Client struct {
	Base string // http://127.0.0.1:8088
	HTTP *http.Client
	User string // named in the history as who asked

	Token string // shown with each request; "" = none
}

// NewClient makes a client of the server at a URL.
func NewClient(base, user string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("server %q: want http://HOST:PORT", base)}
	}
	return &Client{Base: strings.TrimRight(base, "/"), HTTP: http.DefaultClient, User: user}, nil
}

// patience is how long a server may answer that it can't yet.
const patience = 30 * time.Second

// send makes a request; the caller closes the answer's body. A server that asks
// to be asked again, having done nothing, is asked again.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, kind string, body []byte) (*http.Response, error) {
	for began := time.Now(); ; {
		resp, err := c.sendOnce(ctx, method, path, query, kind, body)
		e, refused := errors.AsType[*Error](err)
		if !refused || e.again <= 0 || time.Since(began)+e.again > patience {
			return resp, err
		}
		pause := time.NewTimer(e.again)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, err
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, method, path string, query url.Values, kind string, body []byte) (*http.Response, error) {
	target := c.Base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: err.Error()}
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.User != "" {
		req.Header.Set(userHeader, c.User)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, context.Cause(ctx)
		}
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err
		}
		return nil, &Error{
			Code: CodeUnavailable, Message: "server " + c.Base + ": " + consumer.Reason(err).Error(),
			Hint: "is `sawlog serve` running? --server or SAWLOG_SERVER names another address",
		}
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }() // it is thrown away
		return nil, c.refused(resp)
	}
	return resp, nil
}

// refused reads the error of an answer, the whole of it: the report of a verify or
// rerun in it may be long.
func (c *Client) refused(resp *http.Response) error {
	var text bytes.Buffer // as far as it is JSON
	e := &Error{Status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && resp.StatusCode == http.StatusServiceUnavailable {
		e.again = time.Duration(seconds) * time.Second
	}
	err := json.NewDecoder(io.TeeReader(resp.Body, &text)).Decode(e)
	_, noJSON := errors.AsType[*json.SyntaxError](err)
	_, another := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil && e.Code != "":
		return e
	case err != nil && !errors.Is(err, io.EOF) && !noJSON && !another:
		return c.cut(err)
	}
	if e.again > 0 { // a server that starts knows no JSON yet
		return &Error{
			Status: resp.StatusCode, Code: CodeUnavailable, again: e.again,
			Message: fmt.Sprintf("server %s is not ready: %.200s", c.Base, strings.TrimSpace(text.String())),
		}
	}
	return &Error{
		Status: resp.StatusCode, Code: CodeFailed,
		Message: fmt.Sprintf("server %s answered %s: %.200s", c.Base, resp.Status, strings.TrimSpace(text.String())),
		Hint:    "is that address a sawlog server?",
	}
}

// get and post fill in out, unless it is nil.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.read(c.send(ctx, http.MethodGet, path, query, "", nil))(out)
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.read(c.send(ctx, http.MethodPost, path, nil, "application/json", body))(out)
}

// read takes an answer in.
func (c *Client) read(resp *http.Response, err error) func(out any) error {
	return func(out any) error {
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // read to its end, or thrown away
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			return c.cut(err)
		}
		return nil
	}
}

func (c *Client) cut(err error) error {
	return &Error{Code: CodeUnavailable, Message: "server " + c.Base + ": its answer breaks off: " + err.Error()}
}

func at(kind, name string, more ...string) string {
	return "/api/v1/" + kind + "/" + url.PathEscape(name) + strings.Join(append([]string{""}, more...), "/")
}

// Apply sends a job file; with dry nothing is changed.
func (c *Client) Apply(ctx context.Context, text []byte, path string, dry bool) (*jobs.Applied, error) {
	query := url.Values{"path": {path}}
	if dry {
		query.Set("dry_run", "true")
	}
	out := &jobs.Applied{}
	return out, c.read(c.send(ctx, http.MethodPost, "/api/v1/jobs", query, "application/yaml", text))(out)
}

// Jobs lists the jobs.
func (c *Client) Jobs(ctx context.Context) ([]jobs.Status, error) {
	return pages(ctx, c, "/api/v1/jobs", url.Values{}, 0, func(l *JobList) ([]jobs.Status, string) { return l.Jobs, l.Next })
}

// Job gets one job, its file included.
func (c *Client) Job(ctx context.Context, name string) (*jobs.Status, error) {
	out := &jobs.Status{}
	return out, c.get(ctx, at("jobs", name), nil, out)
}

// Explain gets a job's effective file.
func (c *Client) Explain(ctx context.Context, name string) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, at("jobs", name, "explain"), nil, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	return io.ReadAll(resp.Body)
}

// Next lists the next n ticks of a job.
func (c *Client) Next(ctx context.Context, name string, n int) ([]jobs.NextTick, error) {
	var out TickList
	err := c.get(ctx, at("jobs", name, "next"), url.Values{"n": {strconv.Itoa(n)}}, &out)
	return out.Ticks, err
}

// Pause stops a job's ticks from making runs.
func (c *Client) Pause(ctx context.Context, name, reason string) (*jobs.Status, error) {
	out := &jobs.Status{}
	return out, c.post(ctx, at("jobs", name, "pause"), PauseAsk{Reason: reason}, out)
}

// Resume lets a job's ticks make runs again; with dry it only says which.
func (c *Client) Resume(ctx context.Context, name string, dry bool) (*Resumed, error) {
	out := &Resumed{}
	return out, c.post(ctx, at("jobs", name, "resume"), ResumeAsk{DryRun: dry}, out)
}

// Delete forgets a job and its history.
func (c *Client) Delete(ctx context.Context, name string) error {
	var out Deleted
	return c.read(c.send(ctx, http.MethodDelete, at("jobs", name), nil, "", nil))(&out)
}

// Trigger starts runs of a job now.
func (c *Client) Trigger(ctx context.Context, name string, t Trigger) ([]*jobs.Run, error) {
	var out RunList
	err := c.post(ctx, at("jobs", name, "trigger"), t, &out)
	return out.Runs, err
}

// Plan says what runs of a job would do.
func (c *Client) Plan(ctx context.Context, name string, t Trigger) ([]PlanOf, error) {
	var out PlanList
	err := c.post(ctx, at("jobs", name, "plan")+"?whole=true", t, &out)
	return out.Plans, err
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, f jobs.RunFilter) ([]*jobs.Run, error) {
	query := url.Values{}
	for key, value := range map[string]string{"job": f.Job, "status": f.Status, "kind": f.Kind, "backfill": f.Backfill} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if !f.Tick.IsZero() {
		query.Set("tick", f.Tick.UTC().Format(time.RFC3339))
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		query.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	return pages(ctx, c, "/api/v1/runs", query, cmp.Or(f.Limit, 50), func(l *RunList) ([]*jobs.Run, string) { return l.Runs, l.Next })
}

// pages reads a list page by page, up to most entries; 0 = all.
func pages[L, T any](ctx context.Context, c *Client, path string, query url.Values, most int, part func(*L) ([]T, string)) ([]T, error) {
	all := []T{}
	for {
		if most > 0 {
			query.Set("limit", strconv.Itoa(min(most-len(all), pageMost)))
		}
		var list L
		if err := c.get(ctx, path, query, &list); err != nil {
			return nil, err
		}
		some, next := part(&list)
		all = append(all, some...)
		if next == "" || len(some) == 0 || most > 0 && len(all) >= most {
			return all, nil
		}
		query.Set("after", next)
	}
}

// Run gets one run.
func (c *Client) Run(ctx context.Context, id string) (*jobs.Run, error) {
	out := &jobs.Run{}
	return out, c.get(ctx, at("runs", id), nil, out)
}

// RunDetail gets one run with all its splits and its whole commit. A run that goes
// on while it is read is read again, twice at most.
func (c *Client) RunDetail(ctx context.Context, id string) (*RunDetail, error) {
	for tries := 2; ; tries-- {
		d, err := c.runPages(ctx, id)
		if e, told := errors.AsType[*Error](err); !told || e.Code != CodeConflict || tries == 0 {
			return d, err
		}
	}
}

func (c *Client) runPages(ctx context.Context, id string) (*RunDetail, error) {
	out := &RunDetail{}
	query := url.Values{"detail": {"true"}, "limit": {strconv.Itoa(pageMost)}}
	if err := c.get(ctx, at("runs", id), query, out); err != nil {
		return nil, err
	}
	for out.Next != "" {
		more := &RunDetail{}
		query.Set("after", out.Next)
		if err := c.get(ctx, at("runs", id), query, more); err != nil {
			return nil, err
		}
		out.add(more)
	}
	if n, of := out.lengths(), out.Counts; n != of {
		return nil, &Error{
			Code: CodeUnavailable, Hint: "ask again",
			Message: fmt.Sprintf("run %s: the server answered %d of %d splits, %d of %d inputs, %d of %d files", id, n.Splits, of.Splits, n.Inputs, of.Inputs, n.Files, of.Files),
		}
	}
	return out, nil
}

// lengths is how much of a run there is here.
func (d *RunDetail) lengths() RunCounts {
	n := RunCounts{Splits: len(d.Splits)}
	if d.Commit != nil {
		n.Inputs, n.Files = len(d.Commit.Inputs), len(d.Commit.Files)
	}
	return n
}

// add takes in the page that follows.
func (d *RunDetail) add(more *RunDetail) {
	d.Splits = append(d.Splits, more.Splits...)
	if all, rec := d.Commit, more.Commit; all != nil && rec != nil {
		all.Inputs, all.Files = append(all.Inputs, rec.Inputs...), append(all.Files, rec.Files...)
		all.Retires, all.Sealed = append(all.Retires, rec.Retires...), append(all.Sealed, rec.Sealed...)
	}
	d.Next = more.Next
}

// Cancel ends a run.
func (c *Client) Cancel(ctx context.Context, id string) (*jobs.Run, error) {
	out := &jobs.Run{}
	return out, c.post(ctx, at("runs", id, "cancel"), struct{}{}, out)
}

// Retry queues an ended run again.
func (c *Client) Retry(ctx context.Context, id string, r Retry) (*jobs.Run, error) {
	out := &jobs.Run{}
	return out, c.post(ctx, at("runs", id, "retry"), r, out)
}

// Again has the offsets of a committed run loaded again by the job as it is now.
func (c *Client) Again(ctx context.Context, id string, ask AgainAsk) (*Again, error) {
	out := &Again{}
	return out, c.post(ctx, at("runs", id, "again")+"?whole=true", ask, out)
}

// Rerun remakes the files of a run from its plan; the report is out's, also where an error tells of what it found.
func (c *Client) Rerun(ctx context.Context, id string, out any) error {
	return found(c.post(ctx, at("runs", id, "rerun"), struct{}{}, out), out)
}

// found takes in the report of a rerun or verify that comes with its error.
func found(err error, out any) error {
	e, told := errors.AsType[*Error](err)
	if !told || e.Report == nil {
		return err
	}
	if unread := json.Unmarshal(e.Report, out); unread != nil {
		return fmt.Errorf("%w; the report with it can't be read: %w", err, unread)
	}
	return err
}

// VerifyRun checks what a run committed; the report is out's, also where an error tells of what it found.
func (c *Client) VerifyRun(ctx context.Context, id string, out any) error {
	return found(c.post(ctx, at("runs", id, "verify"), struct{}{}, out), out)
}

// VerifyDataset checks a whole data set; the report is out's, also where an error tells of what it found.
func (c *Client) VerifyDataset(ctx context.Context, name string, out any) error {
	return found(c.post(ctx, at("datasets", name, "verify"), struct{}{}, out), out)
}

// Dataset gets one data set and what its ledger says.
func (c *Client) Dataset(ctx context.Context, name string) (*Dataset, error) {
	out := &Dataset{}
	return out, c.get(ctx, at("datasets", name), nil, out)
}

// watch hands every event to fn until it returns false, ctx ends or the server
// goes away; an empty job means all jobs. opened is called once no event can be
// missed any more; it too may end it.
func (c *Client) watch(ctx context.Context, job string, opened func() bool, fn func(jobs.Event) bool) error {
	query := url.Values{}
	if job != "" {
		query.Set("job", job)
	}
	resp, err := c.send(ctx, http.MethodGet, "/api/v1/events", query, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a stream has no end worth reading
	if !opened() {
		return nil
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, bodyLimit)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev jobs.Event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return &Error{Code: CodeFailed, Message: "event: " + err.Error()}
		}
		if !fn(ev) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &Error{Code: CodeUnavailable, Message: "server " + c.Base + ": the event stream ended", Hint: cmp.Or(hintOf(lines.Err()), "the server stopped, or this reader fell behind")}
}

func hintOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Wait waits until a run has ended. It listens for events and looks at the run
// itself as well, so that a lost stream costs nothing.
func (c *Client) Wait(ctx context.Context, id string, step func(jobs.Event)) (*jobs.Run, error) {
	run, err := c.Run(ctx, id)
	for err == nil && run.Open() {
		round, stop := context.WithTimeout(ctx, 30*time.Second)
		look := func() bool {
			run, err = c.Run(ctx, id)
			return err == nil && run.Open()
		}
		lost := c.watch(round, run.Job, look, func(ev jobs.Event) bool {
			if ev.Run != id {
				return true
			}
			if step != nil {
				step(ev)
			}
			return ev.Kind != "run" || look()
		})
		stop()
		if ctx.Err() != nil {
			return run, context.Cause(ctx)
		}
		if gone, ok := errors.AsType[*Error](lost); ok && gone.Code != CodeUnavailable {
			return run, lost
		}
	}
	return run, err
}
