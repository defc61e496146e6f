#include "config/command/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static char *scaled(char *out, double v, double step, const char *const *units, size_t n_units)
{
    size_t u = 0;
    double a = fabs(v);
    if (!isfinite(v)) {
        (void)snprintf(out, HW_UNIT_MAX, "?");
        return out;
    }
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

char *hw_fmt_error(char out[HW_UNIT_MAX], double figure, double error, bool unicode)
{
    const char *sign = unicode ? "\xc2\xb1" : "+-";
    double percent = 100 * error / fabs(figure);
    if (error <= 0 || fabs(figure) <= 0)
        out[0] = 0;
    else if (!isfinite(percent))
        (void)snprintf(out, HW_UNIT_MAX, " %s?", sign);
    else if (percent >= 10000)
        (void)snprintf(out, HW_UNIT_MAX, " %s>999%%", sign);
    else
        (void)snprintf(out, HW_UNIT_MAX, percent < 9.95 ? " %s%.1f%%" : " %s%.0f%%", sign, percent);
    return out;
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
    if (out->n && out->p[out->n - 1] != ' ' && hw_text_width(text) >= width)
        hw_strbuf_addc(out, ' '); /* cells never run together */
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
