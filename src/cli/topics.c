/* The pages of `heapwise help TOPIC`; also chapters of heapwise(1). */
#include <stddef.h>

#include "cli/help.h"

#include "base/banned.h"

const struct hw_help_topic hw_help_topics[] = {
    {"exit-codes", "EXIT CODES",
     "  0    success\n"
     "  1    failure at run time (check: the trace breaks the format's rules)\n"
     "  2    wrong usage (perfetto, traceconv: 1; check: or a file cannot be read)\n"
     "  3    a limit was exceeded (--fail-above)\n"
     "  4    data is incomplete; the result was written\n"
     "  5    no data\n"
     "  77   not permitted or not supported here\n"
     "  126  the command cannot be run\n"
     "  127  the command was not found\n"
     "  128+N  ended by signal N\n"
     "`heapwise record -- CMD` exits with the command's own status, even if the recording failed:\n"
     "messages and --json tell that. --no-passthrough exits with the recording's status instead.\n"
     "If Ctrl-C ends the recording and the program has no status of its own (it runs on, or a\n"
     "signal ended it), the status is 0.\n"},
    {"units", "UNITS",
     "Sizes: K M G T (or KiB MiB GiB TiB) are powers of 1024, KB MB GB TB powers of 1000.\n"
     "Times: ms, s, m (min), h, d; a bare number is milliseconds.\n"},
    {"filters", "FILTERS",
     "The same for `heapwise tree -f FILTER TRACE`, the page's filter bar and FILTERS in SQL.\n"
     "A filter is PREFIX:PATTERN; several apply in order.\n"
     "  SS:  keep stacks with a matching function      HS:  hide such stacks\n"
     "  M:   keep stacks through a matching module     HM:  hide such stacks\n"
     "  SF:  keep only matching frames of each stack   HF:  remove matching frames\n"
     "  SFF: begin each stack at the first match       P:   callers and callees of a function\n"
     "  H:   keep heaps of that name (page and SQL)\n"
     "`!` before the prefix negates. PATTERN is text anywhere in the name, in either case;\n"
     "\"text\" is the whole name; /regex/ or /regex/i. Modules match by their path.\n"
     "  heapwise tree -f HM:libz TRACE             without stacks that go through libz\n"
     "  heapwise tree -f 'SS:/^Cache::/' -f HF:std:: TRACE\n"},
    {"signals", "SIGNALS",
     "heapwise record:\n"
     "  SIGINT (Ctrl-C)        also reaches the program; the recording ends after two seconds.\n"
     "                         A second one ends it at once and does not wait for the program.\n"
     "  SIGTERM SIGHUP SIGQUIT are passed to the program. A second SIGTERM acts like a second\n"
     "                         SIGINT.\n"
     "  SIGUSR1                makes a dump.\n"
     "The recorder, embedded or a service, is a process named heapprofd: `killall -USR1 "
     "heapprofd`\n"
     "makes every recorder dump all of its processes.\n"},
    {"environment", "ENVIRONMENT",
     "HEAPWISE_LOG=error|warning|info|debug   messages on standard error\n"
     "HEAPWISE_<OPTION>                       default of an option: HEAPWISE_INTERVAL=64K\n"
     "HEAPWISE_SOCKET                         where the client library looks for its recorder\n"
     "HEAPWISE_MEMORY_MB                      memory that limits are shares of; default: all\n"
     "HEAPWISE_UNPACK_MB                      limit for an unpacked file; default 256 MiB, or\n"
     "                                        200 times its packed size, up to 4 GiB\n"
     "PERFETTO_PRODUCER_SOCK_NAME             the service's socket for programs\n"
     "PERFETTO_CONSUMER_SOCK_NAME             the service's socket for commands\n"
     "PERFETTO_HEAPPROFD_BLOCKING_INIT=1      a preloaded program waits up to 10 s for a session\n"
     "LD_PRELOAD                              record keeps it, after the client library\n"
     "TMPDIR                                  where heap_profile creates its directories\n"
     "NO_COLOR, CLICOLOR_FORCE, TERM=dumb     colour\n"
     "HEAPWISE_PAGER, PAGER                   for long output on a terminal (less)\n"},
    {"files", "FILES",
     "heap.COMMAND.PID.trace       written by `heapwise record`; NAME.part while it runs\n"
     "/etc/heapwise.conf, $XDG_CONFIG_HOME/heapwise/config, ./.heapwise.conf\n"
     "                             settings, later ones win; see `heapwise help settings`\n"
     "/run/perfetto/traced-producer.sock, /run/perfetto/traced-consumer.sock\n"
     "                             the service's sockets; without that directory\n"
     "                             /tmp/perfetto-producer and /tmp/perfetto-consumer\n"
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
     "HEAPWISE_* variables override files, options override both. `heapwise config --print` shows\n"
     "each value and its origin. ./.heapwise.conf counts only if the file is your own, and sets\n"
     "no output, no program or library, and nothing of a server, service or store. Classic\n"
     "commands read no settings.\n"},
    {NULL, NULL, NULL},
};
