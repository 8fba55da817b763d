package template

import (
	"fmt"
	"strings"
)

// Clock is the local time that strftime_now sees. It is an input: this package never asks for the time.
type Clock struct {
	Year, Month, Day     int // Month 1..12
	Hour, Minute, Second int
	Weekday              int // 0 = Sunday
	YearDay              int // 1..366
}

var (
	dayNames   = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// format is Python's datetime.strftime in the C locale, with glibc's extensions. The time has no zone and no fraction.
func (c Clock) format(layout string) string {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		for i < len(layout)-1 && strings.IndexByte("-_0^#", layout[i]) >= 0 {
			flag = layout[i]
			i++
		}
		s, ok := c.field(layout[i], flag)
		if !ok {
			s = layout[start : i+1]
		} else if flag == '^' || flag == '#' {
			s = strings.ToUpper(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

func (c Clock) field(f, flag byte) (string, bool) {
	num := func(n, width int, pad byte) (string, bool) {
		switch flag {
		case '-':
			width = 0
		case '_':
			pad = ' '
		case '0':
			pad = '0'
		}
		s := fmt.Sprint(n)
		for len(s) < width {
			s = string(pad) + s
		}
		return s, true
	}
	day := dayNames[((c.Weekday%7)+7)%7]
	month := monthNames[(((c.Month-1)%12)+12)%12]
	hour12 := (c.Hour+11)%12 + 1
	switch f {
	case 'a':
		return day[:3], true
	case 'A':
		return day, true
	case 'b', 'h':
		return month[:3], true
	case 'B':
		return month, true
	case 'c':
		return c.format("%a %b %e %H:%M:%S %Y"), true
	case 'C':
		return num(c.Year/100, 2, '0')
	case 'd':
		return num(c.Day, 2, '0')
	case 'D', 'x':
		return c.format("%m/%d/%y"), true
	case 'e':
		return num(c.Day, 2, ' ')
	case 'f':
		return "000000", true
	case 'F':
		return c.format("%Y-%m-%d"), true
	case 'g', 'G', 'V':
		year, week := c.isoWeek()
		switch f {
		case 'g':
			return num(year%100, 2, '0')
		case 'G':
			return num(year, 0, '0')
		}
		return num(week, 2, '0')
	case 'H':
		return num(c.Hour, 2, '0')
	case 'I':
		return num(hour12, 2, '0')
	case 'j':
		return num(c.YearDay, 3, '0')
	case 'k':
		return num(c.Hour, 2, ' ')
	case 'l':
		return num(hour12, 2, ' ')
	case 'm':
		return num(c.Month, 2, '0')
	case 'M':
		return num(c.Minute, 2, '0')
	case 'n':
		return "\n", true
	case 'p', 'P':
		return c.half(f, flag), true
	case 'r':
		return c.format("%I:%M:%S %p"), true
	case 'R':
		return c.format("%H:%M"), true
	case 'S':
		return num(c.Second, 2, '0')
	case 't':
		return "\t", true
	case 'T', 'X':
		return c.format("%H:%M:%S"), true
	case 'u':
		return num((c.Weekday+6)%7+1, 1, '0')
	case 'U':
		return num((c.YearDay+6-c.Weekday)/7, 2, '0')
	case 'w':
		return num(c.Weekday, 1, '0')
	case 'W':
		return num((c.YearDay+6-(c.Weekday+6)%7)/7, 2, '0')
	case 'y':
		return num(c.Year%100, 2, '0')
	case 'Y':
		return num(c.Year, 0, '0')
	case 'z', 'Z':
		return "", true
	case '%':
		return "%", true
	}
	return "", false
}

func (c Clock) half(f, flag byte) string {
	s := "AM"
	if c.Hour >= 12 {
		s = "PM"
	}
	if f == 'P' || flag == '#' {
		return strings.ToLower(s)
	}
	return s
}

// isoWeek is the ISO 8601 year and week.
func (c Clock) isoWeek() (year, week int) {
	leap := func(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }
	length := func(y int) int {
		if leap(y) {
			return 366
		}
		return 365
	}
	monday := (c.Weekday + 6) % 7 // 0 = Monday
	week = (c.YearDay - monday + 9) / 7
	if week == 0 {
		day := c.YearDay + length(c.Year-1)
		return c.Year - 1, (day - monday + 9) / 7
	}
	if week == 53 && c.YearDay-monday+3 > length(c.Year) {
		return c.Year + 1, 1
	}
	return c.Year, week
}
