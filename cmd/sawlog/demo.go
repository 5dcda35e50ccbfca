package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/vfs"
	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/demo"
	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

const (
	demoTopic = "pageviews"
	demoJob   = "pageviews-hourly"
	demoMark  = "demo.json" // in DIR: how far the stream was sent
)

type demoFlags struct {
	dir   string
	once  bool
	hours int
	rate  int
}

func (a *app) demo() *cobra.Command {
	f := demoFlags{}
	c := &cobra.Command{
		Use: "demo", Short: "Broker, a stream of page views, an hourly load and the console, in one go", Args: cobra.NoArgs,
		Long: `Start a broker, send it the page views of the last whole hours, load them into
Parquet by event hour, seal the hours, add late and malformed records and load
again. Then page views keep coming and the job runs every hour until Ctrl-C.
A port that is taken is replaced by a free one. Start it again on the same
--dir and it goes on where it was.`,
		Example: "  sawlog demo\n  sawlog demo --once --dir /tmp/demo -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.hours < 1 || f.hours > 24*7-1 {
				return output.Errorf(output.Usage, "--hours %d: want 1 to 167, a week of retention", f.hours)
			}
			if f.rate < 1 || f.rate > 10_000_000 {
				return output.Errorf(output.Usage, "--rate %d: want 1 to 10000000 page views an hour", f.rate)
			}
			cfg, err := demoConfig(cmd, f.dir)
			if err != nil {
				return err
			}
			return a.runDemo(cmd.Context(), f, cfg)
		},
	}
	c.Flags().StringVar(&f.dir, "dir", "sawlog-demo", "`DIR`ectory of the log and the warehouse")
	c.Flags().BoolVar(&f.once, "once", false, "exit after the loads")
	c.Flags().IntVar(&f.hours, "hours", 24, "whole hours before now to send")
	c.Flags().IntVar(&f.rate, "rate", 5000, "page views in an average hour")
	for _, s := range config.Settings() {
		if s.Name == "listen" || s.Name == "peer" || s.Name == "http" {
			c.Flags().String(s.Name, s.Default, s.Help)
		}
	}
	return c
}

// demoConfig resolves the settings; an address that was not asked for by name
// and is taken becomes a free one.
func demoConfig(cmd *cobra.Command, dir string) (*config.Config, error) {
	given := map[string]string{"data": filepath.Join(dir, "data")}
	for _, name := range []string{"listen", "peer", "http"} {
		flag := cmd.Flags().Lookup(name)
		if name == "peer" && !flag.Changed {
			continue // the server does without where the default is taken
		}
		given[name] = flag.Value.String()
		if !flag.Changed && taken(given[name]) {
			given[name] = "127.0.0.1:0"
		}
	}
	return config.Load("", given, nil)
}

func taken(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return true
	}
	_ = l.Close() // it was only tried
	return false
}

// demoState is the mark in DIR. It follows what it tells of, so that a demo
// which was killed sends at most its last batch twice.
type demoState struct {
	Sawlog string    `json:"sawlog"` // "demo/1"
	Until  time.Time `json:"until"`  // page views before this moment were sent
	Starts int       `json:"starts"` // each sends late records of its own
}

func readDemoState(dir string) (demoState, error) {
	var s demoState
	raw, err := os.ReadFile(filepath.Join(dir, demoMark))
	if errors.Is(err, os.ErrNotExist) {
		entries, listErr := os.ReadDir(dir)
		if len(entries) > 0 {
			return s, output.Errorf(output.Conflict, "%s is not empty and holds no demo", dir).WithHint("name another --dir")
		}
		if errors.Is(listErr, os.ErrNotExist) {
			listErr = nil
		}
		return s, listErr
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil || s.Sawlog != "demo/1" {
		return s, output.Errorf(output.Usage, "%s: not the mark of a demo", filepath.Join(dir, demoMark)).WithHint("name another --dir")
	}
	return s, nil
}

func (s demoState) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return vfs.Replace(vfs.OS, filepath.Join(dir, demoMark), raw)
}

// demoSum is what `demo --once -o json` prints: produced = rows + quarantined.
type demoSum struct {
	Produced    int64      `json:"produced"`
	Rows        int64      `json:"rows"`
	Quarantined int64      `json:"quarantined"`
	Hours       []demoHour `json:"hours"`
}

type demoHour struct {
	Hour  string `json:"hour"`
	Rows  int64  `json:"rows"`
	Late  int64  `json:"late"`
	State string `json:"state"`
}

