package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
)

const (
	// lineEvery is how often a line is printed where there are no bars.
	lineEvery = 10 * time.Second
	// barsMost is how many bars a screen holds.
	barsMost = 16
)

// progress shows how far long work has come: a bar for each part of it on a
// terminal, a line every ten seconds elsewhere.
type progress struct {
	app *app

	mu    sync.Mutex
	tasks map[int]loader.TaskProgress
	bars  map[string]*bar
	line  string // that tells of all parts; "" = nothing has begun
	pool  *mpb.Progress

	over  sync.Once
	ended chan struct{} // closed by done
	lines sync.WaitGroup
}

// bar is one part of the work on a terminal.
type bar struct {
	*mpb.Bar
	total int64
	text  atomic.Pointer[string] // what stands before it
}

func (a *app) newProgress() *progress {
	p := &progress{app: a, tasks: map[int]loader.TaskProgress{}, bars: map[string]*bar{}, ended: make(chan struct{})}
	terminal := output.IsTerminal(a.print.Err) && os.Getenv("TERM") != "dumb"
	switch {
	case a.progress == "bar" || a.progress == "auto" && terminal:
		p.pool = mpb.New(mpb.WithOutput(a.print.Err), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	case a.progress != "none":
		p.lines.Go(p.print)
	}
	return p
}

// print says how far the work is, once there is something to say.
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
		if p.line != "" {
			p.app.print.Note("%s", p.line)
		}
		p.mu.Unlock()
	}
}

// show tells how far a part of the work is: its name, what stands before its bar,
// how many of which unit are done, and the line that tells of all parts. With a
// total of 0 nobody knows how much there is, and the text stands alone.
func (p *progress) show(name, text string, done, total int64, unit, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = line
	if p.pool == nil {
		return
	}
	b := p.bars[name]
	if b == nil {
		if len(p.bars) >= barsMost {
			return
		}
		b = p.draw(text, total, unit)
		p.bars[name] = b
	}
	b.text.Store(&text)
	b.SetCurrent(min(done, b.total))
}

// draw makes a bar. It is one longer than there is to do: a part is over when it
// says so, not when all is read.
func (p *progress) draw(text string, total int64, unit string) *bar {
	b := &bar{total: total}
	b.text.Store(&text)
	before := decor.Any(func(decor.Statistics) string { return *b.text.Load() + " " })
	options := []mpb.BarOption{mpb.BarRemoveOnComplete(), mpb.PrependDecorators(before)}
	if total == 0 {
		b.Bar = p.pool.New(0, mpb.NopStyle(), options...)
		return b
	}
	after := decor.Any(func(decor.Statistics) string { return fmt.Sprintf(" of %d %s", total, unit) })
	b.Bar = p.pool.AddBar(total+1, append(options, mpb.AppendDecorators(decor.Percentage(), after))...)
	return b
}

// finish takes the bar of a part away: it makes room for another.
func (p *progress) finish(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.bars[name]; b != nil {
		b.SetCurrent(b.total + 1)
		delete(p.bars, name)
	}
}

// note writes a sentence, above the bars where there are some.
func (p *progress) note(format string, args ...any) {
	if p.pool == nil {
		p.app.print.Note(format, args...)
		return
	}
	_, _ = fmt.Fprintf(p.pool, format+"\n", args...) // standard error gone: nobody is left to tell
}

// noteBad says where the records are that a committed run could not read.
func (p *progress) noteBad(o *loader.Outcome, root string) {
	if o != nil && o.Status == loader.StatusCommitted && o.Quarantined > 0 {
		p.note("records in quarantine: %d; their bytes and the reason: sawlog out head --root %s --quarantine", o.Quarantined, root)
	}
}

// observe takes an event of a run; it may be called from any goroutine.
func (p *progress) observe(e loader.Event) {
	if e.Task != nil {
		p.task(*e.Task)
		return
	}
	tell := p.app.verbose || e.Kind == "revision" || e.Err != nil && e.Kind != "done" // the end of a run is told by the verb
	if !tell || p.app.progress == "none" {
		return
	}
	text := e.Text
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	p.note("%s: %s", e.Kind, text)
}

// run says that a run is queued, or goes on, until something is heard of its
// tasks.
func (p *progress) run(id, status string) {
	p.mu.Lock()
	heard := len(p.tasks) > 0
	p.mu.Unlock()
	if !heard {
		p.show(id, id+" is "+status, 0, 0, "", id+" is "+status)
	}
}

// task takes how far a task is.
func (p *progress) task(t loader.TaskProgress) {
	p.mu.Lock()
	p.tasks[t.Split] = t
	line := p.tasksLine()
	p.mu.Unlock()
	name := fmt.Sprintf("split %d", t.Split)
	p.show(name, name+" "+t.Phase, t.Offsets, max(t.Total, 1), "offsets", line)
	if t.Phase == "done" {
		p.finish(name)
	}
}

// tasksLine tells of all tasks; the caller holds mu.
func (p *progress) tasksLine() string {
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

// done takes the bars off the screen; once is enough.
func (p *progress) done() {
	p.over.Do(func() { close(p.ended) })
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
