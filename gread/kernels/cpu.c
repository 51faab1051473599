/* The kernels of reference.py for CPUs. Each of them is documented there. */

#include "rows.h"

#define BLOCK 256 /* elements that dropout processes at a time */
#define SMALL 16384 /* numbers below which a second thread does not pay off */

/* `call(packs)` for the packs of channels from k to `end`, as many at a time as possible, because
 * each call reads the entries of the row again. */
#define AT_A_TIME(packs, call)                                                                     \
    for (; (packs) <= PACKS && k + (packs) * LANES <= end; k += (packs) * LANES) call(packs);
#define MOST_FIRST(call)                                                                           \
    AT_A_TIME(16, call)                                                                            \
    AT_A_TIME(8, call)                                                                             \
    AT_A_TIME(4, call)                                                                             \
    AT_A_TIME(2, call)                                                                             \
    AT_A_TIME(1, call)

/* Row i of `gather` for one channel, where no whole pack is left. */
static inline void gather_one(const matrix *m, REAL *out, int64_t from, int64_t to, int64_t i,
                              int64_t c) {
    const int64_t d = m->d, at = i * d + c;
    REAL sum = 0, power = 1;
    for (int64_t e = from; e < to; e++) sum += m->weight[e] * m->x[m->column[e] * d + c];
    sum *= m->coef[c];
    for (int64_t p = 1; p <= m->degree; p++) {
        power *= m->x[at];
        sum += m->coef[p * d + c] * power;
    }
    for (int64_t b = 0; b < m->count; b++)
        sum += m->coef[(1 + m->degree + b) * d + c] * m->bases[b][at];
    out[at] = sum;
}

/* Row i of `gather`, for up to PACKS packs of channels from c on. */
static inline void gather_row(const matrix *m, REAL *out, int64_t from, int64_t to, int64_t i,
                              int64_t c) {
    const int64_t d = m->d, end = c + PACKS * LANES < d ? c + PACKS * LANES : d;
    int64_t k = c;
#define GATHER_PACKS(packs) gather_packs(m, out, from, to, i, k, packs)
    MOST_FIRST(GATHER_PACKS)
    if (k < end && d >= LANES) /* the last pack overlaps the one before */
        gather_packs(m, out, from, to, i, d - LANES, 1);
    else
        for (; k < end; k++) gather_one(m, out, from, to, i, k);
}

void gather(const int64_t *start, const int32_t *column, const REAL *weight, const REAL *y,
            const REAL *coef, const REAL *const *bases, REAL *out, int64_t n, int64_t d,
            int64_t entries, int64_t degree, int64_t count, int64_t threads) {
    const matrix m = {column, weight, y, coef, bases, d, entries, degree, count, 0};
#pragma omp parallel num_threads(threads) if (entries * d > SMALL)
    for (int64_t c = 0; c < d; c += PACKS * LANES) { /* all rows of channels that fit the cache */
#pragma omp for schedule(static)
        for (int64_t part = 0; part < PARTS; part++) {
            const int64_t last = first_row(start, n, part + 1);
            for (int64_t i = first_row(start, n, part); i < last; i++)
                gather_row(&m, out, start[i], start[i + 1], i, c);
        }
    }
}

static inline void pull_one(const matrix *m, const REAL *y, REAL *out, REAL *sums, int64_t from,
                            int64_t to, int64_t i, int64_t c) {
    const int64_t d = m->d, at = i * d + c;
    REAL sum = 0, power = m->x[at];
    for (int64_t e = from; e < to; e++) sum += m->weight[e] * m->x[m->column[e] * d + c];
    sums[c] += sum * y[at];
    sum *= m->coef[c];
    for (int64_t p = 1; p <= m->degree; p++) {
        sum += m->coef[p * d + c] * power;
        power *= y[at];
        sums[p * d + c] += power;
    }
    for (int64_t b = 0; b < m->count; b++)
        sum += m->coef[(1 + m->degree + b) * d + c] * m->bases[b][at];
    out[at] = sum;
}

/* `sums` has a slice [1 + degree + base_dot, d] of zeros for each part of the rows. The slices are
 * added afterwards, in an order that does not depend on the number of threads. */
