package main

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
)

func (a *app) doctorHDFS() *cobra.Command {
	return &cobra.Command{
		Use: "hdfs [ROOT | FILE | JOB]", Short: "Try a root on HDFS, or that of a job", Args: cobra.MaximumNArgs(1),
		Long: `Find the NameNodes, log in, connect, and do in the root what a load does: write,
read, rename, put a commit in place, delete. Then look at what the root is
(erasure-coded, encrypted), its quota, the store's room and the clocks. Without
an argument the default file system of $HADOOP_CONF_DIR is tried.
Exit codes: 2 the root names nobody to ask, 5 login or permission, 6 no NameNode
or DataNode answers (retry), 4 the store refuses, 1 anything else.`,
		Example: "  sawlog doctor hdfs hdfs://nn1:8020/warehouse\n  sawlog doctor hdfs pageviews.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			root, access := "hdfs:///", sink.Access{}
			if len(args) == 1 {
				root = args[0]
			}
			var err error
			switch {
			case strings.Contains(root, "://"):
			case isFile(root):
				job, readErr := readJob(root)
				if readErr != nil {
					return readErr
				}
				root, access = job.Output.Root, job.Output.Access
			default:
				root, access, err = a.rootOnServer(cmd.Context(), root)
			}
			if err != nil {
				return err
			}
			if !strings.HasPrefix(root, "hdfs://") {
				return output.Errorf(output.Usage, "root %s is not on HDFS", root).WithHint("sawlog doctor disk looks at folders of this machine")
			}
			for strings.Contains(root, "{topic}") {
				scheme, rest, _ := strings.Cut(root, "://")
				root = scheme + "://" + path.Dir(rest)
			}
			return a.storeFindings(hdfs.Examine(cmd.Context(), root, access))
		},
	}
}

// storeFindings prints what was found, and ends with the code of the first
// thing that isn't well.
func (a *app) storeFindings(found []hdfs.Finding) error {
	list, code := make([]finding, 0, len(found)), output.OK
	for _, f := range found {
		one := finding{f.Check, f.Err == nil, f.Detail, f.Advice}
		if f.Err != nil {
			one.Detail = consumer.Reason(f.Err).Error()
			if code == output.OK {
				code = storeCode(f.Err)
			}
		}
		list = append(list, one)
	}
	return a.findings(list, code)
}

// storeCode is the exit code of an error of a store.
func storeCode(err error) int {
	var usage *hdfs.UsageError
	switch {
	case errors.As(err, &usage):
		return output.Usage
	case errors.Is(err, fs.ErrPermission):
		return output.Auth
	case errors.Is(err, sink.ErrRefused):
		return output.Conflict
	case sink.ClassOf(err) != sink.Permanent:
		return output.Unavailable
	}
	return output.Failed
}
