/* Whole programs, as program.py describes them. The channels of a block stay in the cache from the
 * first pass to the last. */

#include "rows.h"

#define BASES 8 /* more than any pass has */
#define NEAREST 65536 /* bytes of an L1 cache */
enum { KINDS };
enum { FIELDS, COUNT, FIRST }; /* offsets of the fields, number of bases and bases of a pass */

/* Passes over all rows, `packs` packs of channels wide. */

INLINE void product_rows(const matrix *m, const int64_t *start, REAL *out, int64_t n,
                         const int packs) {
    for (int64_t i = 0; i < n; i++)
        sum((pack *)(out + i * packs * LANES), m, start[i], start[i + 1], 0, packs);
}

INLINE void gather_rows(const matrix *m, const int64_t *start, REAL *out, int64_t n,
                        const int packs) {
    for (int64_t i = 0; i < n; i++) gather_packs(m, out, start[i], start[i + 1], i, 0, packs);
}

/* Adds the sums to `total` [1 + degree, width]; `part_total` is a buffer of the same size. */
INLINE void pull_rows(const matrix *m, const int64_t *start, const REAL *y, REAL *out, REAL *total,
                      REAL *part_total, int64_t n, const int packs) {
    const int64_t size = (1 + m->degree) * packs * LANES;
    for (int64_t part = 0; part < PARTS; part++) {
        for (int64_t k = 0; k < size; k++) part_total[k] = 0;
        const int64_t last = first_row(start, n, part + 1);
        for (int64_t i = first_row(start, n, part); i < last; i++)
            pull_packs(m, y, out, part_total, start[i], start[i + 1], i, 0, packs);
        for (int64_t k = 0; k < size; k++) total[k] += part_total[k];
    }
}

/* Adds the sum of x * y over the rows to `total` [width]. */
static void dot_rows(const REAL *x, const REAL *y, REAL *total, REAL *part_total, int64_t n,
                     int64_t width) {
    for (int64_t part = 0; part < PARTS; part++) {
        for (int64_t k = 0; k < width; k++) part_total[k] = 0;
        for (int64_t i = n * part / PARTS * width; i < n * (part + 1) / PARTS * width; i += width)
            SIDE_BY_SIDE(k, width) part_total[k] += x[i + k] * y[i + k];
        for (int64_t k = 0; k < width; k++) total[k] += part_total[k];
    }
}

/* Adds (sum of coef * base)[i] . x[column] to out[e]. */
INLINE void dots_rows(const matrix *m, const int64_t *start, REAL *out, int64_t n,
                      const int packs) {
    const int64_t width = packs * LANES, ahead = m->entries - AHEAD;
    const int32_t *column = m->column;
    const REAL *x = m->x;
    for (int64_t i = 0; i < n; i++) {
        pack left[PACKS];
        EACH(k, packs) left[k] = (pack){0};
        for (int64_t b = 0; b < m->count; b++) {
            const REAL *base = m->bases[b] + i * width, *factor = m->coef + b * width;
            EACH(k, packs) left[k] += AT(factor, k) * AT(base, k);
        }
        const int64_t last = start[i + 1];
        for (int64_t e = start[i]; e < last; e++) {
            const REAL *row = x + column[e] * width;
            const char *next = (const char *)(x + column[e < ahead ? e + AHEAD : e] * width);
            EACH(line, (PACK * packs + 63) / 64) __builtin_prefetch(next + 64 * line);
            pack s = {0};
            EACH(k, packs) s += left[k] * AT(row, k);
            REAL sum = 0;
            EACH(k, LANES) sum += s[k];
            out[e] += sum;
        }
    }
}

int64_t pack_bytes(void) { return PACK; }

/* The same as separate functions, for 64, 128 and 256 bytes of channels and for one pack. Inlined
 * into one function, they would have too few registers. */
#define OWN static __attribute__((noinline)) void
#define PASSES(name, packs)                                                                        \
    OWN product_##name(const matrix *m, const int64_t *start, REAL *out, int64_t n) {              \
        product_rows(m, start, out, n, packs);                                                     \
    }                                                                                              \
    OWN gather_##name(const matrix *m, const int64_t *start, REAL *out, int64_t n) {               \
        gather_rows(m, start, out, n, packs);                                                      \
    }                                                                                              \
    OWN dots_##name(const matrix *m, const int64_t *start, REAL *out, int64_t n) {                 \
        dots_rows(m, start, out, n, packs);                                                        \
    }                                                                                              \
    OWN pull_##name(const matrix *m, const int64_t *start, const REAL *y, REAL *out, REAL *total,  \
                    REAL *part_total, int64_t n) {                                                 \
        pull_rows(m, start, y, out, total, part_total, n, packs);                                  \
    }
