package template

import "fmt"

func refuse(format string, args ...any) { panic(&refusal{msg: fmt.Sprintf(format, args...)}) }

// absent marks an undefined value that stands for a missing variable or attribute: s is its name, n the kind of the
// object that lacks it. The message is only made when it is needed: templates ask for absent things all the time.
type absent struct{}

var noName any = absent{}

func refuseUndefined(v value) {
	switch {
	case v.o == noName && v.n == int64(kMissing):
		refuse("UndefinedError: '%s' is undefined", v.s)
	case v.o == noName:
		refuse("UndefinedError: '%s object' has no attribute '%s'", typeName(value{k: kind(v.n)}), v.s)
	case v.s == "":
		refuse("UndefinedError: a value is undefined")
	}
	refuse("UndefinedError: %s", v.s)
}