void pull(const int64_t *start, const int32_t *column, const REAL *weight, const REAL *g,
          const REAL *y, const REAL *coef, const REAL *const *bases, REAL *out, REAL *sums,
          int64_t n, int64_t d, int64_t entries, int64_t degree, int64_t count, int64_t base_dot,
          int64_t threads) {
    const matrix m = {column, weight, g, coef, bases, d, entries, degree, count, 0};
    const int64_t size = (1 + degree + base_dot) * d;
#pragma omp parallel num_threads(threads) if (entries * d > SMALL)
    for (int64_t c = 0; c < d; c += PACKS * LANES) {
        const int64_t end = c + PACKS * LANES < d ? c + PACKS * LANES : d;
#pragma omp for schedule(static)
        for (int64_t part = 0; part < PARTS; part++) {
            REAL *own = sums + part * size;
            const int64_t last = first_row(start, n, part + 1);
            for (int64_t i = first_row(start, n, part); i < last; i++) {
                const int64_t from = start[i], to = start[i + 1];
                int64_t k = c;
#define PULL_PACKS(packs) pull_packs(&m, y, out, own, from, to, i, k, packs)
                MOST_FIRST(PULL_PACKS)
                for (; k < end; k++) pull_one(&m, y, out, own, from, to, i, k);
                if (base_dot) /* not above, where few registers are left */
                    for (k = c; k < end; k++)
                        own[size - d + k] += bases[0][i * d + k] * y[i * d + k];
            }
        }
    }
    for (int64_t part = 1; part < PARTS; part++)
        SIDE_BY_SIDE(c, size) sums[c] += sums[part * size + c];
}

static inline REAL dot(const REAL *a, const REAL *b, int64_t d) {
    pack s[4] = {{0}};
    int64_t c = 0;
    for (; c + 4 * LANES <= d; c += 4 * LANES) EACH(k, 4) s[k] += AT(a + c, k) * AT(b + c, k);
    for (; c + LANES <= d; c += LANES) s[0] += AT(a + c, 0) * AT(b + c, 0);
    s[0] = (s[0] + s[1]) + (s[2] + s[3]);
    REAL sum = 0;
    EACH(k, LANES) sum += s[0][k];
    for (; c < d; c++) sum += a[c] * b[c];
    return sum;
}

void edge_dots(const int64_t *start, const int32_t *column, const REAL *const *left,
               const REAL *const *right, REAL *out, int64_t n, int64_t d, int64_t entries,
               int64_t pairs, int64_t threads) {
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = start[i]; e < start[i + 1]; e++) {
            if (e + AHEAD < entries)
                for (int64_t p = 0; p < pairs; p++) {
                    const char *next = (const char *)(right[p] + column[e + AHEAD] * d);
                    for (size_t line = 0; line < d * sizeof(REAL); line += 64)
                        __builtin_prefetch(next + line);
                }
            REAL sum = 0;
            for (int64_t p = 0; p < pairs; p++)
                sum += dot(left[p] + i * d, right[p] + column[e] * d, d);
            out[e] += sum;
        }
}

/* scale times the dot product of every head. The compiler unrolls the loops of constant size. */
static void dots_of_heads(const REAL *a, const REAL *b, REAL scale, REAL *out, int64_t heads,
                          int64_t size) {
#define OF_SIZE(SIZE)                                                                              \
    case SIZE:                                                                                     \
        for (int64_t h = 0; h < heads; h++) {                                                      \
            REAL sum = 0;                                                                          \
            for (int64_t c = h * SIZE; c < (h + 1) * SIZE; c++) sum += a[c] * b[c];                \
            out[h] = scale * sum;                                                                  \
        }                                                                                          \
        return;
    switch (size) {
        OF_SIZE(2)
        OF_SIZE(4)
        OF_SIZE(8)
    default:
        for (int64_t h = 0; h < heads; h++) out[h] = scale * dot(a + h * size, b + h * size, size);
    }
#undef OF_SIZE
}

void head_dots(const int64_t *start, const int32_t *column, const REAL *q, const REAL *k, REAL *out,
               int64_t n, int64_t heads, int64_t size, int64_t entries, int64_t threads) {
    const int64_t d = heads * size;
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = start[i]; e < start[i + 1]; e++)
            dots_of_heads(q + i * d, k + column[e] * d, 1, out + e * heads, heads, size);
}

