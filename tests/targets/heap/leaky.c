/*
 * leaky.c MS - a server with one leak among things that look like one
 *
 * For MS milliseconds, 5 a round: remember_session leaks 1.4 KB in two ways; cache_put keeps the
 * last 400 answers (full after a third of the time); load_table holds 600 KB from the start;
 * parse_request takes 40 KB and gives it back. Without MS: 300 rounds without a pause.
 */
#include <time.h>

#include "target.h"

enum { ROUND_MS = 5, CACHE = 400 };

struct session {
    struct session *next;
    char data[1400];
};

static struct session *volatile sessions;
static char *cache[CACHE];
static char *volatile table;

NOIPA static void remember_session(size_t n)
{
    struct session *s = malloc(n);
    if (!s)
        abort();
    s->next = sessions;
    sessions = s;
}

/* Fills in the first third, then only replaces. */
NOIPA static void cache_put(unsigned round, unsigned rounds)
{
    static unsigned at, filled;
    unsigned want = round * 3 * CACHE / rounds + 1; /* in this round, while it fills */
    unsigned slots = filled >= CACHE ? 4 : want > filled ? want - filled : 0;
    for (unsigned i = 0; i < slots; i++, at = (at + 1) % CACHE) {
        filled += !cache[at];
        free(cache[at]);
        cache[at] = malloc(2000);
        if (!cache[at])
            abort();
        memset(cache[at], 1, 2000);
    }
}

NOIPA static void load_table(void)
{
    table = malloc(600000);
    if (!table)
        abort();
    memset(table, 1, 600000);
}

NOIPA static void parse_request(void)
{
    void *volatile part[20];
    for (int i = 0; i < 20; i++)
        part[i] = malloc(2000);
    for (int i = 0; i < 20; i++)
        free(part[i]);
}

NOIPA static void login(void)
{
    remember_session(sizeof(struct session));
}

NOIPA static void handle_request(unsigned round, unsigned rounds)
{
    parse_request();
    cache_put(round, rounds);
    login();
    if (round % 8 == 0)
        remember_session(sizeof(struct session) / 2);
}

int main(int argc, char **argv)
{
    unsigned ms = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    unsigned rounds = ms ? ms / ROUND_MS + 1 : 300;
    struct timespec pause = {.tv_nsec = ROUND_MS * 1000000L};
    load_table();
    for (unsigned i = 0; i < rounds; i++) {
        handle_request(i, rounds);
        if (ms)
            nanosleep(&pause, NULL);
    }
    printf("%u rounds\n", rounds);
    return 0;
}
