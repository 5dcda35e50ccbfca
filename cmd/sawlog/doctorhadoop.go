package main

import (
	"context"
	"errors"
	"net"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/engine/hadoop"
	"sawlog/loader/sink/hdfs"
)

func (a *app) doctorHadoop() *cobra.Command {
	return &cobra.Command{
		Use: "hadoop FILE|JOB", Short: "Try the YARN cluster a job's tasks run on", Args: cobra.ExactArgs(1),
		Long: `Look at what a job with run.engine: hadoop needs, without submitting anything: the
command that submits, the binary of the tasks, their login on a cluster with
Kerberos, the ResourceManager, a node that a task fits on, and brokers that the
nodes can reach. Of the root, doctor hdfs tells.
Exit codes: 2 the job names no cluster, or the command isn't there, 5 a login
fails, or tasks would have none, or the ResourceManager wants another user, 6 it
doesn't answer (retry), 4 no node is big enough, 1 anything else.`,
		Example: "  sawlog doctor hadoop pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := a.anyJob(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if job.Run.Engine != jobs.EngineHadoop {
				return output.Errorf(output.Usage, "job %s: run.engine is %s", job.Name, job.Run.Engine).WithHint("doctor hadoop looks at jobs with run: {engine: hadoop}")
			}
			who, err := hdfs.Identify(job.Output.Root, job.Output.Access)
			if err != nil {
				return &output.Error{Code: storeCode(err), Err: err, Hint: "sawlog doctor hdfs " + args[0]}
			}
			list, code := clusterFindings(hadoop.Examine(cmd.Context(), hadoop.Settings(job.Run.Hadoop), job.Output.Access, (*hadoop.Login)(who), job.Run.Memory))
			reach, failed := a.examineReach(cmd.Context(), job)
			if code == output.OK {
				code = failed
			}
			return a.findings(append(list, reach), code)
		},
	}
}

// anyJob is the job of a file, or one the server knows.
func (a *app) anyJob(ctx context.Context, ref string) (job *jobs.Spec, err error) {
	if isFile(ref) {
		return readJob(ref)
	}
	err = a.onServer(ctx, func(ctx context.Context, c *api.Client) error {
		j, err := c.Job(ctx, ref)
		if err == nil {
			job, err = jobs.ParseApplied([]byte(j.Text), ref)
		}
		return err
	})
	return job, err
}

// reasonAt is why a server can't be reached, and where it was looked for.
func reasonAt(err error) string {
	text := consumer.Reason(err).Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return op.Addr.String() + ": " + text
	}
	return text
}

// clusterFindings are those of the cluster, and the exit code of the first that
// isn't well.
func clusterFindings(found []hadoop.Finding) (list []finding, code int) {
	for _, f := range found {
		one := finding{f.Check, f.Err == nil, f.Detail, f.Advice}
		if f.Err != nil {
			one.Detail = reasonAt(f.Err)
			if code == output.OK {
				code = loader.ExitCode(f.Err)
			}
		}
		list = append(list, one)
	}
	return list, code
}

// examineReach wants brokers that tasks on other machines reach.
func (a *app) examineReach(ctx context.Context, job *jobs.Spec) (finding, int) {
	f := finding{Check: "brokers", Advice: "start them with --advertise HOST:PORT that the nodes can reach"}
	cluster, err := consumer.Dial(ctx, sourceOf(job.Source, a.brokers, a.timeout))
	if err == nil {
		defer cluster.Close()
		f.Detail = "on this machine, as the cluster is"
		if !job.Run.OneMachine(job.Output.Root, job.Output.Access) {
			f.Detail = "advertised beyond loopback"
			err = advertised(ctx, cluster, &job.Run)
		}
	}
	if err != nil {
		f.Detail = consumer.Reason(err).Error()
		return f, output.Code(err)
	}
	f.OK = true
	return f, output.OK
}