/* Replaces scores by shares, for the entries of a row and one head. */
static void share(const REAL *weight, REAL *out, int64_t first, int64_t last, int64_t heads,
                  int64_t h) {
    REAL highest = -INFINITY, total = 0;
    for (int64_t e = first; e < last; e++) {
        const REAL score = out[e * heads + h];
        /* Entries of zero weight are excluded from the maximum: a large one would make all others
           underflow. */
        if ((!weight || weight[e]) && score > highest) highest = score;
    }
    for (int64_t e = first; e < last; e++) {
        REAL part = weight && !weight[e] ? 0 : exp(out[e * heads + h] - highest);
        if (weight) part *= weight[e];
        out[e * heads + h] = part;
        total += part;
    }
    const REAL factor = total == 0 ? 0 : 1 / total;
    for (int64_t e = first; e < last; e++) out[e * heads + h] *= factor;
}

void shares(const int64_t *start, const REAL *weight, REAL *out, int64_t n, int64_t heads,
            int64_t entries, int64_t threads) {
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * heads > SMALL)
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < heads; h++) share(weight, out, start[i], start[i + 1], heads, h);
}

void attend(const int64_t *start, const int32_t *column, const REAL *q, const REAL *k,
            const REAL *weight, REAL *out, int64_t n, int64_t heads, int64_t size, int64_t entries,
            int64_t threads) {
    const int64_t d = heads * size;
    const REAL scale = 1 / (REAL)sqrt((double)size);
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++) {
        for (int64_t e = start[i]; e < start[i + 1]; e++)
            dots_of_heads(q + i * d, k + column[e] * d, scale, out + e * heads, heads, size);
        for (int64_t h = 0; h < heads; h++) share(weight, out, start[i], start[i + 1], heads, h);
    }
}

/* `step` is the number of gradients of an entry: heads, or 1 if all heads share one. */
void attend_back(const int64_t *start, const REAL *attention, const REAL *grad, REAL *out,
                 int64_t n, int64_t heads, int64_t step, int64_t entries, int64_t threads) {
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * heads > SMALL)
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t part = step == 1 ? 0 : h;
            REAL mean = 0;
            for (int64_t e = start[i]; e < start[i + 1]; e++)
                mean += attention[e * heads + h] * grad[e * step + part];
            for (int64_t e = start[i]; e < start[i + 1]; e++)
                out[e * heads + h] = attention[e * heads + h] * (grad[e * step + part] - mean);
        }
}

void gather_heads(const int64_t *start, const int32_t *column, const REAL *weight, const REAL *y,
                  REAL *out, int64_t n, int64_t heads, int64_t size, int64_t entries,
                  int64_t threads) {
    const int64_t d = heads * size;
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++) {
        REAL *restrict o = out + i * d;
        for (int64_t c = 0; c < d; c++) o[c] = 0;
        for (int64_t e = start[i]; e < start[i + 1]; e++) {
            const REAL *row = y + column[e] * d;
            for (int64_t h = 0; h < heads; h++) {
                const REAL w = weight[e * heads + h];
                for (int64_t c = h * size; c < (h + 1) * size; c++) o[c] += w * row[c];
            }
        }
    }
}

/* Dropout: an element is kept if the hash of its index and the seed is at least the limit. */
typedef struct {
    uint32_t first, limit;
    REAL factor;
} dropped;

#define STEP 0x9E3779B9u /* increment of the hash per index, before mixing */

static dropped dropout_of(const int64_t *seed, int64_t limit, double keep) {
    const uint32_t number = seed ? (uint32_t)seed[0] : 0; /* not used without a seed */
    return (dropped){number * 0x85EBCA6Bu, (uint32_t)limit, (REAL)(1 / keep)};
}

INLINE uint32_t mixed(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x7FEB352Du;
    bits = (bits ^ (bits >> 15)) * 0x846CA68Bu;
    return bits ^ (bits >> 16);
}

/* Factors of the elements from index n on. */
INLINE void factors(const dropped p, REAL *restrict out, uint32_t n, uint32_t count) {
    uint32_t bits = n * STEP + p.first;
    for (uint32_t k = 0; k < count; k++, bits += STEP) out[k] = mixed(bits) >= p.limit ? p.factor : 0;
}

