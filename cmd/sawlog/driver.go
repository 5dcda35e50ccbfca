package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	enginelocal "sawlog/loader/engine/local"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
	"sawlog/loader/sink/local"
)

// openSink opens the root of a data set by the scheme of its URI, for as long as
// ctx lives.
func openSink(ctx context.Context, root string, access sink.Access) (sink.Sink, error) {
	uri, err := rootURI(root)
	if err != nil {
		return nil, err
	}
	switch scheme, _, _ := strings.Cut(uri, "://"); scheme {
	case "":
		return nil, output.Errorf(output.Usage, "no root given").WithHint("--root file:///path/of/the/data/set")
	case "file":
		return openFolder(uri)
	case "hdfs":
		s, err := hdfs.Open(ctx, uri, access)
		if err != nil {
			return nil, output.Errorf(output.Usage, "%s", err).WithHint("sawlog doctor hdfs %s", uri)
		}
		return s, nil
	default:
		return nil, output.Errorf(output.Usage, "root %s: scheme %q is not available in this version", root, scheme).WithHint("file:///path or hdfs://HOST/path")
	}
}

// openFolder opens a root on this machine, unless something that is no folder
// is in its way.
func openFolder(uri string) (sink.Sink, error) {
	s, err := local.Open(uri)
	if errors.Is(err, sink.ErrRefused) {
		return nil, output.Errorf(output.Conflict, "%s", err)
	}
	if err != nil {
		return nil, output.Errorf(output.Usage, "%s", err)
	}
	if u, err := url.Parse(s.Root()); err == nil {
		st, err := os.Stat(u.Path)
		if errors.Is(err, syscall.ENOTDIR) || err == nil && !st.IsDir() {
			return nil, output.Errorf(output.Conflict, "root %s: a file that is no folder is in its way", uri).WithHint("name another root")
		}
	}
	return s, nil
}

// rootURI is the root as it stands in specs: an absolute file URI, or as given.
func rootURI(root string) (string, error) {
	if root == "" || strings.Contains(root, "://") {
		return root, nil
	}
	path, err := filepath.Abs(root)
	return "file://" + path, err
}

// sourceOf says how tasks reach the cluster a job names; own are the brokers of
// a job that names none.
func sourceOf(s jobs.Source, own []string, timeout time.Duration) consumer.Config {
	c := consumer.Config{Brokers: s.Brokers, Timeout: timeout}
	if len(c.Brokers) == 0 {
		c.Brokers = own
	}
	if s.SASL != nil {
		c.SASL, c.User = s.SASL.Mechanism, s.SASL.User
		c.PasswordFile = s.SASL.Password.Path()
	}
	if s.TLS != nil {
		c.TLS, c.CAFile, c.CertFile, c.KeyFile = true, s.TLS.CA, s.TLS.Cert, s.TLS.Key
	}
	return c
}

// source is how the brokers of the command line are reached.
func (a *app) source() consumer.Config {
	return consumer.Config{Brokers: a.brokers, Timeout: a.timeout}
}

// reach is how a root is reached, with the patience the command line asks for.
func (a *app) reach(access sink.Access) sink.Access {
	access.Patience = a.patience
	return access
}

// openDriver makes the driver of one data set. The caller closes it.
func openDriver(ctx context.Context, root string, access sink.Access, source consumer.Config, log *slog.Logger) (*loader.Driver, func(), error) {
	store, err := openSink(ctx, root, access)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := consumer.Dial(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	d := &loader.Driver{
		Cluster: cluster, Source: source, Sink: store, Access: access, Engine: &enginelocal.Engine{Logger: log},
		Logger: log, Now: time.Now, By: whoami(),
	}
	return d, cluster.Close, nil
}

// whoami names the person for the ledger.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		return name + "@" + host
	}
	return name
}

// target is one data set of a job, or of a plan whose job is not known.
type target struct {
	spec   *loader.Spec // nil = not known
	root   string
	access sink.Access
	source consumer.Config
	run    *jobs.RunRule // nil = tasks run on this machine
}

