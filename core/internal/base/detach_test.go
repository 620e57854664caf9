package base

import (
	"reflect"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestSightingDetaches: no text of a copy is the original's.
func TestSightingDetaches(t *testing.T) {
	var s core.Sighting
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			v.Field(i).SetBytes([]byte("x"))
		}
	}
	twin := s
	DetachSighting(&twin)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice && v.Field(i).Pointer() == reflect.ValueOf(twin).Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
}
