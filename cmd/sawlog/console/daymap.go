package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
)

// Map geometry: a day in a row, an hour of the clock in a column.
const (
	mapLeft   = 86
	mapTop    = 18
	mapCell   = 38
	mapRow    = 19
	mapRight  = 96
	mapColumn = mapCell - 3
)

// dayMap draws one data set as days × hours, newest day on top. Each cell is a
// link to what is known of it.
//
// A column is an hour of the zone's clock. Where clocks are set back, two cells
// share a column, half as wide each; where they are set forward, a column has
// none, and a line says so: a day shows its 23 or 25 hours as they were.
type dayMap struct {
	grid   *jobs.Grid
	zone   zone
	query  url.Values // of the page; links keep it
	chosen time.Time  // hour of the panel
	out    strings.Builder
}

func (m *dayMap) draw() template.HTML {
	days := splitDays(m.zone, m.grid.Hours)
	width, height := mapLeft+24*mapCell+mapRight, mapTop+len(days)*mapRow+4
	fmt.Fprintf(&m.out, `<svg class="map" viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="%s">`,
		width, height, width, height, template.HTMLEscapeString("hours of "+m.grid.Dataset+": "+summary(m.grid.Hours)))
	for h := 0; h < 24; h += 3 {
		fmt.Fprintf(&m.out, `<text class="hour" x="%d" y="11">%02d</text>`, mapLeft+h*mapCell+2, h)
	}
	fmt.Fprintf(&m.out, `<text class="sum" x="%d" y="11">rows</text>`, width-6)
	for row := range days {
		m.day(days[len(days)-1-row], mapTop+row*mapRow, width)
	}
	m.out.WriteString(`</svg>`)
	return template.HTML(m.out.String())
}

func (m *dayMap) day(day []jobs.Hour, y, width int) {
	first := m.zone.In(day[0].Hour)
	class := "name"
	if wd := first.Weekday(); wd == time.Saturday || wd == time.Sunday {
		class = "name weekend"
	}
	fmt.Fprintf(&m.out, `<g class="row"><text class="%s" x="%d" y="%d">%s</text>`, class, mapLeft-10, y+12, first.Format("Mon 2 Jan"))
	var rows int64
	for _, c := range columns(m.zone, day) {
		for i, h := range c.hours {
			rows += h.Rows
			w := float64(mapColumn) / float64(len(c.hours))
			m.cell(h, box{float64(mapLeft+c.at*mapCell) + float64(i)*w, float64(y), w - min(float64(i+1), float64(len(c.hours)-1)), mapRow - 4})
		}
		if len(c.hours) == 0 {
			fmt.Fprintf(&m.out, `<path class="skipped" d="M%d %dh%d"><title>clocks were set forward: there was no %02d:00</title></path>`,
				mapLeft+c.at*mapCell+3, y+mapRow/2-2, mapColumn-6, c.at)
		}
	}
	if rows > 0 {
		fmt.Fprintf(&m.out, `<text class="sum" x="%d" y="%d">%s</text>`, width-6, y+12, count(rows))
	}
	m.out.WriteString(`</g>`)
}

// column is an hour of the clock and the cells that begin in it.
type column struct {
	at    int
	hours []jobs.Hour
}

// columns sorts the cells of one day into the hours of the zone's clock. Hours
// that the clock left out come without cells.
func columns(z zone, day []jobs.Hour) []column {
	var out []column
	for _, h := range day {
		at := z.In(h.Hour).Hour()
		for n := len(out); n > 0 && out[n-1].at+1 < at; n = len(out) {
			out = append(out, column{at: out[n-1].at + 1})
		}
		if n := len(out); n > 0 && out[n-1].at == at {
			out[n-1].hours = append(out[n-1].hours, h)
			continue
		}
		out = append(out, column{at: at, hours: []jobs.Hour{h}})
	}
	return out
}

// splitDays cuts hours at the midnights of a zone.
func splitDays(z zone, hours []jobs.Hour) [][]jobs.Hour {
	var days [][]jobs.Hour
	last := 0
	for _, h := range hours {
		if day := z.In(h.Hour).YearDay(); days == nil || day != last {
			days, last = append(days, nil), day
		}
		days[len(days)-1] = append(days[len(days)-1], h)
	}
	return days
}

// hourKey is how an hour stands in URLs: its UTC start.
const hourKey = "2006-01-02T15:04"

func (m *dayMap) cell(h jobs.Hour, b box) {
	key := h.Hour.UTC().Format(hourKey)
	m.out.WriteString(`<a class="cell" tabindex="-1" href="?` + template.HTMLEscapeString(keep(m.query, "hour", key)) + `#hour" data-at="` + key + `" aria-label="` +
		template.HTMLEscapeString(describe(m.zone, h)) + `"`)
	if h.Hour.Equal(m.chosen) {
		m.out.WriteString(` aria-current="true"`)
	}
	m.out.WriteString(`><rect class="hit" x="` + num(b.x-1) + `" y="` + num(b.y-1) + `" width="` + num(b.w+2) + `" height="` + strconv.Itoa(mapRow-2) + `"/>` +
		`<path class="s-` + h.State + `" d="` + outline(h.State, b) + `"/>`)
	if h.Active && h.State != jobs.HourRunning {
		m.out.WriteString(`<path class="active" d="` + box{b.x, b.y + b.h, b.w, 2}.rect() + `"/>`)
	}
	m.out.WriteString(`</a>`)
}

// describe says what a cell is, in words.
func describe(z zone, h jobs.Hour) string {
	s := z.In(h.Hour).Format("Mon 2 Jan 15:04") + " – " + h.State
	if h.Files > 0 {
		s += " – " + count(h.Rows) + " rows in " + plural(h.Files, "file")
	}
	if h.Late > 0 {
		s += ", " + count(h.Late) + " late"
	}
	if h.Active && h.State != jobs.HourRunning {
		s += " – a run is going on"
	}
	return s
}
