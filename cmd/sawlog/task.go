package main

import (
	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
)

func (a *app) task() *cobra.Command {
	c := &cobra.Command{Use: "task", Short: "Carry out a task of a run; engines call it", Example: "  sawlog task exec --plan plan.json --index 3"}
	var stdin bool
	var planPath, memory, spool string
	var index int
	exec := &cobra.Command{
		Use: "exec --stdin | --plan FILE --index N", Short: "Carry out one split of a plan", Args: cobra.NoArgs,
		Long: `Carry out one split: read its ranges, write its files into an attempt folder and
result.json last. The task is a JSON spec on standard input, or split N of a
plan file. Progress and the result are JSON lines on standard output.
Exit codes: 0, 6 try again, 3, 4, 5 or 8 do not.`,
		Example: "  sawlog task exec --plan plan.json --index 3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := a.taskSpec(stdin, planPath, index, memory)
			if err != nil {
				return err
			}
			if spool != "" {
				spec.Spool = spool
			}
			code := loader.Exec(cmd.Context(), spec, openSink, a.print.Out, a.logger())
			return output.Exit(code)
		},
	}
	exec.Flags().BoolVar(&stdin, "stdin", false, "read the task spec from standard input")
	exec.Flags().StringVar(&planPath, "plan", "", "plan `FILE`, as plan -o json printed it")
	exec.Flags().IntVar(&index, "index", -1, "which split of the plan")
	exec.Flags().StringVar(&memory, "memory", "512MiB", "memory of the task, with --plan")
	exec.Flags().StringVar(&spool, "spool", "", "local `DIR` for temporary files")
	c.AddCommand(exec)
	return c
}

// taskSpec reads the task; it never ends with 1 or 2, which a crash would.
func (a *app) taskSpec(stdin bool, planPath string, index int, memory string) (*loader.ExecSpec, error) {
	if stdin == (planPath != "") {
		return nil, output.Errorf(output.Conflict, "want --stdin, or --plan FILE --index N")
	}
	if stdin {
		return loader.ReadExecSpec(a.in)
	}
	file, err := readPlanFile(planPath)
	if err != nil {
		return nil, &output.Error{Code: output.Conflict, Err: err}
	}
	if index < 0 || index >= len(file.Plan.Splits) {
		return nil, output.Errorf(output.Conflict, "--index %d: the plan has splits 0 to %d", index, len(file.Plan.Splits)-1)
	}
	bytes, err := jobs.ParseSize(memory)
	if err != nil {
		return nil, output.Errorf(output.Conflict, "--memory: %s", err)
	}
	return &loader.ExecSpec{
		V: 1, Root: file.Root, PlanID: file.ID, Plan: file.Plan, Split: index,
		Source: consumer.Config{Brokers: a.brokersOr(file.Brokers), Timeout: a.timeout}, Memory: bytes,
	}, nil
}
