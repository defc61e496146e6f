/*
 * Which processes a configured name matches (doc/design/commands.md). Without '*' both sides are
 * cut to the part between the last '/' and the first '@'; with it the name is a glob over the whole
 * argv[0] if it begins with '/', else over what follows the last '/'.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/text/program_name.h"
#include "config/config.h"

#include "base/banned.h"

enum { MAX_ARGV0 = 511 }; /* bytes of a command line that are compared */

static struct hw_bytes first_piece(const char *s)
{
    return hw_bytes_of(s, strnlen(s, MAX_ARGV0));
}

static struct hw_bytes after_slash(struct hw_bytes s)
{
    const uint8_t *slash = s.n ? memrchr(s.p, '/', s.n) : NULL;
    if (!slash)
        return s;
    size_t skip = (size_t)(slash - s.p) + 1;
    return hw_bytes_skip(s, skip);
}

static struct hw_bytes normalised(const char *name)
{
    struct hw_bytes s = first_piece(name);
    const uint8_t *at = s.n ? memchr(s.p, '@', s.n) : NULL;
    if (at)
        s.n = (size_t)(at - s.p);
    return after_slash(s);
}

/*
 * '*' matches any bytes. Only the last star is worth backtracking to: linear in practice, never
 * exponential.
 */
static bool glob(struct hw_bytes pattern, struct hw_bytes text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < text.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < pattern.n && pattern.p[p] == text.p[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

static bool matches(const char *configured, const char *argv0)
{
    if (!strchr(configured, '*')) {
        struct hw_bytes want = normalised(configured);
        return want.n > 0 && hw_bytes_equal(want, normalised(argv0));
    }
    struct hw_bytes whole = first_piece(argv0);
    return glob(first_piece(configured), configured[0] == '/' ? whole : after_slash(whole));
}

/* A server that has overwritten its arguments with a title is still the same program. */
bool hw_config_name_matches(const char *configured, const char *argv0)
{
    char program[512];
    if (argv0[0] == 0)
        return false; /* a kernel thread */
    if (matches(configured, argv0))
        return true;
    struct hw_bytes name = hw_program_name(hw_bytes_str(argv0), hw_bytes_of(NULL, 0));
    if (configured[0] == '/' || name.n == 0 || name.n >= sizeof program)
        return false;
    memcpy(program, name.p, name.n);
    program[name.n] = '\0';
    return matches(configured, program);
}
