/* SPDX-License-Identifier: BSD-3-Clause */
/* Knobs from environment over file over default; unknown names are reported with the nearest
 * known one, because a misspelt knob that is silently ignored costs a user hours. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "knobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gb.h"
#include "log.h"
#include "util.h"

#ifndef GB_SYSCONFDIR
#define GB_SYSCONFDIR "/etc"
#endif
#define PREFIX "GEMMBLAS_"

enum kind {
    KIND_TEXT,
    KIND_FLAG,
    KIND_COUNT,
    KIND_BYTES,
    KIND_ROUTE,
    KIND_LEVEL,
    KIND_MATH
};

struct row {
    const char *env;
    enum kind kind;
    size_t offset;
    const char *text; /* default */
    const char *doc;
};

static const struct row rows[] = {
#define KNOB(field, env, kind, text, doc)                                              \
    {PREFIX #env, KIND_##kind, offsetof(struct gb_knobs, field), text, doc},
#include "knobs.def"
#undef KNOB
};

static struct gb_knobs knobs;
static const char *value_text[GB_COUNT(rows)];
static enum gb_knob_source value_source[GB_COUNT(rows)];
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool gb_parse_bytes(const char *text, int64_t *out)
{
    int64_t value, scale = 1;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno)
        return false;
    switch (*end) {
    case 'K':
    case 'k':
        scale = INT64_C(1) << 10;
        break;
    case 'M':
    case 'm':
        scale = INT64_C(1) << 20;
        break;
    case 'G':
    case 'g':
        scale = INT64_C(1) << 30;
        break;
    case '\0':
        end--; /* no suffix to step over */
        break;
    default:
        return false;
    }
    if (end[1] != '\0' || __builtin_mul_overflow(value, scale, &value))
        return false;
    *out = value;
    return true;
}

