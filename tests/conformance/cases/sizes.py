"""Cases about frames of all sizes.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ frame sizes

@case(limit=30)
def sizes_small_and_mtu(c):
    """Frames of 14 to 1600 bytes, both ways, content compared."""
    return sizes_case(c, ranges((14, 130), (130, 1600, 61), 1513, 1514, 1515, 1518, 1522, 1600),
                      chunk=16)


@case(limit=30)
def sizes_jumbo(c):
    """Frames from 2 kB to 65550 bytes into mergeable 2-kB buffers, both ways."""
    return sizes_case(c, [2035, 2036, 2037, 4083, 4084, 4085, 9014, 16000, 32767, 32768, 50001,
                          65534, 65535, 65536, 65549, 65550], chunk=3, layouts=(None, [12, 4096]))


@case(limit=30)
def sizes_jumbo_no_mrg(c):
    """Frames up to 65550 bytes into single 65562-byte RX buffers and chains of 17 pages without
    MRG_RXBUF (FDio/vpp#3317: guest crash with mrg_rxbuf=off)."""
    spec = [65562, (12, 65550), tuple([4096] * 17)] * 6
    return sizes_case(c, [14, 1514, 9014, 20000, 40000, 65000, 65550], BASIC & ~F.MRG_RXBUF,
                      rx=spec, chunk=3)


@case(limit=30)
def sizes_scattered_indirect(c):
    """Indirect tables of 2 to 60 entries of odd lengths, mergeable odd-sized buffers, 14 to 30000 bytes."""
    c.need(F.INDIRECT)
    return sizes_case(c, ranges((14, 70, 5), (100, 3000, 211), 8999, 29999), BASIC | F.INDIRECT,
                      rx=[777, 1531, 333] * 60, chunk=4, indirect=True,
                      layouts=([12, 7, 13], [1] * 12 + [5] * 20, [100] * 59, [17, 1000, 3]))
