package template

import (
	"testing"

	"github.com/tito-rl/tito/internal/ojson"
)

func render(t testing.TB, src, vars string) (string, error) {
	t.Helper()
	v, err := ojson.Parse([]byte(vars))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := Compile(src)
	if err != nil {
		return "", err
	}
	return tm.Render(v.Members(), Clock{Year: 2026, Month: 3, Day: 7, Hour: 15, Minute: 4, Second: 5, Weekday: 6, YearDay: 66})
}

func TestSmoke(t *testing.T) {
	for _, c := range [][2]string{
		{"{{ a + 1 }} {{ 1.0 }} {{ 1e7 }} {{ [1,'x',none] }}", `{"a":123456789012345678901234567890}`},
		{"{% for x in m if x.v > 1 %}{{ loop.index }}{{ x.v }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}", `{"m":[{"v":1},{"v":2},{"v":3}]}`},
		{"{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", `{}`},
		{"{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}", `{}`},
		{"{{ {'a':[1,{'b':'é\\n\"'}]}|tojson }}{{ {'a':[1,{'b':'é'}]}|tojson(indent=2) }}", `{}`},
		{"{{ strftime_now('%d %b %Y') }}{{ raise_exception('x') }}", `{}`},
		{"{{ 'a' + none }}", `{}`},
		{"{{ x.y.z }}", `{}`},
	} {
		out, err := render(t, c[0], c[1])
		t.Logf("%q %v", out, err)
	}
}
