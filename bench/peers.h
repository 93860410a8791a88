/* SPDX-License-Identifier: BSD-3-Clause */
/* What ours is measured against: libraries opened by dlopen, with prototypes of our
 * own, so that the bench builds on a machine that has none of them. */
#ifndef GB_PEERS_H
#define GB_PEERS_H

#include "bench.h"
#include "device.h"

enum bench_peer_kind {
    PEER_BLAS,
    PEER_CUBLAS,
    PEER_CUBLASXT,
    PEER_OURS /* our product without what --epilogue fuses */
};

struct bench_peer {
    enum bench_peer_kind kind;
    char label[96]; /* library and version, as rows name it */
    void *library;
    void *handle; /* of cublas or cublasXt */
    void *call;   /* PEER_BLAS: its gemm of the type last asked for */
    enum gb_type type, type_c;
    bool pin;
};

enum { BENCH_PEERS = 6 };

/* The comma-separated --peer, copied into `text`; returns their number. */
int bench_peer_list(const struct bench_options *o, char *text, size_t size,
                    const char *spec[BENCH_PEERS]);

/* spec: "cublas", "cublasxt", "cublasxt-pin" or the path of a BLAS. Dies when it cannot
 * be opened. The cublas kinds need the device's context current in the calling thread.
 */
void bench_peer_open(struct bench_peer *peer, const char *spec,
                     const struct bench_options *o);
void bench_peer_close(struct bench_peer *peer);

/* The library of ours as a peer-like thing: its exported gemm. */
void bench_ours_open(struct bench_peer *ours, const struct bench_options *o);

/* "" when the peer can run the shape on host pointers, else why not. */
const char *bench_peer_can(struct bench_peer *peer, const struct bench_shape *s);
/* One call on host pointers. False when the library reports an error. */
bool bench_peer_host(const struct bench_peer *peer, const struct bench_shape *s,
                     const void *a, const void *b, void *c);
/* One cublas product queued in the default stream. */
bool bench_peer_queue(const struct bench_peer *peer, const struct bench_shape *s,
                      enum bench_math math, gb_devptr a, gb_devptr b, gb_devptr c);

/* The directory that holds libcublas: --cublas, the loader's path, a CUDA toolkit,
 * Python's nvidia packages. "" when there is none but the loader's own search. Dies if
 * `need` and it cannot be found. Writes the library's path. */
void bench_cublas_find(const struct bench_options *o, char *path, size_t size);
/* "13.1.0" of an open libcublas. */
void bench_cublas_version(void *library, char *out, size_t size);

/* Library and version of a file to preload: of a BLAS, or of an NVBLAS, which is not loaded
 * for that: its cuBLAS or its file name tells. */
void bench_preload_label(const char *path, char *out, size_t size);

/* The path of the library that --ours names, or of the one built beside this program.
 */
void bench_ours_find(const struct bench_options *o, char *path, size_t size);

#endif
