package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Schedule says when a job is due. A tick is named by its time; its run starts
// Delay later.
type Schedule struct {
	Every   time.Duration // 0 = by Cron; ticks stand at multiples counted from a Monday, 00:00 UTC
	Cron    string        // five fields, read in Zone
	Zone    string
	Delay   time.Duration
	Catchup string // missing | latest | none

	where *time.Location // of Zone
}

// The ways to share a backlog of missed ticks among runs.
const (
	CatchupMissing = "missing" // one run for each missed tick
	CatchupLatest  = "latest"  // one run for all of them
	CatchupNone    = "none"    // the job pauses until a person resumes or backfills
)

// monday is the moment ticks of every: are counted from.
var monday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

func (s *Spec) readSchedule(root *section) {
	if root.get("schedule") == nil {
		return
	}
	sec := root.sub("schedule")
	if sec == nil {
		return
	}
	s.note(sec)
	sc := &Schedule{}
	sc.Every = sec.duration("every", 0, time.Second)
	sc.Cron = parsed(sec, "cron", "", checkCron)
	sc.Zone = s.zone(sec, "timezone")
	sc.Delay = sec.duration("delay", 0, 0)
	sc.Catchup = sec.oneOf("catchup", CatchupMissing, CatchupMissing, CatchupLatest, CatchupNone)
	switch {
	case !sec.has("every") && !sec.has("cron"):
		sec.missing("every", "every: 1h, or cron: '5 * * * *'")
	case sec.has("every") && sec.has("cron"):
		sec.say("cron", "stands beside every: give one of the two")
	case sec.has("every") && sec.has("timezone"):
		sec.say("timezone", "belongs to cron; ticks of every: are counted in UTC")
	case sec.has("every") && sc.Every%time.Second != 0:
		sec.say("every", "want whole seconds")
	}
	sec.done()
	sc.where = loadZone(sc.Zone)
	s.Schedule = sc
}

// checkCron wants five fields with at least one date that exists.
func checkCron(text string) (string, error) {
	if fields := len(strings.Fields(text)); fields != 5 && !strings.HasPrefix(text, "@") {
		return text, fmt.Errorf("%q has %d fields: want five (minute hour day month weekday), such as '5 * * * *'", text, fields)
	}
	if !gronx.IsValid(text) || strings.HasPrefix(text, "@") && len(expand(text)) != 5 {
		return text, fmt.Errorf("%q is no cron expression: want five fields (minute hour day month weekday), such as '5 * * * *'", text)
	}
	if _, ok := nextWall(text, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return text, fmt.Errorf("%q never comes", text)
	}
	return text, nil
}

// expand gives the five fields of an expression, tags such as @daily written out.
func expand(cron string) []string {
	segments, err := gronx.Segments(cron)
	if err != nil || len(segments) < 6 {
		return nil
	}
	if len(segments) > 6 {
		return segments[1:]
	}
	return segments[1:6]
}

// nextWall is the first wall-clock time after w that the expression names. It
// reckons in a calendar without zones; instants come from (*Schedule).instants.
func nextWall(cron string, w time.Time) (time.Time, bool) {
	next, err := gronx.NextTickAfter(cron, w, false)
	return next, err == nil && next.After(w)
}

// everyHour tells whether the hour field is a wildcard: such an expression
// follows real hours through a change of the clock.
func (sc *Schedule) everyHour() bool {
	fields := expand(sc.Cron)
	return len(fields) == 5 && strings.HasPrefix(fields[1], "*")
}

// sameTicks tells whether two schedules, or none, make the same ticks.
func (sc *Schedule) sameTicks(other *Schedule) bool {
	if sc == nil || other == nil {
		return sc == other
	}
	return sc.Every == other.Every && sc.Cron == other.Cron && sc.Zone == other.Zone
}

// Next is the first tick after t.
func (sc *Schedule) Next(t time.Time) time.Time {
	if sc.Every > 0 {
		n := t.Sub(monday) / sc.Every
		if t.Before(monday) && t.Sub(monday)%sc.Every != 0 {
			n--
		}
		return monday.Add((n + 1) * sc.Every)
	}
	return sc.nextCron(t)
}

