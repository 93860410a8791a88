/* SPDX-License-Identifier: BSD-3-Clause */
/* One open device and what belongs to it. */
#ifndef GB_ENGINE_H
#define GB_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "emulated.h"
#include "exec.h"
#include "guest.h"
#include "integer.h"
#include "lane.h"
#include "pool.h"
#include "stage.h"

enum { GB_LAYOUTS = 4 };

/* The functions of one kernel row, looked up when first wanted. */
struct gb_row {
    struct gb_function *layout[GB_LAYOUTS]; /* nn nt tn tt */
    struct gb_function *reduce;
};

/* The kernels beside the products: GB_REPAIR_FAMILY. */
enum gb_helper {
    GB_HELP_REPAIR,
    GB_HELP_REPACK,
    GB_HELP_PACK_1,
    GB_HELP_PACK_2,
    GB_HELP_PACK_4,
    GB_HELP_PACK_8,
    GB_HELP_PACK_16,
    GB_HELP_LIST,
    GB_HELPERS
};

struct gb_engine {
    /* Changes once at most, and only while no lane is in use. */
    _Atomic(struct gb_device *) dev;
    struct gb_device *retired; /* what it was before; others may still look at it */
    pid_t pid;                 /* no other process may touch the device */
    atomic_bool lost;          /* set and cleared under the lock */
    struct gb_pool pool;
    struct gb_stage stage;

    pthread_mutex_t lock; /* what follows, as far as module_lock */
    pthread_cond_t lane_back;
    struct gb_lane *idle;
    int lanes;  /* made or being made */
    int in_use; /* of these */
    enum { GB_REOPEN_NEVER, GB_REOPEN_NOW, GB_REOPEN_ONCE } reopened;
    /* What the driver said last about free memory, and what we held then. */
    int64_t asked_ms;
    size_t free_then, held_then;

    pthread_mutex_t module_lock; /* the rest */
    struct {
        const char *family;
        struct gb_module *module;
    } modules[GB_FAMILIES];
    int n_modules;
    struct gb_row *rows; /* one per row of gb_kernels */
    struct gb_function *helpers[GB_HELPERS];
    /* of emulated rows of fp32 and of fp64, but for what is the row's own; by layout */
    struct gb_function *emulated[2][4][GB_EMULATED_STEPS];
    struct gb_function *bytes, *sums; /* of those of integers */
};

/* Is this a child of the engine's process? Threads that held our locks when it was forked do
 * not exist in it: nothing of the engine may be locked, waited for or given back there. */
bool gb_engine_foreign(const struct gb_engine *engine);

/* An operation of dev answered GB_E_DEVICE. */
void gb_engine_fail(struct gb_engine *engine, const struct gb_device *dev);

/* An idle lane, or a new one, or the first that comes back; GB_E_DEVICE or GB_E_NOMEM if none
 * can be made and there is none to wait for; GB_E_ABSENT in a child that a handler forked
 * meanwhile. Waiting lets the caller's signals through: the device must not be entered, and
 * nothing may be held. */
enum gb_status gb_engine_lane(struct gb_engine *engine, struct gb_hold *hold,
                              struct gb_lane **lane);
void gb_engine_lane_back(struct gb_engine *engine, struct gb_lane *lane);
int gb_engine_lanes(struct gb_engine *engine);

/* The function of a row for a layout ('n' or 't' each); the row's reduce function. The device
 * must be entered. */
enum gb_status gb_engine_gemm(struct gb_engine *engine, const struct gb_kernel *k,
                              char a, char b, struct gb_function **f);
enum gb_status gb_engine_reduce(struct gb_engine *engine, const struct gb_kernel *k,
                                struct gb_function **f);
/* Those that a row with GB_K_EMULATED is made of. */
enum gb_status gb_engine_emulated(struct gb_engine *engine, const struct gb_kernel *k,
                                  char a, char b, struct gb_emulated *f);
/* The one that copies operands for row k. */
enum gb_helper gb_engine_repair_of(const struct gb_kernel *k);
enum gb_status gb_engine_helper(struct gb_engine *engine, enum gb_helper which,
                                struct gb_function **f);

/* Those that a row with GB_K_INTEGER is made of. */
enum gb_status gb_engine_integer(struct gb_engine *engine, const struct gb_kernel *k,
                                 struct gb_integer *f);

/* Between the two the device stays what it is, as with a lane: for work in streams that are
 * not ours. GB_E_DEVICE of a lost one. */
enum gb_status gb_engine_begin(struct gb_engine *engine);
void gb_engine_done(struct gb_engine *engine);

#endif
