"""vufe - a scripted vhost-user front-end, for testing back-ends from outside.

Pure Python 3.11, standard library only.  A FrontEnd object plays both roles that
QEMU and a guest driver play together: it speaks the vhost-user socket protocol
(with ancillary file descriptors) and it drives split or packed virtqueues that
live in memfd-backed "guest memory".

    fe = FrontEnd("a.sock")
    fe.bring_up(features=F.VERSION_1 | F.PROTO | F.MRG_RXBUF)
    fe.send(frame)                       # guest -> back-end
    pkt = fe.recv(timeout=1.0)           # back-end -> guest
    fe.close()

Nothing in here judges the back-end, apart from `FrontEnd.viol`, a list of texts
about virtio rules that the back-end broke while the rings were being driven
(unknown id in the used ring, a write past the end of a buffer, and so on).
"""

# The names of the parts, for cases that speak about them all the time.
from vufe.front_end import *        # noqa: F401,F403
from vufe.memory import *           # noqa: F401,F403
from vufe.numbers import *          # noqa: F401,F403
from vufe.packed import *           # noqa: F401,F403
from vufe.split import *            # noqa: F401,F403
