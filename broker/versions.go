package broker

import (
	"math"

	"sawlog/broker/wire"
)

// api is one kind of request as this broker speaks it.
type api struct {
	key      int16
	min, max int16 // versions served: those of Apache Kafka 4.4
	flexible int16 // first flexible version
	bytes    int32 // longest frame
	weight   int64 // memory a byte of the frame may become
	reuse    bool  // its frame's memory is used again once Serve returns
}

const (
	produceBytes = 100 << 20 // socket.request.max.bytes
	groupBytes   = 16 << 20
	otherBytes   = 2 << 20
	expansion    = 32 // decoded arrays against their bytes on the wire, at worst
)

// never is the flexible version of a request that has none.
const never = math.MaxInt16

// apis is the one version table. What isn't here is in absentAPIs.
var apis = [...]api{
	{key: keyProduce, min: 3, max: 13, flexible: 9, bytes: produceBytes, weight: 1, reuse: true},
	{key: keyFetch, min: 4, max: 18, flexible: 12, bytes: otherBytes, weight: expansion, reuse: true},
	{key: 2, min: 1, max: 11, flexible: 6, bytes: otherBytes, weight: expansion},
	{key: 3, min: 0, max: 13, flexible: 9, bytes: otherBytes, weight: expansion},
	{key: 8, min: 2, max: 10, flexible: 8, bytes: groupBytes, weight: expansion},
	{key: 9, min: 1, max: 10, flexible: 6, bytes: otherBytes, weight: expansion},
	{key: 10, min: 0, max: 6, flexible: 3, bytes: otherBytes, weight: expansion},
	{key: 11, min: 0, max: 9, flexible: 6, bytes: groupBytes, weight: 4},
	{key: 12, min: 0, max: 4, flexible: 4, bytes: otherBytes, weight: 1},
	{key: 13, min: 0, max: 5, flexible: 4, bytes: otherBytes, weight: expansion},
	{key: 14, min: 0, max: 5, flexible: 4, bytes: groupBytes, weight: 4},
	{key: 15, min: 0, max: 6, flexible: 5, bytes: otherBytes, weight: expansion},
	{key: 16, min: 0, max: 5, flexible: 3, bytes: otherBytes, weight: expansion},
	{key: 17, min: 0, max: 1, flexible: never, bytes: 512 << 10, weight: 1},
	{key: keyApiVersions, min: 0, max: 5, flexible: 3, bytes: 512 << 10, weight: 1},
	{key: 19, min: 2, max: 7, flexible: 5, bytes: otherBytes, weight: expansion},
	{key: 20, min: 1, max: 6, flexible: 4, bytes: otherBytes, weight: expansion},
	{key: 21, min: 0, max: 2, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 22, min: 0, max: 5, flexible: 2, bytes: otherBytes, weight: 1},
	{key: 23, min: 2, max: 4, flexible: 4, bytes: otherBytes, weight: expansion},
	{key: 29, min: 1, max: 3, flexible: 2, bytes: otherBytes, weight: 1},
	{key: 30, min: 1, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 31, min: 1, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 32, min: 1, max: 4, flexible: 4, bytes: otherBytes, weight: expansion},
	{key: 33, min: 0, max: 2, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 34, min: 1, max: 2, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 35, min: 1, max: 5, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 36, min: 0, max: 2, flexible: 2, bytes: 512 << 10, weight: 1},
	{key: 37, min: 0, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 38, min: 1, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 39, min: 1, max: 2, flexible: 2, bytes: otherBytes, weight: 1},
	{key: 40, min: 1, max: 2, flexible: 2, bytes: otherBytes, weight: 1},
	{key: 41, min: 1, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 42, min: 0, max: 3, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 43, min: 0, max: 2, flexible: 2, bytes: otherBytes, weight: expansion},
	{key: 44, min: 0, max: 1, flexible: 1, bytes: otherBytes, weight: expansion},
	{key: 45, min: 0, max: 1, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 46, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 47, min: 0, max: 0, flexible: never, bytes: otherBytes, weight: expansion},
	{key: 48, min: 0, max: 1, flexible: 1, bytes: otherBytes, weight: expansion},
	{key: 50, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 55, min: 0, max: 2, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 57, min: 0, max: 2, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 60, min: 0, max: 2, flexible: 0, bytes: otherBytes, weight: 1},
	{key: 61, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 64, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: 1},
	{key: 65, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 66, min: 0, max: 2, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 74, min: 0, max: 1, flexible: 0, bytes: otherBytes, weight: expansion},
	{key: 75, min: 0, max: 0, flexible: 0, bytes: otherBytes, weight: expansion},
}

const (
	keyProduce     = 0
	keyFetch       = 1
	keyApiVersions = 18
)

// advertisedMin is the lowest version told to clients. Produce 0 to 2 are
// advertised and refused: librdkafka before 2.11.1 takes a broker without them
// for one that knows no compression, and sends plain batches (KAFKA-18659).
func (a *api) advertisedMin() int16 {
	if a.key == keyProduce {
		return 0
	}
	return a.min
}

func findAPI(key int16) (*api, bool) {
	for i := range apis {
		if apis[i].key == key {
			return &apis[i], true
		}
	}
	return nil, false
}

// rules is what the connection must know of a request kind.
func rules(key int16) (wire.Rule, bool) {
	a, ok := findAPI(key)
	if !ok {
		return wire.Rule{}, false
	}
	return wire.Rule{Min: a.min, Max: a.max, Flexible: a.flexible, Bytes: a.bytes, Weight: a.weight, Reuse: a.reuse}, true
}
