package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
)

// completion takes the place of cobra's own verb, which has no example and
// speaks of a program it doesn't name.
func (a *app) completion() *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
	}
	return &cobra.Command{
		Use: "completion bash|fish|zsh", Short: "Print what lets a shell complete verbs and flags", Args: cobra.ExactArgs(1),
		ValidArgs: []string{"bash", "fish", "zsh"},
		Long: `Print the script that lets a shell complete verbs, flags and their values. Where
it goes: for bash ~/.local/share/bash-completion/completions/sawlog, for fish
~/.config/fish/completions/sawlog.fish, for zsh a file _sawlog in a folder of
$fpath. The Debian package has all three in place.`,
		Example: "  sawlog completion bash > ~/.local/share/bash-completion/completions/sawlog",
		RunE: func(cmd *cobra.Command, args []string) error {
			write := shells[args[0]]
			if write == nil {
				return output.Errorf(output.Usage, "no completion for %q: want bash, fish or zsh", args[0])
			}
			var script strings.Builder
			if err := write(cmd.Root(), &script); err != nil {
				return err
			}
			return a.printText("script", script.String())
		},
	}
}
