// Package protobuf knows the language of Protobuf schemas: it compiles .proto
// text, reads descriptor sets, and gives messages as plain types that a decoder
// can be compiled from. It knows neither columns nor records.
package protobuf
