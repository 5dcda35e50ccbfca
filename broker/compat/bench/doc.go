// Package bench measures a Sawlog server process against Apache Kafka on the
// same machine with the same client. It holds tests only:
//
//	TestPeers   the table of ratios (make bench-peers); a look at whether it
//	            works at all, without a judgement, unless -rounds is given
//	TestClusterPeers
//	            the same for clusters of three, with a replica on each
//	TestCalls   the system calls of one Produce and one Fetch request, by strace
//	TestLoader  loads of a million lines beside those of DuckDB, or of Spark, in
//	            CPU seconds of whole processes (make bench-loader)
//	TestIsolation
//	            what loads of old log add to the time until a record is at who
//	            follows the log's end (make bench-isolation)
//	TestClassCost
//	            what it costs the broker to send to loads past the page cache
//
// Both brokers run pinned to the first core, the client to the second. A pair is
// one run on each, next to each other in time, and which comes first alternates
// (ABBA). A figure is the median of the pairs' ratios with its bootstrap 95 %
// confidence interval. Topics are made anew for each run.
//
// Two drivers load the brokers. kgo is franz-go, tuned for throughput. replay
// sends frames that were encoded before the clock started, batches of 16 KiB, and
// reads no further into a reply than to the batches' headers: the client costs so
// little that the broker is what limits the rate.
//
// Bytes are those of the records' values, before compression and acknowledged by
// acks=all. CPU time is user and system time of the brokers' processes. Those of a
// cluster share all cores with the client.
package bench
