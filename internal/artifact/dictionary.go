package artifact

// Dictionary is the raw zstd dictionary of every compressed body: text that records tend to hold. It belongs to the format
// and never changes within a version.
const Dictionary = `{"seq":1,"call":"","class":"policy","parent":0}`
