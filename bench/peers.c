/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers by dlopen: any BLAS, cuBLAS, cublasXt. Prototypes are ours; the values of the
 * vendor's enumerations are part of its binary interface. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peers.h"
#include "util.h"

/* 64-bit integers by reference serve 32-bit libraries too: these machines are
 * little-endian. The last two are the hidden lengths of the characters. */
typedef void (*fortran_gemm)(const char *, const char *, const int64_t *,
                             const int64_t *, const int64_t *, const void *,
                             const void *, const int64_t *, const void *,
                             const int64_t *, const void *, void *, const int64_t *,
                             size_t, size_t);

typedef int (*cublas_create)(void **handle);
typedef int (*cublas_destroy)(void *handle);
typedef int (*cublas_property)(int property, int *value);
typedef int (*cublas_gemm_ex)(void *handle, int transa, int transb, int m, int n, int k,
                              const void *alpha, const void *a, int type_a, int lda,
                              const void *b, int type_b, int ldb, const void *beta,
                              void *c, int type_c, int ldc, int compute, int algorithm);
typedef int (*cublas_batched)(void *handle, int transa, int transb, int m, int n, int k,
                              const void *alpha, const void *a, int type_a, int lda,
                              long long stride_a, const void *b, int type_b, int ldb,
                              long long stride_b, const void *beta, void *c, int type_c,
                              int ldc, long long stride_c, int batch, int compute,
                              int algorithm);
typedef int (*cublasxt_select)(void *handle, int count, int *devices);
typedef int (*cublasxt_set)(void *handle, int value);
typedef int (*cublasxt_gemm)(void *handle, int transa, int transb, size_t m, size_t n,
                             size_t k, const void *alpha, const void *a, size_t lda,
                             const void *b, size_t ldb, const void *beta, void *c,
                             size_t ldc);

/* cudaDataType_t */
static const int cuda_type[GB_TYPES] = {2, 14, 0, 1, 4, 5, 3, 10};

enum {
    COMPUTE_32F = 68,
    COMPUTE_64F = 70,
    COMPUTE_32I = 72,
    COMPUTE_32F_FAST_TF32 = 77,
    ALGORITHM_DEFAULT = -1,
    XT_PINNING_ENABLED = 1,
    XT_PIN_BLOCK = 2048,
};

/* Names of the base routine by type; "" where no library has one. */
static const char *gemm_name(enum gb_type type, enum gb_type type_c)
{
    switch (type) {
    case GB_F16:
        return type_c == GB_F32 ? "shgemm" : "hgemm";
    case GB_BF16:
        return type_c == GB_F32 ? "sbgemm" : "bgemm";
    case GB_F32:
        return "sgemm";
    case GB_F64:
        return "dgemm";
    case GB_C32:
        return "cgemm";
    case GB_C64:
        return "zgemm";
    case GB_I8:
    case GB_I32:
    case GB_TYPES:
        break;
    }
    return "";
}

/* A scalar in the type that a routine's alpha and beta have. */
union scalar {
    float f[2];
    double d[2];
    int32_t i;
    uint16_t h;
};

static union scalar scalar(enum gb_type type, double v)
{
    union scalar s;

    memset(&s, 0, sizeof(s));
    if (type == GB_F64 || type == GB_C64)
        s.d[0] = v;
    else if (type == GB_I8)
        s.i = (int32_t)v;
    else
        s.f[0] = (float)v;
    return s;
}

/* bgemm and hgemm take alpha and beta in the short type; 0, 1 and 0.5 are exact in it.
 */
static union scalar short_scalar(enum gb_type type, float v)
{
    union scalar s;
    uint32_t bits;

    memset(&s, 0, sizeof(s));
    memcpy(&bits, &v, sizeof(bits));
    if (type == GB_BF16)
        s.h = (uint16_t)(bits >> 16);
    else if (v != 0)
        s.h = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                         (bits >> 13 & 1023));
    return s;
}

static bool exists(const char *path)
{
    return access(path, R_OK) == 0;
}

static void own_directory(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);

    out[n > 0 ? n : 0] = '\0';
    if (strrchr(out, '/'))
        *strrchr(out, '/') = '\0';
}

void bench_ours_find(const struct bench_options *o, char *path, size_t size)
{
    static const char *const beside[] = {
        "/../.libs/libgemmblas.so.0", "/../../.libs/libgemmblas.so.0",
        "/../lib/libgemmblas.so.0", "/libgemmblas.so.0"};
    char self[PATH_MAX / 2];
    size_t i;

    if (o->ours) {
        if (!exists(o->ours))
            bench_die("--ours %s: no such file; name libgemmblas.so.0", o->ours);
        snprintf(path, size, "%s", o->ours);
        return;
    }
    own_directory(self, sizeof(self));
    for (i = 0; i < GB_COUNT(beside); i++) {
        snprintf(path, size, "%s%s", self, beside[i]);
        if (exists(path))
            return;
    }
    bench_die("libgemmblas.so.0: not beside this program; name it with --ours FILE");
}

