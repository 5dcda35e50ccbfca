package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/api/apitest"
	"sawlog/jobs"
)

// asker asks a server with a token, and holds what it answers to its document.
type asker struct {
	n     *node
	token string
	doc   *apitest.Document
}

const apiToken = "proof-0123456789abcdef0123456789"

// startGuarded starts a node whose HTTP side wants a token, which the command
// line has.
func startGuarded(t *testing.T) *asker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(apiToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SAWLOG_HTTP_TOKEN", file)
	t.Setenv("SAWLOG_TOKEN", file)
	a := &asker{n: startNode(t), token: apiToken}
	a.n.ready()
	var err error
	_, text := a.send(http.MethodGet, "/api/v1/openapi.json", "")
	if a.doc, err = apitest.Read(text); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *asker) send(method, path, body string) (*http.Response, []byte) {
	a.n.t.Helper()
	req, err := http.NewRequestWithContext(a.n.t.Context(), method, "http://"+a.n.web+path, strings.NewReader(body))
	if err != nil {
		a.n.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.n.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.n.t.Fatal(err)
	}
	return resp, text
}

// ask wants a status, and reads the answer into into unless that is nil.
func (a *asker) ask(status int, method, path, body string, into any) {
	a.n.t.Helper()
	resp, text := a.send(method, "/api/v1"+path, body)
	bare, _, _ := strings.Cut(path, "?")
	if err := a.doc.Check(method, "/api/v1"+bare, resp.StatusCode, resp.Header, text); err != nil {
		a.n.t.Error(err)
	}
	if resp.StatusCode != status {
		a.n.t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, status, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			a.n.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
}

// runs triggers a job and waits until its run has ended in the state.
func (a *asker) runs(job, state string) string {
	a.n.t.Helper()
	var made struct{ Runs []jobs.Run }
	a.ask(200, "POST", "/jobs/"+job+"/trigger", "{}", &made)
	return a.ended(made.Runs[0].Run, state)
}

func (a *asker) ended(run, state string) string {
	a.n.t.Helper()
	a.n.eventually(run+" is "+state, 60*time.Second, func() bool {
		var r jobs.Run
		a.ask(200, "GET", "/runs/"+run, "", &r)
		if !r.Open() && r.Status != state {
			a.n.t.Fatalf("run %s is %s, want %s: %s", run, r.Status, state, r.Reason)
		}
		return r.Status == state
	})
	return run
}

// world makes jobs with runs in all states, a group, and topics.
func (a *asker) world() (committed, failed, partial string) {
	a.n.t.Helper()
	for _, topic := range []string{"views", "spoilt"} {
		a.n.run("topic", "create", topic, "--partitions", "3")
		var records []*kgo.Record
		for i := range 300 {
			value := fmt.Sprintf(`{"at":"%s","id":%d,"deep":{"tags":["a"],"ok":true}}`, time.Now().UTC().Add(-time.Duration(i%5)*time.Hour).Format(time.RFC3339), i)
			if topic == "spoilt" && i%2 == 0 {
				value = "no JSON"
			}
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: []byte(value)})
		}
		a.n.send([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, records...)
	}
	a.n.run("topic", "create", "empty")
	a.n.run("consume", "views", "-g", "readers", "-n", "100")

	const rest = "decode: {value: json}\ntime: {field: at, format: rfc3339}\npartition_by: {lateness: 0m}\nschedule: {every: 1h, delay: 5m}\n"
	for name, text := range map[string]string{
		"views": rest + "freshness: 90m\n", "spoilt": strings.Replace(rest, "json}", "json, max_bad: 1}", 1),
	} {
		path, _ := a.n.job(name, text)
		file, err := os.ReadFile(path)
		if err != nil {
			a.n.t.Fatal(err)
		}
		a.ask(200, "POST", "/jobs?dry_run", string(file), nil)
		a.ask(200, "POST", "/jobs?path="+name+".yaml", string(file), nil)
	}
	// Where a file is in the way of its root nothing can be written.
	a.n.write("occupied", "")
	occupied := "name: broken\nsource: {topics: [views]}\noutput: {root: 'file://" + filepath.Join(a.n.dir, "occupied", "x") + "'}\nrun: {retries: 0}\n"
	a.ask(200, "POST", "/jobs", occupied, nil)
	a.ask(200, "POST", "/jobs", "name: all\nsource: {pattern: '^(views|empty)$'}\noutput: {root: 'file://"+filepath.Join(a.n.dir, "all")+"/{topic}'}\n", nil)

	committed, failed, partial = a.runs("views", jobs.Committed), a.runs("broken", jobs.Failed), a.runs("spoilt", jobs.Partial)
	a.runs("views", jobs.Covered)
	a.ask(200, "POST", "/jobs/views/pause", `{"reason":"looking"}`, nil)
	a.ask(200, "POST", "/jobs/views/resume", `{}`, nil)
	return committed, failed, partial
}

