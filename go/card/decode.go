package card

// decode.go owns reading JSON strictly, for every room. It refuses to know what a field means.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode reads one JSON value strictly: an unknown field, a wrong type, a missing field, a name in other case, a field given twice or
// text after the value is an error that names the field. A field may be missing only where its Go type says so: `omitempty` or a pointer.
func Decode(data []byte, into any) error {
	target := reflect.TypeOf(into)
	if target == nil || target.Kind() != reflect.Pointer {
		panic("card.Decode: not a pointer")
	}
	reader := json.NewDecoder(bytes.NewReader(data))
	reader.UseNumber()
	if err := check(reader, target.Elem(), ""); err != nil {
		return err
	}
	if _, err := reader.Token(); err != io.EOF {
		return fmt.Errorf("text after the JSON value at byte %d", reader.InputOffset())
	}
	if err := json.Unmarshal(data, into); err != nil {
		if wrong, ok := err.(*json.UnmarshalTypeError); ok && wrong.Field != "" {
			return fmt.Errorf("`%s`: found a JSON %s (expected %s)", wrong.Field, wrong.Value, wrong.Type)
		}
		return err
	}
	return nil
}

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// check walks one value beside the Go type that it must have, and reports the path of the first field that does not belong.
func check(reader *json.Decoder, want reflect.Type, path string) error {
	token, err := reader.Token()
	if err != nil {
		return readError(err, path)
	}
	for want.Kind() == reflect.Pointer {
		if token == nil {
			return nil
		}
		want = want.Elem()
	}
	free := want == rawType || want.Kind() == reflect.Interface || reflect.PointerTo(want).Implements(unmarshalerType)
	switch token {
	case json.Delim('{'):
		return checkObject(reader, want, path, free)
	case json.Delim('['):
		return checkList(reader, want, path, free)
	case nil:
		if !free {
			return fmt.Errorf("%s: found null (expected %s)", name(path), want)
		}
	}
	return nil // the type of a plain value is checked by json.Unmarshal
}

func checkObject(reader *json.Decoder, want reflect.Type, path string, free bool) error {
	var fields map[string]reflect.StructField
	switch {
	case free || want.Kind() == reflect.Map:
	case want.Kind() == reflect.Struct:
		fields = jsonFields(want)
	default:
		return fmt.Errorf("%s: found an object (expected %s)", name(path), want)
	}
	seen := map[string]bool{}
	for reader.More() {
		token, err := reader.Token()
		if err != nil {
			return readError(err, path)
		}
		key := token.(string) // the decoder allows nothing else in this place
		inner := join(path, key)
		if seen[key] {
			return fmt.Errorf("`%s`: the field is given twice", inner)
		}
		seen[key] = true
		element := reflect.TypeFor[any]()
		if fields != nil {
			field, ok := fields[key]
			if !ok {
				return fmt.Errorf("`%s`: unknown field", inner)
			}
			element = field.Type
		} else if !free {
			element = want.Elem()
		}
		if err := check(reader, element, inner); err != nil {
			return err
		}
	}
	if _, err := reader.Token(); err != nil {
		return readError(err, path)
	}
	for key, field := range fields {
		if !seen[key] && !optional(field) {
			return fmt.Errorf("`%s`: the field is missing", join(path, key))
		}
	}
	return nil
}

func checkList(reader *json.Decoder, want reflect.Type, path string, free bool) error {
	element := reflect.TypeFor[any]()
	switch {
	case free:
	case want.Kind() == reflect.Slice || want.Kind() == reflect.Array:
		element = want.Elem()
	default:
		return fmt.Errorf("%s: found a list (expected %s)", name(path), want)
	}
	for i := 0; reader.More(); i++ {
		if err := check(reader, element, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	if _, err := reader.Token(); err != nil {
		return readError(err, path)
	}
	return nil
}

func jsonFields(structure reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(structure) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || !field.IsExported() || tag == "-" {
			continue
		}
		if tag == "" {
			tag = field.Name
		}
		fields[tag] = field
	}
	return fields
}

func optional(field reflect.StructField) bool {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	return strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") || field.Type.Kind() == reflect.Pointer
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func name(path string) string {
	if path == "" {
		return "the value"
	}
	return "`" + path + "`"
}

func readError(err error, path string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: the JSON ends early", name(path))
	}
	return fmt.Errorf("%s: %w", name(path), err)
}
