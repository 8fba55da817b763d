package template

import "fmt"

func refuse(format string, args ...any) { panic(&refusal{msg: fmt.Sprintf(format, args...)}) }

func refuseUndefined(v value) {
	if v.s == "" {
		refuse("UndefinedError: a value is undefined")
	}
	refuse("UndefinedError: %s", v.s)
}