// TestProofAPI asks a real server for everything its document tells of, with
// runs in all states, and holds each answer, and each error, to the document. It
// wants the token for all of it.
func TestProofAPI(t *testing.T) {
	a := startGuarded(t)
	committed, failed, partial := a.world()
	a.readings(committed, failed, partial)
	a.act(committed, partial)
	a.refusals(committed, partial)
	a.follow()
	a.whole(committed)
	if _, page := a.send("GET", "/console/", ""); !bytes.Contains(page, []byte(`action="/logout"`)) {
		t.Error("there is no way to log out")
	}
	var metrics []byte
	a.n.eventually("the hours of a job are in the metrics", 60*time.Second, func() bool {
		_, metrics = a.send("GET", "/metrics", "")
		return bytes.Contains(metrics, []byte(`sawlog_job_sealed_until_timestamp_seconds{name="views"}`))
	})
	holdMonitoring(t, metrics)
	a.ask(200, "DELETE", "/jobs/broken", "", nil)
	if left := a.doc.Unasked(); len(left) != 0 {
		t.Errorf("not asked for, or never answered: %v", left)
	}
}

func (a *asker) readings(committed, failed, partial string) {
	a.n.t.Helper()
	for _, path := range []string{
		"/jobs", "/jobs?limit=1", "/jobs/views", "/jobs/all", "/jobs/views/explain", "/jobs/views/next?n=5", "/jobs/views/hours", "/jobs/all/hours?limit=1",
		"/runs", "/runs?limit=1", "/runs?job=views&status=committed&since=-1h", "/runs/" + committed + "?detail", "/runs/" + failed + "?detail", "/runs/" + partial + "?detail",
		"/datasets", "/datasets/views", "/datasets/views/hours", "/datasets/views/hours?from=-3h&to=now", "/datasets/views/files", "/datasets/views/files?from=-3h&limit=1",
		"/backfills", "/cluster", "/topics", "/topics?limit=1&after=empty", "/topics/views", "/topics/empty", "/groups", "/groups?offsets", "/groups/readers", "/version", "/openapi.json",
	} {
		a.ask(200, "GET", path, "", nil)
	}
}

