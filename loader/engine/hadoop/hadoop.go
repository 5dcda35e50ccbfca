// Package hadoop is the engine that runs tasks on a YARN cluster, as the map
// tasks of a Hadoop Streaming job (Hadoop 2.8 and later), one line of input a
// split.
//
// It submits by a command, whatever runs Hadoop Streaming on this machine, and
// then asks the ResourceManager's REST API (/ws/v1/cluster) how the application
// is. There is no reducer and no output: the mapper is `sawlog task exec --stdin
// --streaming`, which leaves its result in the root. The engine follows the
// attempt folders there; the ResourceManager only tells that nothing more is
// coming.
//
//	_sawlog/stage/PLAN/tasks-….jsonl   the input: a task spec a line
//	_sawlog/tmp/TAG/                   the output folder Hadoop wants; nothing comes into it
//
// An application carries a tag made of the root and the plan. A driver that comes
// back after it died finds the application, if that still runs, and follows it;
// what it didn't carry out is submitted after.
//
// On a cluster with Kerberos the driver is who reaches the root: with a ticket of
// that identity it asks the ResourceManager, and the command that submits logs in
// by the same keytab ($KRB5PRINCIPAL and $KRB5KEYTAB, Hadoop 3.1 and later; an
// older one needs kinit). Tasks use the keytab at its path on their node, or one
// that goes along with the application, where the job asks for it: not as a file,
// which NodeManagers would keep in their caches, but as secrets of the job's
// credentials (mapreduce.job.credentials.json), which Hadoop hands to containers
// beside its own tokens, in a file private to them that goes with them. From this
// process to the command they go by a file that has no name.
package hadoop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"path"
	"slices"
	"time"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// Settings say how the cluster is reached and what a job of it is like.
type Settings struct {
	ResourceManagers []string // URLs of their web addresses; of several the active one answers
	Command          []string // that runs Hadoop Streaming; default: mapred streaming
	// Binary is the sawlog of the tasks: a path on every node, or a URI it is
	// shipped from; empty = that of this process is shipped.
	Binary string
	Queue  string            // empty = the cluster's default
	Conf   map[string]string // of the job, over what the engine says where that may be changed
	// SendKeytab has the keytab go along with applications.
	SendKeytab bool
}

// Engine runs tasks on a YARN cluster.
type Engine struct {
	Settings
	Sink   sink.Sink // the root, as this process reaches it
	Login  *Login    // nil without Kerberos
	Logger *slog.Logger
	Poll   time.Duration // between two looks; default 2 s
}

// mostTasks of one application: its ApplicationMaster holds all in memory.
const mostTasks = 10_000

