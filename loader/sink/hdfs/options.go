package hdfs

import (
	"context"
	"net"
	"os"
	"strconv"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"

	"sawlog/loader/sink"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// targetOf finds the target of a root with the configuration this process has.
func targetOf(root string, access sink.Access) (*target, error) {
	c, err := readConf(os.Getenv)
	if err != nil {
		return nil, err
	}
	return resolve(root, access, c)
}

// options are what the library needs to connect to the target: as somebody,
// with the cluster's protection of the wire. Each client has a login of its own
// (nil without Kerberos). nameNode is called for every connection to a
// NameNode, dataNode for those to DataNodes.
func (t *target) options(nameNode, dataNode dialFunc) (hdfs.ClientOptions, *login, error) {
	// Only through a configuration does the library learn that DataNodes on
	// ports below 1024 are talked to without SASL.
	o := hdfs.ClientOptionsFromConf(hadoopconf.HadoopConf{
		"dfs.client.use.datanode.hostname": strconv.FormatBool(t.hostnames),
		"dfs.data.transfer.protection":     t.protection,
		"dfs.encrypt.data.transfer":        strconv.FormatBool(t.encrypt),
	})
	o.Addresses, o.User = t.namenodes, t.user
	o.NamenodeDialFunc, o.DatanodeDialFunc = nameNode, dataNode
	if !t.kerberos {
		return o, nil, nil
	}
	l, err := newLogin(t, os.Getenv)
	if err != nil {
		return o, nil, err
	}
	o.KerberosClient, o.KerberosServicePrincipleName = l.client, t.spn
	o.NamenodeDialFunc = sealed(nameNode, l, t.rpc)
	return o, l, nil
}
