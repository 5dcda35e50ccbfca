package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/output"
)

// app holds what every verb shares: the global flags and where it prints.
type app struct {
	ctx   context.Context // of the invocation; a signal ends it
	in    io.Reader
	print *output.Printer

	brokers  []string
	server   string
	token    string // the file it stands in
	format   string
	verbose  bool
	timeout  time.Duration
	patience time.Duration // the timeout where one was asked for; 0 = none
	color    string
	progress string
	yes      bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sawlog",
		Short: "A Kafka-protocol broker that cuts its log into columns",
		Long: `Sawlog is a Kafka-protocol broker, a batch loader that turns offset ranges into
Parquet, and a scheduler with a memory, in one binary.

Exit codes: 0 ok, 1 failed, 2 usage or invalid config, 3 not found, 4 conflict,
5 auth, 6 unavailable or timed out (retry), 7 partial or too many bad records,
8 verification mismatch or data gone, 130 interrupted, 143 terminated.`,
		Example:           "  sawlog demo\n  sawlog serve --data /var/lib/sawlog\n  sawlog replay orders --range 'orders/3=1200..9800' --to file:///tmp/out",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
	}
	flags := root.PersistentFlags()
	flags.StringSliceVarP(&a.brokers, "brokers", "b", []string{"127.0.0.1:9092"}, "Kafka addresses `HOST:PORT`,…")
	flags.StringVar(&a.server, "server", "http://127.0.0.1:8088", "`URL` of the server's API")
	flags.StringVar(&a.token, "token", "", "`FILE` with the token of the server's API, where it wants one")
	flags.StringVarP(&a.format, "output", "o", "table", "table, json (one value), or jsonl (a line for each element of a list)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second, "how long a request may take; HDFS has a minute unless it is set")
	flags.StringVar(&a.color, "color", "auto", "auto, always or never")
	flags.StringVar(&a.progress, "progress", "auto", "auto, bar, plain or none")
	flags.BoolVar(&a.yes, "yes", false, "do not ask before destroying something")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return output.Errorf(output.Usage, "%s", flagText(err)).WithHint("%s --help", cmd.CommandPath())
	})
	root.AddCommand(a.verbs()...)
	guard(root)
	return root
}

// flagText says what is wrong with a flag: its name, what was given, what it
// takes.
func flagText(err error) string {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	want := "a whole number"
	switch flag := wrong.GetFlag(); flag.Value.Type() {
	case "bool":
		want = "true or false"
	case "duration":
		want = "a time such as 500ms, 30s or 5m"
	case "int32Slice":
		want = "numbers with commas between them"
	case "stringSlice":
		want = "names with commas between them"
	}
	return fmt.Sprintf("--%s %q: want %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

// guard makes wrong arguments exit 2 with the usage line, and a verb that only
// groups others refuse to run.
func guard(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return output.Errorf(output.Usage, "%s: %s", cmd.CommandPath(), err).WithHint("%s", cmd.UseLine())
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			err := output.Errorf(output.Usage, "%s has no verb %q", cmd.CommandPath(), args[0])
			cmd.SuggestionsMinimumDistance = 2
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return err.WithHint("%s %s", cmd.CommandPath(), strings.Join(near, ", "))
			}
			return err.WithHint("%s --help", cmd.CommandPath())
		}
	}
	for _, sub := range c.Commands() {
		guard(sub)
	}
}

// prepare reads the global flags, with the environment behind them.
func (a *app) prepare(cmd *cobra.Command) error {
	a.ctx = cmd.Context()
	flags := cmd.Flags()
	if name, given := emptyFlag(flags); name != "" {
		return output.Errorf(output.Usage, `--%s %q: want a value, or leave --%s out`, name, given, name).WithHint("%s --help", cmd.CommandPath())
	}
	for _, name := range []string{"brokers", "server", "token", "output", "timeout", "color", "progress"} {
		if text, ok := os.LookupEnv(config.EnvName(name)); ok && !flags.Changed(name) {
			if err := flags.Set(name, text); err != nil {
				return output.Errorf(output.Usage, "%s: %s", config.EnvName(name), flagText(err))
			}
		}
	}
	format, err := output.ParseFormat(a.format)
	if err != nil {
		return err
	}
	a.print.Format = format
	if a.print.Color, err = output.UseColor(a.color, a.print.Err); err != nil {
		return err
	}
	switch a.progress {
	case "auto", "bar", "plain", "none":
	default:
		return output.Errorf(output.Usage, "--progress %q: want auto, bar, plain or none", a.progress)
	}
	if a.timeout <= 0 {
		return output.Errorf(output.Usage, "--timeout %s: want more than nothing", a.timeout)
	}
	if flags.Changed("timeout") {
		a.patience = a.timeout
	}
	return nil
}

// emptyFlag finds a flag that was given nothing, as "$X" is where X isn't set: many
// do more without their value than with it, to all topics or all that is due.
// So are lists with an empty word. Settings of the server are as good as not given then.
func emptyFlag(flags *pflag.FlagSet) (name, given string) {
	flags.Visit(func(f *pflag.Flag) {
		words := []string{f.Value.String()}
		switch f.Value.Type() {
		case "string":
		case "stringSlice", "stringArray":
			words = f.Value.(pflag.SliceValue).GetSlice()
		default:
			return
		}
		none := len(words) == 0 && f.Name != noneMeans
		if (none || slices.Contains(words, "")) && !config.IsSetting(f.Name) {
			name, given = f.Name, strings.Join(words, ",")
		}
	})
	return name, given
}

// noneMeans is the list that may be empty: a replay's rows need no metadata columns.
const noneMeans = "metadata"

// logger writes to standard error: text on a terminal, JSON otherwise.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return a.loggerAt(level)
}

func (a *app) loggerAt(level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if output.IsTerminal(a.print.Err) {
		return slog.New(slog.NewTextHandler(a.print.Err, opts))
	}
	return slog.New(slog.NewJSONHandler(a.print.Err, opts))
}

// confirm asks before something is destroyed: on a terminal by a question,
// elsewhere only --yes will do.
func (a *app) confirm(what string) error {
	if a.yes {
		return nil
	}
	if !output.IsTerminal(a.in) {
		return output.Errorf(output.Usage, "%s: this destroys something", what).WithHint("add --yes, or --dry-run to see what would happen")
	}
	a.print.Note("%s? [y/N]", what)
	answers := make(chan string, 1)
	go func() { // a read of a terminal can't be ended: the process ends first
		var answer string
		_, _ = fmt.Fscanln(a.in, &answer) // nothing is no
		answers <- answer
	}()
	select {
	case <-a.ctx.Done():
		return fmt.Errorf("%s: nothing was changed: %w", what, context.Cause(a.ctx))
	case answer := <-answers:
		if strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes") {
			return nil
		}
	}
	return output.Errorf(output.Failed, "%s: not confirmed, nothing was changed", what)
}
