package token

// AppendList appends ids in decimal with commas between them, as inside a JSON array.
func AppendList(b []byte, ids []ID) []byte {
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		var d [10]byte
		n := len(d)
		for {
			n--
			d[n] = byte('0' + id%10)
			if id /= 10; id == 0 {
				break
			}
		}
		b = append(b, d[n:]...)
	}
	return b
}
