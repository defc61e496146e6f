/*
 * version.h - which versions of the protocol the two sides agree on
 *
 * Why:     a program keeps the client library that it was started with, for weeks perhaps, while
 *          the recorder beside it is upgraded. Such a program is recorded, too.
 * Shapes:  the hello names the newest version that the client speaks and, from 11 on, the oldest.
 *          The recorder takes the newest that both speak and uses that one from then on: the
 *          welcome's size, the version in the welcome, in the control page and in the ring. Without
 *          a common one the hello stays unanswered, and the recorder says so.
 *
 *          What a version may change, so that the recorder can serve older ones:
 *          - the hello's first 48 bytes keep their meaning for good; later members are appended;
 *          - the same holds for the control page, the ring's first page and the attach block, whose
 *            unused bytes are zero, and for the welcome behind its config;
 *          - a record keeps its type's layout; another layout is another type. An older client
 *            sends none of the newer types, nor their flags;
 *          - the agreed version decides what the recorder does only for newer clients.
 *
 *          tests/frozen/ holds a copy of each version that is served, which never changes, and a
 *          client that speaks it.
 * Source:  doc/design/protocol.md
 */
#ifndef HW_WIRE_VERSION_H
#define HW_WIRE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#define HW_WIRE_VERSION       12u /* the newest */
#define HW_WIRE_OLDEST        10u /* that a recorder serves */
#define HW_WIRE_CLIENT_OLDEST 11u /* that a client speaks: with an older recorder, too */
#define HW_WIRE_MAPPINGS      12u /* the first with HW_CC_MAPPINGS */

/* The newest version between the two sides' oldest and newest ones; 0 = none. */
static inline uint32_t hw_wire_agree(uint32_t client_oldest, uint32_t client_newest)
{
    uint32_t v = client_newest < HW_WIRE_VERSION ? client_newest : HW_WIRE_VERSION;
    return v >= HW_WIRE_OLDEST && v >= client_oldest ? v : 0;
}

/* Has the recorder agreed on one that this client speaks? */
static inline bool hw_wire_is_supported(uint32_t version)
{
    return version >= HW_WIRE_CLIENT_OLDEST && version <= HW_WIRE_VERSION;
}

/* Does the recorder serve this client? A newer one lowers its version in its hello. */
static inline bool hw_wire_may_be_served(uint32_t version)
{
    return version >= HW_WIRE_OLDEST;
}

#endif
