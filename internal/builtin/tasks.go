package builtin

import "embed"

// Tasks holds the built-in tasks, one folder each under tasks/, in Harbor's format. A task's rehearsal.json, which Harbor
// ignores, is the book from which the rehearsal policy plays it.
//
//go:embed all:tasks
var Tasks embed.FS
