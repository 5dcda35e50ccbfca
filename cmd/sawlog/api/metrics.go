package api

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sawlog/broker"
	"sawlog/jobs"
)

// metrics serves /metrics: the broker's and the scheduler's plain numbers, and
// kafka_exporter's names for offsets and lag.
func (s *server) metrics() http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		&numbers{s: s},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// numbers reads everything at the moment it is scraped.
type numbers struct{ s *server }

// brokerNumber is one field of a broker's snapshot and its name.
type brokerNumber struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(broker.Snapshot) int64
	unit float64 // one of what is read, in the base unit of what is shown
}

var brokerNumbers = []brokerNumber{
	gauge("sawlog_topics", "Topics of the cluster.", func(m broker.Snapshot) int64 { return m.Topics }),
	gauge("sawlog_partitions", "Replicas this broker holds.", func(m broker.Snapshot) int64 { return m.Partitions }),
	gauge("sawlog_log_bytes", "Bytes of all logs of this broker.", func(m broker.Snapshot) int64 { return m.LogBytes }),
	gauge("sawlog_connections", "Open Kafka connections.", func(m broker.Snapshot) int64 { return m.Connections }),
	counter("sawlog_connections_accepted_total", "Kafka connections accepted.", func(m broker.Snapshot) int64 { return m.Accepted }),
	counter("sawlog_connections_refused_total", "Kafka connections refused over a cap.", func(m broker.Snapshot) int64 { return m.Refused }),
	counter("sawlog_requests_total", "Kafka requests served.", func(m broker.Snapshot) int64 { return m.Requests }),
	counter("sawlog_network_in_bytes_total", "Bytes read from Kafka connections.", func(m broker.Snapshot) int64 { return m.BytesIn }),
	counter("sawlog_network_out_bytes_total", "Bytes written to Kafka connections.", func(m broker.Snapshot) int64 { return m.BytesOut }),
	counter("sawlog_sendfile_bytes_total", "Bytes sent from segment files without a copy.", func(m broker.Snapshot) int64 { return m.SendfileBytes }),
	counter("sawlog_passing_read_bytes_total", "Bytes sent to load tasks that were read without staying in the page cache.", func(m broker.Snapshot) int64 { return m.PassingBytes }),
	counter("sawlog_bad_frames_total", "Frames that could not be read.", func(m broker.Snapshot) int64 { return m.BadFrames }),
	counter("sawlog_request_panics_total", "Requests whose handler panicked.", func(m broker.Snapshot) int64 { return m.Panics }),
	counter("sawlog_short_sendfiles_total", "Responses cut short because a segment held less than promised.", func(m broker.Snapshot) int64 { return m.ShortSendfiles }),
	counter("sawlog_produce_requests_total", "Produce requests.", func(m broker.Snapshot) int64 { return m.ProduceRequests }),
	counter("sawlog_produce_bytes_total", "Bytes of batches appended.", func(m broker.Snapshot) int64 { return m.ProduceBytes }),
	counter("sawlog_produce_batches_total", "Batches appended.", func(m broker.Snapshot) int64 { return m.ProduceBatches }),
	counter("sawlog_produce_errors_total", "Partitions of produce requests refused.", func(m broker.Snapshot) int64 { return m.ProduceErrors }),
	counter("sawlog_fetch_requests_total", "Fetch requests.", func(m broker.Snapshot) int64 { return m.FetchRequests }),
	counter("sawlog_fetch_bytes_total", "Bytes of batches sent.", func(m broker.Snapshot) int64 { return m.FetchBytes }),
	counter("sawlog_fetch_batch_class_bytes_total", "Bytes of batches sent to load tasks.", func(m broker.Snapshot) int64 { return m.FetchBatchBytes }),
	seconds("sawlog_fetch_batch_class_throttle_seconds_total", "Time that load tasks were told to wait for their limit, all together.", func(m broker.Snapshot) int64 { return m.FetchBatchRest.Milliseconds() }),
	gauge("sawlog_fetch_batch_class_limit_bytes", "Bytes that load tasks together are sent in a second at most; 0 is no limit.", func(m broker.Snapshot) int64 { return m.FetchBatchLimit }),
	counter("sawlog_fetch_parked_total", "Fetches that had to wait.", func(m broker.Snapshot) int64 { return m.FetchParked }),
	gauge("sawlog_fetch_sessions", "Fetch sessions open now (KIP-227).", func(m broker.Snapshot) int64 { return m.FetchSessions }),
	gauge("sawlog_fetch_session_partitions", "Partitions in the open fetch sessions.", func(m broker.Snapshot) int64 { return m.SessionParts }),
	counter("sawlog_compaction_runs_total", "Logs compacted.", func(m broker.Snapshot) int64 { return m.CleanRuns }),
	counter("sawlog_compaction_failures_total", "Runs of compaction that failed.", func(m broker.Snapshot) int64 { return m.CleanFailures }),
	counter("sawlog_compaction_read_bytes_total", "Bytes that compaction read.", func(m broker.Snapshot) int64 { return m.CleanRead }),
	counter("sawlog_compaction_written_bytes_total", "Bytes that compaction wrote.", func(m broker.Snapshot) int64 { return m.CleanWritten }),
	counter("sawlog_compaction_removed_records_total", "Records that compaction removed.", func(m broker.Snapshot) int64 { return m.CleanRemoved }),
	seconds("sawlog_compaction_seconds_total", "Time that compaction took.", func(m broker.Snapshot) int64 { return m.CleanMillis }),
	ratio("sawlog_compaction_dirtiest_ratio", "Share not yet compacted of the dirtiest log, when last looked at.", func(m broker.Snapshot) int64 { return m.DirtiestLog }),
}

