/*
 * deobfuscate.h - makes packets with the original names of obfuscated Java code
 *
 * Why:     obfuscated code ships with short names; the map written then has the original ones.
 * Shapes:  frames named `obf.Class.method` in mappings of the package get their original name. One
 *          short name may stand for several methods. With a line, the range that holds it tells
 *          which; several entries of one range are functions inlined into each other, and the frame
 *          gets all of them as a symbol set. Without a line the outermost of each chain counts, and
 *          different ones are joined with " | ". Classes and fields of heap graphs get theirs too,
 *          behind arrays (`X[]`) and class objects (`java.lang.Class<X>`) as well. What belongs to
 *          a package is told by the path it was loaded from, else by the process (code_packages.h);
 *          classes of heap graphs that nothing tells of are named by every map, and a map without
 *          package is for everything of heap graphs. The later packet wins.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What cannot be read is left out.
 * Source:  doc/formats/trace.md, "Symbols and name maps"; doc/formats/reading.md
 */
#ifndef HW_IMPORT_DEOBFUSCATE_H
#define HW_IMPORT_DEOBFUSCATE_H

#include "base/bytes.h"

struct hw_code_packages;
struct hw_profile;

/* message: a DeobfuscationMapping. */
int hw_import_deobfuscation(struct hw_profile *p, struct hw_bytes message);
/* The same for one of several. */
int hw_import_deobfuscation_of(struct hw_profile *p, const struct hw_code_packages *packages,
                               struct hw_bytes message);

#endif
