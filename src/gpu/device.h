/* SPDX-License-Identifier: BSD-3-Clause */
/* A device and the operations that a back end supplies. Three tables exist: cuda.c,
 * hip.c and src/emu. Everything above this line of the design speaks only these
 * operations.
 *
 * Threads: every operation but count() and open() needs the device entered in the
 * calling thread (enter/leave nest and cost well under a microsecond). All operations
 * may be called from several threads at once. An operation that fails answers a status
 * and leaves its outputs unwritten; after GB_E_DEVICE the device is lost: what answers
 * a status then fails, what answers nothing (free, destroy, unload, leave, close) stays
 * legal and quiet. */
#ifndef GB_DEVICE_H
#define GB_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t gb_devptr;

struct gb_stream; /* opaque, owned by the back end */
struct gb_event;
struct gb_module;
struct gb_function;
struct gb_device;

enum gb_vendor { GB_NVIDIA, GB_AMD, GB_EMU };

/* A matrix, or a batch of them, as TMA sees it: dim[0] elements side by side, dim[1] such
 * rows, dim[2] matrices; moved in boxes of box[0] (at most 128 bytes) x box[1] (at most 256),
 * swizzled by 128 bytes. `at` and the strides are multiples of 16. */
struct gb_tensor {
    enum gb_type type;
    gb_devptr at;
    uint64_t dim[3];    /* at least 1, below 2^31 */
    uint64_t stride[2]; /* bytes, of dim[1] and dim[2], below 2^40 */
    uint32_t box[2];
    bool tf32; /* GB_F32 elements are rounded to the nearest tf32 on their way */
};
struct gb_tensor_map;

struct gb_device_info {
    enum gb_vendor vendor;
    char name[64];      /* as the driver reports it: "NVIDIA H200" */
    char arch_name[16]; /* "sm_90", "gfx942", "emu" */
    int arch; /* 90 for sm_90, 942 for gfx942, 910 for gfx90a, 0 for emu or unknown */
    int ordinal; /* among the visible devices */
    int multiprocessors;
    size_t mem_total;      /* bytes */
    size_t smem_per_block; /* bytes, opt-in maximum */
    size_t l2;             /* bytes */
    int clock_khz;         /* highest multiprocessor clock, 0 unknown */
    int numa_node;         /* -1 unknown */
    int driver;            /* as the driver reports it: 13000 is CUDA 13.0 */
    char pci[16];          /* "0000:3b:00.0", "" unknown */
};

/* Where a pointer of the program lives. */
enum gb_mem_kind {
    GB_MEM_PAGEABLE,
    GB_MEM_PINNED, /* known to the driver as page-locked: may be copied from directly */
    GB_MEM_DEVICE, /* of this device */
    GB_MEM_MANAGED,
    GB_MEM_FOREIGN /* of another device */
};

/* What enter() saves and leave() restores: the caller's context or device, stream
 * capture mode, errno and floating-point flags. Lives on the caller's stack. */
struct gb_guest {
    uintptr_t saved[4];
};

struct gb_launch_shape {
    uint32_t grid, block, smem_bytes;
    uint32_t
        cluster; /* blocks of a cluster, a divisor of grid; 0: as the kernel says */
    /* The kernel waits by itself for what was queued before it, and may start sooner. */
    bool early;
};

struct gb_device_ops {
    const char *name; /* "cuda", "hip", "emu" */

    /* Could there be a device? Looks for nodes and loaded drivers; loads nothing. */
    bool (*plausible)(void);
    /* Has the process its driver, whoever loaded it? Loads nothing. */
    bool (*loaded)(void);
    /* How many devices are visible; *n is 0 and GB_E_ABSENT when there is no driver.
     * Quick and silent where there is none. */
    enum gb_status (*count)(int *n);
    enum gb_status (*open)(int ordinal, struct gb_device **dev); /* creates a context */
    void (*close)(struct gb_device *dev);

    enum gb_status (*enter)(struct gb_device *dev, struct gb_guest *guest);
    void (*leave)(struct gb_device *dev, struct gb_guest *guest);

    enum gb_status (*mem_info)(struct gb_device *dev, size_t *free_bytes,
                               size_t *total);
    enum gb_status (*mem_alloc)(struct gb_device *dev, size_t bytes, gb_devptr *ptr);
    void (*mem_free)(struct gb_device *dev, gb_devptr ptr);
    enum gb_status (*host_alloc)(struct gb_device *dev, size_t bytes, void **ptr);
    void (*host_free)(struct gb_device *dev, void *ptr);
    enum gb_mem_kind (*mem_kind)(struct gb_device *dev, const void *ptr);
    /* The same where no device is open, of a driver that is loaded: GB_MEM_DEVICE is memory
     * of any device of it. Opens nothing; legal in a forked child and after a failure. */
    enum gb_mem_kind (*mem_where)(const void *ptr);

    enum gb_status (*stream_create)(struct gb_device *dev, struct gb_stream **s);
    void (*stream_destroy)(struct gb_device *dev, struct gb_stream *s);
    enum gb_status (*stream_sync)(struct gb_device *dev, struct gb_stream *s);
    /* A stream of the program's, as its driver names it; NULL: the default one. Work may be
     * queued in it, and no more; it stays the program's. */
    enum gb_status (*stream_borrow)(struct gb_device *dev, void *theirs,
                                    struct gb_stream **s);
    void (*stream_return)(struct gb_device *dev, struct gb_stream *s);

    /* Memory in the order of a stream: for what is queued in it between the two calls. */
    enum gb_status (*alloc_queued)(struct gb_device *dev, struct gb_stream *s,
                                   size_t bytes, gb_devptr *ptr);
    void (*free_queued)(struct gb_device *dev, struct gb_stream *s, gb_devptr ptr);

