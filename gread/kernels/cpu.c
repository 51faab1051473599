/* The kernels of gread/kernels/plain.py for CPUs: what each computes is said there.
 *
 * Plain C without headers of PyTorch, so that it compiles in a moment at first use and depends on
 * no version. The file includes itself once for each number type. Sums are taken in an order that
 * does not depend on the number of threads. */

#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes in a register, and how many registers sum at a time: 256 bytes in all. */
#if defined(__AVX512F__)
#define PACK 64
#elif defined(__AVX__)
#define PACK 32
#else
#define PACK 16
#endif
#define PACKS (256 / PACK)
#define UNROLL _Pragma("GCC unroll 16")
#define AHEAD 8     /* entries between a prefetch and its use */
#define SIMD _Pragma("omp simd") /* what a loop writes to is not what it reads from */
#define BLOCK 256   /* elements that dropout treats at a time */
#define SMALL 16384 /* numbers below which a second thread costs more than it brings */

#define REAL float
#define EXP expf
#define NAME(kernel) kernel##_float
#include "cpu.c"
#undef REAL
#undef EXP
#undef NAME

#define REAL double
#define EXP exp
#define NAME(kernel) kernel##_double
#include "cpu.c"

#else

typedef REAL NAME(pack) __attribute__((vector_size(PACK), aligned(sizeof(REAL))));
#define LANES ((int64_t)(PACK / sizeof(REAL)))

/* sum[c] = sum over the entries of weight * y[column, c], for PACKS packs of channels from y on.
 * Unrolled, the sums stay in registers. */
static inline void NAME(sum_many)(REAL *sum, const int32_t *column, const REAL *weight,
                                  int64_t from, int64_t to, int64_t entries, const REAL *y,
                                  int64_t stride) {
    NAME(pack) s[PACKS];
    UNROLL for (int k = 0; k < PACKS; k++) s[k] = (NAME(pack)){0};
    for (int64_t e = from; e < to; e++) {
        if (e + AHEAD < entries) {
            const char *next = (const char *)(y + column[e + AHEAD] * stride);
            UNROLL for (int line = 0; line < PACK * PACKS; line += 64)
                __builtin_prefetch(next + line);
        }
        const REAL w = weight[e];
        const NAME(pack) *row = (const NAME(pack) *)(y + column[e] * stride);
        UNROLL for (int k = 0; k < PACKS; k++) s[k] += w * row[k];
    }
    UNROLL for (int k = 0; k < PACKS; k++) ((NAME(pack) *)sum)[k] = s[k];
}

static inline void NAME(sum_one)(REAL *sum, const int32_t *column, const REAL *weight,
                                 int64_t from, int64_t to, const REAL *y, int64_t stride) {
    NAME(pack) s = {0};
    for (int64_t e = from; e < to; e++)
        s += weight[e] * *(const NAME(pack) *)(y + column[e] * stride);
    *(NAME(pack) *)sum = s;
}

/* The same for a whole row of d channels: many packs at a time, then one, then the rest. */
static inline void NAME(row_sum)(REAL *restrict sum, const int32_t *column, const REAL *weight,
                                 int64_t from, int64_t to, int64_t entries, const REAL *y,
                                 int64_t d) {
    int64_t c = 0;
    for (; c + PACKS * LANES <= d; c += PACKS * LANES)
        NAME(sum_many)(sum + c, column, weight, from, to, entries, y + c, d);
    for (; c + LANES <= d; c += LANES)
        NAME(sum_one)(sum + c, column, weight, from, to, y + c, d);
    for (int64_t k = c; k < d; k++) sum[k] = 0;
    if (c < d)
        for (int64_t e = from; e < to; e++)
            for (int64_t k = c; k < d; k++) sum[k] += weight[e] * y[column[e] * d + k];
}

static inline void NAME(add_bases)(REAL *restrict out, const REAL *coef,
                                   const REAL *const *bases, int64_t count, int64_t i, int64_t d) {
    for (int64_t m = 0; m < count; m++) {
        const REAL *base = bases[m] + i * d, *factor = coef + m * d;
        SIMD for (int64_t c = 0; c < d; c++) out[c] += factor[c] * base[c];
    }
}

void NAME(gather)(const int64_t *start, const int32_t *column, const REAL *weight, const REAL *y,
                  const REAL *coef, const REAL *const *bases, REAL *out, int64_t n, int64_t d,
                  int64_t entries, int64_t degree, int64_t count, int64_t threads) {
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++) {
        REAL *restrict o = out + i * d;
        const REAL *own = y + i * d, *c1 = coef + d, *c2 = c1 + d, *c3 = c2 + d;
        NAME(row_sum)(o, column, weight, start[i], start[i + 1], entries, y, d);
        if (degree == 0)
            SIMD for (int64_t c = 0; c < d; c++) o[c] *= coef[c];
        else if (degree == 1)
            SIMD for (int64_t c = 0; c < d; c++) o[c] = coef[c] * o[c] + c1[c] * own[c];
        else if (degree == 2)
            SIMD for (int64_t c = 0; c < d; c++)
                o[c] = coef[c] * o[c] + (c1[c] + c2[c] * own[c]) * own[c];
        else
            SIMD for (int64_t c = 0; c < d; c++)
                o[c] = coef[c] * o[c] + (c1[c] + (c2[c] + c3[c] * own[c]) * own[c]) * own[c];
        NAME(add_bases)(o, coef + (1 + degree) * d, bases, count, i, d);
    }
}