static bool parse_word(const char *word, size_t len, const char *const *words, int n,
                       int *out)
{
    for (int i = 0; i < n; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static const char *const route_words[] = {
    [GB_ROUTE_AUTO] = "auto", [GB_ROUTE_GPU] = "gpu", [GB_ROUTE_CPU] = "cpu"};
static const char *const math_words[] = {[GB_MATH_NATIVE] = "native",
                                         [GB_MATH_EMULATED] = "emulated",
                                         [GB_MATH_FAST] = "fast"};
static const char *const level_words[] = {[GB_LOG_NONE] = "none",
                                          [GB_LOG_ERROR] = "error",
                                          [GB_LOG_WARN] = "warn",
                                          [GB_LOG_INFO] = "info",
                                          [GB_LOG_DEBUG] = "debug"};

/* "auto,dgemm=gpu,zgemm=cpu": the last bare word is the general route. With a routine, the
 * last entry that names it wins. False when some entry does not parse. */
static bool parse_route(const char *list, const char *routine, enum gb_knob_route *out)
{
    enum gb_knob_route general = GB_ROUTE_AUTO, own = GB_ROUTE_AUTO;
    bool named = false;

    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        const char *eq = memchr(p, '=', len);
        const char *word = eq ? eq + 1 : p;
        int route;

        if (!parse_word(word, (size_t)(p + len - word), route_words,
                        (int)GB_COUNT(route_words), &route))
            return false;
        if (!eq) {
            general = (enum gb_knob_route)route;
        } else if (routine && strlen(routine) == (size_t)(eq - p) &&
                   memcmp(routine, p, (size_t)(eq - p)) == 0) {
            own = (enum gb_knob_route)route;
            named = true;
        }
        p += len;
        p += *p == ',';
    }
    *out = named ? own : general;
    return true;
}

/* Store `text` into the row's field; false when it does not parse. */
static bool store(const struct row *row, const char *text)
{
    void *field = (char *)&knobs + row->offset;
    enum gb_knob_route route;
    int word;

    switch (row->kind) {
    case KIND_TEXT:
        *(const char **)field = text;
        return true;
    case KIND_FLAG:
        if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
            return false;
        *(bool *)field = *text == '1';
        return true;
    case KIND_COUNT:
        if (text[strspn(text, "0123456789")] != '\0')
            return false;
        return gb_parse_bytes(text, field);
    case KIND_BYTES:
        return gb_parse_bytes(text, field);
    case KIND_ROUTE:
        if (!parse_route(text, NULL, &route))
            return false;
        *(const char **)field = text;
        return true;
    case KIND_MATH:
        if (!parse_word(text, strlen(text), math_words, (int)GB_COUNT(math_words),
                        &word))
            return false;
        *(int *)field = word;
        return true;
    case KIND_LEVEL:
        if (!parse_word(text, strlen(text), level_words, (int)GB_COUNT(level_words),
                        &word))
            return false;
        *(int *)field = word;
        return true;
    }
    return false;
}

static const char *wanted(enum kind kind)
{
    static const char *const text[] = {
        [KIND_TEXT] = "text",
        [KIND_FLAG] = "0 or 1",
        [KIND_COUNT] = "a whole number",
        [KIND_BYTES] = "bytes such as 512M",
        [KIND_ROUTE] = "auto, gpu or cpu, or a list such as auto,dgemm=gpu",
        [KIND_LEVEL] = "none, error, warn, info or debug",
        [KIND_MATH] = "native, emulated or fast",
    };

    return text[kind];
}

static void set(size_t i, const char *text, enum gb_knob_source source,
                const char *where)
{
    if (store(&rows[i], text)) {
        value_text[i] = text;
        value_source[i] = source;
    } else {
        gb_warn("%s in %s is \"%s\", not %s; ignored", rows[i].env, where, text,
                wanted(rows[i].kind));
    }
}

/* Edit distance of short names, for "did you mean". */
static int distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    int row[MOST + 1];
    int la = (int)strlen(a), lb = (int)strlen(b);

    if (la > MOST || lb > MOST)
        return MOST;
    for (int j = 0; j <= lb; j++)
        row[j] = j;
    for (int i = 1; i <= la; i++) {
        int diagonal = row[0];

        row[0] = i;
        for (int j = 1; j <= lb; j++) {
            int up = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);

            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = up;
            row[j] = best;
        }
    }
    return row[lb];
}

static void warn_unknown(const char *name, const char *where)
{
    size_t best = 0;
    int least = distance(name, rows[0].env);

    for (size_t i = 1; i < GB_COUNT(rows); i++) {
        int d = distance(name, rows[i].env);

        if (d < least) {
            least = d;
            best = i;
        }
    }
    if (least <= 3)
        gb_warn("unknown knob %s in %s; did you mean %s?", name, where, rows[best].env);
    else
        gb_warn("unknown knob %s in %s; `gemmblas info` lists them", name, where);
}

