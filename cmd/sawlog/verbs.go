package main

import "github.com/spf13/cobra"

// verbs is the table of contents of the command line.
func (a *app) verbs() []*cobra.Command {
	return []*cobra.Command{
		a.topic(), a.group(), a.produce(), a.consume(),
		a.logs(), a.config(), a.doctor(), a.version(), a.man(),
	}
}
