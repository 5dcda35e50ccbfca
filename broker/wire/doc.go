// Package wire moves Kafka's frames over connections: it reads requests within
// limits, hands them to a Handler in order, and writes the replies in the same
// order, as pieces of memory and of files. It knows the shape of frames and
// headers, and nothing of what a request means.
//
// A frame on the wire, all numbers big-endian:
//
//	request   int32 size | int16 key | int16 version | int32 correlation id |
//	          nullable string client id (int16 length, −1 null) |
//	          tagged fields, when the body is flexible | body
//	response  int32 size | int32 correlation id |
//	          one 0x00 byte (no tagged fields) when the body is flexible and the key isn't ApiVersions | body
//
// One connection has two goroutines. The reader takes frames, runs each request
// up to its reply or its park, and sends the replies that are due and short; when
// several requests came together, their replies go together. The writer lets a
// parked request at the head of the queue try again when an event woke it or its
// time is over, and sends what takes long. So requests of one connection are
// executed in order, only waiting is asynchronous, and a parked request costs no
// goroutine.
//
// A request that may give its memory back is served where it was received, when
// it is short. No byte of a longer body is allocated before the frame passed its
// limits and took its share of a semaphore over all requests in flight, and large
// bodies grow as they arrive: four bytes of a stranger buy nothing. A connection
// that waits for a request holds no buffer.
package wire
