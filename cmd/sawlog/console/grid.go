package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
)

// states in the order of the legend. A state has a shape of its own, so that
// colour is never the only difference.
var states = []struct{ Name, Means string }{
	{jobs.HourSealed, "complete"},
	{jobs.HourLate, "complete, then rows came"},
	{jobs.HourFilling, "has rows, more may come"},
	{jobs.HourRunning, "a run may fill it"},
	{jobs.HourFailed, "its run failed"},
	{jobs.HourMissing, "nothing in it"},
	{jobs.HourFuture, "not over yet"},
	{jobs.HourBefore, "before the first record of the data set"},
}

// box is the place of a cell's shape.
type box struct{ x, y, w, h float64 }

func (b box) rect() string {
	return "M" + num(b.x) + " " + num(b.y) + "h" + num(b.w) + "v" + num(b.h) + "h" + num(-b.w) + "z"
}

// inner is the box without a margin.
func (b box) inner(m float64) box { return box{b.x + m, b.y + m, b.w - 2*m, b.h - 2*m} }

// num prints a coordinate to a hundredth.
func num(f float64) string { return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) }

// outline is the SVG path of a state's shape in a box. All are filled with the
// even-odd rule, but for failed, which is stroked.
func outline(state string, b box) string {
	cx, cy := b.x+b.w/2, b.y+b.h/2
	rx := min(b.w, b.h) / 2
	ry := max(rx, min(b.h/2, 5)) // narrow cells stay legible by height
	switch state {
	case jobs.HourSealed:
		return b.rect()
	case jobs.HourLate: // a full cell with a hole
		return b.rect() + diamond(cx, cy, rx*0.62, ry*0.62)
	case jobs.HourFilling: // the lower half, under an empty frame
		return b.rect() + box{b.x + 1, b.y + 1, b.w - 2, b.h/2 - 1}.rect()
	case jobs.HourRunning:
		return diamond(cx, cy, rx, ry)
	case jobs.HourFailed:
		in := box{cx - rx, cy - ry, 2 * rx, 2 * ry}.inner(min(1, rx/3))
		return "M" + num(in.x) + " " + num(in.y) + "l" + num(in.w) + " " + num(in.h) + "m0 " + num(-in.h) + "l" + num(-in.w) + " " + num(in.h)
	case jobs.HourMissing: // an empty frame
		return b.rect() + b.inner(1.25).rect()
	}
	if state == jobs.HourBefore { // a short dash
		return box{cx - 2, cy - 0.5, 4, 1}.rect()
	}
	return box{cx - 1, cy - 1, 2, 2}.rect()
}

func diamond(cx, cy, rx, ry float64) string {
	return "M" + num(cx) + " " + num(cy-ry) + "L" + num(cx+rx) + " " + num(cy) + "L" + num(cx) + " " + num(cy+ry) + "L" + num(cx-rx) + " " + num(cy) + "z"
}

// legendShape draws one cell for the legend.
func legendShape(state string) template.HTML {
	return template.HTML(`<svg class="key" viewBox="0 0 12 16" width="12" height="16" aria-hidden="true"><path class="s-` + state + `" d="` +
		outline(state, box{1, 1, 10, 14}) + `"/></svg>`)
}

// letters stand for states in a strip's data, one for each cell.
var letters = map[string]byte{
	jobs.HourSealed: 's', jobs.HourLate: 'l', jobs.HourFilling: 'f', jobs.HourRunning: 'r',
	jobs.HourFailed: 'x', jobs.HourMissing: 'm', jobs.HourFuture: '.', jobs.HourBefore: '-',
}

// Strip geometry.
const (
	stripWidth  = 720
	stripHeight = 20
)

// strip draws a row of cells: one path for each state that occurs, so that a
// page of a hundred strips stays small.
func strip(z zone, g *jobs.Grid, label string) template.HTML {
	n := len(g.Hours)
	if n == 0 {
		return ""
	}
	pitch := float64(stripWidth) / float64(n)
	paths := map[string]*strings.Builder{}
	codes := make([]byte, n)
	var days, active strings.Builder
	for i, h := range g.Hours {
		x := float64(i) * pitch
		b := paths[h.State]
		if b == nil {
			b = &strings.Builder{}
			paths[h.State] = b
		}
		b.WriteString(outline(h.State, box{x + 0.5, 0, pitch - 1.5, stripHeight - 3}))
		codes[i] = letters[h.State]
		if h.Active {
			active.WriteString(box{x, stripHeight - 2, pitch, 2}.rect())
		}
		if g.Unit == "hour" && i > 0 && midnight(z, g.Hours[i-1], h) {
			days.WriteString("M" + num(x-0.25) + " -2v" + num(stripHeight+2))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="strip" viewBox="0 -2 %d %d" width="%d" height="%d" preserveAspectRatio="none" role="img" aria-label="%s" data-cells="%s" data-from="%s" data-unit="%s">`,
		stripWidth, stripHeight+2, stripWidth, stripHeight+2, template.HTMLEscapeString(label+": "+summary(g.Hours)), codes,
		g.Hours[0].Hour.Format(time.RFC3339), template.HTMLEscapeString(g.Unit))
	if days.Len() > 0 {
		out.WriteString(`<path class="day" d="` + days.String() + `"/>`)
	}
	for _, s := range states {
		if b := paths[s.Name]; b != nil {
			out.WriteString(`<path class="s-` + s.Name + `" d="` + b.String() + `"/>`)
		}
	}
	if active.Len() > 0 {
		out.WriteString(`<path class="active" d="` + active.String() + `"/>`)
	}
	out.WriteString(`<rect class="cursor" x="-20" y="-1" width="` + num(pitch) + `" height="` + num(stripHeight) + `"/></svg>`)
	return template.HTML(out.String())
}

// midnight tells whether a day of the zone begins between two hours.
func midnight(z zone, before, h jobs.Hour) bool {
	return z.In(before.Hour).Day() != z.In(h.Hour).Day()
}

// summary says in words what a strip shows.
func summary(hours []jobs.Hour) string {
	counts := map[string]int{}
	for _, h := range hours {
		counts[h.State]++
	}
	var parts []string
	for _, s := range states {
		if n := counts[s.Name]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+s.Name)
		}
	}
	return strings.Join(parts, ", ")
}

// axis draws the dates above the strips.
func axis(z zone, hours []jobs.Hour, unit string) template.HTML {
	if len(hours) == 0 {
		return ""
	}
	pitch := float64(stripWidth) / float64(len(hours))
	every := 1
	if unit == "day" {
		every = max(1, len(hours)/10)
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="axis" viewBox="0 0 %d 16" width="%d" height="16" aria-hidden="true">`, stripWidth, stripWidth)
	for i, h := range hours {
		begins := unit == "day" && i%every == 0 || unit == "hour" && (i == 0 && z.In(h.Hour).Hour() == 0 || i > 0 && midnight(z, hours[i-1], h))
		x := float64(i) * pitch
		if begins && x < stripWidth-62 {
			fmt.Fprintf(&out, `<path class="day" d="M%s 2v14"/><text x="%s" y="11">%s</text>`, num(x), num(x+4), z.In(h.Hour).Format("Mon 2 Jan"))
		}
		if unit == "hour" && z.In(h.Hour).Hour() == 12 && pitch > 6 {
			fmt.Fprintf(&out, `<text class="noon" x="%s" y="11">12</text>`, num(x))
		}
	}
	out.WriteString(`</svg>`)
	return template.HTML(out.String())
}
