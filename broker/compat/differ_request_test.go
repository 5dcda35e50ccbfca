package compat

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// keyOf is the key of an API by its name.
func keyOf(name string) (int16, error) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == name {
			return key, nil
		}
	}
	return 0, fmt.Errorf("no API is called %s", name)
}

// newRequest makes a request of a JSON value: fields by kmsg's names, those left
// out at their defaults, and none that kmsg doesn't have. Texts stand for bytes,
// too: as they are, or in hexadecimal after "hex:". {"pad": N} is a text of N
// bytes, {"batch": …} and {"batches": […]} are record sets.
func newRequest(key, version int16, doc any) (kmsg.Request, error) {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, fmt.Errorf("kmsg has no request of key %d", key)
	}
	setDefault(reflect.ValueOf(req))
	req.SetVersion(version)
	if err := put(reflect.ValueOf(req).Elem(), doc, kmsg.NameForKey(key)); err != nil {
		return nil, err
	}
	return req, nil
}

func setDefault(ptr reflect.Value) {
	if d, ok := ptr.Interface().(interface{ Default() }); ok {
		d.Default()
	}
}

// put sets a value from JSON.
func put(v reflect.Value, doc any, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if doc == nil {
			v.SetZero()
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		setDefault(v)
		return put(v.Elem(), doc, path)
	case reflect.Struct:
		return putStruct(v, doc, path)
	case reflect.Slice, reflect.Array:
		return putSlice(v, doc, path)
	case reflect.String:
		text, err := textOf(doc)
		v.SetString(text)
		return wrap(path, err)
	case reflect.Bool:
		on, ok := doc.(bool)
		v.SetBool(on)
		return unless(ok, path, doc)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := numberOf(doc)
		if err == nil && v.OverflowInt(n) {
			err = fmt.Errorf("%d does not fit", n)
		}
		v.SetInt(n)
		return wrap(path, err)
	case reflect.Uint16, reflect.Uint32:
		n, err := numberOf(doc)
		v.SetUint(uint64(n))
		return wrap(path, err)
	case reflect.Float64:
		n, ok := doc.(json.Number)
		if !ok {
			return unless(false, path, doc)
		}
		f, err := n.Float64()
		v.SetFloat(f)
		return wrap(path, err)
	}
	return fmt.Errorf("%s: a field of type %s", path, v.Type())
}

func wrap(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func unless(ok bool, path string, doc any) error {
	if !ok {
		return fmt.Errorf("%s: it can't be %v", path, doc)
	}
	return nil
}

func putStruct(v reflect.Value, doc any, path string) error {
	fields, ok := doc.(map[string]any)
	if !ok {
		return unless(false, path, doc)
	}
	for name, value := range fields {
		f := v.FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("%s has no field %s", path, name)
		}
		if err := put(f, value, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func putSlice(v reflect.Value, doc any, path string) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := bytesOf(doc)
		if err != nil {
			return wrap(path, err)
		}
		if v.Kind() == reflect.Array { // a UUID, in hexadecimal
			id, err := hex.DecodeString(string(b))
			if err != nil || len(id) != v.Len() {
				return fmt.Errorf("%s: %q is no id", path, b)
			}
			reflect.Copy(v, reflect.ValueOf(id))
			return nil
		}
		v.SetBytes(b)
		return nil
	}
	if doc == nil {
		v.SetZero()
		return nil
	}
	list, ok := doc.([]any)
	if !ok {
		return unless(false, path, doc)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, value := range list {
		setDefault(v.Index(i).Addr())
		if err := put(v.Index(i), value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func numberOf(doc any) (int64, error) {
	n, ok := doc.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is no number", doc)
	}
	return n.Int64()
}

func textOf(doc any) (string, error) {
	b, err := bytesOf(doc)
	return string(b), err
}

// bytesOf reads bytes; nil stays nil.
func bytesOf(doc any) ([]byte, error) {
	switch doc := doc.(type) {
	case nil:
		return nil, nil
	case string:
		if text, ok := strings.CutPrefix(doc, "hex:"); ok {
			return hex.DecodeString(text)
		}
		return []byte(doc), nil
	case map[string]any:
		for name, value := range doc {
			switch {
			case len(doc) > 1:
			case name == "pad":
				n, err := numberOf(value)
				return []byte(strings.Repeat("x", int(n))), err
			case name == "batch":
				return buildBatches([]any{value})
			case name == "batches":
				list, ok := value.([]any)
				if !ok {
					return nil, fmt.Errorf("batches: %v is no list", value)
				}
				return buildBatches(list)
			}
		}
	}
	return nil, fmt.Errorf("%v can't be bytes", doc)
}

// pathValue is the value of a message at a path: Topics[0].Partitions[1].ErrorCode.
// Bytes of an id come in hexadecimal, other bytes as they are.
func pathValue(message any, path string) (string, error) {
	v := reflect.ValueOf(message)
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Struct:
			v = v.FieldByName(part)
		case reflect.Slice, reflect.Array:
			i, err := strconv.Atoi(part)
			if err != nil || i >= v.Len() {
				return "", fmt.Errorf("%s: there is no element %s", path, part)
			}
			v = v.Index(i)
		default:
			v = reflect.Value{}
		}
		if !v.IsValid() {
			return "", fmt.Errorf("%s: there is no %s", path, part)
		}
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Array && v.Type().Elem().Kind() == reflect.Uint8:
		return fmt.Sprintf("%x", v.Interface()), nil
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return string(v.Bytes()), nil
	}
	return fmt.Sprint(v.Interface()), nil
}
