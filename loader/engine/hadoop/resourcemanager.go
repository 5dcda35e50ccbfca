package hadoop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
)

// resourceManager asks YARN's ResourceManagers by their REST API
// (https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html).
type resourceManager struct {
	urls   []*url.URL // the one that answered last comes first
	user   string     // without Kerberos
	client *http.Client
	sign   func(*http.Request) error // puts a ticket into a request
}

const (
	askTime   = 30 * time.Second
	mostBytes = 64 << 20 // of an answer
)

func newResourceManager(addrs []string, user string, login *Login) (*resourceManager, error) {
	m := &resourceManager{user: user, sign: func(*http.Request) error { return nil }}
	if login != nil {
		m.sign = login.Negotiate
	}
	m.client = &http.Client{Timeout: askTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return fmt.Errorf("%s sends on and on", via[0].URL)
		}
		return m.sign(r) // a ticket is for one host
	}}
	for _, addr := range addrs {
		u, err := url.Parse(addr)
		if err != nil || u.Host == "" {
			return nil, &loader.Error{Code: loader.ExitUsage, Msg: fmt.Sprintf("ResourceManager %q: want http://HOST:PORT", addr), Err: err}
		}
		m.urls = append(m.urls, u)
	}
	if len(m.urls) == 0 {
		return nil, &loader.Error{Code: loader.ExitUsage, Msg: "hadoop engine: no ResourceManager is named", Hint: "run.hadoop.resource_manager: http://HOST:8088"}
	}
	return m, nil
}

// place names the ResourceManagers for errors.
func (m *resourceManager) place() string {
	var all []string
	for _, u := range m.urls {
		all = append(all, u.String())
	}
	return strings.Join(all, ", ")
}

// ask sends a request to the first ResourceManager that is active. A standby one
// sends it on to the active one, or answers with a page.
func (m *resourceManager) ask(ctx context.Context, method, path string, query url.Values, body, into any) error {
	var all []error
	for i, u := range m.urls {
		err := m.askOne(ctx, u, method, path, query, body, into)
		if loader.ExitCode(err) != loader.ExitUnavailable {
			if i > 0 {
				m.urls = slices.Concat(m.urls[i:i+1], m.urls[:i], m.urls[i+1:])
			}
			return err
		}
		if all = append(all, err); ctx.Err() != nil {
			break
		}
	}
	return &loader.Error{Code: loader.ExitUnavailable, Err: errors.Join(all...)}
}

func (m *resourceManager) askOne(ctx context.Context, base *url.URL, method, path string, query url.Values, body, into any) error {
	at := base.JoinPath("ws/v1/cluster", path)
	values := url.Values{}
	maps.Copy(values, query)
	if m.user != "" {
		values.Set("user.name", m.user) // who asks, where no Kerberos tells
	}
	at.RawQuery = values.Encode()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-XSRF-Header", "") // asked for where yarn.resourcemanager.webapp.rest-csrf.enabled is set
	}
	unavailable := func(err error) error {
		return &loader.Error{Code: loader.ExitUnavailable, Msg: "ResourceManager " + base.String(), Err: err}
	}
	if err := m.sign(req); err != nil {
		return &loader.Error{Code: loader.ExitAuth, Msg: "ResourceManager " + base.String(), Err: err}
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes))
	if err != nil {
		return unavailable(err)
	}
	if code := codeOfStatus(resp.StatusCode); code != 0 {
		return refused(base.String(), code, resp, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return unavailable(fmt.Errorf("not JSON, it may be a standby: %.100q", data))
	}
	return nil
}

// codeOfStatus is the exit code of a status; 0 for success.
func codeOfStatus(status int) int {
	switch {
	case status < 300:
		return 0
	case status == http.StatusNotFound:
		return loader.ExitNotFound
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return loader.ExitAuth
	case status == http.StatusBadRequest:
		return loader.ExitConflict
	}
	return loader.ExitUnavailable
}

