/* SPDX-License-Identifier: BSD-3-Clause */
/* A product of small integers with a plan of any shape, for the tests of the executor: it is
 * exact in every order of summation, so that C can be compared bit for bit. */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "exec.h"
#include "gb.h"
#include "verify.h"

struct product {
    struct gb_problem p;
    struct gb_plan plan;
    struct verify_matrix a, b, c; /* C as it was is in c.before */
};

/* What product_make() needs to know; the rest of p is filled in. */
struct product_spec {
    enum gb_type type, type_c;
    enum gb_trans transa, transb;
    int64_t m, n, k;
    struct gb_scalar alpha, beta;
    int64_t extra[3]; /* lda, ldb, ldc beyond the least */
    enum verify_place place;
    enum verify_fill fill; /* of A and B; C is NaN when beta is 0 */
};

/* A and B become read-only. The plan is one panel of one piece. */
void product_make(struct product *x, const struct product_spec *spec,
                  struct verify_random *r);
void product_drop(struct product *x);

/* The smallest kernel row for the product's types. */
const struct gb_kernel *product_kernel(const struct gb_problem *p);

/* Panels, pieces and slots, cut to what is legal. splits as wanted, if k allows. */
void product_plan(struct product *x, int64_t panel_m, int64_t panel_n, int64_t panel_k,
                  int splits);
void product_pieces(struct product *x, int64_t rows, int64_t cols, size_t slot_bytes);
void product_random_plan(struct product *x, struct verify_random *r);
void product_describe(const struct product *x, char *buf, size_t len);

/* Pieces in the order of commits: is every element of pieces below `done` the exact result,
 * every other as before, and nothing else changed? */
bool product_check(const struct product *x, int64_t done, char *why, size_t len);
int64_t product_pieces_total(const struct product *x);

/* Put C back as it was. */
void product_restore(struct product *x);

/* An engine on the emulated device; ends the test if there is none. */
struct gb_engine *product_engine(void);

#endif
