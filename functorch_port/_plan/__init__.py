"""What a training step needs on a pod that is not here: it is compiled for that pod, and its memory is told by cause.

`lowering.py` traces a step whose state is described (on the meta device), `memory.py` tells what the compiled program
keeps, `report.py` has what is found, and `worker.py` does all that in a process of its own, for `command.py`.
"""

from .. import distributed  # first, as it imports from here
