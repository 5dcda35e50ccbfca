// Package demo makes the page views `sawlog demo` loads: a stream that looks
// like a web shop's, the same for the same seed and hour, with nulls, a few
// late records and a few malformed ones.
package demo

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Seed is the seed of the demo's stream.
const Seed = 20261129

// View is one page view as it is sent.
type View struct {
	Key   []byte
	Value []byte
	At    time.Time // event time, also the record's timestamp
}

// page is the JSON of a page view.
type page struct {
	Time       string   `json:"time"`
	User       string   `json:"user"`
	Session    string   `json:"session"`
	Path       string   `json:"path"`
	Referrer   *string  `json:"referrer"`
	Country    string   `json:"country"`
	Device     device   `json:"device"`
	Status     int      `json:"status"`
	Bytes      int      `json:"bytes"`
	DurationMS float64  `json:"duration_ms"`
	Tags       []string `json:"tags"`
	Cart       *cart    `json:"cart,omitempty"`
}

type device struct {
	Kind    string `json:"kind"`
	OS      string `json:"os"`
	Browser string `json:"browser"`
}

type cart struct {
	Items int     `json:"items"`
	Total float64 `json:"total"`
}

// Traffic is the number of page views of an hour: rate is that of an average
// hour, and nights are quieter than evenings.
func Traffic(hour time.Time, rate int) int {
	wave := 1 - 0.6*math.Cos(2*math.Pi*float64(hour.UTC().Hour()-3)/24)
	return max(1, int(float64(rate)*wave))
}

// Hour makes the page views of the hour that starts at start, in the order of
// their time, but for a few that come up to two minutes late.
func Hour(start time.Time, n int) []View {
	rnd := rand.New(rand.NewPCG(Seed, uint64(start.Unix())))
	views := make([]View, 0, n)
	step := time.Hour / time.Duration(n)
	for i := range n {
		at := start.Add(time.Duration(i)*step + time.Duration(rnd.Int64N(int64(step))))
		if delay := rnd.IntN(50) == 0; delay {
			at = maxTime(start, at.Add(-time.Duration(rnd.IntN(120_000))*time.Millisecond))
		}
		views = append(views, view(rnd, at.Truncate(time.Millisecond)))
	}
	return views
}

// Stream is the page views as time goes by: the same for the same span, and
// each in exactly one of spans that adjoin.
type Stream struct {
	Rate int // page views in an average hour

	hour  time.Time // of views
	views []View
}

// Between makes the page views of [from, to).
func (s *Stream) Between(from, to time.Time) []View {
	var due []View
	for hour := from.Truncate(time.Hour); hour.Before(to); hour = hour.Add(time.Hour) {
		if s.views == nil || !s.hour.Equal(hour) {
			s.hour, s.views = hour, Hour(hour, Traffic(hour, s.Rate))
		}
		for _, v := range s.views {
			if !v.At.Before(from) && v.At.Before(to) {
				due = append(due, v)
			}
		}
	}
	return due
}

// Late makes n page views of an hour that has long passed; each round makes
// others.
func Late(start time.Time, n, round int) []View {
	rnd := rand.New(rand.NewPCG(Seed+1+uint64(round)<<32, uint64(start.Unix())))
	views := make([]View, 0, n)
	for range n {
		views = append(views, view(rnd, start.Add(time.Duration(rnd.IntN(3_600_000))*time.Millisecond)))
	}
	return views
}

// Malformed makes n records no loader can read as a page view: torn, of the
// wrong type, without a time, or not JSON at all.
func Malformed(at time.Time, n int) []View {
	rnd := rand.New(rand.NewPCG(Seed+2, uint64(at.Unix())))
	views := make([]View, 0, n)
	for i := range n {
		good := view(rnd, at)
		switch i % 4 {
		case 0:
			good.Value = good.Value[:len(good.Value)/2]
		case 1:
			good.Value = fmt.Appendf(nil, `{"time":%q,"user":"u-1","status":"teapot"}`, at.Format(time.RFC3339))
		case 2:
			good.Value = []byte(`{"user":"u-2","path":"/no/time"}`)
		case 3:
			good.Value = []byte("GET /healthz 200")
		}
		views = append(views, good)
	}
	return views
}

func view(rnd *rand.Rand, at time.Time) View {
	user := int(math.Floor(math.Pow(rnd.Float64(), 3) * 4000))
	var session [8]byte
	for i := range session {
		session[i] = byte(rnd.UintN(256))
	}
	p := page{
		Time: at.UTC().Format("2006-01-02T15:04:05.000Z"), User: fmt.Sprintf("u-%04d", user), Session: hex.EncodeToString(session[:]),
		Path: pick(rnd, "/", "/search?q=caf\u00e9", "/cart", "/checkout", "/help/\"returns\"", "/login"), Country: pick(rnd, "DE", "DE", "FR", "US", "PL", "JP", "BR"),
		Device: device{pick(rnd, "mobile", "mobile", "desktop", "tablet"), pick(rnd, "Android", "iOS", "Windows", "macOS", "Linux"), pick(rnd, "Chrome", "Safari", "Firefox")},
		Status: 200, Bytes: 400 + rnd.IntN(60_000), DurationMS: math.Round(rnd.ExpFloat64()*45_000) / 1000, Tags: []string{},
	}
	if rnd.IntN(3) > 0 {
		p.Path = fmt.Sprintf("/products/%d", rnd.IntN(800))
	}
	if rnd.IntN(10) > 3 {
		referrer := pick(rnd, "https://search.example/", "https://news.example/today", "https://social.example/feed")
		p.Referrer = &referrer
	}
	if rnd.IntN(100) < 3 {
		p.Status = []int{301, 404, 404, 500}[rnd.IntN(4)]
	}
	for _, tag := range []string{"ab-a", "ab-b", "newsletter", "returning"} {
		if rnd.IntN(5) == 0 {
			p.Tags = append(p.Tags, tag)
		}
	}
	if rnd.IntN(8) == 0 {
		p.Cart = &cart{1 + rnd.IntN(6), math.Round(rnd.Float64()*30_000) / 100}
	}
	value, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return View{Key: []byte(p.User), Value: value, At: at}
}

func pick(rnd *rand.Rand, from ...string) string { return from[rnd.IntN(len(from))] }

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
