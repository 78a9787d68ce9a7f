"""The way of a call: operations (`registry`), arguments (`call`), plans (`plan`), a run (`run`)."""
