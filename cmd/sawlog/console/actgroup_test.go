package console

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// join has a member read a topic in a group until the test ends.
func (s *stand) join(group, topic string) {
	s.t.Helper()
	member, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(member.Close)
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	member.PollRecords(ctx, 1)
}

// TestDeleteGroup: what is forgotten is shown; a group that moved since, or has
// members, is left alone.
func TestDeleteGroup(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 2)
	s.send(s.numbers("orders", 0, 100)...)
	hostile := `a/b <script> & "c" ..`
	for _, group := range []string{"checkers", hostile} {
		s.commit(group, "orders", map[int32]int64{0: 40})
		ask := groupDeed("delete", group, "")
		page := s.page(ask, http.StatusOK)
		s.has(page, "Offsets that are deleted", ">40<", ">60<", "sawlog group delete "+shell(group)+" --yes", "auto.offset.reset")
		form := s.form(page)
		s.has(s.deed("/console/group/delete", form, http.StatusBadRequest), "nothing was done")
		form.Set("typed", group)
		s.commit(group, "orders", map[int32]int64{0: 41})
		s.has(s.deed("/console/group/delete", form, http.StatusConflict), "has moved since it was shown")
		form = s.form(s.page(ask, http.StatusOK))
		form.Set("typed", group)
		if to := s.deed("/console/group/delete", form, http.StatusSeeOther); to != "/console/groups" {
			t.Errorf("it leads to %s", to)
		}
		s.page(groupHref(group), http.StatusNotFound)
		s.page(ask, http.StatusNotFound)
	}
	s.join("live", "orders")
	page := s.page(groupDeed("delete", "live", ""), http.StatusOK)
	s.has(page, "it can&#39;t be deleted", "Stop its 1 member first")
	s.lacks(page, `class="main danger"`)
	form := s.form(page)
	form.Set("typed", "live")
	s.deed("/console/group/delete", form, http.StatusConflict)
	s.page(groupHref("live"), http.StatusOK)
}

// TestDeleteOffsets of one topic; the others of the group stay.
func TestDeleteOffsets(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 2)
	s.create("clicks", 1)
	s.send(s.numbers("orders", 0, 100)...)
	s.send(s.numbers("clicks", 0, 10)...)
	s.commit("checkers", "orders", map[int32]int64{0: 40, 1: 0})
	s.commit("checkers", "clicks", map[int32]int64{0: 3})
	s.has(s.page(groupHref("checkers"), http.StatusOK), "/console/group/offsets?group=checkers&amp;topic=orders")
	ask := groupDeed("offsets", "checkers", "orders")
	page := s.page(ask, http.StatusOK)
	s.has(page, "Delete 2 offsets", ">60<", "sawlog group delete checkers --topic orders --yes")
	s.lacks(page, ">clicks<")
	form := s.form(page)
	s.deed("/console/group/offsets", form, http.StatusBadRequest)
	form.Set("typed", "checkers")
	other := url.Values{"group": {"checkers"}, "topic": {"clicks"}, "typed": {"checkers"}, "stands": form["stands"]}
	s.has(s.deed("/console/group/offsets", other, http.StatusConflict), "has moved")
	if to := s.deed("/console/group/offsets", form, http.StatusSeeOther); to != groupHref("checkers") {
		t.Errorf("it leads to %s", to)
	}
	page = s.page(groupHref("checkers"), http.StatusOK)
	s.has(page, ">clicks<")
	s.lacks(page, ">orders<")
	s.has(s.page(ask, http.StatusNotFound), "has no offsets of topic")
	form = s.form(s.page(groupDeed("offsets", "checkers", "clicks"), http.StatusOK))
	form.Set("typed", "checkers")
	if to := s.deed("/console/group/offsets", form, http.StatusSeeOther); to != "/console/groups" {
		t.Errorf("the group is gone with its last offset, and it leads to %s", to)
	}
	s.commit("live", "orders", map[int32]int64{0: 5})
	s.join("live", "orders")
	page = s.page(groupDeed("offsets", "live", "orders"), http.StatusOK)
	s.has(page, "Members of the group read the topic")
	s.lacks(page, `class="main danger"`)
	form = s.form(page)
	form.Set("typed", "live")
	s.deed("/console/group/offsets", form, http.StatusConflict)
}