// Run carries out the work, as one application unless it has more than 10,000
// splits.
func (e *Engine) Run(ctx context.Context, w loader.Work) error {
	for splits := range slices.Chunk(w.Splits, mostTasks) {
		part := w
		part.Splits = splits
		r := &run{Engine: e, work: &part, log: e.Logger}
		if err := r.carryOut(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run is work under way.
type run struct {
	*Engine
	work  *loader.Work
	tag   string // of its applications
	rm    *resourceManager
	watch loader.Watch
	log   *slog.Logger
	last  error // of the attempt that failed last
}

// carryOut follows what a driver that died has left running, and has the rest
// carried out.
func (r *run) carryOut(ctx context.Context) error {
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if err := r.Login.check(); err != nil {
		return err
	}
	list, err := loader.NewTaskList(r.Sink, r.work)
	if err != nil {
		return err
	}
	r.tag = list.Tag()
	if r.rm, err = newResourceManager(r.ResourceManagers, r.user(), r.Login); err != nil {
		return err
	}
	r.watch = loader.Watch{Sink: r.Sink, Logger: r.Logger, Poll: r.Poll}
	if err := r.watch.Begin(r.remembering()); err != nil {
		return err
	}
	apps, err := r.rm.tagged(ctx, r.tag)
	if err != nil {
		return err
	}
	for _, a := range apps {
		if a.ended() {
			continue
		}
		r.log.Info("the application runs already: following it", "application", a.ID, "tag", r.tag)
		err := r.follow(ctx, a.ID)
		if ctx.Err() != nil || err != nil && loader.ExitCode(err) != loader.ExitUnavailable {
			return err
		}
	}
	if list.Splits = r.watch.Left(); len(list.Splits) == 0 {
		return nil
	}
	id, err := r.submit(ctx, list)
	if err != nil {
		return err
	}
	return r.follow(ctx, id)
}

// remembering is the work, with the last failure kept: it tells more than what
// the ResourceManager says of a job whose tasks failed.
func (r *run) remembering() *loader.Work {
	w := *r.work
	w.Done = func(split int, attempt string, err error) {
		if err != nil {
			r.last = err
		}
		if r.work.Done != nil {
			r.work.Done(split, attempt, err)
		}
	}
	return &w
}

// follow waits for an application, and takes its output folder away.
func (r *run) follow(ctx context.Context, id string) error {
	err := r.watch.Follow(ctx, &application{rm: r.rm, id: id, log: r.log})
	if rm := r.Sink.RemoveAll(outputDir(r.tag)); rm != nil {
		r.log.Debug("the output folder stays until a sweep", "err", rm) // it is empty
	}
	if e := (*loader.Error)(nil); errors.As(err, &e) && e.Code == loader.ExitUnavailable && r.last != nil {
		return &loader.Error{Code: e.Code, Msg: err.Error(), Hint: e.Hint, Err: r.last}
	}
	return err
}

// submitTime is how long submitting may take: a JVM starts, and copies the binary
// into the store.
const submitTime = 5 * time.Minute

// submit has the tasks submitted and answers with the id of their application.
// Not cut short: a job that was half submitted could come later.
func (r *run) submit(ctx context.Context, list *loader.TaskList) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer cancel()
	order, err := r.order(list)
	if err != nil {
		return "", err
	}
	input, err := list.Put(r.Sink)
	if err != nil {
		return "", err
	}
	s := r.Settings
	if s.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return "", &loader.Error{Code: loader.ExitFailed, Msg: "hadoop engine", Err: err}
		}
		s.Binary = (&url.URL{Scheme: "file", Path: self}).String()
	}
	args, err := arguments(s, &job{
		Work: r.work, tasks: len(list.Splits), tag: r.tag, input: input, user: r.user(), kerberos: r.Login != nil, secrets: len(order.secrets) > 0,
	})
	if err != nil {
		return "", err
	}
	order.args = args
	before, err := r.rm.tagged(ctx, r.tag)
	if err != nil {
		return "", err
	}
	failed := order.call(ctx, r.log)
	after, err := r.rm.tagged(context.WithoutCancel(ctx), r.tag)
	if err != nil {
		return "", errors.Join(failed, err)
	}
	made := slices.DeleteFunc(after, func(a app) bool {
		return slices.ContainsFunc(before, func(b app) bool { return a.ID == b.ID })
	})
	if len(made) == 0 {
		return "", cmp.Or(failed, error(&loader.Error{
			Code: loader.ExitUnavailable, Msg: fmt.Sprintf("the job was submitted, but %s knows no application tagged %s", r.rm.place(), r.tag),
			Hint: "run.hadoop.resource_manager has to name that of the cluster the command submits to",
		}))
	}
	return r.one(ctx, made), nil
}

// one is the application that counts where drivers submitted at the same moment:
// the first. The others end.
func (r *run) one(ctx context.Context, made []app) (id string) {
	r.log.Info("submitted", "application", made[0].ID, "tag", r.tag, "page", made[0].TrackingURL)
	for _, twin := range made[1:] {
		r.log.Warn("submitted twice: ending the second", "application", twin.ID, "tag", r.tag)
		if err := (&application{rm: r.rm, id: twin.ID, log: r.log}).Kill(ctx); err != nil {
			r.log.Warn("the second application may still run: what it makes is not used", "application", twin.ID, "err", err)
		}
	}
	return made[0].ID
}

// outputDir is the folder Hadoop is told to put output in. A sweep takes it away
// where this process didn't come to it.
func outputDir(tag string) string { return path.Join(loader.TempDir, tag) }

// user is who submits.
func (r *run) user() string { return userOf(r.work.Access, r.Login) }

// userOf is who submits: whose ticket it is, or without Kerberos as Hadoop's own
// clients find it.
func userOf(a sink.Access, l *Login) string {
	if l != nil {
		return l.user()
	}
	if name := cmp.Or(a.User, os.Getenv("HADOOP_USER_NAME")); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
