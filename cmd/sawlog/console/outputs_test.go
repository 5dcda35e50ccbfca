package console

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink/local"
)

// outputStand is a console over a broker and a data set of its topic.
type outputStand struct {
	*stand
	root    string
	cluster consumer.Cluster
	runs    int
}

// newOutputs makes a job of the topic orders, with a root of its own.
func newOutputs(t *testing.T, more string) *outputStand {
	t.Helper()
	o := &outputStand{root: t.TempDir()}
	o.stand = newStand(t, func(s *Sources) {
		s.Ledger = func(ctx context.Context, spec *jobs.Spec, set jobs.Set) (*loader.Ledger, error) {
			store, err := local.Open("file://" + o.root)
			if err != nil {
				return nil, err
			}
			l, err := loader.OpenLedger(ctx, store, "", "", loader.LedgerConfig{})
			if loader.ExitCode(err) == loader.ExitNotFound {
				return nil, nil
			}
			return l, err
		}
	})
	o.create("orders", 2)
	text := "name: orders-hourly\nsource: {topics: [orders]}\ntime: {field: ts, format: rfc3339}\npartition_by: {lateness: 0m}\nmetadata_columns: [_partition, _offset]\n" +
		"output: {root: 'file://" + o.root + "'}\n" + more
	if _, err := o.jobs.Apply(t.Context(), []byte(text), "job.yaml", "ann", false); err != nil {
		t.Fatal(err)
	}
	link := consumer.NewLink(consumer.Config{Brokers: []string{o.addr}, Timeout: 10 * time.Second})
	t.Cleanup(func() { _ = link.Close() })
	cluster, err := link.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.cluster = cluster
	return o
}

// at sends records with event times.
func (o *outputStand) at(partition int32, times ...string) {
	o.t.Helper()
	var list []*kgo.Record
	for i, ts := range times {
		list = append(list, &kgo.Record{Topic: "orders", Partition: partition, Value: fmt.Appendf(nil, `{"ts":%q,"n":%d,"text":"<script>%d</script>"}`, ts, i, i)})
	}
	o.send(list...)
}

