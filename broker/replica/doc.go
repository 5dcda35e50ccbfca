// Package replica answers, for one partition on this broker: who leads it, what
// is committed, and who waits for it?
//
// state*.go hold the rules as pure code: leader epochs, the in-sync replicas and
// the high watermark. Partition is the shell around it: it appends to and reads
// from the partition's log, keeps the offsets that readers may see, and wakes
// requests that wait for them to move.
//
// Fetchers make the partitions follow their leaders: one goroutine, connection
// and fetch session for each leading broker. Keeper keeps the ISRs of the
// partitions led here: one call to the controller for many. Neither has a timer
// or a goroutine for each partition.
//
// The rules, by the names used at the code:
//
//	H1  high watermark = lowest log end over the maximal ISR (committed and
//	    proposed members)
//	H2  it doesn't move while the ISR is smaller than the effective min.insync.replicas
//	H3  a new leader's high watermark is trusted once it reached the log end it
//	    began its epoch with
//	H4  acks=all is refused before the append when the ISR is too small, and
//	    answered as uncertain when it became so after it
//	H5  it moves on appends, follower fetches and committed ISR changes only
//	H6  last stable = the lower of the high watermark and the first open
//	    transaction's begin
//
// An acknowledgement is bound to (leader epoch, offset): a leader that lost its
// epoch acknowledges nothing, however far the high watermark is.
package replica
