package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/api"
	"sawlog/jobs"
)

// hourlyJob has hours that stay open for three hours, so that one can be seen
// filling. The test asks for its runs: on a slow machine ticks would pile up.
const hourlyJob = `decode: {value: json}
time: {field: at, format: rfc3339}
partition_by: {lateness: 3h}
schedule: {every: 1h}
`

// slowJob has a tick an hour and reads 64 KiB a second, so that a backfill of it
// takes a while, and fails at once where it can't write.
const slowJob = `decode: {value: text}
schedule: {every: 1h}
run: {rate: 64KiB, retries: 0}
`

// watched is a console that is looked at.
type watched struct {
	*node
	*browser
	lines map[string]bool // command lines the pages showed
}

func (w *watched) at(path string) string { return "http://" + w.web + path }

// TestProofConsole does in a browser what a person does: a job is applied, an
// hour goes from missing over filling to sealed before their eyes, a file is
// broken, found out and healed, a backfill is looked at, started, cancelled and
// retried. Then each page is judged; make console leaves pictures of all of them
// in bin/screenshots.
func TestProofConsole(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	n := startNode(t)
	n.ready()
	w := &watched{n, b, map[string]bool{}}
	w.emptyPages()
	run, root := w.hourFills()
	w.fileHeals(run, root)
	backfill := w.backfillOfDay()
	w.keyboard()
	w.everyPage(run, backfill)
	w.commandLines(20)
	b.clean()
}

// emptyPages: a console without jobs says what to do.
func (w *watched) emptyPages() {
	t := w.node.t
	for path, says := range map[string]string{"/console/": "sawlog job apply", "/console/jobs": "sawlog job apply", "/console/backfills": "job apply"} {
		w.open(w.at(path))
		var text string
		w.eval("document.body.innerText", &text)
		if !strings.Contains(text, says) {
			t.Errorf("%s says %q, which does not hold %q", path, text, says)
		}
		w.judge("empty" + strings.ReplaceAll(path, "/", "-"))
	}
}

