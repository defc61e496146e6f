/* What comes out of a JVM: a table of classes (its length in two bytes before it), then a walk. The
 * walk is fed in two pieces, cut where a byte of the input says. What is behind the cut is read as
 * the table of threads and frames as well. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "daemon/java/java_graph.h"
#include "java/classes.h"
#include "java/graph.h"
#include "java/holders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void walk(struct hw_jgraph *j, struct hw_java_classes *classes, struct hw_bytes b)
{
    struct hw_java_graph *g = NULL;
    struct hw_jgraph_sums sums;
    size_t cut = b.n ? (size_t)b.p[b.n / 2] % b.n : 0;
    char *text = malloc(b.n + 1);
    struct hw_java_holders *holders = NULL;
    if (text && b.n)
        memcpy(text, b.p + cut, b.n - cut);
    if (!text || hw_java_holders_parse(text, b.n - cut, &holders, NULL) < 0)
        holders = NULL;
    if (hw_jgraph_begin(j, classes, UINT64_C(1) << 30, &g) < 0) {
        hw_java_holders_free(holders);
        return;
    }
    if (hw_java_graph_feed(g, hw_bytes_of(b.p, cut), NULL) == 0 &&
        hw_java_graph_feed(g, hw_bytes_of(b.p + cut, b.n - cut), NULL) == 0 &&
        hw_java_graph_end(g, NULL) == 0)
        (void)hw_jgraph_end(j, holders, &sums, NULL);
    hw_java_holders_free(holders);
    hw_java_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const ignored[] = {"a.Item"};
    static struct hw_jgraph *j; /* its file is made once */
    struct hw_java_classes *classes;
    if (n < 2 || (!j && hw_jgraph_new(ignored, 1, &j, NULL) < 0))
        return 0;
    size_t n_table = hw_load_u16(data);
    n_table = n_table < n - 2 ? n_table : n - 2;
    if (hw_java_classes_parse(hw_bytes_of(data + 2, n_table), &classes, NULL) < 0)
        return 0;
    walk(j, classes, hw_bytes_of(data + 2 + n_table, n - 2 - n_table));
    hw_java_classes_free(classes);
    return 0;
}
