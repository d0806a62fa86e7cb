"""Bodies that several cases use with different parameters."""

from cases.impl.words import *            # noqa: F401,F403
from cases.impl.control import *          # noqa: F401,F403
from cases.impl.events import *           # noqa: F401,F403
from cases.impl.hostile import *          # noqa: F401,F403
from cases.impl.log import *              # noqa: F401,F403
from cases.impl.offload import *          # noqa: F401,F403
