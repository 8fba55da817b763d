// Package template evaluates a model's own Jinja chat template exactly as Python's Jinja2 does under the settings of
// Hugging Face's apply_chat_template (trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson without HTML
// escapes, raise_exception, strftime_now, an immutable sandbox).
//
// It is pure: the clock is an input, and rendering is a function of its arguments. What Python refuses, it refuses.
package template
