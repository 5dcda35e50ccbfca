package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// taskFlags say which task, and how it tells how it goes.
type taskFlags struct {
	stdin     bool
	streaming bool
	plan      string
	index     int
	memory    string
	spool     string
}

func (a *app) task() *cobra.Command {
	c := &cobra.Command{Use: "task", Short: "Carry out a task of a run; engines call it", Example: "  sawlog task exec --plan plan.json --index 0"}
	f := taskFlags{}
	exec := &cobra.Command{
		Use: "exec --stdin | --plan FILE --index N", Short: "Carry out one split of a plan",
		Long: `Carry out one split: read its ranges, write its files into an attempt folder and
result.json last. The task is a JSON spec on standard input, split N of a plan
file, or task N of the task list an engine made. Progress and the result are JSON
lines on standard output; with --streaming they are what Hadoop Streaming takes
of a mapper: status and counters on standard error, one line of output.
Exit codes: 0, 6 try again, 3, 4, 5 or 8 do not.`,
		Example:           "  sawlog task exec --plan plan.json --index 0",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return taskError(a.prepare(cmd)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return output.Errorf(output.Conflict, "task exec takes no argument %q", args[0])
			}
			spec, err := a.taskSpec(f)
			if err != nil {
				return taskError(err)
			}
			if f.spool != "" {
				spec.Spool = f.spool
			}
			var tell loader.Teller = loader.NewJSONLines(a.print.Out)
			if f.streaming {
				lines, stop := loader.NewStreaming(a.print.Out, a.print.Err)
				defer stop()
				tell = lines
			}
			open := func(uri string, access sink.Access) (sink.Sink, error) { return openSink(cmd.Context(), uri, access) }
			return output.Exit(loader.Exec(cmd.Context(), spec, open, tell, a.logger()))
		},
	}
	exec.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return output.Errorf(output.Conflict, "%s", flagText(err)).WithHint("%s --help", cmd.CommandPath())
	})
	exec.Flags().BoolVar(&f.stdin, "stdin", false, "read the task spec from standard input")
	exec.Flags().BoolVar(&f.streaming, "streaming", false, "speak as a mapper of Hadoop Streaming")
	exec.Flags().StringVar(&f.plan, "plan", "", "plan `FILE`, as plan -o json printed it, or a task list")
	exec.Flags().IntVar(&f.index, "index", -1, "which split of the plan, or task of the list")
	exec.Flags().StringVar(&f.memory, "memory", "512MiB", "memory of the task, with a plan")
	exec.Flags().StringVar(&f.spool, "spool", "", "local `DIR` for temporary files")
	c.AddCommand(exec)
	return c
}

// taskError gives an error the exit code a task may end with: whatever this
// invocation gets wrong, the next attempt would, too.
func taskError(err error) error {
	if err == nil {
		return nil
	}
	return &output.Error{Code: loader.TaskCode(output.Code(err)), Err: err, Hint: output.Advice(err)}
}

func (a *app) taskSpec(f taskFlags) (*loader.ExecSpec, error) {
	if f.stdin == (f.plan != "") {
		return nil, output.Errorf(output.Conflict, "want --stdin, or --plan FILE --index N")
	}
	if f.stdin {
		return loader.ReadExecSpec(a.in)
	}
	raw, err := os.ReadFile(f.plan)
	if errors.Is(err, os.ErrNotExist) {
		gone := notThere(err)
		gone.Code = output.Conflict
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	if list, ok, err := loader.ParseTaskList(raw); ok {
		if err != nil {
			return nil, err
		}
		return list.Spec(f.index)
	}
	file, err := readPlanFile(f.plan)
	if err != nil {
		return nil, &output.Error{Code: output.Conflict, Err: err}
	}
	if f.index < 0 || f.index >= len(file.Plan.Splits) {
		return nil, output.Errorf(output.Conflict, "--index %d: the plan has splits 0 to %d", f.index, len(file.Plan.Splits)-1)
	}
	bytes, err := jobs.ParseSize(f.memory)
	if err != nil {
		return nil, output.Errorf(output.Conflict, "--memory: %s", err)
	}
	return &loader.ExecSpec{
		V: 1, Root: file.Root, Access: file.HDFS, PlanID: file.ID, Plan: file.Plan, Split: f.index,
		Source: consumer.Config{Brokers: a.brokersOr(file.Brokers), Timeout: a.timeout}, Memory: bytes,
	}, nil
}
