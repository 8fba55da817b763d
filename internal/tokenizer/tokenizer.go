// Package tokenizer turns text into token ids and back, exactly as Hugging Face's tokenizers does for the same
// tokenizer.json. What it does not implement it refuses at load, by name; it never approximates.
//
// It is pure. A Tokenizer is immutable and safe for concurrent use; one table serves every trajectory.
package tokenizer