static void *symbol_of(void *library, const char *name)
{
    return dlsym(library, name);
}

/* Whatever name the library gives its gemm. */
static void *gemm_of(void *library, const char *base)
{
    static const char *const pattern[] = {"%s_", "%s_64_", "scipy_%s_", "scipy_%s_64_"};
    char name[32];
    void *found;
    size_t i;

    if (!*base)
        return NULL;
    for (i = 0; i < GB_COUNT(pattern); i++) {
        snprintf(name, sizeof(name), pattern[i], base);
        found = symbol_of(library, name);
        if (found)
            return found;
    }
    return NULL;
}

/* "OpenBLAS 0.3.21" where the library says so, else its file name. */
static void blas_label(void *library, const char *path, char *out, size_t size)
{
    static const char *const config[] = {
        "openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config",
        "scipy_openblas_get_config64_"};
    const char *(*text)(void);
    const char *base = strrchr(path, '/');
    const char *words;
    size_t length;
    size_t i;

    for (i = 0; i < GB_COUNT(config); i++) {
        *(void **)&text = symbol_of(library, config[i]);
        if (!text)
            continue;
        words = text();
        length = strcspn(words, " ");
        if (words[length])
            length += 1 + strcspn(words + length + 1, " ");
        snprintf(out, size, "%.*s", (int)length, words);
        return;
    }
    *(void **)&text = symbol_of(library, "bli_info_get_version_str");
    if (text)
        snprintf(out, size, "BLIS %s", text());
    else
        snprintf(out, size, "%s", base ? base + 1 : path);
}

int bench_peer_list(const struct bench_options *o, char *text, size_t size,
                    const char *spec[BENCH_PEERS])
{
    char *save = NULL;
    char *word;
    int n = 0;

    if (strlen(o->peers) >= size)
        bench_die("--peer: too long; name fewer peers");
    snprintf(text, size, "%s", o->peers);
    for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (n == BENCH_PEERS)
            bench_die("--peer: at most %d; name fewer peers", BENCH_PEERS);
        spec[n++] = word;
    }
    return n;
}

static void open_blas(struct bench_peer *peer, const char *path)
{
    peer->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!peer->library)
        bench_die("peer %s: %s; name a BLAS library", path, dlerror());
    blas_label(peer->library, path, peer->label, sizeof(peer->label));
}

void bench_ours_open(struct bench_peer *ours, const struct bench_options *o)
{
    char path[PATH_MAX];

    bench_ours_find(o, path, sizeof(path));
    *ours = (struct bench_peer){.kind = PEER_BLAS, .type = GB_TYPES};
    ours->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!ours->library)
        bench_die("%s: %s; build the library or name it with --ours FILE", path,
                  dlerror());
    snprintf(ours->label, sizeof(ours->label), "gemmblas");
}

/* Where Python keeps NVIDIA's libraries, if it has them. */
static bool python_packages(char *out, size_t size)
{
    FILE *pipe = popen("python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' "
                       "2>/dev/null",
                       "r");
    bool got = pipe && fgets(out, (int)size, pipe);

    if (pipe)
        pclose(pipe);
    if (got)
        out[strcspn(out, "\n")] = '\0';
    return got && *out;
}

void bench_cublas_find(const struct bench_options *o, char *path, size_t size)
{
    static const char *const toolkit[] = {
        "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/opt/cuda/lib64"};
    static const char *const package[] = {"cu13/lib", "cublas/lib"};
    static const int version[] = {13, 12};
    char packages[PATH_MAX / 2];
    size_t i;
    size_t v;

    if (o->cublas) {
        for (v = 0; v < GB_COUNT(version); v++) {
            snprintf(path, size, "%s/libcublas.so.%d", o->cublas, version[v]);
            if (exists(path))
                return;
        }
        bench_die("--cublas %s: no libcublas.so.13 or .12 in it; name its folder",
                  o->cublas);
    }
    for (v = 0; v < GB_COUNT(version); v++) {
        void *library;

        snprintf(path, size, "libcublas.so.%d", version[v]);
        library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (library) {
            dlclose(library);
            return;
        }
    }
    for (i = 0; i < GB_COUNT(toolkit); i++) {
        for (v = 0; v < GB_COUNT(version); v++) {
            snprintf(path, size, "%s/libcublas.so.%d", toolkit[i], version[v]);
            if (exists(path))
                return;
        }
    }
    if (python_packages(packages, sizeof(packages))) {
        for (i = 0; i < GB_COUNT(package); i++) {
            for (v = 0; v < GB_COUNT(version); v++) {
                snprintf(path, size, "%s/%s/libcublas.so.%d", packages, package[i],
                         version[v]);
                if (exists(path))
                    return;
            }
        }
    }
    bench_die("libcublas.so.13: not found; name its folder with --cublas DIR");
}

