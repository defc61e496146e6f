/*
 * deobfuscate.h - makes packets with the original names of obfuscated Java code
 *
 * Why:     obfuscated code ships with short names; the obfuscator's map has the original ones.
 * Shapes:  frames named `obf.Class.method` in mappings of the package get their original name. One
 *          short name may stand for several methods. With a line, the range that contains it tells
 *          which; several entries of one range are functions inlined into each other, and the frame
 *          gets all of them as a symbol set. Without a line the outermost of each chain counts, and
 *          different ones are joined with " | ". Classes and fields of heap graphs are renamed,
 *          too, also inside arrays (`X[]`) and class objects (`java.lang.Class<X>`). The path that
 *          code was loaded from tells its package, else the process does (code_packages.h). Every
 *          map applies to heap graph classes of unknown package, and a map without a package
 *          applies to all of a heap graph. The later packet wins.
 * Errors:  HW_ENOMEM, HW_ELIMIT. Unreadable parts are skipped.
 * Source:  doc/formats/trace.md, "Symbols and name maps"; doc/formats/reading.md
 */
#ifndef HW_IMPORT_DEOBFUSCATE_H
#define HW_IMPORT_DEOBFUSCATE_H

#include "base/bytes.h"

struct hw_code_packages;
struct hw_profile;

/* message: a DeobfuscationMapping. */
int hw_import_deobfuscation(struct hw_profile *p, struct hw_bytes message);
/* The same with packages that several messages share. */
int hw_import_deobfuscation_of(struct hw_profile *p, const struct hw_code_packages *packages,
                               struct hw_bytes message);

#endif
