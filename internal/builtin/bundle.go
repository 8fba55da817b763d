// Package builtin holds what the binary carries so that it needs nothing else: a small model's tokenizer and chat
// template, and tasks to learn on. All of it is the project's own.
//
// It is data. It knows nothing of who reads it.
package builtin

import "embed"

//go:generate go run ./gen

// Bundle is the built-in model's directory, laid out as a real one: tokenizer.json, tokenizer_config.json,
// chat_template.jinja and generation_config.json under bundle/.
//
//go:embed bundle
var Bundle embed.FS
