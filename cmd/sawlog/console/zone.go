package console

import (
	"maps"
	"net/http"
	"net/url"
	"time"

	"sawlog/formats"
	"sawlog/jobs"
)

// zone is the time zone a page is drawn in. The zero value is UTC.
type zone struct {
	name string // IANA name; "" = UTC
	at   *time.Location
}

// zoneOf reads ?zone=, an IANA name.
func zoneOf(r *http.Request) (zone, error) {
	name := r.URL.Query().Get("zone")
	if name == "" || name == "UTC" {
		return zone{}, nil
	}
	at, _, err := formats.LoadZone(name)
	if err != nil {
		return zone{}, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "zone: " + err.Error(), Hint: "want a name of the tz database, such as Europe/Berlin"}
	}
	return zone{name: name, at: at}, nil
}

// Name is what people call the zone.
func (z zone) Name() string {
	if z.name == "" {
		return "UTC"
	}
	return z.name
}

// In is a moment as the zone's clocks show it.
func (z zone) In(t time.Time) time.Time {
	if z.at == nil {
		return t.UTC()
	}
	return t.In(z.at)
}

// Clock prints a moment; a time that is not set is a dash.
func (z zone) Clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return z.In(t).Format("2006-01-02 15:04:05")
}

// Minute prints a moment without its seconds.
func (z zone) Minute(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return z.In(t).Format("2006-01-02 15:04")
}

// Short prints a moment of the days around now.
func (z zone) Short(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return z.In(t).Format("2 Jan 15:04")
}

// Midnight is the start of the day that holds t.
func (z zone) Midnight(t time.Time) time.Time {
	y, m, d := z.In(t).Date()
	return z.day(y, m, d)
}

// Days is the midnight so many days later.
func (z zone) Days(t time.Time, n int) time.Time {
	y, m, d := z.In(t).Date()
	return z.day(y, m, d+n)
}

// day is the first moment of a day: where clocks go forward at midnight it is
// not 00:00.
func (z zone) day(y int, m time.Month, d int) time.Time {
	at := z.at
	if at == nil {
		at = time.UTC
	}
	noon := time.Date(y, m, d, 12, 0, 0, 0, at)
	t := noon.Add(-14 * time.Hour).Truncate(15 * time.Minute)
	for t.Day() != noon.Day() {
		t = t.Add(15 * time.Minute)
	}
	return t
}

// choices are the zones a page offers: UTC, the zones of jobs, and what the
// browser's clock shows, which the script fills in.
func (z zone) choices(query url.Values, job string) []choice {
	list := []choice{{Name: "UTC", Href: "?" + keep(query, "zone", ""), Chosen: z.name == ""}}
	if job != "" && job != "UTC" {
		list = append(list, choice{Name: job, Href: "?" + keep(query, "zone", job), Chosen: z.name == job})
	}
	if z.name != "" && z.name != job {
		list = append(list, choice{Name: z.name, Href: "?" + keep(query, "zone", z.name), Chosen: true})
	}
	return list
}

// keep is the query with one key changed; an empty value takes it away.
func keep(query url.Values, key, value string) string {
	q := url.Values{}
	maps.Copy(q, query)
	if value == "" {
		q.Del(key)
	} else {
		q.Set(key, value)
	}
	return q.Encode()
}
