package protobuf

import (
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// knownImports are files that schemas of a registry import without a reference,
// because the registry has them built in: those its converters write into the
// schemas they make. Their bytes mean what the schemas of these names say in
// public; only numbers, names and types count here.
var knownImports = protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
	text, ok := builtIn[path]
	if !ok {
		return protocompile.SearchResult{}, protoregistry.NotFound
	}
	return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
})

var builtIn = map[string]string{
	"confluent/meta.proto": `syntax = "proto3";
		package confluent;
		import "google/protobuf/descriptor.proto";
		message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
		extend google.protobuf.FileOptions { Meta file_meta = 1088; }
		extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
		extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
		extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
		extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }`,
	"confluent/type/decimal.proto":  decimalText,
	"confluent/types/decimal.proto": decimalText, // as older clients call it
	"confluent/type/variant.proto":  variantText,
	"confluent/types/variant.proto": variantText,
	"google/type/date.proto": `syntax = "proto3";
		package google.type;
		message Date { int32 year = 1; int32 month = 2; int32 day = 3; }`,
	"google/type/timeofday.proto": `syntax = "proto3";
		package google.type;
		message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }`,
}

const (
	decimalText = `syntax = "proto3";
		package confluent.type;
		message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`
	variantText = `syntax = "proto3";
		package confluent.type;
		message Variant { bytes metadata = 1; bytes value = 2; }`
)
