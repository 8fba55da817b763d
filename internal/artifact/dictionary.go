package artifact

import _ "embed"

// Dictionary is the raw zstd dictionary of every compressed body: text that records tend to hold. It belongs to the format
// and never changes within a version.
//
//go:embed dictionary.txt
var Dictionary string
