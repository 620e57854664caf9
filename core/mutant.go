//go:build mopslock_bugs

package core

// NewMutant is New with the mutation of that name in it; "" is none.
func NewMutant(cfg Config, mutation string) (Machine, error) {
	m, err := New(cfg)
	if err != nil || mutation == "" {
		return m, err
	}
	for _, bug := range Bugs() {
		if bug.String() == mutation {
			m.(interface{ base() *machine }).base().on = bug
			return m, nil
		}
	}
	panic("mopslock: core: no such mutation: " + mutation)
}

// Mutations are the names of all.
func Mutations() (names []string) {
	for _, bug := range Bugs() {
		names = append(names, bug.String())
	}
	return names
}
