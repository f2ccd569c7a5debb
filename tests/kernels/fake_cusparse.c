// A cuSPARSE for tests/test_cusparse_op.py: what of it SpMVOp needs, on the host's memory. SPG_ALGORITHM: with the
// algorithm among the arguments, as from 12.8 on.
#include <stdint.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 3, NOT_SUPPORTED = 10 };

typedef struct {
    int64_t rows, cols, nnz;
    const void *row_ptr, *col, *val;
    int wide_offsets, kind;
} matrix;
typedef struct {
    int64_t size;
    void* values;
    int kind;
} vector;
typedef struct {
    const matrix* a;
    int algorithm;
    void* buffer;
} operation;

int alive;  // descriptors, plans
int last_algorithm;  // 0: none was named

void* fake_matrix(int64_t rows, int64_t cols, int64_t nnz, void* row_ptr, void* col, void* val, int wide_offsets,
                  int kind)
{
    matrix* a = malloc(sizeof *a);
    *a = (matrix){rows, cols, nnz, row_ptr, col, val, wide_offsets, kind};
    ++alive;
    return a;
}

void* fake_vector(int64_t size, void* values, int kind)
{
    vector* v = malloc(sizeof *v);
    *v = (vector){size, values, kind};
    ++alive;
    return v;
}

void fake_destroy(void* made)
{
    free(made);
    --alive;
}

#ifdef SPG_ALGORITHM
#define NAMED int algorithm,
#else
#define NAMED
enum { algorithm = 0 };
#endif

static int refused(int op, const matrix* a, const vector* x, const vector* y, const vector* z, int kind)
{
    if (op != 0 || y != z || x->size != a->cols || y->size != a->rows || x->kind != kind || y->kind != kind)
        return INVALID_VALUE;
    return a->kind == kind && !a->wide_offsets ? SUCCESS : NOT_SUPPORTED;
}

int cusparseSpMVOp_bufferSize(void* handle, int op, const matrix* a, const vector* x, const vector* y, const vector* z,
                              int kind, NAMED size_t* size)
{
    (void)handle;
    *size = 1000 + a->rows;
    last_algorithm = algorithm;
    return refused(op, a, x, y, z, kind);
}

int cusparseSpMVOp_createDescr(void* handle, operation** made, int op, const matrix* a, const vector* x,
                               const vector* y, const vector* z, int kind, NAMED void* buffer)
{
    (void)handle;
    if (!buffer || last_algorithm != algorithm) return INVALID_VALUE;
    *made = malloc(sizeof **made);
    **made = (operation){a, algorithm, buffer};
    ++alive;
    return refused(op, a, x, y, z, kind);
}

int cusparseSpMVOp_destroyDescr(operation* made)
{
    fake_destroy(made);
    return SUCCESS;
}

int cusparseSpMVOp_createPlan(void* handle, operation* from, operation** made, const void* code, size_t bytes)
{
    (void)handle;
    if (code || bytes) return INVALID_VALUE;
    *made = malloc(sizeof **made);
    **made = *from;
    ++alive;
    return SUCCESS;
}

int cusparseSpMVOp_destroyPlan(operation* made)
{
    fake_destroy(made);
    return SUCCESS;
}

#define MULTIPLY(value_t)                                                             \
    for (int64_t i = 0; i < a->rows; ++i) {                                           \
        value_t sum = 0;                                                              \
        for (int k = row_ptr[i]; k < row_ptr[i + 1]; ++k)                             \
            sum += ((const value_t*)a->val)[k] * ((const value_t*)x->values)[col[k]]; \
        ((value_t*)z->values)[i] = *(const value_t*)alpha * sum;                      \
    }

int cusparseSpMVOp(void* handle, operation* plan, const void* alpha, const void* beta, const vector* x, const vector* y,
                   vector* z)
{
    const matrix* a = plan->a;
    const int *row_ptr = a->row_ptr, *col = a->col;
    (void)handle;
    if (y != z || (a->kind ? *(const double*)beta != 0 : *(const float*)beta != 0)) return INVALID_VALUE;
    if (a->kind) MULTIPLY(double) else MULTIPLY(float) return SUCCESS;
}
