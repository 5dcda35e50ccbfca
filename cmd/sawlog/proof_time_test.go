package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/loader"
)

// values makes a topic of one partition that keeps everything.
func (n *node) values(topic string, values ...string) {
	n.t.Helper()
	n.run("topic", "create", topic, "--partitions", "1", "--config", "retention.ms=-1")
	n.more(topic, values...)
}

// more sends further values.
func (n *node) more(topic string, values ...string) {
	n.t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	n.send(nil, records...)
}

// folders are the rows of each folder of a data set, by its manifests.
func folders(t *testing.T, root string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	found, err := filepath.Glob(filepath.Join(root, "dt=*", "_manifest.json"))
	if err == nil && len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(root, "dt=*", "hr=*", "_manifest.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		var m loader.Manifest
		if err := json.Unmarshal(mustRead(t, file), &m); err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		out[dir] = m.Rows
	}
	return out
}

// stamps are JSON values with a time each.
func stamps(times ...string) []string {
	var out []string
	for i, at := range times {
		if !strings.HasPrefix(at, "-") && at != "0" {
			at = fmt.Sprintf("%q", at)
		}
		out = append(out, fmt.Sprintf(`{"at":%s,"n":%d}`, at, i))
	}
	return out
}

// every instant between two, so far apart.
func every(step time.Duration, from, to string) []string {
	var out []string
	at, _ := time.Parse(time.RFC3339, from) // written in this file
	end, _ := time.Parse(time.RFC3339, to)
	for ; at.Before(end); at = at.Add(step) {
		out = append(out, at.Format(time.RFC3339))
	}
	return out
}