// act does what changes something, and leaves a committed run as it was.
func (a *asker) act(committed, partial string) {
	a.n.t.Helper()
	var b jobs.BackfillView
	a.ask(200, "POST", "/jobs/views/plan", `{"scan":true}`, nil)
	a.ask(200, "POST", "/runs/"+committed+"/verify", "", nil)
	a.ask(200, "POST", "/runs/"+committed+"/rerun", "", nil)
	a.ask(200, "POST", "/datasets/views/verify", "", nil)
	a.ask(200, "POST", "/runs/"+committed+"/again", `{"dry_run":true}`, nil)
	a.ask(200, "POST", "/backfills", `{"job":"views","from":"-6h","to":"now","only":"all","dry_run":true}`, nil)
	a.ask(200, "POST", "/backfills", `{"job":"views","from":"-6h","to":"now","only":"all"}`, &b)
	a.ask(200, "POST", "/backfills/"+b.ID+"/pause", "", nil)
	a.ask(200, "GET", "/backfills/"+b.ID, "", nil)
	a.ask(200, "POST", "/backfills/"+b.ID+"/resume", "", nil)
	a.over(b.ID)
	a.ask(200, "GET", "/runs?backfill="+b.ID, "", nil)
	// Ticks of the job that cannot be loaded: they fail, and fail again.
	a.ask(200, "POST", "/jobs", "name: ticking\nsource: {topics: [views]}\nschedule: {every: 1h}\noutput: {root: 'file://"+filepath.Join(a.n.dir, "occupied", "y")+"'}\nrun: {retries: 0}\n", nil)
	a.ask(200, "POST", "/backfills", `{"job":"ticking","from":"-3h","to":"now"}`, &b)
	if b = a.over(b.ID); b.Status != jobs.BackfillFailed {
		a.n.t.Fatalf("the backfill is %s: %s", b.Status, b.Say)
	}
	a.ask(200, "POST", "/backfills/"+b.ID+"/retry", "", nil)
	a.over(b.ID)
	a.ask(200, "POST", "/backfills", `{"job":"ticking","from":"-720h","to":"now"}`, &b) // goes on for long enough
	a.ask(200, "POST", "/backfills/"+b.ID+"/cancel", "", nil)
	a.over(b.ID)
	a.ask(200, "POST", "/runs/"+partial+"/retry", `{"accept_bad":true}`, nil)
	a.ended(partial, jobs.Committed)
	a.runs("all", jobs.Covered) // the first of its data sets has nothing
	a.stopped()
}

// over waits for the end of a backfill.
func (a *asker) over(id string) (b jobs.BackfillView) {
	a.n.t.Helper()
	a.n.eventually("the backfill has ended", 60*time.Second, func() bool {
		b = jobs.BackfillView{}
		a.ask(200, "GET", "/backfills/"+id, "", &b)
		return !b.Open()
	})
	return b
}

// stopped cancels a run that goes on: nobody answers where its topic is.
func (a *asker) stopped() {
	a.n.t.Helper()
	a.ask(200, "POST", "/jobs", "name: waits\nsource: {topics: [views], brokers: ['127.0.0.1:1']}\noutput: {root: 'file://"+filepath.Join(a.n.dir, "waits")+"'}\n", nil)
	var made struct{ Runs []jobs.Run }
	a.ask(200, "POST", "/jobs/waits/trigger", "{}", &made)
	a.ask(200, "POST", "/runs/"+made.Runs[0].Run+"/cancel", "", nil)
	a.ended(made.Runs[0].Run, jobs.Cancelled)
}

// refusals asks for what is not there, not allowed or not known.
func (a *asker) refusals(committed, partial string) {
	a.n.t.Helper()
	for _, path := range []string{"/jobs/none", "/runs/none", "/backfills/none", "/datasets/none", "/datasets/none/hours", "/topics/none", "/groups/none", "/runs?job=none"} {
		a.ask(404, "GET", path, "", nil)
	}
	for _, path := range []string{"/jobs?limit=x", "/runs?status=fine", "/jobs/views/hours?from=x", "/jobs/views/next?n=-1", "/datasets/views/files?limit=0"} {
		a.ask(400, "GET", path, "", nil)
	}
	a.ask(400, "POST", "/jobs", "name: x\nsorce: {}\n", nil)
	a.ask(400, "POST", "/jobs/views/trigger", "{", nil)
	a.ask(409, "POST", "/runs/"+committed+"/retry", "{}", nil)
	a.ask(409, "POST", "/runs/"+partial+"/cancel", "", nil)
	a.ask(409, "GET", "/runs?after=none", "", nil)
	a.ask(409, "GET", "/datasets/ticking", "", nil) // what is in the way of its root
	a.token = "wrong"
	a.ask(401, "GET", "/jobs", "", nil)
	a.token = ""
	if resp, page := a.send("GET", "/console/", ""); resp.Request.URL.Path != "/login" || !bytes.Contains(page, []byte("Token of this server")) {
		a.n.t.Errorf("a browser is led to %s: %s", resp.Request.URL, page)
	}
	a.ask(401, "GET", "/jobs", "", nil)
	a.ask(401, "POST", "/jobs/views/pause", "{}", nil)
	a.token = apiToken
	// The command line is told what it lacks.
	file := os.Getenv("SAWLOG_TOKEN")
	defer func() { a.n.t.Setenv("SAWLOG_TOKEN", file) }()
	a.n.t.Setenv("SAWLOG_TOKEN", "")
	a.n.refused(5, []string{"wants a token", "SAWLOG_TOKEN"}, "job", "list")
	a.n.refused(2, []string{"--token", "no such file"}, "job", "list", "--token", "not-a-file")
	a.n.write("other.token", strings.Repeat("x", 32))
	a.n.refused(2, []string{"mode 0644", "chmod 600"}, "job", "list", "--token", "other.token")
}