void dropout(const REAL *x, const int64_t *seed, REAL *out, int64_t count, int64_t limit,
             double keep, int64_t threads) {
    const dropped p = dropout_of(seed, limit, keep);
#pragma omp parallel for schedule(static) num_threads(threads) if (count > SMALL)
    for (int64_t n = 0; n < count; n += BLOCK) {
        const int64_t size = count - n < BLOCK ? count - n : BLOCK;
        const REAL *from = x + n;
        REAL *restrict to = out + n, factor[BLOCK];
        factors(p, factor, n, size);
        SIDE_BY_SIDE(k, size) to[k] = factor[k] * from[k];
    }
}

/* out[c] = the sum over the parts of sums[part, c], in the same order for any number of threads. */
static void add_parts(const REAL *sums, int64_t size, REAL *restrict out, int64_t first,
                      int64_t count) {
    for (int64_t c = 0; c < count; c++) out[c] = sums[first + c];
    for (int64_t part = 1; part < PARTS; part++)
        SIDE_BY_SIDE(c, count) out[c] += sums[part * size + first + c];
}

/* z = scale * row + shift, or the row without a scale. */
INLINE void scaled(const REAL *restrict row, const REAL *scale, REAL *restrict z, int64_t d) {
    if (scale)
        SIDE_BY_SIDE(c, d) z[c] = scale[c] * row[c] + scale[d + c];
    else
        SIDE_BY_SIDE(c, d) z[c] = row[c];
}

/* Mean and variance of every channel, from those of the parts. `sums` has two slices [d] of zeros
 * for each part of the rows. */
static void moments(const REAL *h, REAL *restrict mean, REAL *restrict variance, REAL *sums,
                    int64_t n, int64_t d, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (n * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++) {
        const int64_t first = n * part / PARTS, last = n * (part + 1) / PARTS;
        REAL *restrict own = sums + part * 2 * d, *restrict spread = own + d;
        for (int64_t i = first; i < last; i++) SIDE_BY_SIDE(c, d) own[c] += h[i * d + c];
        SIDE_BY_SIDE(c, d) own[c] /= last > first ? last - first : 1;
        for (int64_t i = first; i < last; i++)
            SIDE_BY_SIDE(c, d) {
                const REAL off = h[i * d + c] - own[c];
                spread[c] += off * off;
            }
    }
    for (int64_t c = 0; c < d; c++) mean[c] = variance[c] = 0;
    for (int64_t pass = 0; pass < 2; pass++)
        for (int64_t part = 0; part < PARTS; part++) {
            const REAL share = (REAL)(n * (part + 1) / PARTS - n * part / PARTS) / n;
            const REAL *own = sums + part * 2 * d, *spread = own + d;
            if (pass == 0) {
                SIDE_BY_SIDE(c, d) mean[c] += share * own[c];
                continue;
            }
            SIDE_BY_SIDE(c, d) {
                const REAL off = own[c] - mean[c];
                variance[c] += spread[c] / n + share * off * off;
            }
        }
}

/* Without a weight there is no normalization, without a seed no dropout. `scales` gets four rows,
 * see reference.py. */
void activate(const REAL *h, const REAL *weight, const REAL *bias, REAL *running_mean,
              REAL *running_var, const int64_t *seed, REAL *out, REAL *scales, REAL *sums,
              int64_t n, int64_t d, int64_t relu, int64_t training, int64_t limit, double keep,
              double momentum, double eps, int64_t threads) {
    if (weight) {
        REAL *mean = scales + 2 * d, *inverse = mean + d;
        if (training) moments(h, mean, inverse, sums, n, d, threads);
        for (int64_t c = 0; c < d; c++) {
            if (training) {
                const REAL unbiased = inverse[c] * ((REAL)n / (n > 1 ? n - 1 : 1));
                running_mean[c] += (REAL)momentum * (mean[c] - running_mean[c]);
                running_var[c] += (REAL)momentum * (unbiased - running_var[c]);
            } else {
                mean[c] = running_mean[c];
                inverse[c] = running_var[c];
            }
            inverse[c] = 1 / sqrt(inverse[c] + (REAL)eps);
            scales[c] = weight[c] * inverse[c];
            scales[d + c] = bias[c] - mean[c] * scales[c];
        }
    }
    const dropped p = dropout_of(seed, limit, keep);
#pragma omp parallel for schedule(static) num_threads(threads) if (n * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
            REAL *restrict z = out + i * d, factor[d];
            scaled(h + i * d, scales, z, d);
            if (relu) SIDE_BY_SIDE(c, d) z[c] = z[c] < 0 ? 0 : z[c]; /* NaN stays */
            if (!seed) continue;
            factors(p, factor, i * d, d);
            SIDE_BY_SIDE(c, d) z[c] *= factor[c];
        }
}

