package main

import "github.com/spf13/cobra"

// verbs is the table of contents of the command line.
func (a *app) verbs() []*cobra.Command {
	return []*cobra.Command{
		a.demo(), a.serve(),
		a.topic(), a.group(), a.clusters(), a.produce(), a.consume(),
		a.plan(), a.run(), a.rerun(), a.replay(), a.backfill(), a.verify(),
		a.job(), a.runs(), a.out(), a.task(),
		a.config(), a.doctor(), a.logs(), a.man(), a.completion(), a.version(),
	}
}