    /* Events of this kind carry no time. One that was never recorded counts as complete. */
    enum gb_status (*event_create)(struct gb_device *dev, struct gb_event **e);
    void (*event_destroy)(struct gb_device *dev, struct gb_event *e);
    enum gb_status (*event_record)(struct gb_device *dev, struct gb_event *e,
                                   struct gb_stream *s);
    /* Work queued in s after this call runs after e's last record. */
    enum gb_status (*event_wait)(struct gb_device *dev, struct gb_event *e,
                                 struct gb_stream *s);
    /* Block the calling thread (asleep, not spinning) until e is complete. */
    enum gb_status (*event_sync)(struct gb_device *dev, struct gb_event *e);
    /* *done says whether e is complete; does not block. */
    enum gb_status (*event_query)(struct gb_device *dev, struct gb_event *e,
                                  bool *done);
    /* An event that carries the device's time, used and destroyed like the others; and
     * the time between the last records of two that are complete. */
    enum gb_status (*timer_create)(struct gb_device *dev, struct gb_event **e);
    enum gb_status (*timer_elapsed)(struct gb_device *dev, struct gb_event *start,
                                    struct gb_event *stop, double *us);

    /* Asynchronous copies of `height` rows of `width` bytes, pitches in bytes (>=
     * width, however large; ignored when height is 1). The host side must be host_alloc
     * memory or GB_MEM_PINNED and stay valid until the stream has passed the copy.
     * Nothing between the rows is read or written. */
    enum gb_status (*copy_in)(struct gb_device *dev, struct gb_stream *s, gb_devptr dst,
                              size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height);
    enum gb_status (*copy_out)(struct gb_device *dev, struct gb_stream *s, void *dst,
                               size_t dst_pitch, gb_devptr src, size_t src_pitch,
                               size_t width, size_t height);

    /* image: a fatbin (cuda), a code object (hip), or NULL (emu: the family's name
     * picks a host-compiled kernel set). GB_E_UNSUPPORTED when it has no code for this
     * device, or (module_get) no such kernel. */
    enum gb_status (*module_load)(struct gb_device *dev, const char *family,
                                  const void *image, size_t bytes,
                                  struct gb_module **m);
    void (*module_unload)(struct gb_device *dev, struct gb_module *m);
    enum gb_status (*module_get)(struct gb_device *dev, struct gb_module *m,
                                 const char *symbol, struct gb_function **f);
    /* One POD argument struct, copied before launch returns. grid is folded into x. */
    enum gb_status (*launch)(struct gb_device *dev, struct gb_stream *s,
                             struct gb_function *f, uint32_t grid, uint32_t block,
                             uint32_t smem_bytes, const void *args, size_t args_bytes);
    /* The same for what only some devices do, clusters and early starts; NULL where none is. */
    enum gb_status (*launch_shaped)(struct gb_device *dev, struct gb_stream *s,
                                    struct gb_function *f,
                                    const struct gb_launch_shape *shape,
                                    const void *args, size_t args_bytes);
    /* Encode a description for a kernel's arguments; touches no memory of the device.
     * NULL where there is no TMA. */
    enum gb_status (*tensor_map)(struct gb_device *dev, const struct gb_tensor *tensor,
                                 struct gb_tensor_map *map);
};

/* Back ends embed this as their first member. */
struct gb_device {
    const struct gb_device_ops *ops;
    struct gb_device_info info;
};

extern const struct gb_device_ops gb_cuda_ops, gb_hip_ops;

/* The emulated device lives in libgemmblas-emu.so (found beside the library or in
 * pkglibdir), which exports exactly gb_emu_ops(). It links none of the leaf files: what
 * it needs of them is handed over. Devices opened later have the configuration given
 * last. */
struct gb_emu_config {
    const char *fault; /* GEMMBLAS_FAULT, see fault.h; copied */
    const char *cost;  /* GEMMBLAS_COST, see cost.h; copied */
    uint64_t seed;     /* GEMMBLAS_SEED */
    size_t mem_total;  /* device memory, bytes; 0: 1 GiB */
    void (*log)(int level,
                const char *line); /* level: enum gb_log_level; may be NULL */
};
#define GB_EMU_ENTRY "gb_emu_ops"
typedef const struct gb_device_ops *(*gb_emu_entry)(const struct gb_emu_config *config);
const struct gb_device_ops *
gb_emu_load(void); /* NULL when it cannot be loaded; logged once */

#define GB_EMU_DEVICES 8 /* ordinals that the emulated machine has */

/* One visible device that GEMMBLAS_DEVICE allows. */
struct gb_device_ref {
    const struct gb_device_ops *ops;
    int ordinal;
};

/* The devices to use, in order, after GEMMBLAS_DEVICE: "auto" is every visible device,
 * or under a launcher the one at the local MPI rank modulo the visible ones; "none";
 * "emu" or "emu:N"; or ordinals, counted over NVIDIA and then AMD devices. Loads
 * drivers, opens no context. Returns the number found, at most max. */
int gb_device_list(const char *knob, struct gb_device_ref *refs, int max);

/* Could that list have a device? Loads nothing: for a first call that need not wait. */
bool gb_device_plausible(const char *knob);

/* Does it allow no device at all? */
bool gb_device_is_none(const char *knob);

/* Where a pointer of the program lives, by any driver that the process has, the list's or
 * not: for memory that the CPU must not touch though no device is open. */
enum gb_mem_kind gb_device_where(const char *knob, const void *ptr);

/* Pure, for tests: rank of this process on its machine under Open MPI, MPICH/Hydra,
 * Intel MPI, MVAPICH, Slurm or PALS; -1 without a launcher. getenv is passed in. */
int gb_device_local_rank(const char *(*get)(const char *name));

#ifdef __cplusplus
}
#endif
#endif