// TestProofHours loads times of every kind and looks where the rows are.
func TestProofHours(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	const cut = "partition_by: {zone: %s, unit: %s, path: '%s'}\n"
	hours := func(zone string) string { return fmt.Sprintf(cut, zone, "hour", "dt=%Y-%m-%d/hr=%H") }
	days := func(zone string) string { return fmt.Sprintf(cut, zone, "day", "dt=%Y-%m-%d") }
	const rfc = "decode: {value: json}\ntime: {field: at, format: rfc3339}\n"
	const old = "decode: {value: json}\ntime: {field: at, format: epoch_ms, plausible: [1900-01-01, +1d]}\n"
	for name, c := range map[string]struct {
		job    string
		values []string
		want   map[string]int64
		bad    int64
	}{
		"nanoseconds": {
			rfc, stamps("2017-01-31T23:59:59.999999999Z", "2017-01-31T23:59:59Z", "2017-02-01T00:00:00.000000001Z", "2017-01-31T23:59:59.1Z"),
			map[string]int64{"dt=2017-01-31/hr=23": 3, "dt=2017-02-01/hr=00": 1},
			0,
		},
		"offsets": {
			rfc, stamps("2017-12-01T11:33:21-04:00", "2017-12-01T11:33:21+05:30", "2017-12-01T11:33:21+0530", "2017-12-01T11:33:21Z", "21-04:00"),
			map[string]int64{"dt=2017-12-01/hr=15": 1, "dt=2017-12-01/hr=06": 2, "dt=2017-12-01/hr=11": 1},
			1,
		},
		"before-1970": {
			old, stamps("-1", "-3600000", "-3600001", "0"),
			map[string]int64{"dt=1969-12-31/hr=23": 2, "dt=1969-12-31/hr=22": 1, "dt=1970-01-01/hr=00": 1},
			0,
		},
		"implausible": {
			"decode: {value: json}\ntime: {field: at, format: rfc3339, plausible: [2020-01-01, 2021-01-01]}\n",
			stamps("2019-12-31T23:59:59.999999Z", "2020-01-01T00:00:00Z", "2020-12-31T23:59:59Z", "2021-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
			map[string]int64{"dt=2020-01-01/hr=00": 1, "dt=2020-12-31/hr=23": 1},
			3,
		},
		"space-declared": {
			"decode: {value: json}\ntime: {field: at, format: '%Y-%m-%d %H:%M:%S.%f', zone: UTC}\n", stamps("2019-11-13 18:01:36.869", "2019-11-13T18:01:36.869"),
			map[string]int64{"dt=2019-11-13/hr=18": 1},
			1,
		},
		// Without a word of it a wall clock is UTC's, and a blank may stand for the T.
		"space-undeclared": {rfc, stamps("2019-11-13 18:01:36.869", "13.11.2019 18:01"), map[string]int64{"dt=2019-11-13/hr=18": 1}, 1},
		"microseconds-in-text": {
			"decode: {value: json}\ntime: {field: at, format: epoch_us}\n", stamps("1573648581000017", "x"),
			map[string]int64{"dt=2019-11-13/hr=12": 1},
			1,
		},
		// Text without a zone, read as New York's wall clock: the first of a doubled
		// hour, and no instant at all in a skipped one.
		"wall-clock": {
			"decode: {value: json}\ntime: {field: at, format: rfc3339, zone: America/New_York}\n",
			stamps("2018-11-04T00:30:00", "2018-11-04T01:30:00", "2018-11-04T02:30:00", "2019-03-10T01:30:00", "2019-03-10T02:30:00", "2019-03-10T03:30:00"),
			map[string]int64{"dt=2018-11-04/hr=04": 1, "dt=2018-11-04/hr=05": 1, "dt=2018-11-04/hr=07": 1, "dt=2019-03-10/hr=06": 1, "dt=2019-03-10/hr=07": 1},
			1,
		},
		"doubled-hour": {
			rfc + hours("America/New_York"), stamps(every(30*time.Minute, "2018-11-04T04:00:00Z", "2018-11-04T08:00:00Z")...),
			map[string]int64{"dt=2018-11-04/hr=00": 2, "dt=2018-11-04/hr=01-0400": 2, "dt=2018-11-04/hr=01-0500": 2, "dt=2018-11-04/hr=02": 2},
			0,
		},
		"skipped-hour": {
			rfc + hours("America/New_York"), stamps(every(30*time.Minute, "2019-03-10T06:00:00Z", "2019-03-10T08:00:00Z")...),
			map[string]int64{"dt=2019-03-10/hr=01": 2, "dt=2019-03-10/hr=03": 2},
			0,
		},
		"lord-howe-back": {
			rfc + hours("Australia/Lord_Howe"), stamps(every(15*time.Minute, "2024-04-06T13:00:00Z", "2024-04-06T16:30:00Z")...),
			// 00:00 to 02:00 at +11, 01:30 to 03:00 at +10:30
			map[string]int64{"dt=2024-04-07/hr=00": 4, "dt=2024-04-07/hr=01+1100": 4, "dt=2024-04-07/hr=01+1030": 2, "dt=2024-04-07/hr=02": 4},
			0,
		},
		"lord-howe-on": {
			rfc + hours("Australia/Lord_Howe"), stamps(every(15*time.Minute, "2024-10-05T14:30:00Z", "2024-10-05T17:00:00Z")...),
			// 01:00 to 02:00 at +10:30, then 02:30 to 04:00 at +11
			map[string]int64{"dt=2024-10-06/hr=01": 4, "dt=2024-10-06/hr=02": 2, "dt=2024-10-06/hr=03": 4},
			0,
		},
		"kolkata": {
			rfc + hours("Asia/Kolkata"), stamps(every(15*time.Minute, "2024-05-05T18:00:00Z", "2024-05-05T20:00:00Z")...),
			map[string]int64{"dt=2024-05-05/hr=23": 2, "dt=2024-05-06/hr=00": 4, "dt=2024-05-06/hr=01": 2},
			0,
		},
		"days-of-23-and-25-hours": {
			rfc + days("Europe/Berlin"),
			stamps(append(every(time.Hour, "2025-03-29T22:00:00Z", "2025-03-31T00:00:00Z"), every(time.Hour, "2025-10-25T21:00:00Z", "2025-10-27T00:00:00Z")...)...),
			map[string]int64{"dt=2025-03-29": 1, "dt=2025-03-30": 23, "dt=2025-03-31": 2, "dt=2025-10-25": 1, "dt=2025-10-26": 25, "dt=2025-10-27": 1},
			0,
		},
	} {
		n.values(name, c.values...)
		path, root := n.job(name, c.job)
		o := n.outcome(0, "run", path)
		if got := folders(t, root); !maps.Equal(got, c.want) || o.Quarantined != c.bad || o.Rows+c.bad != int64(len(c.values)) {
			t.Errorf("%s: %d rows, %d bad, in %v, want %v", name, o.Rows, o.Quarantined, got, c.want)
		}
		n.run("verify", "--root", root, "--against-log")
	}
}

// TestProofTimestampsKeepTheirValue loads instants before 1970 and of every
// fraction into columns of each unit.
func TestProofTimestampsKeepTheirValue(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.values("exact", stamps("1969-12-31T23:59:59.999999999Z", "1969-12-31T22:59:59.999Z", "2017-01-31T23:59:59.1Z", "1970-01-01T00:00:00Z")...)
	path, root := n.job("exact", "decode: {value: json}\ntime: {field: at, format: rfc3339, plausible: [1900-01-01, +1d]}\n"+
		"schema: [{name: ns, type: timestamp_ns, from: [at]}, {name: us, type: timestamp_us, from: [at]}, {name: ms, type: timestamp_ms, from: [at]}, {name: n, type: int64}]\n")
	if o := n.outcome(0, "run", path); o.Rows != 4 || o.Quarantined != 0 {
		t.Fatalf("%+v", o)
	}
	var got [][4]int64
	duck(t, root, "select n, epoch_ns(ns), epoch_us(us), epoch_ms(ms) from ROWS order by n", &got)
	want := [][4]int64{{0, -1, -1, -1}, {1, -3600001000000, -3600001000, -3600001}, {2, 1485907199100000000, 1485907199100000, 1485907199100}, {3, 0, 0, 0}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestProofZonesAreRefusedAtTheStart names a zone that is none: refused before
// anything is read, with the key that holds it.
func TestProofZonesAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	n := bare(t)
	for _, zone := range []string{"Europe/Nowhere", "''", "utc", "Local", "../UTC"} {
		for key, job := range map[string]string{
			"time.zone":         "time: {field: at, format: rfc3339, zone: " + zone + "}\n",
			"partition_by.zone": "partition_by: {zone: " + zone + "}\n",
		} {
			path, _ := n.job("zone", "decode: {value: json}\n"+job)
			n.refused(2, []string{key, strings.Trim(zone, "'")}, "run", path)
			n.refused(2, []string{key}, "job", "validate", path)
		}
	}
}

// TestProofLateAndIdle seals hours that all partitions have passed, the idle one
// too, and puts what comes late beside: a further file, counted, and the marks
// of the hour anew.
func TestProofLateAndIdle(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.run("topic", "create", "tide", "--partitions", "2", "--config", "retention.ms=-1")
	put := func(partition int32, hours ...int) {
		var records []*kgo.Record
		for _, h := range hours {
			records = append(records, &kgo.Record{Topic: "tide", Partition: partition, Value: fmt.Appendf(nil, `{"at":%q}`, firstHour.Add(time.Duration(h)*time.Hour).Format(time.RFC3339))})
		}
		n.send(byHand("none"), records...)
	}
	path, root := n.job("tide", numbersJob+"partition_by: {lateness: 0m}\n")
	sealed := func() (out string) {
		for h := range 6 {
			if found, _ := filepath.Glob(filepath.Join(root, "dt=2026-10-01", fmt.Sprintf("hr=%02d", h), "_SUCCESS")); len(found) > 0 {
				out += fmt.Sprintf("%d%s", h, mustRead(t, found[0]))
			}
		}
		return strings.ReplaceAll(out, "\n", " ")
	}
	put(0, 0, 1, 2, 3, 4)
	put(1, 0, 1)
	// Neither is read to its end: hours are passed by what was read alone.
	n.outcome(0, "run", path, "--range", "tide=0..1")
	if got := sealed(); got != "" {
		t.Errorf("sealed %q after one record of each", got)
	}
	n.outcome(0, "run", path, "--range", "tide/0=1..4") // hours 1 to 3 of one partition; the other stands at hour 0
	if got := sealed(); got != "" {
		t.Errorf("sealed %q while a partition stands in hour 0", got)
	}
	n.outcome(0, "run", path, "--range", "tide/1=1..2") // read to its end, that one is idle; the other passed hour 2
	if got := sealed(); got != `0{"number":2} 1{"number":2} 2{"number":2} ` {
		t.Errorf("sealed %q once one is idle and the other in hour 3", got)
	}
	n.outcome(0, "run", path) // both idle
	if got := sealed(); got != `0{"number":2} 1{"number":2} 2{"number":2} 3{"number":3} 4{"number":3} ` {
		t.Errorf("sealed %q with both idle", got)
	}
	put(1, 1, 1, 3, 5)
	o := n.outcome(0, "run", path)
	var late int64
	for _, h := range o.Hours {
		late += h.Late
	}
	if o.Rows != 4 || late != 3 || len(o.Hours) != 3 || o.Hours[0].Late != 2 || o.Hours[2].Late != 0 {
		t.Errorf("late rows: %+v", o.Hours)
	}
	if got := sealed(); got != `0{"number":2} 1{"number":4} 2{"number":2} 3{"number":4} 4{"number":3} 5{"number":4} ` {
		t.Errorf("sealed %q after late rows", got)
	}
	var m loader.Manifest
	if err := json.Unmarshal(mustRead(t, filepath.Join(root, "dt=2026-10-01", "hr=01", "_manifest.json")), &m); err != nil {
		t.Fatal(err)
	}
	if m.Number != 4 || *m.Sealed != 2 || m.Rows != 4 || m.Late != 2 || len(m.Files) < 3 {
		t.Errorf("manifest of the hour with late rows: %+v", m)
	}
	if rows, distinct := rowsOf(t, root); rows != 11 || distinct != 11 {
		t.Errorf("%d rows, %d different, want 11", rows, distinct)
	}
	n.run("verify", "--root", root, "--against-log")
}
