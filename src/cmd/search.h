/* SPDX-License-Identifier: BSD-3-Clause */
/* Which choice is the quickest for a shape, by trials: many briefly, the better half again,
 * and the last few against the model's choice in turn. */
#ifndef GB_SEARCH_H
#define GB_SEARCH_H

#include "trial.h"

/* How much quicker than the model's choice another has to be, in medians of interleaved
 * repetitions, to be taken: this is what keeps a tuned row from ever being slower by more. */
#define SEARCH_GAIN 1.02

struct search_result {
    struct gb_choice model, best; /* the same where nothing was better */
    double model_us, best_us;     /* medians */
    int tried;
    bool better;
};

/* For about so many seconds. GB_E_UNSUPPORTED: no row serves such operands. */
enum gb_status search_shape(struct trial *x, double seconds, struct search_result *r);

/* Two choices in turn, for about so many seconds: their medians. */
enum gb_status search_compare(struct trial *x, const struct gb_choice *c,
                              const struct gb_choice *d, double seconds, double *us_c,
                              double *us_d);

#endif
