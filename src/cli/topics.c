/* The pages of `heapwise help TOPIC`; also chapters of heapwise(1). */
#include <stddef.h>

#include "cli/help.h"

#include "base/banned.h"

const struct hw_help_topic hw_help_topics[] = {
    {"exit-codes", "EXIT CODES",
     "  0    success\n"
     "  1    failure at run time\n"
     "  2    wrong usage (perfetto, traceconv: 1)\n"
     "  3    a finding gate failed\n"
     "  4    the data is incomplete (loss); the result was written\n"
     "  5    no data\n"
     "  77   not permitted or not supported here\n"
     "  126  the command cannot be run\n"
     "  127  the command was not found\n"
     "  128+N  ended by signal N\n"
     "`heapwise record -- CMD` gives the command's own status unless the recording failed;\n"
     "--no-passthrough gives the recording's.\n"},
    {"units", "UNITS",
     "Sizes: K M G T (or KiB MiB GiB TiB) are powers of 1024, KB MB GB TB powers of 1000.\n"
     "Times: ms, s, m (min), h, d; a bare number is milliseconds.\n"},
    {NULL, NULL, NULL},
};
