// Sawlog keeps a replicated log and cuts it into columns: a Kafka-protocol
// broker, a batch loader and a scheduler in one binary. This package is its
// command line, one thin file for each verb.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/config"
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
	app := &app{in: stdin, print: &output.Printer{Format: formatOf(args), Out: stdout, Err: stderr}}
	root := app.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if endErr := app.print.End(); err == nil {
		err = endErr
	}
	return app.print.Report(ended(ctx, err))
}

// formatOf is what -o asks for, or its variable, before anything else is looked
// at: an error about the arguments is told in that format, too.
func formatOf(args []string) output.Format {
	look := &cobra.Command{FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}}
	asked := look.Flags().StringP("output", "o", os.Getenv(config.EnvName("output")), "")
	_ = look.ParseFlags(args) // the verb itself says what is wrong with them
	if format, err := output.ParseFormat(*asked); err == nil {
		return format
	}
	return output.Table
}

// ended gives an error that comes of a signal the exit code of that signal, and
// says so; the hint of the error stays.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil {
		return err
	}
	cancelled := errors.Is(err, context.Canceled)
	switch output.Code(err) {
	case output.Failed, output.Unavailable, output.Interrupted:
	default:
		if !cancelled {
			return err
		}
	}
	text := strings.ReplaceAll(err.Error(), context.Canceled.Error(), cause.Error())
	for twice := cause.Error() + ": " + cause.Error(); strings.Contains(text, twice); {
		text = strings.ReplaceAll(text, twice, cause.Error())
	}
	return &output.Error{Code: output.Code(cause), Msg: text, Hint: output.Advice(err)}
}
