#include "views/findings/slope.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sum of f over the sizes of groups of equal values; v is sorted. */
static double over_ties(const double *v, size_t n, double (*f)(double))
{
    double sum = 0;
    for (size_t i = 0; i < n;) {
        size_t k = i + 1;
        while (k < n && v[k] <= v[i])
            k++;
        sum += f((double)(k - i));
        i = k;
    }
    return sum;
}

static double tie_term(double g)
{
    return g * (g - 1) * (2 * g + 5);
}

static double tied_pairs(double g)
{
    return g * (g - 1) / 2;
}

/* P(|S| >= |s|) when all orders are equally likely. The number of inversions of a random order is
 * a sum of independent uniform numbers 0..i: their distributions are convolved one by one. */
static double exact_p(size_t n, double s)
{
    enum { MAX_PAIRS = HW_SLOPE_EXACT_MAX * (HW_SLOPE_EXACT_MAX - 1) / 2 };
    double now[MAX_PAIRS + 1] = {1}, next[MAX_PAIRS + 1];
    size_t pairs = 0;
    for (size_t i = 2; i <= n; i++) {
        double window = 0;
        for (size_t k = 0; k <= pairs + i - 1; k++) {
            window += k <= pairs ? now[k] : 0;
            window -= k >= i && k - i <= pairs ? now[k - i] : 0;
            next[k] = fmax(window, 0) / (double)i;
        }
        pairs += i - 1;
        memcpy(now, next, (pairs + 1) * sizeof *now);
    }
    double most = ((double)pairs - fabs(s)) / 2; /* inversions of an equally extreme order */
    double tail = 0;
    for (size_t k = 0; k <= pairs && (double)k <= most + 0.25; k++)
        tail += now[k];
    return fmin(1, 2 * tail);
}

static double normal_p(double s, double variance)
{
    if (variance <= 0 || s == 0)
        return 1;
    return erfc((fabs(s) - 1) / sqrt(variance) / sqrt(2));
}

static void interval(const double *v, size_t n_pairs, double variance, struct hw_slope *out)
{
    double half = 1.959963984540054 * sqrt(fmax(variance, 0)), pairs = (double)n_pairs;
    double low = rint((pairs - half) / 2) - 1, high = rint((pairs + half) / 2);
    out->slope = n_pairs % 2 ? v[n_pairs / 2] : (v[n_pairs / 2 - 1] + v[n_pairs / 2]) / 2;
    out->low = v[low > 0 ? (size_t)low : 0];
    out->high = v[high < pairs ? (size_t)high : n_pairs - 1];
}

static void rank_test(const double *t, const double *y, size_t n, double *sorted,
                      struct hw_slope *out, double *variance)
{
    double k = (double)n, full = k * (k - 1) * (2 * k + 5);
    memcpy(sorted, t, n * sizeof *t);
    double t_ties = over_ties(sorted, n, tie_term);
    memcpy(sorted, y, n * sizeof *y);
    qsort(sorted, n, sizeof *sorted, by_value);
    double y_ties = over_ties(sorted, n, tie_term);
    double y_tied_pairs = over_ties(sorted, n, tied_pairs);
    *variance = (full - t_ties - y_ties) / 18;
    out->tau = out->s / (k * (k - 1) / 2);
    out->p = n <= HW_SLOPE_EXACT_MAX && y_tied_pairs == 0 && t_ties == 0
                 ? exact_p(n, out->s)
                 : normal_p(out->s, *variance);
}

int hw_slope_of(const double *t, const double *y, size_t n, struct hw_slope *out)
{
    *out = (struct hw_slope){.p = 1};
    if (n < 2)
        return HW_OK;
    double *v = malloc((n * (n - 1) / 2 + n) * sizeof *v), variance;
    if (!v)
        return HW_ENOMEM;
    size_t n_pairs = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (t[j] <= t[i])
                continue;
            v[n_pairs++] = (y[j] - y[i]) / (t[j] - t[i]);
            out->s += (y[j] > y[i]) - (y[j] < y[i]);
        }
    }
    rank_test(t, y, n, v + n * (n - 1) / 2, out, &variance);
    if (n_pairs) {
        qsort(v, n_pairs, sizeof *v, by_value);
        interval(v, n_pairs, variance, out);
    }
    free(v);
    return HW_OK;
}
