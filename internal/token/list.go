package token

import "slices"

// AppendList appends ids in decimal with commas between them, as inside a JSON array.
func AppendList(b []byte, ids []ID) []byte {
	const most = len(",4294967295")
	for i, id := range ids {
		if cap(b)-len(b) < most {
			b = slices.Grow(b, most)
		}
		if i > 0 {
			b = append(b, ',')
		}
		end := len(b) + digits(id)
		b = b[:end]
		for n := end - 1; ; n-- {
			b[n] = byte('0' + id%10)
			if id /= 10; id == 0 {
				break
			}
		}
	}
	return b
}

func digits(id ID) int {
	n := 1
	for limit := uint64(10); n < 10 && uint64(id) >= limit; limit *= 10 {
		n++
	}
	return n
}
