package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker"
)

// kafkaDeeds are the deeds on a cluster: the page that previews each, and the name
// that is typed.
var kafkaDeeds = []struct{ path, preview, typed string }{
	{"/console/newtopic", "?name=topic-000", ""},
	{"/console/topics/topic-000/configs", "?preview=1&config.retention.ms=1000", ""},
	{"/console/topics/topic-000/partitions", "?to=9", ""},
	{"/console/topics/topic-000/trim", "?to=50", "topic-000"},
	{"/console/group/delete", "?group=group-0000", "group-0000"},
	{"/console/group/offsets", "?group=group-0000&topic=topic-000", "group-0000"},
	{"/console/group/reset", "?group=group-0000&topic=topic-000&to=earliest", "group-0000"},
	{"/console/topics/topic-000/delete", "", "topic-000"}, // it is gone then
}

// TestOutcomesOfDeeds: what was refused is told apart from what may be done all the
// same, and from what is done in part; the log says how each came out.
func TestOutcomesOfDeeds(t *testing.T) {
	b := newBrokers(1, 4, 1)
	b.groups = 1
	s := standOver(t, runner{}, func(src *Sources) {
		over(b)(src)
		src.TopicDefaults = func() []broker.TopicDefault { return []broker.TopicDefault{{Name: "retention.ms", Value: "604800000"}} }
	})
	many := map[string]bool{"/console/topics/topic-000/trim": true, "/console/group/offsets": true}
	for _, d := range kafkaDeeds {
		// ask does the deed, of which brokers answer these codes.
		ask := func(status int, codes ...*kerr.Error) string {
			t.Helper()
			b.codes = []int16{0}
			form := s.form(s.page(d.path+d.preview, http.StatusOK))
			form.Set("typed", d.typed)
			if d.path == "/console/group/reset" {
				form.Set("name", d.typed)
			}
			b.codes = b.codes[:0]
			for _, c := range codes {
				b.codes = append(b.codes, c.Code)
			}
			s.log.Reset()
			return s.deed(d.path, form, status)
		}
		for _, unsure := range []*kerr.Error{kerr.RequestTimedOut, kerr.NetworkException} {
			page := ask(http.StatusServiceUnavailable, unsure)
			s.has(page, "whether it was done is not known", "look at /console/", "before anything is done again")
			s.lacks(page, "in a moment", "somebody may have joined")
		}
		page := ask(http.StatusServiceUnavailable, kerr.NotController)
		s.has(page, "in a moment")
		s.lacks(page, "not known", "somebody may have joined")
		if log := s.log.String(); strings.Contains(log, "level=INFO") || strings.Count(log, "a deed failed") != 1 || !strings.Contains(log, "NOT_CONTROLLER") {
			t.Errorf("%s: refused, and the log says %q", d.path, log)
		}
		if many[d.path] {
			page = ask(http.StatusServiceUnavailable, &kerr.Error{}, kerr.NotLeaderForPartition)
			s.has(page, "2 of 4 were done", "topic-000/1, 3: ", "look at /console/")
			s.lacks(page, "not known", "in a moment")
			s.has(ask(http.StatusServiceUnavailable, &kerr.Error{}, kerr.RequestTimedOut), "whether the others were done is not known", "2 of 4 were done")
		}
		if many[d.path] || d.path == "/console/group/reset" { // which repeats what may go well
			page = ask(http.StatusBadRequest, &kerr.Error{}, kerr.OffsetOutOfRange)
			s.has(page, "2 of 4 were done", "topic-000/1, 3: ", "look at /console/")
		}
		if d.path == "/console/group/reset" {
			for _, joined := range []*kerr.Error{kerr.UnknownMemberID, kerr.RebalanceInProgress} {
				s.has(ask(http.StatusConflict, joined), "somebody may have joined")
			}
		}
		ask(http.StatusSeeOther, &kerr.Error{})
		if log := s.log.String(); strings.Contains(log, "level=WARN") || strings.Count(log, "level=INFO") != 1 || !strings.Contains(log, "by=console") {
			t.Errorf("%s: done, and the log says %q", d.path, log)
		}
	}
}

// TestPreviewsOfSilentLeaders: what a deed on a group would pass over is not known
// where a leader doesn't answer, and not nothing.
func TestPreviewsOfSilentLeaders(t *testing.T) {
	b := newBrokers(1, 3, 1)
	b.groups = 1
	b.silent[2] = true
	s := standOver(t, runner{}, over(b))
	query := "?" + url.Values{"group": {"group-0000"}, "topic": {"topic-000"}}.Encode()
	for _, path := range []string{"/console/group/delete", "/console/group/offsets"} {
		s.has(s.page(path+query, http.StatusOK), "<dt>Yet to read</dt><dd>not known</dd>", "Not all could be asked", ">100<")
	}
	s.has(s.page("/console/groups", http.StatusOK), "group-0000", "broker 2: no answer")
	s.has(s.page("/console/group"+query, http.StatusOK), "<dt>Lag</dt><dd>– records</dd>", "– records behind")
	s.has(s.page("/console/topics/topic-000/delete", http.StatusOK), "Not all could be asked", `<td class="n">not known</td>`)
	b.silent[2] = false
	for _, path := range []string{"/console/group/delete", "/console/group/offsets"} {
		page := s.page(path+query, http.StatusOK)
		s.has(page, "<dt>Yet to read</dt><dd>300</dd>")
		s.lacks(page, "Not all could be asked")
	}
}
