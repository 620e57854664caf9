package core

import (
	"reflect"
	"testing"
)

// TestSightingDetaches: no text of a copy is the original's.
func TestSightingDetaches(t *testing.T) {
	var s Sighting
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			v.Field(i).SetBytes([]byte("x"))
		}
	}
	twin := s
	detachSighting(&twin)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice && v.Field(i).Pointer() == reflect.ValueOf(twin).Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
}
