package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProofConsolePages judges, in a browser, the pages of what loads stand on, with
// records of every kind in them: topics, messages, groups, outputs down to a row.
func TestProofConsolePages(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	n := startNode(t)
	n.ready()
	w := &watched{n, b, map[string]bool{}}
	where := w.fillForPages()
	b.size(1280, 900, false)
	for i, path := range []string{
		"/console/topics/odd", "/console/topics/odd/messages", "/console/topics/odd/messages?partition=0&from=earliest", "/console/topics/odd?configs=all",
		"/console/group?group=" + url.QueryEscape(hostileGroup), "/console/group/reset?topic=odd&to=earliest&group=" + url.QueryEscape(hostileGroup),
		"/console/outputs/odd", "/console/outputs/odd?day=2026-11-29#hours", "/console/outputs/odd/hour?quarantine=1", "/console/outputs/odd/changes?record=0",
		"/console/outputs/odd/find?where=odd/0@0", "/console/outputs/odd/find?where=odd/0@99", where, "/console/settings?configs=all",
		"/console/runs", "/console/runs?status=cancelled", "/console/newtopic", "/console/newtopic?name=new&partitions=3&config.retention.ms=1000&config.preallocate=true", wrongTopic,
		"/console/topics/odd/configs", "/console/topics/odd/configs?preview=1&config.max.message.bytes=5000", "/console/topics/odd/partitions?to=5",
		"/console/topics/odd/trim?to=1&partition=0", "/console/topics/odd/delete",
		"/console/group/delete?group=" + url.QueryEscape(hostileGroup), "/console/group/offsets?topic=odd&group=" + url.QueryEscape(hostileGroup),
		"/console/topics/many/messages", "/console/topics/odd/messages?newer=0@2,1@0",
	} {
		w.open(w.at(path))
		w.eval(`document.querySelectorAll("#main details").forEach(d => d.open = true), true`, new(bool))
		for j, look := range looks {
			if !everyLook() && j%3 != 0 {
				continue
			}
			w.size(look.width, 900, look.dark)
			w.judge(fmt.Sprintf("other-%02d-%s", i, look.name))
		}
		w.size(1280, 900, false)
	}
	w.topicDeeds()
	maps.DeleteFunc(w.lines, func(line string, _ bool) bool { return strings.Contains(line, "'") }) // quoted: one argument of several words
	w.commandLines(10)
	b.clean()
}

// wrongTopic is the form of a topic that can't be made as it is filled in.
const wrongTopic = "/console/newtopic?name=x&config.retention.ms=soon"

// topicDeeds makes a topic in the browser, and deletes it: what is left empty in the
// form is not asked for, and nothing goes without its name.
func (w *watched) topicDeeds() {
	w.open(w.at("/console/topics"))
	w.loaded(func() { w.click(`.actions a[href="/console/newtopic"]`) })
	w.eval(`document.querySelector("#f-name").value = "byhand"; document.querySelector("#f-partitions").value = "2"`, nil)
	w.loaded(func() { w.click("form.fields:not(.deed) button") })
	w.until("the URL says what was filled in, and no more", `location.search === "?name=byhand&partitions=2"`, patience)
	w.loaded(func() { w.click("form.deed button.main") })
	w.until("the page of the topic", `location.pathname === "/console/topics/byhand" && document.querySelector("h1").innerText === "byhand"`, patience)
	w.loaded(func() { w.click(`.actions a[href$="/delete"]`) })
	w.click("form.deed button.main")
	w.until("the name is asked for", `document.activeElement.id === "typed" && !document.querySelector("#typed").validity.valid`, patience)
	w.eval(`document.querySelector("#typed").value = "byhand"`, nil)
	w.loaded(func() { w.click("form.deed button.main") })
	w.until("the list without it", `location.pathname === "/console/topics" && !document.body.innerText.includes("byhand")`, patience)
}

// hostileGroup would break a page that does not escape it.
const hostileGroup = `a/b <script>alert(1)</script> & "c" ..`

// fillForPages makes a topic, a group and a data set; the answer is the page of an
// hour of it.
func (w *watched) fillForPages() string {
	t := w.node.t
	w.run("topic", "create", "odd", "--partitions", "2", "--config", "retention.ms=-1")
	w.run("topic", "create", "many", "--partitions", "3")
	var numbers strings.Builder
	for i := range 50 {
		fmt.Fprintf(&numbers, "record %d\n", i)
	}
	lines := []string{
		`{"at":"2026-11-29T03:00:00Z","n":1,"text":"<script>alert(1)</script>","deep":{"list":[1,2,3],"more":"` + strings.Repeat("x", 300) + `"}}`,
		`{"at":"2026-11-29T03:10:00Z","n":2,"text":"` + strings.Repeat("without_a_space_", 20) + `"}`,
		`{"at":"2026-11-29T04:10:00Z","n":3}`, `no json at all`, "turned \u202e round",
	}
	file := filepath.Join(t.TempDir(), "odd.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("produce", "odd", file, "--partition", "0")
	many := filepath.Join(t.TempDir(), "many.txt")
	if err := os.WriteFile(many, []byte(numbers.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("produce", "many", many)
	w.run("consume", "odd", "-g", hostileGroup, "-n", "2")
	job, _ := w.job("odd", "decode: {value: json}\ntime: {field: at, format: rfc3339}\npartition_by: {lateness: 0m}\n")
	w.run("job", "apply", job)
	w.run("run", "odd", "--wait")
	return fmt.Sprintf("/console/outputs/odd/hour?at=%d", time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC).Unix())
}
