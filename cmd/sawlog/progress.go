package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

// progress shows how far a run has come: a bar for each task on a terminal, a
// line every ten seconds elsewhere.
type progress struct {
	app *app

	mu    sync.Mutex
	tasks map[int]loader.TaskProgress
	bars  map[int]*mpb.Bar
	pool  *mpb.Progress

	ended chan struct{} // closed by done
	lines sync.WaitGroup
}

// lineEvery is how often a line is printed where there are no bars.
const lineEvery = 10 * time.Second

func (a *app) newProgress() *progress {
	p := &progress{app: a, tasks: map[int]loader.TaskProgress{}, bars: map[int]*mpb.Bar{}, ended: make(chan struct{})}
	switch {
	case a.progress == "bar" || a.progress == "auto" && output.IsTerminal(a.print.Err):
		p.pool = mpb.New(mpb.WithOutput(a.print.Err), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	case a.progress != "none":
		p.lines.Go(p.print)
	}
	return p
}

// print says how far the run is, once there is something to say.
func (p *progress) print() {
	again := time.NewTicker(lineEvery)
	defer again.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-again.C:
		}
		p.mu.Lock()
		if len(p.tasks) > 0 {
			p.app.print.Note("%s", p.line())
		}
		p.mu.Unlock()
	}
}

// observe takes an event of the run; it may be called from any goroutine.
func (p *progress) observe(e loader.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.app.progress == "none" {
		return
	}
	if e.Task != nil {
		p.tasks[e.Task.Split] = *e.Task
		if p.pool != nil {
			p.bar(*e.Task)
		}
		return
	}
	if p.app.verbose || e.Kind == "revision" || e.Err != nil && e.Kind != "done" { // the end of a run is told by the verb
		text := e.Text
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		p.app.print.Note("%s: %s", e.Kind, text)
	}
}

func (p *progress) bar(t loader.TaskProgress) {
	b := p.bars[t.Split]
	if b == nil {
		if len(p.bars) >= barsMost || t.Phase == "done" {
			return
		}
		split := t.Split
		b = p.pool.AddBar(0, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("split %d ", split)), decor.Any(func(decor.Statistics) string { return p.phase(split) })),
			mpb.AppendDecorators(decor.Percentage(), decor.Any(func(s decor.Statistics) string { return fmt.Sprintf(" of %d offsets", max(s.Total-1, 0)) })))
		p.bars[t.Split] = b
	}
	b.SetTotal(t.Total+1, false) // one more than there is to read: then it is to be written
	b.SetCurrent(min(t.Offsets, t.Total))
	if t.Phase == "done" { // it makes room for another
		b.SetTotal(-1, true)
		delete(p.bars, t.Split)
	}
}

// barsMost is how many bars a screen holds.
const barsMost = 16

func (p *progress) phase(split int) string {
	if !p.mu.TryLock() {
		return ""
	}
	defer p.mu.Unlock()
	return p.tasks[split].Phase + " "
}

func (p *progress) line() string {
	var read, total, rows, bad, held int64
	ended := 0
	for _, t := range p.tasks {
		read, total, rows, bad, held = read+t.Offsets, total+t.Total, rows+t.Rows, bad+t.Bad, held+t.Held
		if t.Phase == "done" {
			ended++
		}
	}
	line := fmt.Sprintf("%d of %d offsets read, %d rows, %d bad records, %d of %d tasks begun are done", read, total, rows, bad, ended, len(p.tasks))
	if held > 0 {
		line += fmt.Sprintf(", held %v by run.rate", (time.Duration(held) * time.Millisecond).Round(time.Second))
	}
	return line
}

// done takes the bars off the screen.
func (p *progress) done() {
	close(p.ended)
	p.lines.Wait()
	if p.pool == nil {
		return
	}
	p.mu.Lock()
	for _, b := range p.bars {
		b.Abort(false)
	}
	p.mu.Unlock()
	p.pool.Wait()
}