// hourFills watches an hour on a page that is never loaded again. It gives the
// run that filled it.
func (w *watched) hourFills() (run, root string) {
	t := w.node.t
	hour := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	w.node.run("topic", "create", "views", "--partitions", "2")
	at := func(when time.Time, n int) []*kgo.Record {
		var out []*kgo.Record
		for i := range n {
			out = append(out, &kgo.Record{Topic: "views", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"at":%q,"page":"/p/%d"}`, when.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i)})
		}
		return out
	}
	// The data set begins five days before the hour; a few hours of it are empty.
	var past []*kgo.Record
	for h := -120; h < -2; h++ {
		if h%29 != 0 {
			past = append(past, at(hour.Add(time.Duration(h)*time.Hour), 4+(h*h)%13)...)
		}
	}
	w.send(byHand("none"), past...)
	path, root := w.job("views", hourlyJob)
	w.node.run("job", "apply", path)
	load := func(when time.Time, n int) {
		w.send(byHand("none"), at(when, n)...)
		w.node.run("run", "views", "--wait")
	}
	w.node.run("run", "views", "--wait")
	w.open(w.at("/console/jobs/views?days=3"))
	state := func(s string) string {
		return fmt.Sprintf(`document.querySelector('.cell[data-at=%q] .s-%s')`, hour.Format("2006-01-02T15:04"), s)
	}
	w.until("the hour is missing", state("missing"), patience)
	w.eval("window.same = true", nil)
	load(hour, 60)
	w.until("the hour is filling", state("filling"), patience)
	w.click(fmt.Sprintf(".cell[data-at=%q]", hour.Format("2006-01-02T15:04")))
	w.until("the panel says why it is not complete", `document.querySelector("#hour .answer").innerText.includes("60 rows are in it")`, patience)
	w.until("the state is in the URL", fmt.Sprintf(`location.search.includes(%q)`, url.QueryEscape(hour.Format("2006-01-02T15:04"))), patience)
	load(time.Now().UTC().Add(3*time.Hour), 4) // event time passes the end and the lateness
	w.until("the hour is sealed", state("sealed"), patience)
	w.until("the panel says it is complete", `document.querySelector("#hour .answer").innerText.includes("Yes.")`, patience)
	w.until("the page was not loaded again", "window.same", time.Second)
	w.eval(`decodeURIComponent([...document.querySelectorAll("#hour td a.id")].at(-1).pathname.split("/").pop())`, &run)
	load(hour.Add(-40*time.Hour), 8)
	w.until("rows that come later are late", fmt.Sprintf(`document.querySelector('.cell[data-at=%q] .s-late')`, hour.Add(-40*time.Hour).Format("2006-01-02T15:04")), patience)
	w.loaded(func() { w.click("#hour tbody tr:last-child a.id") })
	w.until("the run has a lane for its split", `document.querySelectorAll("table.lanes svg.lane path.end-done").length > 0`, patience)
	if !strings.HasPrefix(run, "views-") {
		t.Fatalf("the hour came by run %q", run)
	}
	return run, root
}

// fileHeals damages a file of the run; Verify names it, Rerun brings it back.
func (w *watched) fileHeals(run, root string) {
	t := w.node.t
	var r jobs.Run
	if err := json.Unmarshal(w.node.run("runs", "get", run, "-o", "json"), &r); err != nil || len(r.Hours) == 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	hour, err := time.Parse(time.RFC3339, r.Hours[0].Hour)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, hour.Format("dt=2006-01-02/hr=15"), "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: no file of %s", err, hour)
	}
	sound := mustRead(t, files[0])
	change(t, files[0], func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	w.open(w.at("/console/runs/" + run))
	w.loaded(func() { w.click(`.actions a[href$="/verify"]`) })
	w.until("the page says the command line", `document.querySelector(".equal").innerText.includes("sawlog verify `+run+`")`, time.Second)
	w.loaded(func() { w.click("button.main") })
	w.until("the report names the file", fmt.Sprintf(`document.querySelector(".verdict.bad") && document.querySelector("table").innerText.includes(%q)`, filepath.Base(files[0])), patience)
	w.judge("verify-broken")
	w.loaded(func() { w.click(".button.main") })
	w.until("the page says which offsets are read", `document.querySelector("table").innerText.includes("views/")`, time.Second)
	w.loaded(func() { w.click("button.main") })
	w.until("the file is back", `document.querySelector(".verdict.good") && document.body.innerText.includes("1 file is back")`, patience)
	if string(mustRead(t, files[0])) != string(sound) {
		t.Error("the file has other bytes than before")
	}
	w.judge("rerun")
	w.loaded(func() { w.click(`.actions a[href$="/verify"]`) })
	w.loaded(func() { w.click("button.main") })
	w.until("all is well", `document.querySelector(".verdict.good")`, patience)
}

// backfillOfDay previews 48 ticks, starts them, has some fail, cancels the rest
// and retries what failed.
func (w *watched) backfillOfDay() (id string) {
	w.node.run("topic", "create", "slow", "--partitions", "1")
	end := time.Now().UTC().Truncate(time.Hour)
	if time.Until(end.Add(time.Hour)) < 2*time.Minute {
		end = end.Add(-time.Hour) // no tick is to come between
	}
	var records []*kgo.Record
	for i := range 3 * 48 {
		line := strings.Repeat(fmt.Sprintf("%07d ", i*i*7919%9999991), 6000)
		records = append(records, &kgo.Record{Topic: "slow", Value: []byte(line), Timestamp: end.Add(time.Duration(i/3-48)*time.Hour + time.Minute)})
	}
	w.send(byHand("none"), records...)
	path, root := w.job("slow", slowJob)
	w.node.run("job", "apply", path)
	w.open(w.at("/console/backfills"))
	w.eval(`document.querySelector("#job").value = "slow"`, nil)
	w.loaded(func() { w.click(".pick button") })
	from, to := end.Add(-47*time.Hour), end.Add(time.Minute)
	w.eval(fmt.Sprintf(`document.querySelector("#f-from").value = %q; document.querySelector("#f-to").value = %q`, from.Format(time.RFC3339), to.Format(time.RFC3339)), nil)
	w.loaded(func() { w.click(".fields button") })
	w.until("the preview has 48 runs with their offsets", `document.querySelectorAll("table.runs tbody tr").length === 48 && document.querySelectorAll("td.reads .range").length === 48`, patience)
	w.judge("backfill-preview")
	w.loaded(func() { w.click("form.deed button.main") })
	w.eval(`decodeURIComponent(location.pathname.split("/").pop())`, &id)
	w.eval("window.same = true", nil)
	items := func(state string) string { return fmt.Sprintf(`document.querySelectorAll("td .b-%s").length`, state) }
	w.until("two runs have committed", items("committed")+" >= 2", patience)
	w.failFor(id, root)
	w.until("what failed is shown", items("failed")+" > 0", patience)
	w.until("the page was not loaded again", "window.same", time.Second)
	w.loaded(func() { w.click(`.actions a[href$="/cancel"]`) })
	w.loaded(func() { w.click("button.main") })
	w.until("the rest is cancelled", `document.querySelector(".bar > .state").innerText.includes("cancelled") && `+items("waiting")+` === 0 && `+items("cancelled")+" > 0", patience)
	w.judge("backfill-cancelled")
	w.until("its last run has stopped, so it can be retried", `document.querySelector('.actions a[href$="/retry"]')`, patience)
	var failed, cancelled int
	w.eval(items("failed"), &failed)
	w.eval(items("cancelled"), &cancelled)
	w.loaded(func() { w.click(`.actions a[href$="/retry"]`) })
	w.until("only what failed is listed", fmt.Sprintf(`document.querySelectorAll("table.runs tbody tr").length === %d`, failed), time.Second)
	w.loaded(func() { w.click("button.main") })
	w.until("what failed is done, and nothing else", fmt.Sprintf("%s === 0 && %s + %s === 48 - %d && %s === %d",
		items("failed"), items("committed"), items("covered"), cancelled, items("cancelled"), cancelled), patience)
	return id
}

// failFor has the root be a file for a moment: what is tried meanwhile fails, at
// once.
func (w *watched) failFor(id, root string) {
	t := w.node.t
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	client := &api.Client{Base: "http://" + w.web, HTTP: http.DefaultClient}
	for failed := 0; failed == 0; {
		b, err := client.GetBackfill(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		failed = b.Counts[jobs.Failed]
	}
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(root+".away", root); err != nil {
		t.Fatal(err)
	}
}

// keyboard walks the hours: the focus is seen, arrows go by the hour and by the
// day, Enter opens, Escape closes.
func (w *watched) keyboard() {
	t := w.node.t
	w.open(w.at("/console/jobs/views?days=3"))
	for range 60 {
		w.press("Tab")
		var on struct {
			Name, Outline, Stroke string
			Cell                  bool
		}
		w.eval(`(() => { const e = document.activeElement, s = getComputedStyle(e), hit = e.querySelector && e.querySelector(".hit");
			return { Name: e.tagName + " " + (e.textContent || "").trim().slice(0, 30), Outline: s.outlineStyle + " " + s.outlineWidth, Stroke: hit ? getComputedStyle(hit).stroke : "", Cell: e.classList.contains("cell") }; })()`, &on)
		if strings.HasPrefix(on.Name, "BODY") {
			break
		}
		if on.Cell {
			if on.Stroke == "none" {
				t.Errorf("the focus on a cell is not seen")
			}
			break
		}
		if strings.HasPrefix(on.Outline, "none") || strings.HasSuffix(on.Outline, " 0px") {
			t.Errorf("the focus on %s is not seen: %s", on.Name, on.Outline)
		}
	}
	w.until("a cell has the focus", `document.activeElement.classList.contains("cell")`, time.Second)
	var before, after string
	w.eval("document.activeElement.dataset.at", &before)
	for _, key := range []string{"ArrowDown", "ArrowLeft", "ArrowLeft"} {
		w.press(key)
	}
	w.eval("document.activeElement.dataset.at", &after)
	a, errA := time.Parse("2006-01-02T15:04", before)
	z, errZ := time.Parse("2006-01-02T15:04", after)
	if errA != nil || errZ != nil || a.Sub(z) != 26*time.Hour {
		t.Errorf("from %s down and twice left is %s", before, after)
	}
	w.press("Enter")
	w.until("the panel is open", `document.querySelector("#hour")`, patience)
	w.press("Escape")
	w.until("the panel is closed", `!document.querySelector("#hour")`, patience)
}

// looks are the windows in which each page is judged.
var looks = []struct {
	name  string
	width int
	dark  bool
}{{"wide", 1280, false}, {"narrow", 390, false}, {"wide-dark", 1280, true}, {"narrow-dark", 390, true}}

// everyPage judges each page, wide and narrow, light and dark.
func (w *watched) everyPage(run, backfill string) {
	t := w.node.t
	w.open(w.at("/console/"))
	var nav []string
	w.eval(`[...document.querySelectorAll("nav a")].map(a => a.pathname)`, &nav)
	if len(nav) < 8 {
		t.Errorf("the navigation leads to %q", nav)
	}
	hour := url.QueryEscape(time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour).Format("2006-01-02T15:04"))
	pages := append(nav,
		"/console/jobs/views?days=3", "/console/jobs/views?days=14&zone=America/New_York&hour="+hour, "/console/jobs/slow?days=3",
		"/console/runs/"+run, "/console/backfills/"+backfill, "/console/jobs/views/run", "/console/jobs/views/pause", "/console/jobs/slow/backfill",
		"/console/runs/"+run+"/again", "/console/nowhere")
	w.open(w.at("/console/jobs/views?days=7&hour=" + hour))
	w.shoot("hours")
	for _, path := range pages {
		w.open(w.at(path))
		name := strings.Trim(strings.NewReplacer("/console/", "", run, "run", backfill, "backfill", hour, "hour", "/", "-", "?", "-", "&", "-", "=", "-").Replace(path), "-")
		if name == "" {
			name = "overview"
		}
		for i, look := range looks {
			if !everyLook() && i%3 != 0 {
				continue
			}
			w.size(look.width, 900, look.dark)
			w.judge(name + "-" + look.name)
		}
		w.size(1280, 900, false)
	}
}

// judge holds the page against what must be true of all pages, and keeps a picture.
func (w *watched) judge(name string) {
	t := w.node.t
	t.Helper()
	var faults []string
	w.eval(string(mustRead(t, filepath.Join("testdata", "pagecheck.js"))), &faults)
	for _, fault := range faults {
		t.Errorf("%s: %s", name, fault)
	}
	var lines []string
	w.eval(`[...document.querySelectorAll("code")].flatMap(c => c.textContent.split("\n")).filter(l => l.startsWith("sawlog "))`, &lines)
	for _, line := range lines {
		w.lines[line] = true
	}
	if everyLook() {
		w.shoot(name)
	}
}

// everyLook tells whether pages are judged in all windows, with a picture of
// each, as make console does; else in the two that differ most.
func everyLook() bool { return os.Getenv("SAWLOG_TEST_LOOKS") == "all" }

// commandLines holds the command lines of the pages against the command line:
// each names a verb, with flags and arguments it takes. There are so many at least.
func (w *watched) commandLines(least int) {
	t := w.node.t
	if len(w.lines) < least {
		t.Errorf("the pages showed %d command lines", len(w.lines))
	}
	for line := range w.lines {
		words := strings.Fields(line)[1:]
		verb, rest, err := (&app{}).root().Find(words)
		if err == nil {
			err = verb.ParseFlags(rest)
		}
		if err == nil {
			err = verb.ValidateArgs(verb.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
