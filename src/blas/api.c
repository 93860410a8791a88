/* SPDX-License-Identifier: BSD-3-Clause */
/* The public C API: descriptors in, this library's words out. */
#include "config.h"
#include "gemmblas/gemmblas.h"

#include <errno.h>

#include "args.h"
#include "strided.h"
#include "util.h"

const char *gemmblas_version(void)
{
    return PACKAGE_VERSION;
}

/* The numbers of the header are ours. */
#define SAME(theirs, ours) _Static_assert((int)(theirs) == (int)(ours), #theirs)
SAME(GEMMBLAS_F16, GB_F16);
SAME(GEMMBLAS_BF16, GB_BF16);
SAME(GEMMBLAS_F32, GB_F32);
SAME(GEMMBLAS_F64, GB_F64);
SAME(GEMMBLAS_C32, GB_C32);
SAME(GEMMBLAS_C64, GB_C64);
SAME(GEMMBLAS_S8, GB_I8);
SAME(GEMMBLAS_S32, GB_I32);
SAME(GEMMBLAS_ACT_NONE, GB_ACT_NONE);
SAME(GEMMBLAS_ACT_RELU, GB_ACT_RELU);
SAME(GEMMBLAS_ACT_GELU, GB_ACT_GELU);
SAME(GEMMBLAS_ACT_GELU_TANH, GB_ACT_GELU_TANH);
SAME(GEMMBLAS_ACT_SILU, GB_ACT_SILU);
SAME(GEMMBLAS_ACT_TANH, GB_ACT_TANH);
SAME(GEMMBLAS_E_ARGUMENT, GB_ANSWER_ARGUMENT);
SAME(GEMMBLAS_E_TYPE, GB_ANSWER_TYPE);
SAME(GEMMBLAS_E_OVERLAP, GB_ANSWER_OVERLAP);
SAME(GEMMBLAS_E_PLACE, GB_ANSWER_PLACE);
SAME(GEMMBLAS_E_MEMORY, GB_ANSWER_MEMORY);
SAME(GEMMBLAS_E_UNSUPPORTED, GB_ANSWER_UNSUPPORTED);
SAME(GEMMBLAS_E_DEVICE, GB_ANSWER_DEVICE);

enum {
    FLAGS = GEMMBLAS_BIAS_PER_COLUMN | GEMMBLAS_BIAS_WIDE | GEMMBLAS_ARRAYS_ON_DEVICE |
            GEMMBLAS_ARRAYS_ALIGNED
};

const char *gemmblas_status_text(int status)
{
    static const char *const text[GB_ANSWERS] = {
        [GEMMBLAS_OK] = "success",
        [GEMMBLAS_E_ARGUMENT] = "a size, stride, pointer or flag is illegal",
        [GEMMBLAS_E_TYPE] = "there is no such product of these types",
        [GEMMBLAS_E_OVERLAP] =
            "elements of C share memory with each other or what is read",
        [GEMMBLAS_E_PLACE] =
            "matrices and vectors are neither all in host memory nor all on the device",
        [GEMMBLAS_E_MEMORY] = "out of memory",
        [GEMMBLAS_E_UNSUPPORTED] = "the device has no kernel for it",
        [GEMMBLAS_E_DEVICE] = "the device failed",
    };

    return status >= 0 && status < GB_ANSWERS ? text[status] : "no such status";
}

static struct gb_matrix matrix_of(const struct gemmblas_matrix *x)
{
    return (struct gb_matrix){.at = x->array ? NULL : x->data,
                              .list = x->array,
                              .row = x->row_stride,
                              .col = x->col_stride,
                              .batch = x->array ? 0 : x->batch_stride};
}

static struct gb_vector vector_of(const struct gemmblas_vector *x)
{
    return (struct gb_vector){x->data, x->batch_stride};
}

/* A descriptor of a later version may be longer: it is understood if what was added is zero. */
static bool is_understood(const struct gemmblas_product *p)
{
    const unsigned char *byte = (const unsigned char *)p;

    if (p->size < sizeof *p || p->size > 4096)
        return false;
    for (size_t i = sizeof *p; i < p->size; i++)
        if (byte[i] != 0)
            return false;
    return p->activation >= 0 && p->activation < GB_ACTIVATIONS &&
           (p->flags & ~(uint32_t)FLAGS) == 0;
}

/* The routine that computes such types; NULL when there is none. */
static const char *routine_of(int32_t type, int32_t type_c)
{
    for (int i = 0; i < GB_ROUTINES; i++)
        if ((int32_t)gb_routines[i].type == type &&
            (int32_t)gb_routines[i].type_c == type_c)
            return gb_routines[i].name;
    return NULL;
}

static enum gb_answer gemm(const struct gemmblas_product *g, const void *caller)
{
    const struct gb_call call = {.symbol = "gemmblas_gemm", .caller = caller};
    struct gb_product p;
    enum gb_answer answer;

    if (!g || !is_understood(g))
        return GB_ANSWER_ARGUMENT;
    p = (struct gb_product){
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .batch = g->batch == 0 ? 1 : g->batch,
        .a = matrix_of(&g->a),
        .b = matrix_of(&g->b),
        .c = matrix_of(&g->c),
        .conj_a = g->conj_a,
        .conj_b = g->conj_b,
        .lists_on_device = g->flags & GEMMBLAS_ARRAYS_ON_DEVICE,
        .lists_aligned = g->flags & GEMMBLAS_ARRAYS_ALIGNED,
        .alpha = {g->alpha[0], g->alpha[1]},
        .beta = {g->beta[0], g->beta[1]},
        .bias = vector_of(&g->bias),
        .row_scale = vector_of(&g->row_scale),
        .col_scale = vector_of(&g->col_scale),
        .bias_cols = g->flags & GEMMBLAS_BIAS_PER_COLUMN,
        .bias_wide = g->flags & GEMMBLAS_BIAS_WIDE,
        .activation = (enum gb_activation)g->activation,
        .stream = g->stream,
        .routine = routine_of(g->type, g->type_c),
    };
    if (!p.routine)
        return GB_ANSWER_TYPE;
    p.type = (enum gb_type)g->type;
    p.type_c = (enum gb_type)g->type_c;
    if (!gb_is_complex(p.type))
        p.alpha.im = p.beta.im = 0;
    answer = gb_product_check(&p);
    return answer == GB_ANSWER_OK ? gb_product_run(&p, &call) : answer;
}

int gemmblas_gemm(const struct gemmblas_product *product)
{
    int saved = errno;
    enum gb_answer answer = gemm(product, __builtin_return_address(0));

    errno = saved;
    return (int)answer;
}
