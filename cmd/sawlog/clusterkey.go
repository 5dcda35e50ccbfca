package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
)

// keyBytes is how much chance is in a cluster key.
const keyBytes = 32

func (a *app) clusterKey() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "key FILE", Short: "Make the secret that the brokers of a cluster share", Args: cobra.ExactArgs(1),
		Long: `Write a new secret into a file that only its owner may read. Every broker of the
cluster is started with a copy of it as --cluster-key; without one, brokers meet
on loopback only. A file that is there is left as it is.`,
		Example: "  sawlog cluster key /etc/sawlog/cluster.key",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := writeKey(args[0], dryRun); err != nil {
				return err
			}
			return a.printWritten(args[0], dryRun)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only tell whether it could be written")
	return c
}

// printWritten says what was written, or would be.
func (a *app) printWritten(name string, dryRun bool) error {
	return a.print.Print(map[string]any{"written": name, "dry_run": dryRun}, func() *output.Rows {
		return &output.Rows{Body: [][]string{{"written", name}}}
	})
}

func writeKey(name string, dryRun bool) error {
	if dryRun {
		name, err := filepath.Abs(name)
		if err == nil {
			_, err = os.Stat(filepath.Dir(name))
		}
		if _, there := os.Lstat(name); err == nil && there == nil {
			err = fs.ErrExist
		}
		return keyError(name, err)
	}
	var key [keyBytes]byte
	_, _ = rand.Read(key[:]) // never fails
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return keyError(name, err)
	}
	_, err = fmt.Fprintln(f, base64.StdEncoding.EncodeToString(key[:]))
	return errors.Join(err, f.Close())
}

// keyError says why a key can't be written.
func keyError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return output.Errorf(output.Conflict, "%s is there already", name).WithHint("brokers that use it would be cut off from those with another: take another name for a new key")
	case errors.Is(err, fs.ErrNotExist):
		return output.Errorf(output.NotFound, "%w", err).WithHint("make its folder first")
	}
	return err
}
