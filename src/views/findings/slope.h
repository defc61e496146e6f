/*
 * slope.h - how fast a series rises, and whether the rise is significant
 *
 * Why:     heap growth is not a straight line with normal errors: one spike must not make a slope.
 * Shapes:  Theil-Sen: the median of the slopes of all pairs of points; its interval is given by the
 *          slopes whose rank is 1.96 standard deviations of Kendall's S from the middle.
 *          Mann-Kendall: S is the number of pairs that rise minus those that fall, tau = S / all
 *          pairs. p is two-sided: of the exact distribution of S for at most HW_SLOPE_EXACT_MAX
 *          values without ties, else of the normal one with the correction for ties and for
 *          continuity.
 * Units:   slope in units of y per unit of t; t must not decrease.
 * Errors:  HW_ENOMEM. Fewer than two points: all 0, p = 1.
 * Cost:    O(n² log n) time, O(n²) memory: callers thin long series (trend.h does).
 * Threads: pure.
 * Source:  Sen 1968; Mann 1945; Kendall 1975. tests/unit/views/slope_test.c has figures of
 *          scipy's theilslopes and kendalltau
 */
#ifndef HW_VIEWS_FINDINGS_SLOPE_H
#define HW_VIEWS_FINDINGS_SLOPE_H

#include <stddef.h>

#define HW_SLOPE_EXACT_MAX 32u

struct hw_slope {
    double slope, low, high; /* median and 95 % interval */
    double s, tau, p;
};

int hw_slope_of(const double *t, const double *y, size_t n, struct hw_slope *out);

#endif
