package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer"
)

// TestGroupsOfSilentBrokers: a broker that doesn't tell of its groups is named, holds
// up nobody for long, and costs none of the groups of the others.
func TestGroupsOfSilentBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			harm   func(f *fake)
			within time.Duration // 0 = whoever asks has time
			want   []string
			says   string
			is     error
			took   time.Duration
		}{
			"all tell":    {func(*fake) {}, 0, []string{"both", "of broker 1", "of broker 2", "of broker 3"}, "", nil, 0},
			"silent":      {func(f *fake) { f.silent[2] = true }, 0, []string{"both", "of broker 1", "of broker 3"}, "broker 2: no answer within 5s", context.DeadlineExceeded, listPatience},
			"half a time": {func(f *fake) { f.silent[2] = true }, 2 * time.Second, []string{"both", "of broker 1", "of broker 3"}, "broker 2: no answer within 1s", context.DeadlineExceeded, time.Second},
			"down":        {func(f *fake) { f.down[1], f.down[3] = true, true }, 0, []string{"both", "of broker 2"}, "broker 3: ", consumer.ErrUnavailable, 0},
			"it loads": {
				func(f *fake) { f.loading = map[int32]*kerr.Error{3: kerr.CoordinatorLoadInProgress} }, 0,
				[]string{"both", "of broker 1", "of broker 2", "of broker 3"},
				"broker 3: groups: ", kerr.CoordinatorLoadInProgress, 0,
			},
			"none tells": {func(f *fake) { f.down[1], f.down[2], f.silent[3] = true, true, true }, 0, nil, "broker 3: no answer", consumer.ErrUnavailable, listPatience},
		} {
			f := threeBrokers()
			c.harm(f)
			ctx, done := context.WithCancel(t.Context())
			if c.within > 0 {
				ctx, done = context.WithTimeout(t.Context(), c.within)
			}
			began := time.Now()
			list, err := Groups(ctx, f)
			took := time.Since(began)
			done()
			var names []string
			for _, g := range list {
				names = append(names, g.Name)
			}
			if !slices.Equal(names, c.want) || took != c.took || (err == nil) != (c.is == nil) || err != nil && (!errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %q, %v after %v; want %q, %q after %v", name, names, err, took, c.want, c.says, c.took)
			}
		}
	})
}
