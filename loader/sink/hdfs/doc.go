// Package hdfs is a sink on HDFS. It is the only importer of colinmarc/hdfs and
// gokrb5, and fences them in.
//
// # What its promises rest on
//
// A NameNode carries out one request after the other and writes it to its log
// before it answers. Of it the sink uses four things: CREATE without OVERWRITE
// refuses a name that is taken; a file that was closed has the minimum of
// replicas; rename2 of a file replaces a file in one step; rename2 of a folder
// refuses a folder that holds something. The last one is PutIfAbsent.
//
//	PARENT/.put-NONCE/commit.json  →  PARENT/000000000042/commit.json
//	FOLDER/.NAME.NONCE             →  FOLDER/NAME       only where sending NAME failed
//
// What a power cut of all DataNodes of a block may take is a matter of the
// cluster: the library can't ask for hsync, dfs.datanode.synconclose=true does.
//
// # What the library lacks
//
//   - Deadlines: a connection of ours arms them with each question, and closes
//     itself with its first error (conn.go).
//   - Patience: calls are repeated for a minute, or as long as is asked for, while
//     a NameNode starts, is in safe mode, hands over to another, or doesn't answer
//     (call.go).
//   - An end: with the context of a sink its waiting is over, and a moment later
//     its connections are.
//   - An answer that is lost: each change says how to see whether it happened.
//   - A DataNode that fails under a writer: the file is sent again from this
//     machine, to a name of its own (write.go). Which DataNodes get a block is the
//     NameNode's choice, so a cluster of few should know its dead ones soon:
//     dfs.namenode.avoid.write.stale.datanode=true.
//   - Names that are slow to become whole: Close is repeated until the NameNode
//     has heard of enough replicas.
package hdfs
