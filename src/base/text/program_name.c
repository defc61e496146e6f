/*
 * A path may have spaces in its folders, a title has them behind the program: the first one behind
 * the last slash counts of what begins as a path, the first one at all otherwise ("postgres:
 * 15/main: checkpointer").
 */
#include "base/text/program_name.h"

#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

static struct hw_bytes last_part(struct hw_bytes path)
{
    const uint8_t *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
    return slash ? hw_bytes_skip(path, (size_t)(slash + 1 - path.p)) : path;
}

struct hw_bytes hw_program_name(struct hw_bytes argv0, struct hw_bytes exe)
{
    bool is_path = argv0.n && (argv0.p[0] == '/' || argv0.p[0] == '.');
    struct hw_bytes whole = last_part(argv0), word = is_path ? whole : argv0;
    if (exe.n && hw_bytes_equal(whole, exe))
        return whole;
    const uint8_t *space = word.n ? memchr(word.p, ' ', word.n) : NULL;
    if (space)
        word.n = (size_t)(space - word.p);
    word = last_part(word);
    if (word.n > 1 && word.p[word.n - 1] == ':')
        word.n--;
    return word.n ? word : whole;
}
