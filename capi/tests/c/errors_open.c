/* Why a store can't be opened or created, each with its code. */
#include "check.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

static everseen_options_t *options;

/* The path of a store whose process is killed with 100 committed keys in its log. */
static const char *left;

static void leave(void) {
    everseen_t *store = created(left, options);
    for (int key = 0; key < 100; key++)
        OK(everseen_insert(store, &key, sizeof key, NULL));
    OK(everseen_commit(store, NULL, 0, NULL));
}

static void paths(void) {
    REFUSED(EVERSEEN_ERROR_NOT_FOUND, everseen_open(at("none"), options, &store));
    end(created(at("there"), options));
    REFUSED(EVERSEEN_ERROR_ALREADY_EXISTS, everseen_create(at("there"), options, &store));
    write_file(at("empty"), "", 0);
    REFUSED(EVERSEEN_ERROR_EMPTY_FILE, everseen_open(at("empty"), options, &store));
    CHECK(symlink(at("none"), at("link")) == 0);
    REFUSED(EVERSEEN_ERROR_DANGLING_LINK, everseen_create(at("link"), options, &store));
    REFUSED(EVERSEEN_ERROR_MISSING_FOLDER, everseen_create(at("none/store"), options, &store));
    REFUSED(EVERSEEN_ERROR_IS_FOLDER, everseen_open(folder, options, &store));
    CHECK(mkfifo(at("pipe"), 0600) == 0);
    REFUSED(EVERSEEN_ERROR_NOT_A_FILE, everseen_open(at("pipe"), options, &store));
    CHECK(mkdir(at("taken-new"), 0700) == 0);
    REFUSED(EVERSEEN_ERROR_IN_THE_WAY, everseen_create(at("taken"), options, &store));
    CHECK(link(at("there"), at("second")) == 0);
    REFUSED(EVERSEEN_ERROR_MANY_NAMES, everseen_open(at("second"), options, &store));
    char name[251];
    memset(name, 'n', 250);
    name[250] = 0;
    REFUSED(EVERSEEN_ERROR_NAME_TOO_LONG, everseen_create(at(name), options, &store));
}

static void contents(void) {
    char garbage[8192];
    memset(garbage, 0xA5, sizeof garbage);
    write_file(at("garbage"), garbage, sizeof garbage);
    REFUSED(EVERSEEN_ERROR_FORMAT, everseen_open(at("garbage"), options, &store));

    left = at("damaged");
    in_child(leave);
    int file = open(at("damaged-log.1"), O_RDWR);
    CHECK(file >= 0);
    /* Behind the log's header: a record that a commit covers. */
    CHECK(pwrite(file, garbage, 64, 4096 + 16) == 64 && close(file) == 0);
    REFUSED(EVERSEEN_ERROR_LOG, everseen_open(at("damaged"), options, &store));
}

static void moments(void) {
    left = at("emptied");
    in_child(leave);
    write_file(at("emptied"), "", 0);
    REFUSED(EVERSEEN_ERROR_EMPTIED, everseen_open(at("emptied"), options, &store));

    left = at("gone");
    in_child(leave);
    CHECK(unlink(at("gone")) == 0);
    REFUSED(EVERSEEN_ERROR_LEFTOVER_LOG, everseen_create(at("gone"), options, &store));

    /* A copy of the store file as it was, put back beside the log of what it has become. */
    end(created(at("restored"), options));
    copy_file(at("restored"), at("backup"));
    everseen_t *store = opened(at("restored"), options);
    OK(everseen_insert(store, "key", 3, NULL));
    end(store);
    store = opened(at("restored"), options);
    OK(everseen_insert(store, "another", 7, NULL));
    OK(everseen_commit(store, NULL, 0, NULL));
    copy_file(at("backup"), at("apart"));
    char log[4300], copied[4300];
    for (int generation = 1; generation < 5; generation++) {
        snprintf(log, sizeof log, "%s-log.%d", at("restored"), generation);
        snprintf(copied, sizeof copied, "%s-log.%d", at("apart"), generation);
        if (access(log, F_OK) == 0)
            copy_file(log, copied);
    }
    end(store);
    REFUSED(EVERSEEN_ERROR_OTHER_MOMENT, everseen_open(at("apart"), options, &store));
}