func gauge(name, help string, read func(broker.Snapshot) int64) brokerNumber {
	return brokerNumber{desc(name, help), prometheus.GaugeValue, read, 1}
}

func ratio(name, help string, percent func(broker.Snapshot) int64) brokerNumber {
	return brokerNumber{desc(name, help), prometheus.GaugeValue, percent, 1e-2}
}

func seconds(name, help string, millis func(broker.Snapshot) int64) brokerNumber {
	return brokerNumber{desc(name, help), prometheus.CounterValue, millis, 1e-3}
}

func counter(name, help string, read func(broker.Snapshot) int64) brokerNumber {
	return brokerNumber{desc(name, help), prometheus.CounterValue, read, 1}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	buildInfo   = desc("sawlog_build_info", "1, with the version of this server.", "version")
	scheduling  = desc("sawlog_scheduler_running", "1 on the node that runs the scheduler: one of a cluster.")
	wrongTokens = desc("sawlog_http_wrong_tokens_total", "Requests that showed a token that is not this server's.")
	jobQueued   = desc("sawlog_job_runs_queued", "Runs waiting.", "name")
	jobRunning  = desc("sawlog_job_runs_running", "Runs going on.", "name")
	jobPaused   = desc("sawlog_job_paused", "1 while the job is paused.", "name")
	jobStale    = desc("sawlog_job_stale", "1 while the last good run lies further back than freshness allows.", "name")
	jobSuccess  = desc("sawlog_job_last_success_timestamp_seconds", "When the last good run ended.", "name")
	jobEnded    = desc("sawlog_job_runs_total", "Runs that ended, by status.", "name", "status")
	jobRows     = desc("sawlog_job_rows_total", "Rows committed.", "name")
	jobBad      = desc("sawlog_job_quarantined_records_total", "Records put into quarantine.", "name")
	jobBytes    = desc("sawlog_job_file_bytes_total", "Bytes of files committed.", "name")
	jobFiles    = desc("sawlog_job_files_total", "Files committed.", "name")
	jobSeconds  = desc("sawlog_job_run_seconds_total", "Time runs took.", "name")
	jobTrouble  = desc("sawlog_job_trouble", "1 while the ticks of the job can't be decided.", "name")
	jobNextDue  = desc("sawlog_job_next_due_timestamp_seconds", "When the next tick is due.", "name")
	jobHours    = desc("sawlog_job_hours", "Hours (or days) of the last 72 hours, by state, all data sets together.", "name", "state")
	jobSealed   = desc("sawlog_job_sealed_until_timestamp_seconds", "Up to when the data set of the job that is furthest behind is complete.", "name")
	jobItems    = desc("sawlog_job_backfill_items", "Items of the open backfill, by state.", "name", "state")
)

