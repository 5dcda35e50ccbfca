package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// datasetRef says which data set a verb is about: --root, or the name of one
// the server knows.
type datasetRef struct{ root string }

func (r *datasetRef) add(c *cobra.Command) {
	c.Flags().StringVar(&r.root, "root", "", "`URI` or path of the data set, with no server at all")
}

// open finds the root and reads its ledger. name may be empty with --root.
func (a *app) openDataset(ctx context.Context, r datasetRef, name string) (sink.Sink, *loader.Ledger, error) {
	root, access := r.root, sink.Access{}
	if root == "" {
		if name == "" {
			return nil, nil, output.Errorf(output.Usage, "which data set?").WithHint("name one the server knows, or give --root")
		}
		var err error
		if root, access, err = a.rootOnServer(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	store, err := openSink(ctx, root, a.reach(access))
	if err != nil {
		return nil, nil, err
	}
	ledger, err := loader.OpenLedger(ctx, store, "", "", loader.LedgerConfig{Logger: a.logger(), Now: time.Now})
	return store, ledger, err
}
