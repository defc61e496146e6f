#include "cli/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/symbol_sets.h"

#include "base/banned.h"

static char *scaled(char *out, double v, double step, const char *const *units, size_t n_units)
{
    size_t u = 0;
    double a = fabs(v);
    while (u + 1 < n_units && a >= step * 0.99995) {
        a /= step;
        v /= step;
        u++;
    }
    int digits = u == 0 ? 0 : a < 9.995 ? 2 : 1;
    (void)snprintf(out, HW_UNIT_MAX, "%.*f%s%s", digits, v, units[u][0] ? " " : "", units[u]);
    return out;
}

char *hw_fmt_bytes(char out[HW_UNIT_MAX], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled(out, bytes, 1024, units, sizeof units / sizeof *units);
}

char *hw_fmt_bytes_exact(char out[HW_UNIT_MAX], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (bytes && bytes % 1024 == 0 && u + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        u++;
    }
    (void)snprintf(out, HW_UNIT_MAX, "%llu %s", (unsigned long long)bytes, units[u]);
    return out;
}

char *hw_fmt_count(char out[HW_UNIT_MAX], double n)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    return scaled(out, n, 1000, units, sizeof units / sizeof *units);
}

char *hw_fmt_duration(char out[HW_UNIT_MAX], int64_t ns)
{
    double s = (double)ns / 1e9;
    if (s < 60) {
        (void)snprintf(out, HW_UNIT_MAX, s < 9.9995 ? "%.3f s" : "%.1f s", s);
        return out;
    }
    long long whole = (long long)(s + 0.5);
    if (whole < 3600)
        (void)snprintf(out, HW_UNIT_MAX, "%lldm %02llds", whole / 60, whole % 60);
    else
        (void)snprintf(out, HW_UNIT_MAX, "%lldh %02lldm", whole / 3600, whole / 60 % 60);
    return out;
}

char *hw_fmt_clock(char out[HW_UNIT_MAX], int64_t ns)
{
    long long s = ns / 1000000000;
    if (ns < 1000000000)
        (void)snprintf(out, HW_UNIT_MAX, "%.0f ms", (double)ns / 1e6);
    else if (s < 60)
        (void)snprintf(out, HW_UNIT_MAX, "%.1f s", (double)ns / 1e9);
    else if (s < 3600)
        (void)snprintf(out, HW_UNIT_MAX, "%02lld:%02lld", s / 60, s % 60);
    else
        (void)snprintf(out, HW_UNIT_MAX, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return out;
}

size_t hw_text_width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* Where the parameter list begins: the last '(' outside of all brackets that is closed by the
 * text's last
 * ')'. 0 = there is none. "(anonymous namespace)" and "operator()" are parts of the name. */
static size_t parameters_at(const char *s, size_t n)
{
    size_t close = n;
    while (close > 0 && s[close - 1] != ')')
        close--;
    if (close == 0)
        return 0;
    int depth = 0;
    for (size_t i = close; i-- > 0;) {
        depth += s[i] == ')';
        depth -= s[i] == '(';
        if (depth != 0)
            continue;
        bool is_name = strncmp(s + i, "(anonymous namespace)", 21) == 0 ||
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
            cut++; /* not into the middle of a character */
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

void hw_print_folded(FILE *f, const char *text, size_t column, size_t indent, size_t width)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > width) {
            fprintf(f, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', f);
            column++;
        }
        fwrite(text, 1, word, f);
        column += word;
        text += word + strspn(text + word, " ");
    }
    fputc('\n', f);
}

void hw_put_cell(struct hw_strbuf *out, const char *text, size_t width)
{
    for (size_t w = hw_text_width(text); w < width; w++)
        hw_strbuf_addc(out, ' ');
    hw_strbuf_adds(out, text);
}

char *hw_fmt_change(char out[HW_UNIT_MAX], double v, bool bytes)
{
    char buf[HW_UNIT_MAX];
    if (v == 0)
        (void)snprintf(out, HW_UNIT_MAX, "0");
    else
        (void)snprintf(out, HW_UNIT_MAX, "%s%.*s", v > 0 ? "+" : "", (int)HW_UNIT_MAX - 2,
                       bytes ? hw_fmt_bytes(buf, v) : hw_fmt_count(buf, v));
    return out;
}

void hw_put_spark(struct hw_strbuf *out, const double *v, size_t n, size_t columns)
{
    double low = INFINITY, high = -INFINITY;
    if (columns > n)
        columns = n;
    for (size_t i = 0; i < n; i++) {
        low = fmin(low, v[i]);
        high = fmax(high, v[i]);
    }
    for (size_t i = 0; i < columns; i++) {
        double x = v[(i + 1) * n / columns - 1];
        int eighth = high > low ? (int)lrint(7 * (x - low) / (high - low)) : 0;
        char block[4] = {(char)0xe2, (char)0x96, (char)(0x81 + eighth), 0}; /* U+2581… */
        hw_strbuf_adds(out, block);
    }
}
