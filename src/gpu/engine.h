/* SPDX-License-Identifier: BSD-3-Clause */
/* One open device and what belongs to it. */
#ifndef GB_ENGINE_H
#define GB_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "exec.h"
#include "guest.h"
#include "lane.h"
#include "pool.h"
#include "stage.h"

enum { GB_ENGINE_FAMILIES = 16, GB_LAYOUTS = 4 };

/* The functions of one kernel row, looked up when first wanted. */
struct gb_row {
    struct gb_function *layout[GB_LAYOUTS]; /* nn nt tn tt */
    struct gb_function *reduce;
};

struct gb_engine {
    struct gb_device *dev;
    pid_t pid; /* no other process may touch the device */
    atomic_bool lost;
    struct gb_pool pool;
    struct gb_stage stage;

    pthread_mutex_t lock; /* what follows, as far as module_lock */
    pthread_cond_t lane_back;
    struct gb_lane *idle;
    int lanes; /* made or being made */
    /* What the driver said last about free memory, and what we held then. */
    int64_t asked_ms;
    size_t free_then, held_then;

    pthread_mutex_t module_lock; /* the rest */
    struct {
        const char *family;
        struct gb_module *module;
    } modules[GB_ENGINE_FAMILIES];
    int n_modules;
    struct gb_row *rows; /* one per row of gb_kernels */
};

/* An idle lane, or a new one, or the first that comes back; NULL and GB_E_DEVICE or
 * GB_E_NOMEM if none can be made and there is none to wait for. Waiting lets the caller's
 * signals through: the device must not be entered, and nothing may be held. */
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

#endif
