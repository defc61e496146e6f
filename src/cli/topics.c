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
     "`heapwise record -- CMD` gives the command's own status, whatever became of the recording:\n"
     "its messages and --json tell that. --no-passthrough gives the recording's status instead. "
     "When\n"
     "Ctrl-C ends the recording and the program has no status of its own (it runs on, or a signal\n"
     "has ended it), it is 0.\n"},
    {"units", "UNITS",
     "Sizes: K M G T (or KiB MiB GiB TiB) are powers of 1024, KB MB GB TB powers of 1000.\n"
     "Times: ms, s, m (min), h, d; a bare number is milliseconds.\n"},
    {"filters", "FILTERS",
     "`heapwise tree -f FILTER TRACE`, the filter bar of the page and FILTERS of SQL take the "
     "same.\n"
     "A filter is PREFIX:PATTERN; several apply in their order.\n"
     "  SS:  keep stacks with a matching function      HS:  hide such stacks\n"
     "  M:   keep stacks through a matching module     HM:  hide such stacks\n"
     "  SF:  keep only matching frames of each stack   HF:  take matching frames out\n"
     "  SFF: begin each stack at the first match       P:   callers and callees of a function\n"
     "  H:   keep heaps of that name (page and SQL)\n"
     "`!` before the prefix turns the match round. PATTERN is text anywhere in the name, whatever\n"
     "its case; \"text\": the whole name; /regex/ or /regex/i. Modules match by their path.\n"
     "  heapwise tree -f HM:libz TRACE             without what libz asked for, or was asked by\n"
     "  heapwise tree -f 'SS:/^Cache::/' -f HF:std:: TRACE\n"},
    {"signals", "SIGNALS",
     "heapwise record:\n"
     "  SIGINT (Ctrl-C)        the program gets it, too; after two seconds the recording ends.\n"
     "                         A second one ends it at once with what there is, and does not\n"
     "                         wait for the program.\n"
     "  SIGTERM SIGHUP SIGQUIT are passed to the program. A second SIGTERM is like a second "
     "SIGINT.\n"
     "  SIGUSR1                a dump now.\n"
     "The recorder, embedded or a service, is a process named heapprofd: `killall -USR1 "
     "heapprofd`\n"
     "makes every recorder dump all its processes.\n"},
    {"environment", "ENVIRONMENT",
     "HEAPWISE_LOG=error|warning|info|debug   messages on standard error\n"
     "HEAPWISE_<OPTION>                       default of an option: HEAPWISE_INTERVAL=64K\n"
     "HEAPWISE_SOCKET                         where the client library looks for its recorder\n"
     "HEAPWISE_MEMORY_MB                      limits are shares of this; the machine's memory\n"
     "HEAPWISE_UNPACK_MB                      how large a packed file may become; otherwise\n"
     "                                        256 MiB, or 200 times its size up to 4 GiB\n"
     "PERFETTO_PRODUCER_SOCK_NAME             the service's socket for programs\n"
     "PERFETTO_CONSUMER_SOCK_NAME             the service's socket for commands\n"
     "PERFETTO_HEAPPROFD_BLOCKING_INIT=1      a preloaded program waits for its session (10 s)\n"
     "LD_PRELOAD                              kept by record, behind the client library\n"
     "TMPDIR                                  where heap_profile makes its directories\n"
     "NO_COLOR, CLICOLOR_FORCE, TERM=dumb     colour\n"
     "HEAPWISE_PAGER, PAGER                   for long output on a terminal (less)\n"},
    {"files", "FILES",
     "heap.COMMAND.PID.trace       what `heapwise record` writes; NAME.part while it runs\n"
     "/etc/heapwise.conf, $XDG_CONFIG_HOME/heapwise/config, ./.heapwise.conf\n"
     "                             settings, in rising order; see `heapwise help settings`\n"
     "/run/perfetto/traced-producer.sock, /run/perfetto/traced-consumer.sock\n"
     "                             the service's sockets; /tmp/perfetto-producer and\n"
     "                             /tmp/perfetto-consumer without that directory\n"
     "libheapprofd_glibc_preload.so  the client library\n"},
    {"settings", "SETTINGS",
     "`key = value` with the long names of options, for every command that takes them, or below\n"
     "[record] for that command only; '#' and ';' at the start of a line begin comments:\n"
     "\n"
     "    color = never\n"
     "    [record]\n"
     "    interval = 64K\n"
     "    continuous-dump = 10s\n"
     "\n"
     "Files are overruled by HEAPWISE_* variables, those by options. `heapwise config --print`\n"
     "shows each value and where it came from. A file in the current directory counts only when\n"
     "it is your own, and cannot name the library to preload. Classic commands read none of it.\n"},
    {NULL, NULL, NULL},
};
