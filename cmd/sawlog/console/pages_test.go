package console

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestPagers: whatever ?page= says, what a page shows is part of the list.
func TestPagers(t *testing.T) {
	for _, size := range []int{1, perPage, 2 * perPage, jobsOnPage, linesOnPage, setsOnJob, backfillsOnPage, itemsOnPage, filesOnPage, filesListed, daysOnPage} {
		for _, total := range []int{0, 1, size, size + 1, 3*size - 1} {
			last := max(1, (total+size-1)/size)
			for text, want := range map[string]int{
				"": 1, "0": 1, "-1": 1, "x": 1, "1": 1, "200000000000000000": 1, "99999999999999999999": 1,
				fmt.Sprint(math.MaxInt): 1, fmt.Sprint(math.MinInt): 1, fmt.Sprint(math.MaxInt/size + 2): 1,
				fmt.Sprint(last): last, fmt.Sprint(last + 1): 1,
			} {
				r := httptest.NewRequest(http.MethodGet, "/?page="+url.QueryEscape(text), nil)
				p := pages(r, total, size)
				if p.From != (want-1)*size || p.To != min(want*size, total) || (p.Previous != "") != (want > 1) || (p.Next != "") != (want < last) {
					t.Errorf("page %q of %d by %d: %+v, want page %d", text, total, size, p, want)
				}
			}
		}
	}
}

// TestFarPages asks the lists for a page far behind their end.
func TestFarPages(t *testing.T) {
	s := standOver(t, runner{}, over(newBrokers(3, 2, 1)))
	apply(t, s.jobs, job)
	for _, list := range []string{"jobs", "backfills", "topics", "topics/topic-000", "groups", "cluster", "outputs", "jobs/pageviews-hourly"} {
		for _, far := range []string{"200000000000000000", "9223372036854775807", "-9223372036854775808"} {
			s.page("/console/"+list+"?page="+far, http.StatusOK)
		}
	}
}
