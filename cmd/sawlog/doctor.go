package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
)

func (a *app) doctor() *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Find out why something does not work", Example: "  sawlog doctor connect 127.0.0.1:9092\n  sawlog doctor server\n  sawlog doctor disk /var/lib/sawlog\n  sawlog doctor hdfs hdfs://nn1:8020/warehouse\n  sawlog doctor hadoop pageviews.yaml"}
	c.AddCommand(a.doctorConnect(), a.doctorServer(), a.doctorDisk(), a.doctorHDFS(), a.doctorHadoop())
	return c
}

// finding is one thing the doctor looked at.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func (a *app) findings(list []finding, code int) error {
	err := a.print.Print(list, func() *output.Rows {
		rows := &output.Rows{Head: []string{"CHECK", "", "DETAIL"}}
		for _, f := range list {
			mark := "ok"
			if !f.OK {
				mark = "FAILED"
			}
			rows.Add(f.Check, mark, f.Detail)
		}
		return rows
	})
	if err != nil {
		return err
	}
	for _, f := range list {
		if !f.OK {
			return output.Errorf(code, "%s: %s", f.Check, f.Detail).WithHint("%s", f.Advice)
		}
	}
	return nil
}

func (a *app) doctorConnect() *cobra.Command {
	return &cobra.Command{
		Use: "connect [HOST:PORT]", Short: "Dial a broker and every address it advertises", Args: cobra.MaximumNArgs(1),
		Long:    "Dial a broker, ask it who the cluster's brokers are, and dial each of them: an\naddress that only the broker itself can reach is the usual reason why a client\nconnects and then fails.",
		Example: "  sawlog doctor connect 127.0.0.1:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.brokers = args
			}
			return a.findings(a.examineBrokers(cmd.Context()), output.Unavailable)
		},
	}
}

func (a *app) examineBrokers(ctx context.Context) []finding {
	var list []finding
	for _, addr := range a.brokers {
		list = append(list, dialFinding(ctx, "dial "+addr, addr, a.timeout, "is a server running there? sawlog serve"))
	}
	for _, f := range list {
		if !f.OK {
			return list
		}
	}
	k, err := a.dial(ctx)
	if err != nil {
		return append(list, finding{"Kafka protocol", false, err.Error(), "something listens there, but it is no Kafka-protocol broker"})
	}
	defer k.Close()
	meta, err := consumer.Ask[*kmsg.MetadataResponse](ctx, k, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return append(list, finding{"metadata", false, err.Error(), ""})
	}
	list = append(list, finding{"Kafka protocol", true, fmt.Sprintf("cluster %s, %d brokers, %d topics", deref(meta.ClusterID), len(meta.Brokers), len(meta.Topics)), ""})
	for _, b := range meta.Brokers {
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		list = append(list, dialFinding(ctx, fmt.Sprintf("broker %d advertises %s", b.NodeID, addr), addr, a.timeout,
			"start that broker with --advertise HOST:PORT that clients can reach"))
	}
	return list
}

func dialFinding(ctx context.Context, check, addr string, timeout time.Duration, advice string) finding {
	start := time.Now()
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return finding{check, false, consumer.Reason(err).Error(), advice}
	}
	_ = conn.Close() // only the dial was asked for
	return finding{check, true, "connected in " + time.Since(start).Round(10*time.Microsecond).String(), ""}
}

func (a *app) doctorDisk() *cobra.Command {
	return &cobra.Command{
		Use: "disk [DIR]", Short: "Try a directory as a data directory", Args: cobra.MaximumNArgs(1),
		Long:    "Write, sync, link and rename a small file in the directory, and look at free\nspace, free inodes and the limit of open files.",
		Example: "  sawlog doctor disk /var/lib/sawlog",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.findings(examineDisk(dir), output.Failed)
		},
	}
}

func examineDisk(dir string) []finding {
	var list []finding
	st, err := os.Stat(dir)
	if err != nil || !st.IsDir() {
		return append(list, finding{"directory", false, fmt.Sprintf("%s: %v", dir, errors.Join(err, notDirectory(st))), "make it, and let the server's user write to it"})
	}
	list = append(list, writeFinding(dir))
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		list = append(list, finding{"free space", false, err.Error(), ""})
	} else {
		free := int64(fs.Bavail) * fs.Bsize
		list = append(list,
			finding{"free space", free >= 1<<30, output.Bytes(free), "a broker wants at least 1 GiB"},
			finding{"free inodes", fs.Files == 0 || fs.Ffree > 10_000, strconv.FormatUint(fs.Ffree, 10), "a segment takes three files"})
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		list = append(list, finding{"open files", limit.Cur >= 4096, strconv.FormatUint(limit.Cur, 10), "raise it: ulimit -n 65536"})
	}
	return list
}

func notDirectory(st os.FileInfo) error {
	if st != nil && !st.IsDir() {
		return errors.New("not a directory")
	}
	return nil
}

func writeFinding(dir string) (f finding) {
	f = finding{Check: "write, sync, link, rename", Advice: "the server's user must be able to write there, and the file system must know hard links"}
	tmp, err := os.MkdirTemp(dir, ".doctor-")
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer func() {
		if err := os.RemoveAll(tmp); err != nil && f.OK {
			f.OK, f.Detail = false, err.Error()
		}
	}()
	name := filepath.Join(tmp, "a")
	start := time.Now()
	file, err := os.Create(name)
	if err == nil {
		_, err = file.Write(make([]byte, 4096))
		err = errors.Join(err, file.Sync(), file.Close())
	}
	took := time.Since(start)
	if err == nil {
		err = errors.Join(os.Link(name, name+"2"), os.Rename(name, name+"3"))
	}
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK, f.Detail = true, "a synced write took "+took.Round(10*time.Microsecond).String()
	return f
}
