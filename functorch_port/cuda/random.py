"""``torch.cuda.random``."""

from . import get_rng_state as get_rng_state
from . import get_rng_state_all as get_rng_state_all
from . import initial_seed as initial_seed
from . import manual_seed as manual_seed
from . import manual_seed_all as manual_seed_all
from . import seed as seed
from . import seed_all as seed_all
from . import set_rng_state as set_rng_state
from . import set_rng_state_all as set_rng_state_all
