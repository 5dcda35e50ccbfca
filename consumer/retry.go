package consumer

import (
	"context"
	"errors"
	"time"
)

// newsPatience is how long a description is repeated while a topic is unknown: it
// may just have been made, and the broker asked have yet to hear of it.
const newsPatience = time.Second

// Patience is how long one request to a cluster may take, and for how long it is
// repeated while leaders move.
func Patience(c Requestor) time.Duration {
	if c, ok := c.(interface{ Timeout() time.Duration }); ok {
		return c.Timeout()
	}
	return defaultTimeout
}

const (
	firstPause = 50 * time.Millisecond
	longPause  = 2 * time.Second
)

// retry repeats do while its error is ErrUnavailable, for patience at most,
// ErrUnknownTopic, for newsPatience, or a ShortError, for doubtFor, and returns
// the last error then.
func retry(ctx context.Context, patience time.Duration, do func(context.Context) error) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := do(ctx)
		limit := patience
		var short *ShortError
		switch {
		case errors.As(err, &short):
			limit = min(patience, doubtFor)
		case errors.Is(err, ErrUnknownTopic):
			limit = newsPatience
		case !errors.Is(err, ErrUnavailable):
			return err
		}
		if time.Since(began)+pause > limit {
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
