package console

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroups looks at real groups: those that only committed, one with a member,
// and names that would break a page.
func TestGroups(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 2)
	s.create("gone", 1)
	s.send(s.numbers("orders", 0, 100)...)
	s.send(s.numbers("orders", 1, 10)...)
	s.commit("checkers", "orders", map[int32]int64{0: 40, 1: 10})
	hostile := `a/b <script> & "c" ..`
	s.commit(hostile, "orders", map[int32]int64{0: 100})
	s.commit("..", "gone", map[int32]int64{0: 0})
	member, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ConsumerGroup("live"), kgo.ConsumeTopics("orders"), kgo.ClientID("a<b>"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	member.PollRecords(ctx, 1)

	page := s.page("/console/groups", http.StatusOK)
	s.has(page, "4 groups", ">checkers<", ">60<", ">live<", "stable", "empty", "&lt;script&gt;")
	s.lacks(page, "<script> &")
	s.lacks(s.page("/console/groups?state=Stable", http.StatusOK), ">checkers<")
	s.lacks(s.page("/console/groups?q=live", http.StatusOK), ">checkers<")
	for _, m := range regexp.MustCompile(`class="name" href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		s.page(html.UnescapeString(m[1]), http.StatusOK)
	}

	page = s.page(groupHref("checkers"), http.StatusOK)
	// The record at offset 40 was written a minute before noon.
	s.has(page, "60 records", "written 1m ago", ">1m<", "Nobody is in the group", "/console/group/reset?group=checkers&amp;topic=orders",
		"messages?partition=0&amp;from=40", "sawlog group describe checkers")
	s.has(s.page(groupHref("live"), http.StatusOK), "a&lt;b&gt;", "127.0.0.1", "broker 1")
	s.has(s.page(groupHref("nobody"), http.StatusNotFound), "no group nobody")
	s.page("/console/group", http.StatusNotFound)
}

// TestResetOffsets previews and moves offsets of a group, and refuses what was
// not shown.
func TestResetOffsets(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 2)
	s.send(s.numbers("orders", 0, 100)...)
	s.send(s.numbers("orders", 1, 10)...)
	s.commit("checkers", "orders", map[int32]int64{0: 40})
	ask := func(to string) string {
		return "/console/group/reset?" + url.Values{"group": {"checkers"}, "topic": {"orders"}, "to": {to}}.Encode()
	}
	s.has(s.page("/console/group/reset?group=checkers", http.StatusOK), "Preview", `<option value="orders">`)
	for _, bad := range []string{"sometime", "9999", "@nonsense"} {
		s.page(ask(bad), http.StatusBadRequest)
	}
	s.page("/console/group/reset?group=checkers&topic=nope&to=earliest", http.StatusNotFound)
	when := "@" + noon.Add(-5*time.Second).Format(time.RFC3339)
	page := s.page(ask(when), http.StatusOK)
	s.has(page, "2 of 2", ">55<", "Move 2 offsets", "sawlog group reset checkers --topic orders --to "+shell(when)+" --yes")
	if got := s.committed("checkers"); got != "0:40" {
		t.Fatalf("a preview moved offsets: %s", got)
	}
	form := s.form(page)
	s.post(form, "", http.StatusBadRequest) // the name was not typed
	s.post(form, "checker", http.StatusBadRequest)
	s.send(s.numbers("orders", 1, 5)...) // what is done is what was shown
	s.post(form, "checkers", http.StatusSeeOther)
	if got := s.committed("checkers"); got != "0:95 1:5" {
		t.Errorf("committed %s", got)
	}
	s.has(s.post(form, "checkers", http.StatusConflict), "has moved on orders/0 since it was shown")
	s.has(s.page(ask(when), http.StatusOK), "nothing to move")
	forged := url.Values{"group": {"checkers"}, "topic": {"orders"}, "move": {"0:95:-7"}}
	s.post(forged, "checkers", http.StatusBadRequest)

	member, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ConsumerGroup("checkers"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	member.PollRecords(ctx, 1)
	page = s.page(ask("earliest"), http.StatusOK)
	s.has(page, "stop its 1 member first")
	s.lacks(page, "<button class=\"main danger\"")
	forged.Set("move", "0:95:0")
	s.has(s.post(forged, "checkers", http.StatusConflict), "stop its members first")
	if got := s.committed("checkers"); got != "0:95 1:5" {
		t.Errorf("committed %s", got)
	}
}

// form reads the hidden fields of the page's form that posts.
func (s *stand) form(page string) url.Values {
	s.t.Helper()
	_, page, ok := strings.Cut(page, `method="post"`)
	if !ok {
		s.t.Fatal("the page has no form that does anything")
	}
	values := url.Values{}
	for _, m := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		values.Add(m[1], html.UnescapeString(m[2]))
	}
	return values
}

// post sends a reset with a name typed.
func (s *stand) post(form url.Values, name string, status int) string {
	s.t.Helper()
	form.Set("name", name)
	resp := s.ask(http.MethodPost, "/console/group/reset", form)
	text := readAll(s.t, resp)
	if resp.StatusCode != status {
		s.t.Fatalf("status %d, want %d:\n%s", resp.StatusCode, status, mainOf(text))
	}
	return text
}

// committed are the offsets of a group as PARTITION:OFFSET.
func (s *stand) committed(group string) string {
	s.t.Helper()
	page := s.page(groupHref(group), http.StatusOK)
	var list []string
	for _, m := range regexp.MustCompile(`<tr><td class="n">(\d+)</td><td class="n">(\d+)</td>`).FindAllStringSubmatch(page, -1) {
		list = append(list, fmt.Sprintf("%s:%s", m[1], m[2]))
	}
	return strings.Join(list, " ")
}
