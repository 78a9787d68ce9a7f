"""The way of a call: operations (`registry`), arguments (`bind`), a run (`dispatch`)."""