/* The first pass writes the gradient of the activation's argument, the second that of h. */
void activate_back(const REAL *grad, const REAL *h, const REAL *scales, const int64_t *seed,
                   REAL *out, REAL *total, REAL *sums, int64_t n, int64_t d, int64_t relu,
                   int64_t training, int64_t limit, double keep, int64_t threads) {
    const REAL *mean = scales + 2 * d, *inverse = mean + d;
    const dropped p = dropout_of(seed, limit, keep);
#pragma omp parallel for schedule(static) num_threads(threads) if (n * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++) {
        REAL *restrict weights = sums + part * 2 * d, *restrict biases = weights + d;
        for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
            const REAL *row = h + i * d, *from = grad + i * d;
            REAL *restrict g = out + i * d, room[d];
            if (seed) {
                factors(p, room, i * d, d);
                SIDE_BY_SIDE(c, d) g[c] = room[c] * from[c];
            } else
                SIDE_BY_SIDE(c, d) g[c] = from[c];
            scaled(row, scales, room, d);
            if (relu) SIDE_BY_SIDE(c, d) g[c] = room[c] > 0 ? g[c] : 0;
            if (!scales) continue;
            SIDE_BY_SIDE(c, d) {
                weights[c] += (row[c] - mean[c]) * inverse[c] * g[c];
                biases[c] += g[c];
            }
        }
    }
    if (!scales) return;
    add_parts(sums, 2 * d, total, 0, 2 * d);
    REAL slope[d], offset[d];
    for (int64_t c = 0; c < d; c++) { /* the gradient is scale * g + slope * h + offset */
        slope[c] = training ? -scales[c] * inverse[c] * total[c] / n : 0;
        offset[c] = training ? -scales[c] * total[d + c] / n - slope[c] * mean[c] : 0;
    }
#pragma omp parallel for schedule(static) num_threads(threads) if (n * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++)
        for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
            const REAL *row = h + i * d;
            REAL *restrict g = out + i * d;
            SIDE_BY_SIDE(c, d) g[c] = scales[c] * g[c] + (slope[c] * row[c] + offset[c]);
        }
}

/* Rows with a negative target are ignored. `sums` has a slice of zeros for each part of the rows:
 * the gradients of the weight [width, d] and the bias [width], and the loss. */
void drop_cross_entropy(const REAL *x, const int64_t *seed, const REAL *weight, const REAL *bias,
                        const int64_t *target, REAL *loss, REAL *out, REAL *grad_weight,
                        REAL *grad_bias, REAL *sums, int64_t n, int64_t d, int64_t width,
                        int64_t limit, double keep, double scale, int64_t threads) {
    const dropped p = dropout_of(seed, limit, keep);
    const int64_t biases = width * d, last = biases + width, size = last + 1;
#pragma omp parallel for schedule(static) num_threads(threads) if (n * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++) {
        REAL *restrict sum = sums + part * size;
        for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
            REAL *restrict o = out + i * d, factor[d], row[d], g[width], highest = -INFINITY, total = 0;
            if (target[i] < 0) {
                for (int64_t c = 0; c < d; c++) o[c] = 0;
                continue;
            }
            factors(p, factor, i * d, d);
            SIDE_BY_SIDE(c, d) row[c] = factor[c] * x[i * d + c];
            for (int64_t k = 0; k < width; k++) {
                g[k] = bias[k] + dot(row, weight + k * d, d);
                if (!(g[k] <= highest)) highest = g[k]; /* NaN stays */
            }
            const REAL own = g[target[i]] - highest;
            for (int64_t k = 0; k < width; k++) total += g[k] = exp(g[k] - highest);
            sum[last] += (REAL)scale * (log(total) - own);
            for (int64_t k = 0; k < width; k++)
                g[k] = (REAL)scale * (g[k] / total - (k == target[i]));
            SIDE_BY_SIDE(c, d) o[c] = g[0] * weight[c];
            for (int64_t k = 1; k < width; k++) SIDE_BY_SIDE(c, d) o[c] += g[k] * weight[k * d + c];
            SIDE_BY_SIDE(c, d) o[c] *= factor[c];
            for (int64_t k = 0; k < width; k++) {
                SIDE_BY_SIDE(c, d) sum[k * d + c] += g[k] * row[c];
                sum[biases + k] += g[k];
            }
        }
    }
    add_parts(sums, size, grad_weight, 0, biases);
    add_parts(sums, size, grad_bias, biases, width);
    add_parts(sums, size, loss, last, 1);
}

