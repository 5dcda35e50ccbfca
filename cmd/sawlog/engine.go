package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/engine/hadoop"
	"sawlog/loader/engine/kubernetes"
	"sawlog/loader/sink/hdfs"
)

// useEngine gives a driver the engine a job names, in place of the one that runs
// tasks on this machine.
func useEngine(ctx context.Context, d *loader.Driver, run *jobs.RunRule) error {
	if run.Engine == jobs.EngineLocal {
		return nil
	}
	if !run.OneMachine(d.Sink.Root(), d.Access) {
		if err := advertised(ctx, d.Cluster, run); err != nil {
			return err
		}
	}
	if err := run.CheckRoot(d.Sink.Root(), d.Access); err != nil {
		return &output.Error{Code: output.Usage, Err: err}
	}
	d.Spread = true
	if run.Engine == jobs.EngineHadoop {
		who, err := hdfs.Identify(d.Sink.Root(), d.Access)
		if err != nil {
			return &output.Error{Code: storeCode(err), Err: err}
		}
		d.Engine = &hadoop.Engine{Sink: d.Sink, Login: (*hadoop.Login)(who), Logger: d.Logger, Settings: hadoop.Settings(run.Hadoop)}
		return nil
	}
	k := run.Kubernetes
	mounts := make([]kubernetes.Mount, len(k.Mounts))
	for i, m := range k.Mounts {
		mounts[i] = kubernetes.Mount(m)
	}
	d.Engine = &kubernetes.Engine{Sink: d.Sink, Logger: d.Logger, Settings: kubernetes.Settings{
		Kubectl: k.Kubectl, Context: k.Context, Namespace: k.Namespace, Image: k.Image, Command: k.Command,
		ServiceAccount: k.ServiceAccount, HostNetwork: k.HostNetwork, Mounts: mounts,
	}}
	return nil
}

// advertised wants brokers that are advertised by addresses other machines can
// use: tasks go to where the metadata says.
func advertised(ctx context.Context, cluster consumer.Cluster, run *jobs.RunRule) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := cluster.Request(ctx, req)
	if err != nil {
		return fmt.Errorf("where the brokers are: %w", err)
	}
	var addrs []string
	for _, b := range resp.(*kmsg.MetadataResponse).Brokers {
		addrs = append(addrs, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	if addr := jobs.OnLoopback(addrs); addr != "" {
		return output.Errorf(output.Usage, "engine %s: no task reaches the broker advertised as %s", run.Engine, addr).
			WithHint("start it with --advertise HOST:PORT, %s", run.OrOneMachine())
	}
	return nil
}