// refused is the error of an answer without success; what it says stands in a
// RemoteException.
func refused(base string, code int, resp *http.Response, data []byte) error {
	var told struct {
		RemoteException struct{ Message string }
	}
	msg := strings.TrimSpace(string(data))
	if json.Unmarshal(data, &told) == nil && told.RemoteException.Message != "" {
		msg = told.RemoteException.Message
	} else if strings.HasPrefix(msg, "<") {
		msg = "" // a page
	}
	e := &loader.Error{Code: code, Msg: fmt.Sprintf("ResourceManager %s: %s %.300s", base, resp.Status, msg)}
	if strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Negotiate") {
		e.Hint = "its web address wants Kerberos: set hadoop.security.authentication in $HADOOP_CONF_DIR, and give output.hdfs a keytab and a principal"
	}
	return e
}

// app is an application as the ResourceManager shows it.
type app struct {
	ID          string  `json:"id"`
	State       string  `json:"state"`       // NEW | NEW_SAVING | SUBMITTED | ACCEPTED | RUNNING | FINISHED | FAILED | KILLED
	FinalStatus string  `json:"finalStatus"` // UNDEFINED | SUCCEEDED | FAILED | KILLED; what a MapReduce job came to
	Progress    float64 `json:"progress"`    // percent
	TrackingURL string  `json:"trackingUrl"`
	Diagnostics string  `json:"diagnostics"`
}

func (a *app) ended() bool {
	return a.State == "FINISHED" || a.State == "FAILED" || a.State == "KILLED"
}

// job is the state as whoever follows it wants it.
func (a *app) job() loader.JobState {
	s := loader.JobState{Ended: a.ended(), Text: fmt.Sprintf("%s %s, %.0f %%", a.ID, a.State, a.Progress)}
	if s.Ended && a.FinalStatus != "SUCCEEDED" {
		why := strings.Join(strings.FieldsFunc(a.Diagnostics, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
		s.Err = &loader.Error{
			Code: loader.ExitUnavailable, Msg: fmt.Sprintf("%s: %s: %.500s", a.ID, cmp.Or(a.FinalStatus, a.State), cmp.Or(why, "it does not say why")),
			Hint: fmt.Sprintf("yarn logs -applicationId %s tells more", a.ID),
		}
	}
	return s
}

// many reads a list that is an object where it has one element, as some releases
// write it.
type many[T any] []T

// UnmarshalJSON reads either form.
func (l *many[T]) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	return json.Unmarshal(data, (*[]T)(l))
}

// tagged lists the applications with a tag, the one that was submitted first
// before the others.
func (m *resourceManager) tagged(ctx context.Context, tag string) ([]app, error) {
	var have struct {
		Apps *struct{ App many[app] }
	}
	query := url.Values{"applicationTags": {tag}, "deSelects": {"resourceRequests"}}
	if err := m.ask(ctx, http.MethodGet, "apps", query, nil, &have); err != nil || have.Apps == nil {
		return nil, err
	}
	list := have.Apps.App
	slices.SortFunc(list, func(a, b app) int { // application_CLUSTER_0001, and so on
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// application is one that is followed.
type application struct {
	rm  *resourceManager
	id  string
	log *slog.Logger
	was string // the state when it was last asked for
}

// State asks for it. One that the ResourceManager doesn't know has ended: it was
// restarted without its state, or has forgotten what ended long ago.
func (a *application) State(ctx context.Context) (loader.JobState, error) {
	var have struct{ App app }
	err := a.rm.ask(ctx, http.MethodGet, "apps/"+a.id, nil, nil, &have)
	if loader.ExitCode(err) == loader.ExitNotFound {
		return loader.JobState{Ended: true, Text: "unknown", Err: &loader.Error{
			Code: loader.ExitUnavailable, Msg: a.id + " is not known any more", Err: err,
		}}, nil
	}
	if err != nil {
		return loader.JobState{Text: "unknown"}, err
	}
	if have.App.State != a.was {
		a.was = have.App.State
		a.log.Info("application", "id", a.id, "state", a.was, "final", have.App.FinalStatus, "page", have.App.TrackingURL)
	}
	return have.App.job(), nil
}

// Kill ends it with all its containers.
func (a *application) Kill(ctx context.Context) error {
	var have struct{ State string } // a standby's page has none
	err := a.rm.ask(ctx, http.MethodPut, "apps/"+a.id+"/state", nil, map[string]string{"state": "KILLED"}, &have)
	if err == nil {
		return nil
	}
	if state, look := a.State(ctx); look == nil && state.Ended {
		return nil
	}
	return err
}