void bench_cublas_version(void *library, char *out, size_t size)
{
    cublas_property property;
    int part[3] = {0, 0, 0};
    int i;

    *(void **)&property = symbol_of(library, "cublasGetProperty");
    for (i = 0; property && i < 3; i++)
        property(i, &part[i]);
    snprintf(out, size, "%d.%d.%d", part[0], part[1], part[2]);
}

/* The version after ".so." in a file name; "" when there is none. */
static const char *version_of_file(const char *path)
{
    const char *base = strrchr(path, '/');
    const char *at = strstr(base ? base : path, ".so.");

    return at ? at + 4 : "";
}

static void nvblas_label(const char *path, char *out, size_t size)
{
    const char *base = strrchr(path, '/');
    const char *after = version_of_file(path);
    char version[32] = "";
    char cublas[PATH_MAX];
    void *library;

    snprintf(cublas, sizeof(cublas), "%.*slibcublas.so.%.*s",
             base ? (int)(base + 1 - path) : 0, path, (int)strcspn(after, "."), after);
    library = dlopen(cublas, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        bench_cublas_version(library, version, sizeof(version));
    else
        snprintf(version, sizeof(version), "%s", after);
    snprintf(out, size, "nvblas%s%s autopin", *version ? " " : "", version);
}

void bench_preload_label(const char *path, char *out, size_t size)
{
    const char *base = strrchr(path, '/');
    void *library;

    base = base ? base + 1 : path;
    if (strncmp(base, "libnvblas.so", 12) == 0) {
        nvblas_label(path, out, size);
        return;
    }
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        blas_label(library, path, out, size);
    else
        snprintf(out, size, "%s", base);
}

static void open_cublas(struct bench_peer *peer, const struct bench_options *o)
{
    bool xt = peer->kind == PEER_CUBLASXT;
    char path[PATH_MAX];
    char version[32];
    cublas_create create;
    int status;

    bench_cublas_find(o, path, sizeof(path));
    peer->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!peer->library)
        bench_die("%s: %s; name its folder with --cublas DIR", path, dlerror());
    bench_cublas_version(peer->library, version, sizeof(version));
    snprintf(peer->label, sizeof(peer->label), "%s %s%s", xt ? "cublasxt" : "cublas",
             version, peer->pin ? " pin 2048" : "");
    *(void **)&create =
        symbol_of(peer->library, xt ? "cublasXtCreate" : "cublasCreate_v2");
    status = create ? create(&peer->handle) : -1;
    if (status != 0)
        bench_die(
            "%s: it cannot be initialised (status %d); a GPU and its driver are needed",
            path, status);
}

static void open_xt(struct bench_peer *peer, const struct bench_options *o)
{
    cublasxt_select select_devices;
    cublasxt_set pin;
    cublasxt_set block;
    int device = 0;

    open_cublas(peer, o);
    *(void **)&select_devices = symbol_of(peer->library, "cublasXtDeviceSelect");
    *(void **)&pin = symbol_of(peer->library, "cublasXtSetPinningMemMode");
    *(void **)&block = symbol_of(peer->library, "cublasXtSetBlockDim");
    if (!select_devices || !pin || !block ||
        select_devices(peer->handle, 1, &device) != 0)
        bench_die("cublasxt: it cannot use device 0; a GPU and its driver are needed");
    if (peer->pin && (pin(peer->handle, XT_PINNING_ENABLED) != 0 ||
                      block(peer->handle, XT_PIN_BLOCK) != 0))
        bench_die("cublasxt-pin: it refuses pinning; take cublasxt");
}

void bench_peer_open(struct bench_peer *peer, const char *spec,
                     const struct bench_options *o)
{
    *peer = (struct bench_peer){.kind = PEER_BLAS, .type = GB_TYPES};
    if (strcmp(spec, "cublas") == 0) {
        peer->kind = PEER_CUBLAS;
        open_cublas(peer, o);
    } else if (strcmp(spec, "cublasxt") == 0 || strcmp(spec, "cublasxt-pin") == 0) {
        peer->kind = PEER_CUBLASXT;
        peer->pin = strcmp(spec, "cublasxt-pin") == 0;
        open_xt(peer, o);
    } else {
        open_blas(peer, spec);
    }
}

void bench_peer_close(struct bench_peer *peer)
{
    cublas_destroy destroy = NULL;

    if (peer->handle) {
        *(void **)&destroy =
            symbol_of(peer->library, peer->kind == PEER_CUBLASXT ? "cublasXtDestroy"
                                                                 : "cublasDestroy_v2");
        if (destroy)
            destroy(peer->handle);
    }
    /* The libraries stay: they have threads and exit handlers. */
}

