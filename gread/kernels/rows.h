/* Rows of a sparse matrix times some channels, for the kernels of cpu.c and program.c.
 *
 * Plain C without headers of PyTorch: it compiles in seconds at first use, for any version. cpu.py
 * defines REAL, the number type; PARTS, the number of blocks of rows that are distributed over
 * threads; KINDS of passes and the FIELDS of each. The order of a sum does not depend on the number
 * of threads. */

#include <stddef.h>
#include <stdint.h>
#include <tgmath.h>

/* Bytes of a register, and number of registers with sums at a time: 256 bytes in total. */
#if defined(__AVX512F__)
#define PACK 64
#elif defined(__AVX__)
#define PACK 32
#else
#define PACK 16
#endif
#define PACKS (256 / PACK)
#define INLINE static inline __attribute__((always_inline))

/* Loops over few numbers, which are unrolled, and over many, which are vectorized: their iterations
 * must be independent. */
#define EACH(k, count) _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++)
#define SIDE_BY_SIDE(k, count) _Pragma("omp simd") for (int64_t k = 0; k < (count); k++)

#define AHEAD 8 /* entries between a prefetch and its use */

/* First row of a part of the matrix. Entries plus rows are about equal in number in all parts. */
static int64_t first_row(const int64_t *start, int64_t n, int64_t part) {
    const int64_t wanted = (start[n] + n) * part / PARTS;
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (start[middle] + middle < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef REAL pack __attribute__((vector_size(PACK), aligned(sizeof(REAL)), may_alias));
#define LANES ((int64_t)(PACK / sizeof(REAL)))
#define AT(pointer, k) (*(pack *)((pointer) + (k) * LANES))

/* Matrix, coefficients and bases of `gather` or `pull`. */
typedef struct {
    const int32_t *column;
    const REAL *weight, *x, *coef;
    const REAL *const *bases;
    int64_t d, entries, degree, count;
    int near; /* x fits into the L1 cache */
} matrix;

/* s[k] = sum over the entries of weight * x[column], for `packs` packs of channels from c on. With
 * a constant number of packs the loops unroll, and the sums stay in registers. */
INLINE void sum(pack *s, const matrix *m, int64_t from, int64_t to, int64_t c, const int packs) {
    const int32_t *column = m->column;
    const REAL *weight = m->weight, *x = m->x + c;
    const int64_t d = m->d, ahead = m->entries - AHEAD;
    pack sum[PACKS];
    EACH(k, packs) sum[k] = (pack){0};
    for (int64_t e = from; e < to; e++) {
        const char *next = (const char *)(x + column[e < ahead ? e + AHEAD : e] * d);
        if (packs > 1 || !m->near) /* a prefetch takes longer than a pack in L1 */
            EACH(line, (PACK * packs + 63) / 64) __builtin_prefetch(next + 64 * line);
        const REAL w = weight[e], *row = x + column[e] * d;
        EACH(k, packs) sum[k] += w * AT(row, k);
    }
    EACH(k, packs) s[k] = sum[k];
}

/* Channels c to c + packs * LANES of row i of `gather`. */
INLINE void gather_packs(const matrix *m, REAL *out, int64_t from, int64_t to, int64_t i, int64_t c,
                         const int packs) {
    pack s[PACKS];
    sum(s, m, from, to, c, packs);
    const int64_t d = m->d, at = i * d + c;
    const REAL *coef = m->coef + c, *own = m->x + at;
    EACH(k, packs) s[k] *= AT(coef, k);
    if (m->degree == 1)
        EACH(k, packs) s[k] += AT(coef + d, k) * AT(own, k);
    else if (m->degree == 2)
        EACH(k, packs) s[k] += (AT(coef + d, k) + AT(coef + 2 * d, k) * AT(own, k)) * AT(own, k);
    else if (m->degree == 3)
        EACH(k, packs)
            s[k] += (AT(coef + d, k) +
                     (AT(coef + 2 * d, k) + AT(coef + 3 * d, k) * AT(own, k)) * AT(own, k)) *
                    AT(own, k);
    for (int64_t b = 0; b < m->count; b++) {
        const REAL *base = m->bases[b] + at, *factor = coef + (1 + m->degree + b) * d;
        EACH(k, packs) s[k] += AT(factor, k) * AT(base, k);
    }
    EACH(k, packs) AT(out + at, k) = s[k];
}

/* Channels c to c + packs * LANES of row i of `pull`, and their contribution to the sums. */
INLINE void pull_packs(const matrix *m, const REAL *y, REAL *out, REAL *sums, int64_t from,
                       int64_t to, int64_t i, int64_t c, const int packs) {
    pack s[PACKS];
    sum(s, m, from, to, c, packs);
    const int64_t d = m->d, at = i * d + c;
    const REAL *coef = m->coef + c, *g = m->x + at, *own = y + at;
    REAL *total = sums + c;
    EACH(k, packs) {
        const pack a = AT(g, k), b = AT(own, k);
        pack factor = AT(coef + d, k), first = a * b;
        AT(total, k) += s[k] * b;
        AT(total + d, k) += first;
        if (m->degree > 1) {
            factor += AT(coef + 2 * d, k) * b;
            AT(total + 2 * d, k) += first * b;
        }
        if (m->degree > 2) {
            factor += AT(coef + 3 * d, k) * b * b;
            AT(total + 3 * d, k) += first * b * b;
        }
        s[k] = AT(coef, k) * s[k] + factor * a;
    }
    for (int64_t b = 0; b < m->count; b++) {
        const REAL *base = m->bases[b] + at, *factor = coef + (1 + m->degree + b) * d;
        EACH(k, packs) s[k] += AT(factor, k) * AT(base, k);
    }
    EACH(k, packs) AT(out + at, k) = s[k];
}