// nextCron walks wall-clock times and turns each into instants. The hour the
// clock repeats holds two instants of one wall time: an expression that names
// its hours takes the first, one for every hour takes both. A wall time the
// clock skips runs at the first instant after the gap, once; an expression for
// every hour leaves it out, its next hour is due anyway.
func (sc *Schedule) nextCron(t time.Time) time.Time {
	local := t.In(sc.where)
	// Back far enough that both readings of a repeated hour are looked at.
	wall := asWall(local).Add(-3 * time.Hour)
	var best time.Time
	for {
		next, ok := nextWall(sc.Cron, wall)
		if !ok {
			return best
		}
		wall = next
		for _, at := range sc.instants(wall) {
			if at.After(t) && (best.IsZero() || at.Before(best)) {
				best = at
			}
		}
		// Later wall times may still map to earlier instants only within the
		// span a clock change covers.
		if !best.IsZero() && wall.Sub(asWall(best.In(sc.where))) > 3*time.Hour {
			return best
		}
		if !best.IsZero() && !sc.nearChange(best) {
			return best
		}
	}
}

// nearChange tells whether the zone's offset changes within hours of t.
func (sc *Schedule) nearChange(t time.Time) bool {
	_, before := t.Add(-6 * time.Hour).In(sc.where).Zone()
	_, after := t.Add(6 * time.Hour).In(sc.where).Zone()
	return before != after
}

// asWall is the reading of t's clock, as if it were UTC.
func asWall(t time.Time) time.Time {
	y, mo, d := t.Date()
	h, mi, s := t.Clock()
	return time.Date(y, mo, d, h, mi, s, 0, time.UTC)
}

// instants are the moments the zone's clock reads w, at which a tick stands.
func (sc *Schedule) instants(w time.Time) []time.Time {
	var found []time.Time
	for _, probe := range []time.Time{w.Add(-26 * time.Hour), w.Add(26 * time.Hour)} {
		_, offset := probe.In(sc.where).Zone()
		at := w.Add(-time.Duration(offset) * time.Second)
		if asWall(at.In(sc.where)).Equal(w) && (len(found) == 0 || !found[0].Equal(at)) {
			found = append(found, at)
		}
	}
	switch {
	case len(found) == 2 && found[1].Before(found[0]):
		found[0], found[1] = found[1], found[0]
		fallthrough
	case len(found) == 2:
		if !sc.everyHour() {
			found = found[:1]
		}
	case len(found) == 0 && !sc.everyHour():
		found = append(found, sc.afterGap(w))
	}
	return found
}

// afterGap is the first instant after the gap that holds wall time w.
func (sc *Schedule) afterGap(w time.Time) time.Time {
	low, high := w.Add(-26*time.Hour), w.Add(26*time.Hour) // the clock is before w at low, after it at high
	for high.Sub(low) > time.Second {
		mid := low.Add(high.Sub(low) / 2).Truncate(time.Second)
		if asWall(mid.In(sc.where)).Before(w) {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// Ticks lists the ticks in [from, to), oldest first, at most limit of them
// when limit is above zero.
func (sc *Schedule) Ticks(from, to time.Time, limit int) []time.Time {
	var ticks []time.Time
	for t := sc.Next(from.Add(-1)); !t.IsZero() && t.Before(to); t = sc.Next(t) {
		ticks = append(ticks, t)
		if limit > 0 && len(ticks) == limit {
			break
		}
	}
	return ticks
}

// Upcoming lists the next n ticks after t.
func (sc *Schedule) Upcoming(t time.Time, n int) []time.Time {
	ticks := make([]time.Time, 0, n)
	for next := sc.Next(t); !next.IsZero() && len(ticks) < n; next = sc.Next(next) {
		ticks = append(ticks, next)
	}
	return ticks
}

// Due is the moment the run of a tick starts.
func (sc *Schedule) Due(tick time.Time) time.Time { return tick.Add(sc.Delay) }

// Latest is the last tick due at or before now; zero when the search finds none.
func (sc *Schedule) Latest(now time.Time) time.Time {
	limit := now.Add(-sc.Delay)
	if sc.Every > 0 {
		return sc.Next(limit).Add(-sc.Every)
	}
	for back := time.Hour; back < 5*366*24*time.Hour; back *= 4 {
		ticks := sc.Ticks(limit.Add(-back), limit.Add(1), 0)
		if len(ticks) > 0 {
			return ticks[len(ticks)-1]
		}
	}
	return time.Time{}
}
