package base

import (
	"reflect"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// TestObservedDetaches: no text of a copy is the original's.
func TestObservedDetaches(t *testing.T) {
	var s core.Observed
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			v.Field(i).SetBytes([]byte("x"))
		}
	}
	twin := s
	DetachObserved(&twin)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice && v.Field(i).Pointer() == reflect.ValueOf(twin).Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
}
