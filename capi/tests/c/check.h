/* What the tests share: checks that name their line, paths in the test's folder, and files. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <everseen.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* The code that a call returns, and no other. */
#define CODE(expected, call)                                                              \
    do {                                                                                  \
        everseen_error_t got_ = (call);                                                   \
        if (got_ != (expected)) {                                                         \
            char said_[1000];                                                             \
            everseen_last_error(NULL, said_, sizeof said_);                               \
            fprintf(stderr, "%s:%d: %s is %d, not %s: %s\n", __FILE__, __LINE__, #call,   \
                    (int)got_, #expected, said_);                                         \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#define OK(call) CODE(EVERSEEN_OK, call)

static const char *folder;

/* A path in the folder. A later one takes its place after sixteen. */
static inline const char *at(const char *name) {
    static char paths[16][4200];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *path, const void *bytes, size_t length) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(file >= 0 && write(file, bytes, length) == (ssize_t)length && close(file) == 0);
}

static inline void copy_file(const char *from, const char *to) {
    static char bytes[1 << 16];
    FILE *source = fopen(from, "rb"), *copy = fopen(to, "wb");
    CHECK(source && copy);
    for (size_t length; (length = fread(bytes, 1, sizeof bytes, source)) > 0;)
        CHECK(fwrite(bytes, 1, length, copy) == length);
    CHECK(fclose(source) == 0 && fclose(copy) == 0);
}

/* Runs work in a child that is killed then, before it has closed anything. */
static inline void in_child(void (*work)(void)) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        kill(getpid(), SIGKILL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Options of a small store of a given capacity, or one that grows, for 0. */
static inline everseen_options_t *small(uint64_t capacity) {
    everseen_options_t *options = everseen_options_new();
    CHECK(options);
    OK(everseen_options_set_buffer(options, 1 << 20));
    if (capacity)
        OK(everseen_options_set_capacity(options, capacity));
    return options;
}

static inline everseen_t *created(const char *path, everseen_options_t *options) {
    everseen_t *store;
    OK(everseen_create(path, options, &store));
    CHECK(store);
    return store;
}

static inline everseen_t *opened(const char *path, everseen_options_t *options) {
    everseen_t *store;
    OK(everseen_open(path, options, &store));
    CHECK(store);
    return store;
}

/* The call that opens a store fails with a code, and leaves no handle. */
#define REFUSED(expected, call)                                                           \
    do {                                                                                  \
        everseen_t *store = (everseen_t *)folder;                                         \
        CODE(expected, call);                                                             \
        CHECK(store == NULL);                                                             \
    } while (0)

static inline void end(everseen_t *store) {
    OK(everseen_close(store, NULL));
    everseen_free(store);
}

#endif
