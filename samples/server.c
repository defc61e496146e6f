/*
 * The program of the sample "server": answers requests for some seconds, as a small web server would.
 *
 * What a look at its memory should find: each request adds to the history of its session, which is not
 * freed with the session (close_session); a cache that fills up and then stays as it is (load_page);
 * buffers that live for one request only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REQUESTS = 24000, SESSIONS = 512, CACHED = 600, PAUSE_EVERY = 60 };

struct visit {
    struct visit *before;
    char page[248];
};

struct session {
    char *user, *basket;
    struct visit *history;
    size_t n_seen;
};

static struct session *sessions[SESSIONS];
static char *cache[CACHED];
static size_t n_answers;

static void *xmalloc(size_t size)
{
    void *p = malloc(size);
    if (!p)
        abort();
    return p;
}

static struct session *open_session(unsigned user)
{
    struct session *s = xmalloc(sizeof *s);
    *s = (struct session){.user = xmalloc(48), .basket = xmalloc(1900)};
    (void)snprintf(s->user, 48, "user-%u", user);
    (void)snprintf(s->basket, 1900, "empty");
    return s;
}

/* The leak: its history stays. */
static void close_session(size_t place)
{
    struct session *s = sessions[place];
    sessions[place] = NULL;
    free(s->user);
    free(s->basket);
    free(s);
}

static void note_visit(struct session *s, unsigned item)
{
    struct visit *v = xmalloc(sizeof *v);
    v->before = s->history;
    (void)snprintf(v->page, sizeof v->page, "/item/%u", item);
    s->history = v;
}

static struct session *find_session(unsigned user)
{
    size_t place = user % SESSIONS;
    if (sessions[place] && sessions[place]->n_seen > 6)
        close_session(place);
    if (!sessions[place])
        sessions[place] = open_session(user);
    sessions[place]->n_seen++;
    return sessions[place];
}

static char *read_request(unsigned n)
{
    char *line = xmalloc(2048 + n % 4096);
    (void)snprintf(line, 2048, "GET /item/%u", n);
    return line;
}

static const char *load_page(unsigned item)
{
    size_t place = item % CACHED;
    if (!cache[place]) {
        cache[place] = xmalloc(3000 + item % 2000);
        (void)snprintf(cache[place], 3000, "<html>%u", item);
    }
    return cache[place];
}

static char *render(const char *page, const struct session *s)
{
    char *out = xmalloc(16384);
    n_answers += (size_t)snprintf(out, 16384, "%s %s", page, s->user);
    return out;
}

static void handle_request(unsigned n)
{
    char *request = read_request(n);
    struct session *s = find_session(n * 31);
    note_visit(s, n);
    free(render(load_page(n * 7919 % 20000), s));
    free(request);
}

static void serve(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (unsigned n = 0; n < REQUESTS; n++) {
        handle_request(n);
        if (n % PAUSE_EVERY == 0)
            (void)nanosleep(&pause, NULL);
    }
}

int main(void)
{
    serve();
    printf("%zu bytes answered\n", n_answers);
    _Exit(0); /* as a server that is stopped: nothing is tidied up */
}
