/*
 * marks: the tree of memory-infra's example, told by the program itself
 *
 *   marks [ROUNDS]: blocks of each place below, all live at the end; one on each line of "want"
 *
 *     Document (page) > Parser (parser) > ParseAuthorStyleSheet: 3 StringImpl of 100, 2 Node of 64
 *                                       > ParseHTML:             5 Node of 64, 1 of no type of 48
 *                     > Layout (layout):         4 LayoutBox of 80, deep in recursion
 *     outside of any scope:                                            2 of 1000
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "heapwise/heap_profile.h"

#define NOINLINE __attribute__((noinline))

static void *kept[1024];
static int n_kept;

NOINLINE static void keep(void *p)
{
    kept[n_kept++] = p;
}

NOINLINE static void *make_string(void)
{
    return HEAPWISE_TYPED(StringImpl, malloc(100));
}

NOINLINE static void *make_node(void)
{
    return HEAPWISE_TYPED(Node, malloc(64));
}

NOINLINE static void parse_sheet(void)
{
    HEAPWISE_TRACE_EVENT("parser", "ParseAuthorStyleSheet");
    for (int i = 0; i < 3; i++)
        keep(make_string());
    for (int i = 0; i < 2; i++)
        keep(make_node());
}

NOINLINE static void parse_html(void)
{
    HEAPWISE_TRACE_EVENT("parser", "ParseHTML");
    for (int i = 0; i < 5; i++)
        keep(make_node());
    keep(malloc(48));
}

NOINLINE static void parse(void)
{
    HEAPWISE_TRACE_EVENT("parser", "Parser");
    parse_sheet();
    parse_html();
}

/* A scope on each level: as many nodes as levels. */
NOINLINE static void layout(int depth)
{
    HEAPWISE_TRACE_EVENT("layout", "Layout");
    HEAPWISE_TYPE_SCOPE("LayoutBox");
    if (depth > 0)
        layout(depth - 1);
    keep(malloc(80));
}

NOINLINE static void document(void)
{
    HEAPWISE_TRACE_EVENT("page", "Document");
    parse();
    layout(3);
}

/* Far more scopes than are kept: begin and end stay balanced. */
NOINLINE static void overflow(int depth)
{
    HEAPWISE_TRACE_EVENT("deep", "Level");
    if (depth > 0)
        overflow(depth - 1);
}

/* Ends without leaving its scope, as pthread_exit does in C: the next thread may get its memory. */
static void *leaver(void *arg)
{
    (void)arg;
    HEAPWISE_TRACE_EVENT("page", "Lost");
    HEAPWISE_TYPE_SCOPE("LostType");
    free(malloc(16));
    pthread_exit(NULL);
}

static void *worker(void *arg)
{
    (void)arg;
    keep(HEAPWISE_TYPED(Fresh, malloc(2000))); /* in no scope */
    HEAPWISE_TRACE_EVENT("page", "Worker");
    keep(HEAPWISE_TYPED(Node, malloc(64)));
    return NULL;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        document();
        overflow(300);
        keep(malloc(1000));
        keep(malloc(1000));
    }
    pthread_t t;
    if (pthread_create(&t, NULL, leaver, NULL) == 0)
        pthread_join(t, NULL);
    if (pthread_create(&t, NULL, worker, NULL) == 0)
        pthread_join(t, NULL);
    printf("kept %d\n", n_kept);
    return 0;
}
