package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/jobs"
)

// awayViews are ledgers that can't be read while away is set.
type awayViews struct {
	runner
	away *atomic.Bool
}

func (a awayViews) View(ctx context.Context, spec *jobs.Spec, set jobs.Set) (*jobs.View, error) {
	if a.away.Load() {
		return nil, errors.New("the store is <away>")
	}
	return a.runner.View(ctx, spec, set)
}

// TestLedgersThatCantBeRead: every page that tells of a ledger which can't be read
// says so, shows what is known of before beside that, and says of when that is.
// Where nothing is known, none shows an hour.
func TestLedgersThatCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
		a := awayViews{runner{hours: map[int64]jobs.HourFacts{hour.Unix(): {Rows: 4321, Files: 1, Sealed: true}}}, new(atomic.Bool)}
		s := &stand{t: t}
		var err error
		if s.jobs, err = jobs.Open(t.Context(), jobs.Config{Journal: &journal{}, Runner: a}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.jobs.Close(); err != nil {
				t.Error(err)
			}
		}()
		s.h = New(Config{Jobs: s.jobs})
		apply(t, s.jobs, "name: two\nsource: {topics: [a, b]}\noutput: {root: 'file:///w/{topic}'}\n")
		const reason = "the store is &lt;away&gt;"
		paths := []string{"/console/", "/console/jobs", "/console/jobs/two", "/console/outputs"}

		a.away.Store(true)
		for _, path := range paths {
			page := s.page(path, http.StatusOK)
			s.has(page, reason)
			s.lacks(page, "as known", "data-cells", `class="map"`, "data-reading>reading")
		}
		a.away.Store(false)
		time.Sleep(time.Hour)
		for _, path := range paths {
			s.lacks(s.page(path, http.StatusOK), reason, "as known")
		}
		a.away.Store(true)
		time.Sleep(90 * time.Second)
		for path, more := range map[string]string{
			"/console/": "data-cells", "/console/jobs": "data-cells", "/console/jobs/two": "data-cells",
			"/console/jobs/two?hour=" + hour.Format(hourKey): "This is as known 1m ago",
			"/console/outputs": fmt.Sprintf(`<td class="n">%s</td>`, count(4321)),
		} {
			s.has(s.page(path, http.StatusOK), reason, "as known 1m ago", more)
		}
		s.has(s.page("/console/jobs/two", http.StatusOK), `class="map"`, "4,321 rows", "can't be read now")
	})
}
