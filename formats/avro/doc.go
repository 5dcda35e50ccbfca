// Package avro knows the language of Avro schemas (specification 1.12): it
// turns their JSON text into types that a decoder can be compiled from. It
// knows neither columns nor records.
package avro