PASSES(pack, 1)
PASSES(64, 64 / PACK)
PASSES(128, 128 / PACK)
PASSES(256, 256 / PACK)
#define CHOOSE(pass)                                                                               \
    (bytes == 256 ? pass##_256 : bytes == 128 ? pass##_128 : bytes == 64 ? pass##_64 : pass##_pack)

/* A program, see gread/kernels/program.py, and its data. */
typedef struct {
    const int64_t *code;
    const int64_t *start, *back_start;
    const int32_t *column, *back_column;
    const REAL *weight, *back_weight;
    const REAL *const *inputs;
    REAL *const *outputs;
    const REAL *coef;
    REAL *sums, *dots;
    int64_t first; /* offset of this member in inputs and outputs */
    int64_t passes, n, d, entries, slots, rows, count, pull_count;
} program;

/* Runs a program on `bytes` bytes of channels from c on. `room` holds the slots, then the
 * coefficients, the sums, and the sums of a part of the rows. Channels from d on are zero. */
static void run_block(const program *p, REAL *room, int64_t c, int64_t bytes) {
    const int64_t n = p->n, d = p->d, width = bytes / sizeof(REAL), size = n * width;
    const int64_t valid = d - c < width ? d - c : width;
    REAL *coef = room + p->slots * size, *sums = coef + p->rows * width, *total = sums;
    REAL *dot_total = sums + p->pull_count * width, *part_total = sums + p->count * width;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t k = 0; k < width; k++)
            coef[r * width + k] = k < valid ? p->coef[r * d + c + k] : 0;
    for (int64_t k = 0; k < p->count * width; k++) sums[k] = 0;
    const int64_t *code = p->code;
    for (int64_t pass = 0; pass < p->passes; pass++) {
        const int64_t kind = code[KIND], degree = code[DEGREE], count = code[COUNT];
        const int forth = kind == PRODUCT || kind == GATHER || kind == EDGE_DOTS;
        const int64_t *start = forth ? p->start : p->back_start;
        REAL *restrict out = room + code[OUT] * size;
        const REAL *x = room + code[X] * size, *y = room + code[Y] * size, *bases[BASES];
        for (int64_t b = 0; b < count; b++) bases[b] = room + code[FIRST + b] * size;
        matrix m = {.column = forth ? p->column : p->back_column,
                    .weight = forth ? p->weight : p->back_weight,
                    .x = x,
                    .coef = coef + code[COEF] * width,
                    .bases = bases,
                    .d = width,
                    .entries = p->entries,
                    .degree = degree,
                    .count = count,
                    .near = n * bytes <= NEAREST};
        switch (kind) {
        case LOAD:
            for (int64_t i = 0; i < n; i++) {
                const REAL *from = p->inputs[code[X]] + p->first + i * d + c;
                for (int64_t line = 0; line < bytes; line += 64)
                    __builtin_prefetch((const char *)(from + 2 * AHEAD * d) + line);
                for (int64_t k = 0; k < valid; k++) out[i * width + k] = from[k];
                for (int64_t k = valid; k < width; k++) out[i * width + k] = 0;
            }
            break;
        case STORE:
            for (int64_t i = 0; i < n; i++) {
                REAL *restrict to = p->outputs[code[OUT]] + p->first + i * d + c;
                for (int64_t k = 0; k < valid; k++) to[k] = x[i * width + k];
            }
            break;
        case PRODUCT:
        case BACK:
            CHOOSE(product)(&m, start, out, n);
            break;
        case GATHER:
            CHOOSE(gather)(&m, start, out, n);
            break;
        case PULL:
            if (code[BASE_DOT]) /* before `out` overwrites a base */
                dot_rows(bases[0], y, total + (1 + degree) * width, part_total, n, width);
            CHOOSE(pull)(&m, start, y, out, total, part_total, n);
            total += (1 + degree + code[BASE_DOT]) * width;
            break;
        case ADD:
            for (int64_t i = 0; i < size; i += width)
                SIDE_BY_SIDE(k, width) {
                    const REAL part = m.coef[k] * x[i + k];
                    out[i + k] = code[Y] < 0 ? part : y[i + k] + part;
                }
            break;
        case DOT:
            dot_rows(x, y, dot_total, part_total, n, width);
            dot_total += width;
            break;
        case EDGE_DOTS:
            m.x = y;
            CHOOSE(dots)(&m, start, p->dots, n);
            break;
        }
        code += FIRST + count;
    }
    for (int64_t r = 0; r < p->count; r++)
        for (int64_t k = 0; k < valid; k++) p->sums[r * d + c + k] = sums[r * width + k];
}

/* Processes `bytes` bytes of channels of one member at a time; every worker has its own part of
 * `room`. Members have separate matrices if `weight_step` is not 0. */
void run(const int64_t *code, const int64_t *start, const int32_t *column, const REAL *weight,
         const int64_t *back_start, const int32_t *back_column, const REAL *back_weight,
         const REAL *const *inputs, REAL *const *outputs, const REAL *coef, REAL *room, REAL *sums,
         REAL *dots, int64_t passes, int64_t n, int64_t d, int64_t entries, int64_t slots,
         int64_t rows, int64_t count, int64_t pull_count, int64_t room_size, int64_t bytes,
         int64_t members, int64_t weight_step, int64_t workers, int64_t threads) {
    const int64_t width = bytes / sizeof(REAL), blocks = (d + width - 1) / width;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t worker = 0; worker < workers; worker++)
        for (int64_t block = worker; block < members * blocks; block += workers) {
            const int64_t member = block / blocks;
            const program p = {.code = code,
                               .start = start,
                               .back_start = back_start,
                               .column = column,
                               .back_column = back_column,
                               .weight = weight + member * weight_step,
                               .back_weight = back_weight + member * weight_step,
                               .inputs = inputs,
                               .outputs = outputs,
                               .first = member * n * d,
                               .coef = coef + member * rows * d,
                               .sums = sums + member * count * d,
                               .dots = dots + block * entries,
                               .passes = passes,
                               .n = n,
                               .d = d,
                               .entries = entries,
                               .slots = slots,
                               .rows = rows,
                               .count = count,
                               .pull_count = pull_count};
            run_block(&p, room + worker * room_size, block % blocks * width, bytes);
        }
}
