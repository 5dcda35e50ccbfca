//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sawlog/formats/parquet"
)

// loads is an hour job over the events, carried out again and again by processes
// of `sawlog run`.
type loads struct {
	binary  string
	brokers string
	file    string
	out     string
	log     string

	covered   bool // the last run found nothing left to load
	committed int  // runs that committed something
	retried   int  // runs that said "try again", or took too long
}

// newLoads writes the job file.
func newLoads(binary, dir string, seeds []string) (*loads, error) {
	l := &loads{binary: binary, brokers: strings.Join(seeds, ","), file: filepath.Join(dir, "job.yaml"), out: filepath.Join(dir, "out"), log: filepath.Join(dir, "loads.log")}
	quoted, err := json.Marshal(seeds)
	if err != nil {
		return nil, err
	}
	job := fmt.Sprintf("name: chaos-hourly\nsource: {topics: [%s], brokers: %s}\ndecode: {value: json}\ntime: {field: ts, format: rfc3339}\noutput: {root: \"file://%s\"}\n", events, quoted, l.out)
	return l, os.WriteFile(l.file, []byte(job), 0o600)
}

// loadLimit is how long a run may take before it is killed and made again.
const loadLimit = 40 * time.Second

// once carries the job out. again: the cluster could not be reached, which a
// cluster under faults may say.
func (l *loads) once(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.binary, "run", l.file, "-o", "json", "-b", l.brokers, "--progress", "none")
	cmd.Dir = filepath.Dir(l.file)
	var said, text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &said
	err = cmd.Run()
	f, openErr := os.OpenFile(l.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if openErr == nil {
		_, _ = fmt.Fprintf(f, "==== %s: %v\n%s%s\n", time.Now().UTC().Format(time.RFC3339Nano), err, text.String(), said.String()) // for people
		_ = f.Close()
	}
	const unavailable = 6 // exit code, see cmd/sawlog/output
	var exit *exec.ExitError
	switch {
	case err == nil:
		var result struct{ Status string }
		if err := json.Unmarshal([]byte(text.String()), &result); err != nil {
			return false, fmt.Errorf("sawlog run printed %q: %w", text.String(), err)
		}
		l.covered = result.Status == "covered"
		if result.Status == "committed" {
			l.committed++
		}
		return false, nil
	case ctx.Err() != nil, errors.As(err, &exit) && exit.ExitCode() == unavailable:
		l.retried++
		return true, err
	}
	return false, fmt.Errorf("sawlog run: %w: %s", err, said.String())
}

// toTheEnd carries the job out until nothing is left. A run that takes up the
// plan of one that was killed goes only as far as that one had meant to.
func (l *loads) toTheEnd() error {
	return await(2*loadLimit, func() error {
		if _, err := l.once(context.Background()); err != nil {
			return err
		}
		if !l.covered {
			return errors.New("there is more to load")
		}
		return nil
	})
}

// keep runs the job until ctx ends; what it may not say is a complaint.
func (l *loads) keep(ctx context.Context, h *history, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if again, err := l.once(ctx); err != nil && !again {
			h.complain("%v", err)
		}
	}
}

// row is a row of the Parquet files.
type row struct {
	place
	Offset int64
	value
}

// rows reads every visible file of a data set.
func rows(out, topic string) ([]row, error) {
	var all []row
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "_sawlog":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".parquet"):
			return nil
		}
		some, err := fileRows(path, topic)
		all = append(all, some...)
		return err
	})
	return all, err
}

func fileRows(path, topic string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r, err := parquet.Open(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []row
	err = r.Read([]string{"_partition", "_offset", "p", "k", "s", "ts"}, 0, -1, func(cells [][]byte) error {
		w := row{place: place{Topic: topic}}
		for i, to := range []any{&w.Partition, &w.Offset, &w.Producer, &w.Key, &w.Seq, &w.Time} {
			if err := json.Unmarshal(cells[i], to); err != nil {
				return fmt.Errorf("%s: %q: %w", path, cells[i], err)
			}
		}
		all = append(all, w)
		return nil
	})
	return all, err
}

// checkRows wants the rows of the Parquet files to be the records of the log,
// each once. whole: the last run went over all of the log.
func checkRows(h *history, all []row, whole bool) []violation {
	v := &violations{check: "Parquet rows are not the log's records"}
	type at struct {
		place
		offset int64
	}
	have := map[at]int{}
	log := map[at]value{}
	for p, records := range h.Log {
		for _, f := range records {
			log[at{p, f.Offset}] = f.value
		}
	}
	for _, r := range all {
		where := at{r.place, r.Offset}
		if have[where]++; have[where] > 1 {
			v.add("%s@%d is in the files %d times", r.place, r.Offset, have[where])
		}
		if val, ok := log[where]; !ok {
			v.add("%s@%d is in the files and not in the log", r.place, r.Offset)
		} else if val != r.value {
			v.add("%s@%d is %v in the files and %v in the log", r.place, r.Offset, r.value, val)
		}
	}
	for where := range log {
		if whole && where.Topic == events && have[where] == 0 {
			v.add("%s@%d is not in the files", where.place, where.offset)
		}
	}
	return v.list()
}