/* `sums` has a slice [1 + degree, d] of zeros for each block of rows: they are added up after. */
void NAME(pull)(const int64_t *start, const int32_t *column, const REAL *weight, const REAL *g,
                const REAL *y, const REAL *coef, const REAL *const *bases, REAL *out, REAL *sums,
                int64_t n, int64_t d, int64_t entries, int64_t degree, int64_t count,
                int64_t blocks, int64_t threads) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (entries * d > SMALL)
    for (int64_t block = 0; block < blocks; block++) {
        REAL *restrict s0 = sums + block * (1 + degree) * d, *restrict s1 = s0 + d;
        REAL *restrict s2 = s1 + d, *restrict s3 = s2 + d;
        const REAL *c1 = coef + d, *c2 = c1 + d, *c3 = c2 + d;
        for (int64_t i = block * n / blocks; i < (block + 1) * n / blocks; i++) {
            REAL *restrict o = out + i * d;
            const REAL *a = g + i * d, *b = y + i * d;
            NAME(row_sum)(o, column, weight, start[i], start[i + 1], entries, g, d);
            if (degree == 1)
                SIMD for (int64_t c = 0; c < d; c++) {
                    s0[c] += o[c] * b[c];
                    s1[c] += a[c] * b[c];
                    o[c] = coef[c] * o[c] + c1[c] * a[c];
                }
            else if (degree == 2)
                SIMD for (int64_t c = 0; c < d; c++) {
                    const REAL first = a[c] * b[c];
                    s0[c] += o[c] * b[c];
                    s1[c] += first;
                    s2[c] += first * b[c];
                    o[c] = coef[c] * o[c] + c1[c] * a[c] + c2[c] * first;
                }
            else
                SIMD for (int64_t c = 0; c < d; c++) {
                    const REAL first = a[c] * b[c], second = first * b[c];
                    s0[c] += o[c] * b[c];
                    s1[c] += first;
                    s2[c] += second;
                    s3[c] += second * b[c];
                    o[c] = coef[c] * o[c] + c1[c] * a[c] + c2[c] * first + c3[c] * second;
                }
            NAME(add_bases)(o, coef + (1 + degree) * d, bases, count, i, d);
        }
    }
}

static inline REAL NAME(dot)(const REAL *a, const REAL *b, int64_t d) {
    REAL lanes[16] = {0}, sum = 0; /* 16 sums side by side, which the compiler may vectorise */
    int64_t c = 0;
    for (; c + 16 <= d; c += 16)
        for (int k = 0; k < 16; k++) lanes[k] += a[c + k] * b[c + k];
    for (; c < d; c++) sum += a[c] * b[c];
    for (int k = 0; k < 16; k++) sum += lanes[k];
    return sum;
}

void NAME(edge_dots)(const int64_t *start, const int32_t *column, const REAL *const *left,
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
                sum += NAME(dot)(left[p] + i * d, right[p] + column[e] * d, d);
            out[e] = sum;
        }
}

void NAME(attend)(const int64_t *start, const int32_t *column, const REAL *q, const REAL *k,
                  const REAL *weight, REAL *out, int64_t n, int64_t heads, int64_t size,
                  int64_t entries, int64_t threads) {
    const int64_t d = heads * size;
    const REAL scale = 1 / (REAL)sqrt((double)size);
#pragma omp parallel for schedule(dynamic, 32) num_threads(threads) if (entries * d > SMALL)
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < heads; h++) {
            REAL highest = -INFINITY, total = 0;
            for (int64_t e = start[i]; e < start[i + 1]; e++) {
                const REAL *other = k + column[e] * d + h * size;
                const REAL score = scale * NAME(dot)(q + i * d + h * size, other, size);
                out[e * heads + h] = score;
                highest = score > highest ? score : highest;
            }
            for (int64_t e = start[i]; e < start[i + 1]; e++) {
                REAL part = EXP(out[e * heads + h] - highest);
                if (weight) part *= weight[e];
                out[e * heads + h] = part;
                total += part;
            }
            const REAL factor = total == 0 ? 0 : 1 / total;
            for (int64_t e = start[i]; e < start[i + 1]; e++) out[e * heads + h] *= factor;
        }
}

/* `step` is the number of gradients an entry has: heads, or 1 where all heads share it. */
void NAME(attend_back)(const int64_t *start, const REAL *attention, const REAL *grad, REAL *out,
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

void NAME(gather_heads)(const int64_t *start, const int32_t *column, const REAL *weight,
                        const REAL *y, REAL *out, int64_t n, int64_t heads, int64_t size,
                        int64_t entries, int64_t threads) {
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

void NAME(dropout)(const REAL *x, const int64_t *seed, REAL *out, int64_t count, int64_t limit,
                   double keep, int64_t threads) {
    const REAL factor = (REAL)(1 / keep);
    const uint32_t first = (uint32_t)seed[0] * 0x85EBCA6Bu;
#pragma omp parallel for schedule(static) num_threads(threads) if (count > SMALL)
    for (int64_t n = 0; n < count; n += BLOCK) {
        const uint32_t size = count - n < BLOCK ? count - n : BLOCK;
        const REAL *from = x + n;
        REAL *restrict to = out + n;
        REAL stays[BLOCK]; /* of the width of the hash, so that both vectorise */
        SIMD for (uint32_t k = 0; k < size; k++) {
            uint32_t bits = ((uint32_t)n + k) * 0x9E3779B9u + first;
            bits = (bits ^ (bits >> 16)) * 0x7FEB352Du;
            bits = (bits ^ (bits >> 15)) * 0x846CA68Bu;
            bits ^= bits >> 16;
            stays[k] = bits >= (uint32_t)limit ? factor : 0;
        }
        SIMD for (uint32_t k = 0; k < size; k++) to[k] = stays[k] * from[k];
    }
}

#endif
