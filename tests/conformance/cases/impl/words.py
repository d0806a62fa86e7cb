"""The vocabulary of all bodies and cases."""

import ctypes                           # noqa: F401
import collections                      # noqa: F401

from cases.lib import *                 # noqa: F401,F403
from cases.lib import (BASIC, PLAIN_P, Ctx, Fail, Skip, check, case, fd_count, cpu_ticks,  # noqa: F401
                       spread_memory, in_child, reap_child)
from netpkt import (build, raw_frame, judge_segments, complete_partial, Parsed, Bad,  # noqa: F401
                    TCP, UDP, ICMP6, FIN, SYN, PSH, ACK, CWR, ECE)
import netpkt                           # noqa: F401
