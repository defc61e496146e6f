/*
 * bundle_write.h - one archive of a trace with everything that names its addresses
 *
 * Shapes:  a tar archive: `trace.perfetto` (the input, unchanged), `symbols.pb`,
 *          `deobfuscation.pb`; empty parts are left out. Symbols are searched by build id in the
 *          mappings' own paths, the usual places, PERFETTO_BINARY_PATH, --symbols and
 *          --symbol-paths; maps in PERFETTO_PROGUARD_MAP, the usual place and --proguard-map.
 * Errors:  printed; an exit code of cli.h. A half-written archive is removed. Only a map that the
 *          command line names is fatal when it cannot be read.
 * Source:  doc/design/symbolization.md, "Formats of names"
 */
#ifndef HW_CLI_PARTS_BUNDLE_WRITE_H
#define HW_CLI_PARTS_BUNDLE_WRITE_H

struct hw_cli;

int hw_bundle_write(const struct hw_cli *cli, const char *in, const char *out);

#endif