func (n *numbers) Describe(ch chan<- *prometheus.Desc) {
	for _, b := range brokerNumbers {
		ch <- b.desc
	}
	for _, c := range clusterNumbers {
		ch <- c.desc
	}
	for _, d := range slices.Concat([]*prometheus.Desc{
		buildInfo, scheduling, wrongTokens, followerLag, ticketOK, ticketEnd,
		jobQueued, jobRunning, jobPaused, jobStale, jobSuccess, jobEnded, jobRows, jobBad, jobBytes, jobFiles, jobSeconds,
		jobTrouble, jobNextDue, jobHours, jobSealed, jobItems,
	}, kafkaDescs) {
		ch <- d
	}
}

func (n *numbers) Collect(ch chan<- prometheus.Metric) {
	if n.s.Broker != nil {
		m := n.s.Broker()
		for _, b := range brokerNumbers {
			ch <- prometheus.MustNewConstMetric(b.desc, b.kind, float64(b.read(m))*b.unit)
		}
	}
	if n.s.Place != nil {
		collectPlace(ch, n.s.Place())
	}
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	put(buildInfo, prometheus.GaugeValue, 1, n.s.Version)
	put(scheduling, prometheus.GaugeValue, map[bool]float64{true: 1}[n.s.Jobs != nil])
	if n.s.Token != nil {
		put(wrongTokens, prometheus.CounterValue, float64(n.s.Token.guesses.total()))
	}
	if n.s.Jobs != nil {
		for _, j := range n.s.Jobs.Stats() {
			collectJob(ch, j)
		}
	}
	for _, t := range n.s.tickets() {
		t.collect(ch)
	}
	if n.s.Cluster != nil {
		n.s.lag.collect(ch, n.s.Cluster)
	}
}

func collectJob(ch chan<- prometheus.Metric, j jobs.Stats) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{j.Job}, labels...)...)
	}
	flag := map[bool]float64{true: 1}
	put(jobQueued, prometheus.GaugeValue, float64(j.Queued))
	put(jobRunning, prometheus.GaugeValue, float64(j.Running))
	put(jobPaused, prometheus.GaugeValue, flag[j.Paused])
	put(jobStale, prometheus.GaugeValue, flag[j.Stale])
	if !j.LastSuccess.IsZero() {
		put(jobSuccess, prometheus.GaugeValue, float64(j.LastSuccess.UnixMilli())/1000)
	}
	for _, status := range []string{jobs.Committed, jobs.Covered, jobs.Failed, jobs.Partial, jobs.Cancelled} {
		put(jobEnded, prometheus.CounterValue, float64(j.Ended[status]), status)
	}
	put(jobRows, prometheus.CounterValue, float64(j.Rows))
	put(jobBad, prometheus.CounterValue, float64(j.Quarantined))
	put(jobBytes, prometheus.CounterValue, float64(j.Bytes))
	put(jobFiles, prometheus.CounterValue, float64(j.Files))
	put(jobSeconds, prometheus.CounterValue, j.Seconds)
	put(jobTrouble, prometheus.GaugeValue, flag[j.Trouble])
	if !j.NextDue.IsZero() {
		put(jobNextDue, prometheus.GaugeValue, float64(j.NextDue.Unix()))
	}
	for state, n := range j.Hours {
		put(jobHours, prometheus.GaugeValue, float64(n), state)
	}
	if !j.SealedUntil.IsZero() {
		put(jobSealed, prometheus.GaugeValue, float64(j.SealedUntil.Unix()))
	}
	for state, n := range j.Items {
		put(jobItems, prometheus.GaugeValue, float64(n), state)
	}
}
