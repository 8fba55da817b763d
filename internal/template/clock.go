package template

// Clock is the local time that strftime_now sees. It is an input: this package never asks for the time.
type Clock struct {
	Year, Month, Day     int // Month 1..12
	Hour, Minute, Second int
	Weekday              int // 0 = Sunday
	YearDay              int // 1..366
}