func (a *app) runDemo(ctx context.Context, f demoFlags, cfg *config.Config) error {
	started := time.Now()
	state, err := readDemoState(f.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	state.Sawlog = "demo/1"
	state.Starts++
	if err := state.write(f.dir); err != nil {
		return err
	}
	level := slog.LevelError
	if a.verbose {
		level = slog.LevelInfo
	}
	s, err := startServer(ctx, cfg, a.loggerAt(level))
	if err != nil {
		return err
	}
	err = a.demoOn(ctx, f, s, state, started)
	return errors.Join(err, s.close())
}

func (a *app) demoOn(ctx context.Context, f demoFlags, s *server, state demoState, started time.Time) error {
	a.brokers = []string{s.broker.Addr()}
	a.print.Note("broker   %s   (any Kafka client)", s.broker.Addr())
	a.print.Note("console  http://%s", s.httpAddr)
	k, err := a.dial(ctx, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer k.Close()
	d := &demoRun{app: a, server: s, k: k, flags: f, state: state, stream: demo.Stream{Rate: f.rate}}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	end := time.Now().UTC().Truncate(time.Hour)
	from := end.Add(-time.Duration(f.hours) * time.Hour)
	if state.Until.After(from) {
		from = state.Until
	}
	if err := d.leftOver(ctx); err != nil {
		return err
	}
	for at := from; at.Before(end); {
		next := at.Truncate(time.Hour).Add(time.Hour)
		if err := d.sendUntil(ctx, at, next); err != nil {
			return err
		}
		at = next
	}
	a.print.Note("topic    %s: 4 partitions, %d page views of the time since %s", demoTopic, d.sum.Produced, from.Format(time.RFC3339))
	if err := d.load(ctx); err != nil {
		return err
	}
	a.print.Note("loaded   %d rows in %d hours, %.1f s after the start", d.sum.Rows, len(d.hours), time.Since(started).Seconds())
	if a.print.Format == output.Table {
		if err := d.table(ctx); err != nil {
			return err
		}
	}
	late := end.Add(-2 * time.Hour)
	if err := d.send(ctx, append(demo.Late(late, 40, d.state.Starts), demo.Malformed(late, 12)...)); err != nil {
		return err
	}
	before := d.sum
	if err := d.load(ctx); err != nil {
		return err
	}
	a.print.Note("added    40 late and 12 malformed records: %d rows more, %d records in quarantine", d.sum.Rows-before.Rows, d.sum.Quarantined-before.Quarantined)
	if f.once {
		sum, err := d.summary(ctx)
		if err != nil {
			return err
		}
		return a.print.Print(sum, func() *output.Rows {
			rows := &output.Rows{}
			rows.Add("produced", sum.Produced)
			rows.Add("rows", sum.Rows)
			rows.Add("quarantined", sum.Quarantined)
			return rows
		})
	}
	d.whatNext()
	return d.keepOn(ctx)
}

// demoRun is one demo under way.
type demoRun struct {
	app    *app
	server *server
	k      *kafka
	flags  demoFlags
	state  demoState
	stream demo.Stream
	sum    demoSum
	known  map[string]bool // ended runs that are in sum, or were there before
	hours  map[string]bool
}

func (d *demoRun) root() string {
	path, err := filepath.Abs(filepath.Join(d.flags.dir, "warehouse", demoTopic))
	if err != nil {
		return filepath.Join(d.flags.dir, "warehouse", demoTopic)
	}
	return path
}

// prepare makes the topic and the job, where they are not there yet.
func (d *demoRun) prepare(ctx context.Context) error {
	d.known, d.hours = map[string]bool{}, map[string]bool{}
	_, err := admin.CreateTopic(ctx, d.k, admin.NewTopic{Name: demoTopic, Partitions: 4, Replicas: -1}, false)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	_, err = d.server.jobs.scheduler().Apply(ctx, []byte(demoJobFile("file://"+d.root())), "demo.yaml", "demo", false)
	for _, r := range d.server.jobs.scheduler().Runs(jobs.RunFilter{Job: demoJob, Limit: 1 << 20}) {
		d.known[r.Run] = !r.Open()
	}
	return err
}

func demoJobFile(root string) string {
	return fmt.Sprintf(`name: %s
source:
  topics: [%s]
schedule: {every: 1h, delay: 1m, catchup: latest}
decode: {value: json}
time: {field: time, format: rfc3339}
partition_by: {unit: hour, lateness: 0m}
output:
  root: %s
  codec: zstd
`, demoJob, demoTopic, root)
}

// sendUntil sends the page views of [from, to) and moves the mark. Once begun
// it is not cut short by an interrupt, but for a broker that does not answer:
// what was sent and not marked would be sent again.
func (d *demoRun) sendUntil(ctx context.Context, from, to time.Time) error {
	if err := context.Cause(ctx); err != nil || !from.Before(to) {
		return err
	}
	whole, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	late := context.AfterFunc(ctx, func() {
		time.AfterFunc(time.Second, func() { cancel(context.Cause(ctx)) })
	})
	defer late()
	if err := d.send(whole, d.stream.Between(from, to)); err != nil {
		return err
	}
	d.state.Until = to
	return d.state.write(d.flags.dir)
}

func (d *demoRun) send(ctx context.Context, views []demo.View) error {
	var failed error
	for _, v := range views {
		d.k.Produce(ctx, &kgo.Record{Topic: demoTopic, Key: v.Key, Value: v.Value, Timestamp: v.At}, func(_ *kgo.Record, err error) {
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	if err := d.k.Flush(ctx); err != nil {
		return err
	}
	d.sum.Produced += int64(len(views))
	if failed != nil {
		return d.k.explain(failed)
	}
	return nil
}

// leftOver loads what an earlier demo sent and did not load.
func (d *demoRun) leftOver(ctx context.Context) error {
	if d.state.Starts == 1 {
		return nil
	}
	if err := d.load(ctx); err != nil {
		return err
	}
	if n := d.sum.Rows + d.sum.Quarantined; n > 0 {
		d.app.print.Note("loaded   %d records that were left from before", n)
	}
	d.sum, d.hours = demoSum{}, map[string]bool{}
	return nil
}

// load runs the job once and takes what its runs did into the sums, those of a
// tick that came meanwhile, too.
func (d *demoRun) load(ctx context.Context) error {
	runs, err := d.server.runNow(ctx, demoJob)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if !r.Good() {
			return output.Errorf(output.Failed, "run %s ended as %s: %s", r.Run, r.Status, r.Reason)
		}
	}
	for _, r := range d.server.jobs.scheduler().Runs(jobs.RunFilter{Job: demoJob}) {
		if d.known[r.Run] || r.Open() {
			continue
		}
		d.known[r.Run] = true
		d.sum.Rows += r.Rows
		d.sum.Quarantined += r.Quarantined
		for _, h := range r.Hours {
			d.hours[h.Hour] = true
		}
	}
	return nil
}

func (d *demoRun) states(ctx context.Context) ([]demoHour, error) {
	_, ledger, err := d.app.openDataset(ctx, datasetRef{root: d.root()}, "")
	if err != nil {
		return nil, err
	}
	hours := []demoHour{}
	for _, h := range ledger.Fold().HourStates(0, 0) {
		hours = append(hours, demoHour{h.Hour, h.Rows, h.Late, h.State})
	}
	return hours, nil
}

func (d *demoRun) table(ctx context.Context) error {
	hours, err := d.states(ctx)
	if err != nil {
		return err
	}
	var most int64 = 1
	for _, h := range hours {
		most = max(most, h.Rows)
	}
	rows := &output.Rows{Head: []string{"HOUR", "ROWS", "STATE", ""}}
	for _, h := range hours {
		rows.Add(h.Hour, h.Rows, h.State, strings.Repeat("▇", int(1+h.Rows*30/most)))
	}
	return d.app.print.Print(nil, func() *output.Rows { return rows })
}

func (d *demoRun) summary(ctx context.Context) (demoSum, error) {
	hours, err := d.states(ctx)
	sum := d.sum
	sum.Hours = hours
	return sum, err
}

func (d *demoRun) whatNext() {
	self := os.Args[0]
	flags := ""
	if addr := d.server.broker.Addr(); addr != "127.0.0.1:9092" {
		flags = " -b " + addr
	}
	server := ""
	if d.server.httpAddr != "127.0.0.1:8088" {
		server = " --server http://" + d.server.httpAddr
	}
	d.app.print.Note("\ntry:")
	d.app.print.Note("  %s consume %s%s --range -3..latest", self, demoTopic, flags)
	d.app.print.Note("  %s out head --root %s", self, d.root())
	d.app.print.Note("  %s replay %s%s --range '@-2h..+1h' --time time --to /tmp/sawlog-replay", self, demoTopic, flags)
	d.app.print.Note("  %s runs list%s", self, server)
	d.app.print.Note("\nCtrl-C ends it; page views keep coming, and the job loads every hour.")
}

// keepOn sends page views as they would come until the context ends.
func (d *demoRun) keepOn(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			d.app.print.Note("stopping")
			return nil
		case err := <-d.server.failed():
			return err
		case <-tick.C:
		}
		if err := d.sendUntil(ctx, d.state.Until, time.Now().UTC()); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