static void values(void) {
    everseen_options_t *other = everseen_options_new();
    OK(everseen_options_set_fpr(other, 2.0));
    REFUSED(EVERSEEN_ERROR_SIZING, everseen_create(at("new"), other, &store));
    OK(everseen_options_set_fpr(other, 0.01));
    OK(everseen_options_set_buffer(other, 1));
    REFUSED(EVERSEEN_ERROR_INVALID_OPTION, everseen_create(at("new"), other, &store));
    OK(everseen_options_set_buffer(other, (uint64_t)1 << 50));
    OK(everseen_options_set_exclusive(other, true));
    /* Valgrind refuses so much in another way than Linux does. */
    if (!getenv("UNDER_VALGRIND"))
        REFUSED(EVERSEEN_ERROR_OUT_OF_MEMORY, everseen_create(at("new"), other, &store));
    everseen_options_free(other);
}

static void others(void) {
    everseen_t *first = created(at("shared"), options);
    everseen_options_t *exclusive = small(0);
    OK(everseen_options_set_exclusive(exclusive, true));
    REFUSED(EVERSEEN_ERROR_LOCKED, everseen_open(at("shared"), exclusive, &store));
    everseen_options_free(exclusive);

    everseen_t *handles[200];
    int many = 0;
    everseen_error_t last;
    while ((last = everseen_open(at("shared"), options, &handles[many])) == EVERSEEN_OK)
        CHECK(++many < 200);
    CODE(EVERSEEN_ERROR_TOO_MANY_HANDLES, last);
    CHECK(many == 127 && handles[many] == NULL);
    while (many > 0)
        everseen_free(handles[--many]);

    int memory = open(at("shared-shm"), O_RDWR);
    CHECK(memory >= 0 && pwrite(memory, "EVERSHM3", 8, 0) == 8);
    REFUSED(EVERSEEN_ERROR_OTHER_LAYOUT, everseen_open(at("shared"), options, &store));
    CHECK(pwrite(memory, "EVERSHM7", 8, 0) == 8 && close(memory) == 0);
    CHECK(unlink(at("shared-shm")) == 0);
    REFUSED(EVERSEEN_ERROR_OTHER_NAME, everseen_open(at("shared"), options, &store));
    everseen_free(first);
}

/* A child: no other test is to run with these limits. */
static void limited(void) {
    struct rlimit little = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    REFUSED(EVERSEEN_ERROR_IO, everseen_create(at("limited"), options, &store));
}

/* A disk of 4 MiB, which the child alone sees. To mount it takes a superuser's rights; without them this checks nothing. */
static void disks(void) {
    CHECK(mkdir(at("disk"), 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", at("disk"), "tmpfs", 0, "size=4m") != 0)
        return;
    everseen_options_t *large = small(1000);
    OK(everseen_options_set_buffer(large, 64 << 20));
    REFUSED(EVERSEEN_ERROR_NO_ROOM_FOR_BUFFER, everseen_create(at("disk/store"), large, &store));
    everseen_options_free(large);

    end(created(at("disk/store"), options));
    int file = open(at("disk/rest"), O_WRONLY | O_CREAT, 0600);
    char bytes[4096] = {0};
    while (write(file, bytes, sizeof bytes) > 0)
        continue;
    CHECK(close(file) == 0);
    everseen_t *copied = opened(at("shared"), options);
    CODE(EVERSEEN_ERROR_NO_SPACE, everseen_snapshot(copied, at("disk/copy"), NULL, NULL));
    CHECK(access(at("disk/copy"), F_OK) != 0);
    end(copied);

    CHECK(mount("none", at("disk"), "", MS_REMOUNT | MS_RDONLY, NULL) == 0);
    REFUSED(EVERSEEN_ERROR_READ_ONLY_DISK, everseen_open(at("disk/store"), options, &store));
}

static void unprivileged(void) {
    CHECK(chmod(at("there"), 0000) == 0 && chmod(folder, 0755) == 0);
    if (geteuid() == 0)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    REFUSED(EVERSEEN_ERROR_PERMISSION_DENIED, everseen_open(at("there"), options, &store));
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    options = small(1000);
    paths();
    contents();
    moments();
    values();
    others();
    in_child(limited);
    in_child(disks);
    CHECK(unlink(at("second")) == 0);
    in_child(unprivileged);
    everseen_options_free(options);
    return 0;
}