const char *bench_peer_can(struct bench_peer *peer, const struct bench_shape *s)
{
    const char *base = gemm_name(s->type, s->type_c);
    char name[24];

    if (s->batch != 1)
        return "batch is for --place resident";
    if (peer->type == s->type && peer->type_c == s->type_c && peer->call)
        return "";
    peer->type = s->type;
    peer->type_c = s->type_c;
    if (peer->kind == PEER_CUBLASXT) {
        if (strlen(base) == 5 && strchr("sdcz", base[0])) {
            snprintf(name, sizeof(name), "cublasXt%cgemm", base[0] - 'a' + 'A');
            peer->call = symbol_of(peer->library, name);
        } else {
            peer->call = NULL;
        }
    } else {
        peer->call = gemm_of(peer->library, base);
    }
    return peer->call ? "" : "it has no routine for this type";
}

static int cublas_trans(enum gb_trans t)
{
    return t == GB_CONJ ? 3 : (int)t;
}

static bool xt_host(const struct bench_peer *peer, const struct bench_shape *s,
                    const void *a, const void *b, void *c)
{
    union scalar alpha = scalar(s->type, 1);
    union scalar beta = scalar(s->type, s->beta);
    cublasxt_gemm gemm;

    *(void **)&gemm = peer->call;
    return gemm(peer->handle, cublas_trans(s->transa), cublas_trans(s->transb),
                (size_t)s->m, (size_t)s->n, (size_t)s->k, &alpha, a, (size_t)s->lda, b,
                (size_t)s->ldb, &beta, c, (size_t)s->ldc) == 0;
}

bool bench_peer_host(const struct bench_peer *peer, const struct bench_shape *s,
                     const void *a, const void *b, void *c)
{
    bool narrow = s->type == s->type_c && gb_type_size(s->type) == 2;
    union scalar alpha = narrow ? short_scalar(s->type, 1) : scalar(s->type, 1);
    union scalar beta =
        narrow ? short_scalar(s->type, (float)s->beta) : scalar(s->type, s->beta);
    fortran_gemm gemm;

    if (peer->kind == PEER_CUBLASXT)
        return xt_host(peer, s, a, b, c);
    *(void **)&gemm = peer->call;
    gemm(gb_trans_name(s->transa), gb_trans_name(s->transb), &s->m, &s->n, &s->k,
         &alpha, a, &s->lda, b, &s->ldb, &beta, c, &s->ldc, 1, 1);
    return true;
}

static int compute_type(const struct bench_shape *s, enum bench_math math)
{
    if (s->type == GB_F64 || s->type == GB_C64)
        return COMPUTE_64F;
    if (s->type == GB_I8)
        return COMPUTE_32I;
    if (math == BENCH_FAST && gb_type_size(s->type) >= 4)
        return COMPUTE_32F_FAST_TF32;
    return COMPUTE_32F;
}

bool bench_peer_queue(const struct bench_peer *peer, const struct bench_shape *s,
                      enum bench_math math, gb_devptr a, gb_devptr b, gb_devptr c)
{
    union scalar alpha = scalar(s->type, 1);
    union scalar beta = scalar(s->type, s->beta);
    int ta = cublas_trans(s->transa);
    int tb = cublas_trans(s->transb);
    int type = cuda_type[s->type];
    int type_c = cuda_type[s->type_c];
    int compute = compute_type(s, math);
    const void *pa = (const void *)(uintptr_t)a;
    const void *pb = (const void *)(uintptr_t)b;
    void *pc = (void *)(uintptr_t)c;
    cublas_gemm_ex gemm;
    cublas_batched batched;

    *(void **)&gemm = symbol_of(peer->library, "cublasGemmEx");
    *(void **)&batched = symbol_of(peer->library, "cublasGemmStridedBatchedEx");
    if (!gemm || !batched)
        return false;
    if (s->batch == 1)
        return gemm(peer->handle, ta, tb, (int)s->m, (int)s->n, (int)s->k, &alpha, pa,
                    type, (int)s->lda, pb, type, (int)s->ldb, &beta, pc, type_c,
                    (int)s->ldc, compute, ALGORITHM_DEFAULT) == 0;
    return batched(peer->handle, ta, tb, (int)s->m, (int)s->n, (int)s->k, &alpha, pa,
                   type, (int)s->lda, s->lda * bench_cols_a(s), pb, type, (int)s->ldb,
                   s->ldb * bench_cols_b(s), &beta, pc, type_c, (int)s->ldc,
                   s->ldc * s->n, (int)s->batch, compute, ALGORITHM_DEFAULT) == 0;
}