// follow reads events of a real run as a browser does.
func (a *asker) follow() {
	a.n.t.Helper()
	req, err := http.NewRequestWithContext(a.n.t.Context(), http.MethodGet, "http://"+a.n.web+"/api/v1/events?job=views", nil)
	if err != nil {
		a.n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.n.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // a stream has no end worth reading
	if err := a.doc.Check("GET", "/api/v1/events", resp.StatusCode, resp.Header, nil); err != nil {
		a.n.t.Error(err)
	}
	a.n.send(nil, &kgo.Record{Topic: "views", Value: fmt.Appendf(nil, `{"at":%q,"id":1}`, time.Now().UTC().Format(time.RFC3339))})
	a.runs("views", jobs.Committed)
	kinds := map[string]bool{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !kinds["run committed"] {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if err := a.doc.CheckValue("jobs.Event", data); err != nil {
			a.n.t.Errorf("%v: %s", err, data)
		}
		var ev jobs.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			a.n.t.Fatal(err)
		}
		kinds[ev.Kind], kinds[ev.Kind+" "+ev.Status] = true, true
	}
	for _, kind := range []string{"run running", "task", "run committed"} {
		if !kinds[kind] {
			a.n.t.Errorf("no event of %q among %v", kind, kinds)
		}
	}
}

// whole: what is printed of a run accounts for all there is to know of it.
func (a *asker) whole(run string) {
	t := a.n.t
	t.Helper()
	var r struct {
		jobs.Run
		Planned struct {
			Kind   string
			Base   int64
			Topics []struct{ Name string }
			Writer map[string]any
		}
		Splits []struct {
			Ranges []struct{ Start, End int64 }
		}
		Commit struct {
			Number int64
			By     string
			Files  []struct {
				Path string
				Rows int64
			}
			Inputs []struct{ Data int64 }
		}
	}
	if err := json.Unmarshal(a.n.run("runs", "get", run, "-o", "json"), &r); err != nil {
		t.Fatal(err)
	}
	var offsets, rows int64
	for _, s := range r.Splits {
		for _, part := range s.Ranges {
			offsets += part.End - part.Start
		}
	}
	for _, f := range r.Commit.Files {
		rows += f.Rows
	}
	if offsets != 300 || rows != 300 || r.Rows != 300 || len(r.Ranges) != 3 || len(r.Hours) != 5 || int64(len(r.Commit.Files)) != r.Files {
		t.Errorf("%d offsets in splits, %d rows in files, %d told, %d ranges, %d hours, %d files", offsets, rows, r.Rows, len(r.Ranges), len(r.Hours), len(r.Commit.Files))
	}
	if r.Plan == "" || r.Planned.Topics[0].Name != "views" || r.Planned.Kind != "load" || r.Planned.Writer == nil || r.Ledger == nil || *r.Ledger != r.Commit.Number {
		t.Errorf("plan %q: %+v, ledger %v", r.Plan, r.Planned, r.Ledger)
	}
	if r.Kind != jobs.ByHand || r.By == "" || r.Queued.IsZero() || r.Started.Before(r.Queued) || r.Ended.Before(r.Started) || len(r.Phases) == 0 {
		t.Errorf("started as %s by %q at %s, phases %v", r.Kind, r.By, r.Started, r.Phases)
	}
	if len(r.Attempts) != 1 || r.Attempts[0].Status != jobs.Committed || len(r.Attempts[0].Phases) == 0 || len(r.Tasks) == 0 || r.Tasks[0].Attempt == "" {
		t.Errorf("attempts %+v, tasks %+v", r.Attempts, r.Tasks)
	}
}
