package protobuf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// CompileFile compiles a .proto file; what it imports is looked for from its own
// folder and then from those above it, since imports are named from the root of
// a tree of schemas.
func CompileFile(path string) (set string, err error) {
	dir, name := filepath.Split(path)
	var roots []string
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if roots = append(roots, dir); dir == filepath.Dir(dir) {
			break
		}
	}
	return compile(&protocompile.SourceResolver{ImportPaths: roots}, name)
}

// CompileText compiles one of several texts; names are those imports use. A text
// may also be a FileDescriptorProto in base64, which is how some clients register
// a schema.
func CompileText(texts map[string]string, name string) (set string, err error) {
	return compile(protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		text, ok := texts[path]
		if !ok {
			return protocompile.SearchResult{}, errors.New("no schema is given for it")
		}
		if file := serialized(text); file != nil {
			file.Name = &path
			return protocompile.SearchResult{Proto: file}, nil
		}
		return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
	}), name)
}

// serialized reads a FileDescriptorProto in base64; nil = it is none.
func serialized(text string) *descriptorpb.FileDescriptorProto {
	b, err := base64.StdEncoding.DecodeString(text)
	file := &descriptorpb.FileDescriptorProto{}
	if err != nil || len(b) == 0 || proto.Unmarshal(b, file) != nil {
		return nil
	}
	nameForJSON(file.Extension)
	nameMembers(file.MessageType)
	return file
}

// nameMembers gives fields their names in JSON, which the compiler wants and
// descriptors of generated code do without.
func nameMembers(messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		nameForJSON(m.Field)
		nameForJSON(m.Extension)
		nameMembers(m.NestedType)
	}
}

func nameForJSON(fields []*descriptorpb.FieldDescriptorProto) {
	for _, f := range fields {
		if f.JsonName != nil {
			continue
		}
		var name []byte
		upper := false
		for _, c := range []byte(f.GetName()) {
			switch {
			case c == '_':
				upper = true
				continue
			case upper && 'a' <= c && c <= 'z':
				c -= 'a' - 'A'
			}
			name, upper = append(name, c), false
		}
		f.JsonName = new(string(name))
	}
}

// compile gives a FileDescriptorSet in base64, imports first and the file last.
func compile(from protocompile.Resolver, name string) (string, error) {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{from, knownImports})}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return "", fmt.Errorf("protobuf schema: %w", err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(files[0])
	return encodeSet(set)
}

// ReadSet takes a FileDescriptorSet as protoc writes it; its last file is the
// one whose messages records hold.
func ReadSet(b []byte) (set string, err error) {
	s := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(b, s); err != nil || len(s.File) == 0 {
		return "", errors.Join(errors.New("protobuf schema: is no FileDescriptorSet"), err)
	}
	return encodeSet(s)
}

func encodeSet(s *descriptorpb.FileDescriptorSet) (string, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	return base64.StdEncoding.EncodeToString(b), err
}