// load loads what came.
func (o *outputStand) load() {
	o.t.Helper()
	spec, err := o.jobs.Spec("orders-hourly")
	if err != nil {
		o.t.Fatal(err)
	}
	l, err := spec.Load("", time.Now())
	if err != nil {
		o.t.Fatal(err)
	}
	store, err := local.Open("file://" + o.root)
	if err != nil {
		o.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := loader.Driver{
		Cluster: o.cluster, Source: consumer.Config{Brokers: []string{o.addr}}, Sink: store, Logger: log, Now: time.Now, By: "ann <a>",
		Engine: &loader.InProcess{Cluster: o.cluster, Sink: store, Logger: log, Spool: o.t.TempDir()},
	}
	plan, _, err := d.Plan(o.t.Context(), l, loader.PlanAsk{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.runs++
	out, err := d.Run(o.t.Context(), plan, loader.RunAsk{Run: fmt.Sprintf("orders-hourly-%d", o.runs), Memory: 128 << 20})
	if err != nil || out.Status != loader.StatusCommitted {
		o.t.Fatalf("%+v %v", out, err)
	}
}

const outputs = "/console/outputs/orders-hourly"

// TestOutputs walks a data set: days, hours, files, rows, columns, ledger.
func TestOutputs(t *testing.T) {
	o := newOutputs(t, "")
	o.has(o.page(outputs, http.StatusOK), "Nothing loaded yet", "sawlog run orders-hourly --wait")
	o.at(0, "2026-11-28T22:10:00Z", "2026-11-28T23:10:00Z", "2026-11-29T03:00:00Z", "2026-11-29T03:00:01Z")
	o.at(1, "2026-11-29T03:30:00Z", "2026-11-29T05:00:00Z")
	o.send(&kgo.Record{Topic: "orders", Partition: 1, Value: []byte("no <json>")})
	o.load()
	o.at(1, "2026-11-29T03:40:00Z")
	o.load()
	o.has(o.page("/console/outputs", http.StatusOK), "1 data set", ">orders-hourly<", "parquet, zstd", "file://"+o.root)
	page := o.page(outputs, http.StatusOK)
	o.has(page, ">2026-11-28<", ">2026-11-29<", "1 records in 1 file", "orders/0", "orders/1", "<code>_offset</code>", "<code>text</code>", "sawlog out count orders-hourly", "1, changes")
	page = o.page(outputs+"?day=2026-11-29", http.StatusOK)
	o.has(page, "Hours of 2026-11-29", "2026-11-29 03:00", "2026-11-29 05:00", "late")
	o.lacks(page, "2026-11-28 22:00")
	o.has(o.page(outputs+"?day=2026-11-29&zone=Asia/Tokyo", http.StatusOK), "2026-11-29 07:00", "2026-11-29 08:00", "2026-11-29 12:00")

	hour := outputs + "/hour?at=" + fmt.Sprint(time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC).Unix())
	page = o.page(hour, http.StatusOK)
	o.has(page, "dt=2026-11-29/hr=03", "manifest as of ledger 1", "First rows", "&lt;script&gt;", "sawlog out manifest orders-hourly --hour 2026-11-29T03:00:00Z", "/console/runs/orders-hourly-1")
	o.lacks(page, "<script>0")
	for _, m := range regexp.MustCompile(`class="file" title="[^"]*"><a href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		o.has(o.page(html.UnescapeString(m[1]), http.StatusOK), "sha256", "Rows from 0 on", "_offset")
	}
	page = o.page(outputs+"/hour?quarantine=1", http.StatusOK)
	o.has(page, "Quarantine", "reason", "sawlog out head orders-hourly --quarantine", "no &lt;json&gt;")
	o.page(outputs+"/hour?at=x", http.StatusBadRequest)
	o.page(outputs+"/hour?at=12", http.StatusNotFound)

	page = o.page(outputs+"/changes", http.StatusOK)
	o.has(page, "orders-hourly-1", "orders-hourly-2", "load", "sawlog out changes orders-hourly")
	page = o.page(outputs+"/changes?record=0", http.StatusOK)
	o.has(page, "Record 0", "ann &lt;a&gt;", "2026-11-29 03:00", "dt=2026-11-28/hr=22/", "orders/0")
	o.lacks(o.page(outputs+"/changes?record=99", http.StatusOK), `id="record"`)
	o.page("/console/outputs/nope", http.StatusNotFound)
	o.page("/console/outputs/nope/changes", http.StatusNotFound)
}

// TestFindInOutputs leads from an offset to its row, or says why there is none.
func TestFindInOutputs(t *testing.T) {
	o := newOutputs(t, "")
	o.at(0, "2026-11-29T03:00:00Z", "2026-11-29T03:00:01Z", "2026-11-29T04:00:00Z", "2026-11-29T03:00:02Z")
	o.send(&kgo.Record{Topic: "orders", Partition: 1, Value: []byte("no json")}, &kgo.Record{Topic: "orders", Partition: 1, Value: nil})
	o.load()
	find := func(where string) string { return outputs + "/find?" + url.Values{"where": {where}}.Encode() }
	for where, row := range map[string]string{"orders/0@3": "2", "orders/0@2": "0", "orders/1@0": "0"} {
		resp := o.ask(http.MethodGet, find(where), nil)
		to := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusSeeOther || !strings.HasSuffix(to, "row="+row) {
			t.Errorf("%s: %d %s, want row %s", where, resp.StatusCode, to, row)
			continue
		}
		o.has(o.page(to, http.StatusOK), "The record is row "+row, `class="chosen" id="row"`)
	}
	o.has(o.page(find("orders/1@1"), http.StatusOK), loader.NoRow, "sawlog out find orders-hourly 'orders/1@1'")
	o.has(o.page(find("orders/0@4"), http.StatusOK), "It is not loaded")
	o.has(o.page(find("other/0@1"), http.StatusOK), "It is not loaded")
	for _, bad := range []string{"", "orders", "orders/0", "orders/x@1", "orders/0@-1", "/0@1"} {
		o.has(o.page(find(bad), http.StatusBadRequest), "TOPIC/PARTITION@OFFSET")
	}
}

// TestDamagedOutputsAreTold: a file that is broken or gone is said on the page
// that shows it; a ledger that can't be believed is an error with its way out.
func TestDamagedOutputsAreTold(t *testing.T) {
	o := newOutputs(t, "")
	o.at(0, "2026-11-29T03:00:00Z", "2026-11-29T04:00:00Z")
	o.load()
	files, err := filepath.Glob(filepath.Join(o.root, "dt=*", "hr=*", "orders-*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	hour := func(h int) string {
		return outputs + "/hour?at=" + fmt.Sprint(time.Date(2026, 11, 29, h, 0, 0, 0, time.UTC).Unix())
	}
	o.has(o.page(hour(3), http.StatusOK), "sawlog rerun makes the file again", filepath.Base(files[0]))
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	o.has(o.page(hour(4), http.StatusOK), "sawlog rerun makes the file again")
	for _, hostile := range []string{"../../etc/passwd", "_sawlog/ledger/0/commit.json", "", "<script>"} {
		page := o.page(outputs+"/file?"+url.Values{"path": {hostile}}.Encode(), http.StatusNotFound)
		o.lacks(page, "root:", "<script>\"")
	}
	records, err := filepath.Glob(filepath.Join(o.root, "_sawlog", "ledger", "*", "commit.json"))
	if err != nil || len(records) == 0 {
		t.Fatal(records, err)
	}
	if err := os.WriteFile(records[0], []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/changes", "/find?where=orders/0@1"} {
		o.has(o.page(outputs+path, http.StatusInternalServerError), "restore the named file")
	}
}

// TestOutputsAreCheap: a hundred data sets, and one with a long history.
func TestOutputsAreCheap(t *testing.T) {
	hours := map[int64]jobs.HourFacts{}
	for i := range 90 * 24 {
		hours[noon.Truncate(time.Hour).Add(-time.Duration(i)*time.Hour).Unix()] = jobs.HourFacts{Rows: 10, Files: 1, Sealed: i > 2}
	}
	s := standOver(t, runner{hours: hours}, func(*Sources) {})
	for i := range 100 {
		if _, err := s.jobs.Apply(t.Context(), []byte(strings.ReplaceAll(job, "pageviews", fmt.Sprintf("topic-%d", i))), "job.yaml", "", false); err != nil {
			t.Fatal(err)
		}
	}
	s.costs("/console/outputs")
	s.costs("/console/outputs?page=2")

	days := 8
	if os.Getenv("SAWLOG_LONG_HISTORY") != "" {
		days = 90
	}
	o := newOutputs(t, "")
	for day := range days {
		for hour := range 24 {
			at := noon.AddDate(0, 0, day-days).Truncate(24 * time.Hour).Add(time.Duration(hour) * time.Hour)
			o.at(0, at.Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339))
			if days == 90 {
				o.load()
			}
		}
		if days < 90 {
			o.load()
		}
	}
	day := noon.AddDate(0, 0, -1).Truncate(24 * time.Hour)
	for _, path := range []string{"", "?day=" + day.Format(time.DateOnly), "/hour?at=" + fmt.Sprint(day.Unix()), "/changes", "/changes?record=3"} {
		o.costs(outputs + path)
	}
}

// hangingViews are ledgers that nobody can read until they are let go.
type hangingViews struct {
	runner
	views *atomic.Int32 // that were asked for
	gone  chan struct{} // closed = they can be read
}

func (h hangingViews) View(ctx context.Context, spec *jobs.Spec, set jobs.Set) (*jobs.View, error) {
	h.views.Add(1)
	select {
	case <-h.gone:
		return h.runner.View(ctx, spec, set)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestPagesDontWaitForLedgers: a page says which ledgers are read still, reads
// those it shows only, each once however often it is asked for, and shows them
// once they are there.
func TestPagesDontWaitForLedgers(t *testing.T) {
	h := hangingViews{runner{hours: facts()}, new(atomic.Int32), make(chan struct{})}
	s := &stand{t: t, now: noon}
	var err error
	s.jobs, err = jobs.Open(t.Context(), jobs.Config{Journal: &journal{}, Runner: h, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.jobs.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.h = New(Config{Jobs: s.jobs, Now: func() time.Time { return noon }})
	topics := make([]string, 3*perPage)
	for i := range topics {
		topics[i] = fmt.Sprintf("v.%03d", i)
	}
	apply(t, s.jobs, "name: many\nsource: {topics: ["+strings.Join(topics, ", ")+"]}\noutput: {root: 'file:///w/{topic}'}\n")
	if n := len(s.jobs.List()[0].Datasets); n != 3*perPage {
		t.Fatalf("the job has %d data sets", n)
	}
	h.views.Store(0)
	paths := []string{"/console/", "/console/jobs", "/console/jobs/many", "/console/outputs"}
	for range 2 {
		for _, path := range paths {
			page := s.page(path, http.StatusOK)
			s.has(page, `data-reading>reading its ledger`)
			s.lacks(page, `class="strip"`, "deadline exceeded", `class="map"`)
		}
	}
	if n := h.views.Load(); n > perPage {
		t.Errorf("%d ledgers were read for pages of %d", n, perPage)
	}
	close(h.gone)
	for _, path := range paths {
		for end := time.Now().Add(time.Minute); strings.Contains(s.page(path, http.StatusOK), "data-reading"); {
			if time.Now().After(end) {
				t.Fatalf("%s says for a minute that ledgers are read", path)
			}
		}
	}
	s.has(s.page("/console/jobs/many", http.StatusOK), `class="map"`, "s-sealed")
}
