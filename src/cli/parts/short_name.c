#include "cli/parts/short_name.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/strbuf.h"
#include "model/symbol_sets.h"

#include "base/banned.h"

/*
 * Where the parameter list begins: the last '(' outside all brackets that is closed by the text's
 * last ')'. 0 = none. "(anonymous namespace)" and "operator()" are parts of the name, and so is
 * what comes after a space: Ruby's "block (2 levels) in f", "<top (required)>". A name that goes on behind
 * it has it inside: Go's "p.(*T).f", Rust's "<F as FnOnce<()>>::call_once".
 */
static size_t parameters_at(const char *s, size_t n)
{
    size_t close = n;
    while (close > 0 && s[close - 1] != ')')
        close--;
    if (close == 0 || (close < n && strchr(".>#:", s[close])))
        return 0;
    int depth = 0;
    for (size_t i = close; i-- > 0;) {
        depth += s[i] == ')';
        depth -= s[i] == '(';
        if (depth != 0)
            continue;
        bool is_name = strncmp(s + i, "(anonymous namespace)", 21) == 0 ||
                       (i > 0 && s[i - 1] == ' ') ||
                       (i >= 8 && strncmp(s + i - 8, "operator", 8) == 0);
        return is_name ? 0 : i;
    }
    return 0;
}

/* Template functions are printed with their return type before them. */
static size_t name_at(const char *s, size_t n)
{
    int depth = 0;
    size_t at = 0;
    if (memmem(s, n, "operator", 8))
        return 0;
    for (size_t i = 0; i < n; i++) {
        depth += s[i] == '<' || s[i] == '(' || s[i] == '{';
        depth -= s[i] == '>' || s[i] == ')' || s[i] == '}';
        if (s[i] == ' ' && depth == 0)
            at = i + 1;
    }
    return at;
}

static void fold_templates(struct hw_strbuf *out, const char *s, size_t n)
{
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        bool arrow = i > 0 && s[i] == '>' && s[i - 1] == '-';
        if (s[i] == '<' && depth++ == 0)
            hw_strbuf_adds(out, "<..>");
        else if (s[i] == '>' && !arrow && depth > 0)
            depth--;
        else if (depth == 0)
            hw_strbuf_addc(out, s[i]);
    }
}

void hw_short_name(struct hw_strbuf *out, const char *label, size_t max)
{
    struct hw_strbuf text = {0};
    const size_t n_mark = sizeof HW_FOLDED_MARK - 1;
    size_t n_label = strlen(label);
    bool is_folded =
        n_label > n_mark && memcmp(label + n_label - n_mark, HW_FOLDED_MARK, n_mark) == 0;
    if (is_folded) {
        n_label -= n_mark;
        max -= max > n_mark ? n_mark : 0;
    }
    hw_strbuf_add_escaped(&text, label, n_label);
    const char *s = text.p ? text.p : "";
    size_t n = strlen(s), end = parameters_at(s, n);
    bool is_cxx = end > 0 && end < n;
    if (is_cxx) {
        size_t start = name_at(s, end);
        s += start;
        n = end - start;
    }
    struct hw_strbuf folded = {0};
    if (n > max && memchr(s, '<', n)) {
        fold_templates(&folded, s, n);
        s = folded.p ? folded.p : "";
        n = folded.n;
    }
    if (n > max && max > 4) {
        size_t cut = n - (max - 2);
        while (cut < n && ((unsigned char)s[cut] & 0xc0) == 0x80)
            cut++; /* not in the middle of a character */
        hw_strbuf_adds(out, "..");
        hw_strbuf_add(out, s + cut, n - cut);
    } else {
        hw_strbuf_add(out, s, n);
    }
    if (is_folded)
        hw_strbuf_adds(out, HW_FOLDED_MARK);
    out->failed |= text.failed || folded.failed;
    hw_strbuf_done(&text);
    hw_strbuf_done(&folded);
}
