package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// datasetRef says which data set a verb is about: --root, or the name of one
// the server knows.
type datasetRef struct {
	root  string
	store storeFlags
}

func (r *datasetRef) add(c *cobra.Command) {
	c.Flags().StringVar(&r.root, "root", "", "`URI` or path of the data set, with no server at all")
	r.store.add(c)
}

// storeFlags say how a root on HDFS is reached where no job is known that does,
// or otherwise than it does.
type storeFlags struct{ sink.Access }

func (f *storeFlags) add(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.Namenodes, "hdfs-namenodes", nil, "HDFS: the `HOST[:PORT]`,… of the root's name service")
	c.Flags().StringVar(&f.User, "hdfs-user", "", "HDFS without Kerberos: the `USER` to be")
	c.Flags().StringVar(&f.Keytab, "hdfs-keytab", "", "HDFS with Kerberos: the `FILE` of the principal's keys")
	c.Flags().StringVar(&f.Principal, "hdfs-principal", "", "HDFS with Kerberos: `NAME@REALM`, whose key of the keytab is used")
}

// over gives what the flags say, and for the rest what is known otherwise.
func (f *storeFlags) over(known sink.Access) (sink.Access, error) {
	if (f.Keytab == "") != (f.Principal == "") {
		return known, output.Errorf(output.Usage, "--hdfs-keytab and --hdfs-principal go together")
	}
	if len(f.Namenodes) > 0 {
		known.Namenodes = f.Namenodes
	}
	if f.Replication > 0 {
		known.Replication = f.Replication
	}
	if f.BlockSize > 0 {
		known.BlockSize = f.BlockSize
	}
	if f.User != "" {
		known.User, known.Keytab, known.Principal = f.User, "", ""
	}
	if f.Keytab != "" {
		keytab, err := filepath.Abs(f.Keytab)
		if err != nil {
			return known, err
		}
		known.User, known.Keytab, known.Principal = "", keytab, f.Principal
	}
	return known, nil
}

// open finds the root and reads its ledger. name may be empty with --root.
func (a *app) openDataset(ctx context.Context, r datasetRef, name string) (sink.Sink, *loader.Ledger, error) {
	return a.openChecked(ctx, r, name, nil)
}

// openChecked is openDataset with a check of files that are read back; nil = the
// loader's own.
func (a *app) openChecked(ctx context.Context, r datasetRef, name string, check loader.FileCheck) (sink.Sink, *loader.Ledger, error) {
	root, known := r.root, sink.Access{}
	if root == "" {
		if name == "" {
			return nil, nil, output.Errorf(output.Usage, "which data set?").WithHint("name one the server knows, or give --root")
		}
		var err error
		if root, known, err = a.rootOnServer(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	access, err := r.store.over(known)
	if err != nil {
		return nil, nil, err
	}
	store, err := openSink(ctx, root, a.reach(access))
	if err != nil {
		return nil, nil, err
	}
	ledger, err := loader.OpenLedger(ctx, store, "", "", loader.LedgerConfig{Logger: a.logger(), Now: time.Now, Check: check})
	return store, ledger, err
}
