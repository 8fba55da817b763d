package trajectory

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
)

// MintCallID is the tool-call id that the harness sees for attempt index of turn seq. It is derived, never random, so
// that a replayed journal mints the same ids; 80 bits of SHA-256 keep it unique in practice, and [Tree.Add] makes sure.
func MintCallID(trajectory string, seq Seq, index int) string {
	h := sha256.Sum256([]byte("tito/call/1\x00" + trajectory + "\x00" + itoa(int(seq)) + "\x00" + itoa(index)))
	return "call_" + lower32.EncodeToString(h[:10])
}

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func itoa(n int) string { return strconv.Itoa(n) }