static bool find_row(const char *name, size_t len, size_t *index)
{
    for (size_t i = 0; i < GB_COUNT(rows); i++) {
        if (strlen(rows[i].env) == len && memcmp(rows[i].env, name, len) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static char *trim(char *s)
{
    char *end;

    s += strspn(s, " \t");
    end = s + strlen(s);
    while (end > s && strchr(" \t\r", end[-1]))
        *--end = '\0';
    return s;
}

/* One line of the file: `route = gpu`, `# comment` or nothing. Says whether a knob may point
 * into it now. */
static bool file_line(char *line, const char *path, int number)
{
    char name[64] = PREFIX;
    char *key = trim(line), *eq = strchr(key, '=');
    size_t len, i;

    if (*key == '\0' || *key == '#')
        return false;
    if (!eq) {
        gb_warn("%s line %d is not `knob = value`; ignored", path, number);
        return false;
    }
    *eq = '\0';
    key = trim(key);
    len = strlen(key);
    if (len >= sizeof name - sizeof PREFIX) {
        gb_warn("%s line %d: no knob has so long a name; ignored", path, number);
        return false;
    }
    for (size_t c = 0; c <= len; c++) {
        char x = key[c];

        name[sizeof PREFIX - 1 + c] = (char)(x >= 'a' && x <= 'z' ? x - 'a' + 'A' : x);
    }
    if (strcmp(name, PREFIX "CONFIG") == 0) {
        gb_warn("%s line %d: a file cannot name the file; ignored", path, number);
        return false;
    }
    if (!find_row(name, strlen(name), &i)) {
        warn_unknown(name, path);
        return false;
    }
    set(i, trim(eq + 1), GB_FROM_FILE, path);
    return true;
}

/* A file that others could have written is not ours to obey. */
static char *read_file(const char *path, bool asked)
{
    enum { MOST = 1 << 16 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    char *text = NULL;
    ssize_t len;

    if (fd < 0) {
        if (asked)
            gb_warn("cannot read the configuration file %s: %s", path, strerror(errno));
        return NULL;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MOST) {
        gb_warn("%s is not a configuration file (regular, at most 64 KiB); ignored",
                path);
    } else if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & S_IWOTH)) {
        gb_warn("%s is not owned by you or root, or is writable by all; ignored", path);
    } else if ((text = malloc(MOST + 1))) {
        len = read(fd, text, MOST);
        text[len > 0 ? len : 0] = '\0';
    }
    close(fd);
    return text;
}

static void read_config(void)
{
    const char *asked = secure_getenv(PREFIX "CONFIG");
    const char *path = asked && *asked ? asked : GB_SYSCONFDIR "/gemmblas.conf";
    char *text = read_file(path, asked && *asked);
    bool used = false;
    int number = 1;

    for (char *line = text; line;) {
        char *next = strchr(line, '\n');

        if (next)
            *next++ = '\0';
        used |= file_line(line, path, number++);
        line = next;
    }
    if (!used)
        free(text);
}

static void read_environment(void)
{
    extern char **environ;

    for (char **e = environ; e && *e; e++) {
        const char *eq = strchr(*e, '=');
        char name[64];
        size_t len, i;

        if (!eq || strncmp(*e, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        len = (size_t)(eq - *e);
        if (find_row(*e, len, &i)) {
            const char *value = secure_getenv(rows[i].env);

            if (value && *value)
                set(i, value, GB_FROM_ENV, "the environment");
        } else {
            if (len >= sizeof name)
                len = sizeof name - 1;
            memcpy(name, *e, len);
            name[len] = '\0';
            warn_unknown(name, "the environment");
        }
    }
}

static void init(void)
{
    const char *log = secure_getenv(PREFIX "LOG");
    size_t i;
    int level;

    /* The log level first: it governs the warnings of reading the rest. */
    if (log &&
        parse_word(log, strlen(log), level_words, (int)GB_COUNT(level_words), &level))
        gb_log_level = (enum gb_log_level)level;
    for (i = 0; i < GB_COUNT(rows); i++)
        set(i, rows[i].text, GB_FROM_DEFAULT, "the defaults");
    read_config();
    read_environment();
    gb_log_level = (enum gb_log_level)knobs.log;
}

const struct gb_knobs *gb_knobs(void)
{
    pthread_once(&once, init);
    return &knobs;
}

enum gb_knob_route gb_knobs_route(const char *routine)
{
    enum gb_knob_route route = GB_ROUTE_AUTO;

    parse_route(gb_knobs()->route, routine, &route);
    return route;
}

bool gb_knobs_disabled(const char *routine)
{
    const char *list = gb_knobs()->disable;
    size_t want = strlen(routine);

    while (*list) {
        size_t len = strcspn(list, ", ");

        if (len == want && memcmp(list, routine, len) == 0)
            return true;
        list += len;
        list += strspn(list, ", ");
    }
    return false;
}

void gb_knobs_each(void (*f)(const char *env, const char *value,
                             enum gb_knob_source source, const char *doc, void *arg),
                   void *arg)
{
    gb_knobs();
    for (size_t i = 0; i < GB_COUNT(rows); i++)
        f(rows[i].env, value_text[i], value_source[i], rows[i].doc, arg);
}
