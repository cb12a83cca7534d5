/* Answers as cuBLASLt does, on a processor: fp32 products of matrices in main memory, by columns. It refuses what a
   caller must not do, and proposes three algorithms, of which it will not run the second one after all. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID = 7, NOT_SUPPORTED = 15 };
typedef struct { uint64_t words[8]; } algorithm;
typedef struct { algorithm chosen; size_t workspace; int state; float waves; int reserved[4]; } heuristic;
typedef struct { int compute, scale; uint32_t epilogue; const float *bias; } what;
typedef struct { int type; uint64_t rows, columns; int64_t leading; } layout;
typedef struct { uint64_t workspace; uint32_t numbers[16]; } preference;

static int handle;
int ran[3];

const char *cublasLtGetStatusString(int status) { return status == NOT_SUPPORTED ? "not supported here" : "invalid"; }

int cublasLtCreate(void **made) { *made = &handle; return SUCCESS; }

int cublasLtMatmulDescCreate(what **made, int compute, int scale)
{
    *made = calloc(1, sizeof **made);
    **made = (what){compute, scale, 1, NULL};
    return compute == 68 && scale == 0 ? SUCCESS : INVALID;
}

int cublasLtMatmulDescSetAttribute(what *target, int attribute, const void *value, size_t size)
{
    if (attribute == 7 && size == 4)
        target->epilogue = *(const uint32_t *)value;
    else if (attribute == 8 && size == 8)
        target->bias = *(const float *const *)value;
    else
        return INVALID;
    return SUCCESS;
}

int cublasLtMatrixLayoutCreate(layout **made, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    *made = malloc(sizeof **made);
    **made = (layout){type, rows, columns, leading};
    return leading >= (int64_t)rows ? SUCCESS : INVALID;
}

int cublasLtMatmulPreferenceCreate(preference **made) { *made = calloc(1, sizeof **made); return SUCCESS; }

int cublasLtMatmulPreferenceSetAttribute(preference *target, int attribute, const void *value, size_t size)
{
    if (attribute == 1 && size == 8)
        target->workspace = *(const uint64_t *)value;
    else if (attribute >= 3 && attribute <= 8 && size == 4)
        target->numbers[attribute] = *(const uint32_t *)value;
    else
        return INVALID;
    return SUCCESS;
}

static int fit(const layout *a, const layout *b, const layout *d)
{
    return a->columns == b->rows && a->rows == d->rows && b->columns == d->columns && a->type == d->type &&
           b->type == d->type;
}

int cublasLtMatmulAlgoGetHeuristic(void *who, const what *w, const layout *a, const layout *b, const layout *c,
                                   const layout *d, const preference *p, int most, heuristic *found, int *count)
{
    int asked = p->workspace == 32 << 20 && p->numbers[3] == 2;
    for (int each = 5; each <= 8; each++)
        asked = asked && p->numbers[each] == 64;
    if (w->epilogue == 4 && !w->bias)
        return INVALID;
    if (who != &handle || !asked || !fit(a, b, d) || c != d || most < 4)
        return INVALID;
    *count = 0;
    if (a->columns == 13) /* an unlucky number of terms */
        return SUCCESS;
    for (int each = 0; each < 3; each++) {
        found[*count] = (heuristic){{{41 + each, [7] = 99}}, 0, SUCCESS, 1.0f, {0}};
        ++*count;
        if (each == 0)
            found[(*count)++].state = NOT_SUPPORTED;
    }
    return SUCCESS;
}

int cublasLtMatmul(void *who, const what *w, const float *alpha, const float *a, const layout *la, const float *b,
                   const layout *lb, const float *beta, const float *c, const layout *lc, float *d, const layout *ld,
                   const algorithm *chosen, void *workspace, size_t size, void *stream)
{
    uint64_t number = chosen->words[0] - 41;
    if (number == 1)
        return NOT_SUPPORTED;
    if (who != &handle || number > 2 || chosen->words[7] != 99 || !workspace || size != 32 << 20 || *beta != 0 ||
        stream != (void *)5 || !fit(la, lb, ld) || (w->epilogue == 4 && !w->bias) || la->type != 0)
        return INVALID;
    for (uint64_t column = 0; column < ld->columns; column++)
        for (uint64_t row = 0; row < ld->rows; row++) {
            double sum = w->epilogue == 4 ? w->bias[row] : 0;
            for (uint64_t k = 0; k < la->columns; k++)
                sum += *alpha * (double)a[row + k * la->leading] * b[k + column * lb->leading];
            d[row + column * ld->leading] = (float)sum;
        }
    ran[number]++;
    return SUCCESS;
}
