// Sawlog keeps a replicated log and cuts it into columns: a Kafka-protocol
// broker, a batch loader and a scheduler in one binary. This package is its
// command line, one thin file for each verb.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"sawlog/cmd/sawlog/output"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		if first == syscall.SIGTERM {
			cancel(output.ErrTerminated)
		} else {
			cancel(output.ErrInterrupted)
		}
		if <-signals == syscall.SIGTERM { // the second one does not wait
			os.Exit(output.Terminated)
		}
		os.Exit(output.Interrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run carries out one invocation and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := &app{in: stdin, print: &output.Printer{Format: output.Table, Out: stdout, Err: stderr}}
	root := app.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	return app.print.Report(ended(ctx, err))
}

// ended gives an error that comes of a signal the exit code of that signal;
// the hint of the error stays.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if code := output.Code(err); err == nil || cause == nil || code != output.Failed && code != output.Interrupted {
		return err
	}
	return &output.Error{Code: output.Code(cause), Err: err, Hint: output.Advice(err)}
}
