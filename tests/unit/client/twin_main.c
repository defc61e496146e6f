/* twin_main.c - the small recorder by hand: twin_main [-i interval] [-a armed_interval] [-b ring]
 * [-f flags] [-s sessions]
 * [-m ms] [-S stall_ms] [-t timeout_us] LIBRARY COMMAND... */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "twin.h"

int main(int argc, char **argv)
{
    struct twin_options o = {
        .interval = 1, .ring_bytes = HW_RING_DEFAULT_BYTES, .flags = HW_CC_BLOCK};
    int c;
    while ((c = getopt(argc, argv, "+i:a:b:f:s:m:S:t:")) != -1) {
        uint64_t v = strtoull(optarg, NULL, 0);
        switch (c) {
        case 'i':
            o.interval = v;
            break;
        case 'a':
            o.armed_interval = v;
            break;
        case 'b':
            o.ring_bytes = v;
            break;
        case 'f':
            o.flags = (uint32_t)v;
            break;
        case 's':
            o.n_sessions = (unsigned)v;
            break;
        case 'm':
            o.session_ms = (unsigned)v;
            break;
        case 'S':
            o.stall_ms = (unsigned)v;
            break;
        case 't':
            o.block_timeout_us = v;
            break;
        default:
            return 2;
        }
    }
    if (argc - optind < 2)
        return 2;
    o.library = argv[optind];
    struct twin_result r;
    if (twin_run(&o, argv + optind + 1, &r) != 0)
        return 1;
    unsigned lines, bad = twin_differences(&r, &lines);
    (void)fputs(r.out, stdout);
    printf("status %d error %u clients %llu allocs %llu (%llu copies) frees %llu stacks %llu "
           "bytes %llu live %llu broken %llu\n",
           r.exit_status, r.client_error, (unsigned long long)r.n_clients,
           (unsigned long long)r.n_allocs, (unsigned long long)r.n_copies,
           (unsigned long long)r.n_frees, (unsigned long long)r.n_stacks,
           (unsigned long long)r.sample_bytes, (unsigned long long)r.live_bytes,
           (unsigned long long)r.n_broken);
#define X(name, text) printf("%s %llu  ", #name, (unsigned long long)twin_counter(&r, #name));
    HW_RING_COUNTERS(X)
#undef X
    printf("\n%u of %u functions differ\n", bad, lines);
    twin_done(&r);
    return bad != 0 || r.n_broken != 0;
}
