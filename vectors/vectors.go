// Package vectors is the project's language-neutral test vectors, one scenario a file, for anyone who writes another reader
// or wants to test against the same cases.
//
// Each folder has a README that says what its files hold and what a reader must do with them. The files are plain and
// self-describing; they are made by programs in the repository and reviewed as diffs.
package vectors

import "embed"

// FS holds the folders of vectors, such as artifact/. Files whose names begin with "." or "_" are in it too.
//
//go:embed all:*/*
var FS embed.FS
