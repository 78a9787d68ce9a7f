"""``functorch-port serve``: an exported program behind HTTP, with requests computed together (docs/deployment.md).

`_model` runs the program, `_bodies` reads requests and writes answers, `_batching` puts requests together, `_app` has
the pages, `_server` starts and stops all.
"""
