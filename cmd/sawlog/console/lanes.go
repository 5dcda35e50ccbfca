package console

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// lane is one split of a run and the attempts at it.
type lane struct {
	Split    int
	Ranges   []string // of the plan, the first
	Reads    int      // ranges of the plan
	SVG      template.HTML
	Last     jobs.Task // the last attempt that was begun
	Says     string
	Attempts int
	Errors   []string // of attempts that failed
	Share    int      // of its offsets, in hundredths
}

// taskPhases are what an attempt at a split goes through.
var taskPhases = []string{"read", "write", "stage"}

// rangesInLane is how many of the ranges of a split a lane tells.
const rangesInLane = 20

// Lane geometry.
const (
	laneWidth = 420
	laneTrack = 14
)

// lanesOf sorts the attempts of a run into lanes. The axis of all is the time
// from the first to the last word of any.
func lanesOf(run *jobs.Run, splits []loader.Split, limit int) (lanes []lane, more int) {
	span := int64(1)
	for _, t := range run.Tasks {
		span = max(span, t.Since+t.MS)
	}
	for from := 0; from < len(run.Tasks); {
		to := from
		for to < len(run.Tasks) && run.Tasks[to].Split == run.Tasks[from].Split {
			to++
		}
		if len(lanes) < limit {
			lanes = append(lanes, laneOf(run, run.Tasks[from:to], splits, span))
		} else {
			more++
		}
		from = to
	}
	return lanes, more
}

func laneOf(run *jobs.Run, tasks []jobs.Task, splits []loader.Split, span int64) lane {
	l := lane{Split: tasks[0].Split, Last: tasks[len(tasks)-1], Attempts: len(tasks)}
	for i := range splits {
		if splits[i].Index == l.Split {
			l.Ranges = rangesOf(&splits[i])
			l.Reads = len(l.Ranges)
			l.Ranges = l.Ranges[:min(l.Reads, rangesInLane)]
		}
	}
	for _, t := range tasks {
		if t.Phase == "done" { // of duplicates the one that is done counts
			l.Last = t
		}
	}
	if l.Last.Total > 0 {
		l.Share = int(100 * l.Last.Offsets / l.Last.Total)
	}
	var words []string
	for _, t := range tasks {
		said := stateOf(run, t)
		words = append(words, fmt.Sprintf("attempt %s %s after %s", t.Attempt, said, duration(time.Duration(t.MS)*time.Millisecond)))
		if t.Error != "" {
			l.Errors = append(l.Errors, "attempt "+t.Attempt+": "+t.Error)
		}
	}
	l.Says = stateOf(run, l.Last)
	l.SVG = drawLane(run, tasks, span, "split "+strconv.Itoa(l.Split)+": "+strings.Join(words, "; "))
	return l
}

// rangesOf prints what a split reads.
func rangesOf(s *loader.Split) []string {
	var out []string
	for _, r := range s.Ranges {
		out = append(out, fmt.Sprintf("%s/%d=%d..%d", r.Topic, r.Partition, r.Start, r.End))
	}
	for _, f := range s.Files {
		out = append(out, f.Path)
	}
	return out
}

// stateOf says how an attempt stands.
func stateOf(run *jobs.Run, t jobs.Task) string {
	switch {
	case t.Error != "":
		return "failed"
	case t.Phase == "done":
		return "done"
	case run.Status == jobs.Running:
		return cmp.Or(t.Phase, "running")
	}
	return "stopped"
}

// drawLane draws the attempts at a split, one below the other where two went on
// at the same time.
func drawLane(run *jobs.Run, tasks []jobs.Task, span int64, label string) template.HTML {
	var body strings.Builder
	var busy []int64 // by track: until when it is taken
	scale := float64(laneWidth-8) / float64(span)
	for _, t := range tasks {
		track := 0
		for track < len(busy) && busy[track] > t.Since {
			track++
		}
		if track == len(busy) {
			busy = append(busy, 0)
		}
		busy[track] = t.Since + t.MS
		drawAttempt(&body, run, t, float64(t.Since)*scale, float64(track*laneTrack), scale)
	}
	height := max(1, len(busy)) * laneTrack
	return template.HTML(fmt.Sprintf(`<svg class="lane" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">%s</svg>`,
		laneWidth, height, laneWidth, height, template.HTMLEscapeString(label), body.String()))
}

// drawAttempt draws the phases of one attempt, and how it ended: a cross for one
// that failed, an open end for one that goes on.
func drawAttempt(out *strings.Builder, run *jobs.Run, t jobs.Task, x, y, scale float64) {
	at, drawn := x, int64(0)
	stretch := func(phase string, ms int64) {
		w := max(float64(ms)*scale, 0.5)
		out.WriteString(`<path class="p-` + template.HTMLEscapeString(phase) + `" d="` + box{at, y + 2, w, laneTrack - 4}.rect() + `"><title>` +
			template.HTMLEscapeString(phase+" "+duration(time.Duration(ms)*time.Millisecond)) + `</title></path>`)
		at += w
		drawn += ms
	}
	for _, p := range t.Phases {
		stretch(p.Name, p.MS)
	}
	if rest := t.MS - drawn; rest > 0 || len(t.Phases) == 0 {
		stretch(cmp.Or(t.Phase, "read"), max(rest, 0))
	}
	switch stateOf(run, t) {
	case "failed":
		out.WriteString(`<path class="end-failed" d="M` + num(at+1) + " " + num(y+4) + `l6 6m0 -6l-6 6"/>`)
	case "done":
		out.WriteString(`<path class="end-done" d="M` + num(at+1) + " " + num(y+7) + `l2 3l4 -6"/>`)
	case "stopped":
		out.WriteString(`<path class="end-stopped" d="M` + num(at+1) + " " + num(y+7) + `h6"/>`)
	default:
		out.WriteString(`<path class="end-open" d="M` + num(at+1) + " " + num(y+4) + `l4 3l-4 3z"/>`)
	}
}