// openTarget makes the driver of a target, with the engine of its job. The caller
// closes it.
func (a *app) openTarget(ctx context.Context, t target) (*loader.Driver, func(), error) {
	d, closeDriver, err := openDriver(ctx, t.root, t.access, t.source, a.logger())
	if err != nil || t.run == nil {
		return d, closeDriver, err
	}
	if err := useEngine(ctx, d, t.run); err != nil {
		closeDriver()
		return nil, nil, err
	}
	return d, closeDriver, nil
}

// isFile tells a job file from the name of a job.
func isFile(ref string) bool {
	if strings.ContainsAny(ref, "/\\") || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml") {
		return true
	}
	st, err := os.Stat(ref)
	return err == nil && st.Mode().IsRegular()
}

// readJob reads a job file.
func readJob(path string) (*jobs.Spec, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notThere(err)
	}
	if err != nil {
		return nil, err
	}
	return jobs.Parse(text, path)
}

// targets lists the data sets of a job file; a pattern is matched against the
// topics there are now.
func (a *app) targets(ctx context.Context, job *jobs.Spec) ([]target, error) {
	source := sourceOf(job.Source, a.brokers, a.timeout)
	var matched []string
	if job.Source.Pattern != "" {
		cluster, err := consumer.Dial(ctx, source)
		if err != nil {
			return nil, err
		}
		defer cluster.Close()
		topics, _, err := consumer.Describe(ctx, cluster, nil, job.Source.Pattern)
		if err != nil {
			return nil, err
		}
		for _, t := range topics {
			matched = append(matched, t.Name)
		}
	}
	var list []target
	for _, set := range job.Sets(matched) {
		spec, err := job.Load(set.Topic, time.Now())
		if err != nil {
			return nil, err
		}
		list = append(list, target{spec, spec.Root, a.reach(job.Output.Access), source, &job.Run})
	}
	if len(list) == 0 {
		return nil, output.Errorf(output.NotFound, "job %s: no topic matches %q", job.Name, job.Source.Pattern)
	}
	return list, nil
}

// targetOf is what a job file says of one data set. No broker is asked, so that
// of a pattern any topic is believed to match.
func (a *app) targetOf(path, dataset string) (target, error) {
	job, err := readJob(path)
	if err != nil {
		return target{}, err
	}
	for _, set := range job.Sets([]string{strings.TrimPrefix(dataset, job.Name+".")}) {
		if set.Dataset == dataset {
			spec, err := job.Load(set.Topic, time.Now())
			if err != nil {
				return target{}, err
			}
			return target{spec, spec.Root, a.reach(job.Output.Access), sourceOf(job.Source, a.brokers, a.timeout), &job.Run}, nil
		}
	}
	return target{}, output.Errorf(output.Conflict, "job %s of %s makes no data set %s", job.Name, path, dataset).WithHint("name the job file that the data set is loaded by")
}

// holders are the data sets one of which holds a run: that of --root, reached as
// the job file says if there is one, else those of the job.
func (a *app) holders(ctx context.Context, ref datasetRef, path string) ([]target, error) {
	list := []target{{root: ref.root, access: a.reach(sink.Access{}), source: a.source()}}
	if path != "" {
		job, err := readJob(path)
		if err != nil {
			return nil, err
		}
		if list, err = a.targets(ctx, job); err != nil {
			return nil, err
		}
		if ref.root != "" {
			list = list[:1]
			list[0].root = ref.root
		}
	}
	for i := range list {
		var err error
		if list[i].access, err = ref.store.over(list[i].access); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// newRunID names a run: the job, the moment, and what makes it one of a kind.
func newRunID(job string, now time.Time) string {
	return fmt.Sprintf("%s-%s-%04x", job, now.UTC().Format("20060102T150405Z"), uint16(now.UnixNano()>>10))
}
