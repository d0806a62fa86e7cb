"""Cases about notifications and idleness.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403

EVT = F.EVENT_IDX


# ================================================================ events and notification

@case(limit=15)
def event_idx_exact(c):
    """EVENT_IDX: one call exactly when the used index passes used_event, for distances 1, 3 and 7,
    TX and RX; across the 65536 wrap."""
    c.need(EVT)
    event_exact(c, BASIC | EVT, preset=65525)


@case(limit=15)
def event_idx_no_base(c):
    """EVENT_IDX where SET_VRING_BASE is never sent (rust-vmm/vhost#240: lost interrupts)."""
    c.need(EVT)
    event_exact(c, BASIC | EVT, no_base=True, gaps=(1, 4))


@case(limit=15)
def event_packed_exact(c):
    """Packed EVENT_IDX: a call exactly when the wanted slot and wrap is used, also over the end of the ring."""
    c.need(EVT | F.PACKED)
    event_exact(c, BASIC | EVT | F.PACKED, size=32, gaps=(1, 4, 30, 2))


@case(limit=15)
def notif_split(c):
    """Calls for bursts of 64 on a split ring: some, at most one per four frames; none when the
    driver sets NO_INTERRUPT."""
    return notif_counts(c, BASIC, 64, 0.25)


@case()
def kick_economy(c):
    """A driver that honours the device's wishes kicks at most once per burst."""
    return kick_counts(c, BASIC | (EVT if c.has(EVT) else 0))


@case()
def kick_economy_packed(c):
    """Kicks for bursts on packed rings, at most one per burst."""
    c.need(F.PACKED)
    return kick_counts(c, BASIC | F.PACKED, bursts=60, per=16)


@case(limit=12)
def idle_cpu_pair(c):
    """Two connected, idle guests: the back-end uses at most 5 % of a CPU (passt bug 185,
    OVS 35c91567c)."""
    return cpu_case(c, lambda: c.pair())


@case(limit=15)
def idle_cpu_half_set_up(c):
    """One front-end that stopped half-way (no ENABLE, kick fd signalled), and nobody on the other port: at most 5 % of
    a CPU (passt bug 185, kubevirt#18234)."""
    def prepare():
        A = c.fe("a", enable=[], pairs=1)
        for q in A.queues:
            q.kick(force=True)
        return (A,)
    return cpu_case(c, prepare)
