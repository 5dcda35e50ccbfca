package consumer

import (
	"context"
	"errors"
	"time"
)

// describePatience is how long a description is retried while leaders move.
const describePatience = 15 * time.Second

const (
	firstPause = 50 * time.Millisecond
	longPause  = 2 * time.Second
)

// retry repeats do while its error is ErrUnavailable, for patience at most, and
// returns the last error then.
func retry(ctx context.Context, patience time.Duration, do func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := do(ctx)
		if err == nil || !errors.Is(err, ErrUnavailable) || time.Now().Add(pause).After(deadline) {
			return err
		}
		if wait(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// wait sleeps for d or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