/* `sums` has a slice [sets + 1] of zeros for each part of the rows. */
void score(const REAL *x, const REAL *bias, const int64_t *target, const REAL *in_set,
           const REAL *counts, REAL *out, REAL *sums, int64_t n, int64_t width, int64_t sets,
           int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (n * width > SMALL)
    for (int64_t part = 0; part < PARTS; part++) {
        REAL *restrict sum = sums + part * (sets + 1);
        for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
            REAL z[width], undefined = 0, total = 0;
            int64_t best = 0;
            for (int64_t k = 0; k < width; k++) {
                z[k] = x[i * width + k] + bias[k];
                undefined += 0 * z[k]; /* NaN if z[k] is not finite */
                if (z[k] > z[best]) best = k;
            }
            const REAL right = (best == target[i]) + undefined;
            for (int64_t s = 0; s < sets; s++) sum[s] += in_set[s * n + i] * right;
            sum[sets] += undefined;
            if (counts[i] == 0) continue;
            for (int64_t k = 0; k < width; k++) total += exp(z[k] - z[best]);
            sum[sets] += counts[i] * (log(total) + z[best] - z[target[i]]);
        }
    }
    add_parts(sums, sets + 1, out, 0, sets + 1);
}

/* out = bias, if there is one, + the sum over the kept entries of value * y[column]. Entry e has
 * index order[e] in the values, or e without an order. `columns` and `weights` are buffers for the
 * kept entries, and `ends` for the end of each row there. A part of the rows has the same first
 * offset as in the matrix. */
void drop_gather(const int64_t *start, const int32_t *column, const int64_t *order,
                 const REAL *value, const int64_t *seed, const REAL *y, const REAL *ones,
                 const REAL *bias, REAL *out, int32_t *columns, REAL *weights, int64_t *ends,
                 int64_t n, int64_t d, int64_t entries, int64_t limit, double keep,
                 int64_t threads) {
    const dropped p = dropout_of(seed, limit, keep);
#pragma omp parallel for schedule(static) num_threads(threads) if (entries * d > SMALL)
    for (int64_t part = 0; part < PARTS; part++) {
        const int64_t first = first_row(start, n, part), last = first_row(start, n, part + 1);
        int64_t end = start[first];
        for (int64_t i = first; i < last; i++) {
            for (int64_t e = start[i]; e < start[i + 1]; e++) {
                const int64_t number = order ? order[e] : e;
                columns[end] = column[e];
                weights[end] = p.factor * value[number];
                /* Without a branch, which would be mispredicted half of the time. */
                end += mixed((uint32_t)number * STEP + p.first) >= p.limit;
            }
            ends[i] = end;
        }
        const matrix m = {.column = columns, .weight = weights, .x = y, .coef = ones, .d = d,
                          .entries = end};
        for (int64_t i = first; i < last; i++) {
            const int64_t from = i == first ? start[first] : ends[i - 1];
            for (int64_t c = 0; c < d; c += PACKS * LANES) gather_row(&m, out, from, ends[i], i, c);
            if (bias) SIDE_BY_SIDE(c, d) out[i * d + c] += bias[c];
        }
    }
}
