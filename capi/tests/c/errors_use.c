/* What an open store refuses, each with its code. */
#include "check.h"

static everseen_options_t *options;

static void kinds_and_limits(void) {
    everseen_t *store = created(at("bloom"), options);
    CODE(EVERSEEN_ERROR_WRONG_KIND, everseen_remove(store, "key", 3, NULL));
    CODE(EVERSEEN_ERROR_NEVER_FORGETS, everseen_advance_to(store, 1));
    char tag[EVERSEEN_MAX_TAG + 1] = {0};
    CODE(EVERSEEN_ERROR_TAG_TOO_LARGE, everseen_commit(store, tag, sizeof tag, NULL));
    OK(everseen_commit(store, tag, EVERSEEN_MAX_TAG, NULL));
    end(store);

    everseen_t *reader;
    OK(everseen_open_read_only(at("bloom"), NULL, &reader));
    CODE(EVERSEEN_ERROR_READ_ONLY, everseen_insert(reader, "key", 3, NULL));
    end(reader);

    everseen_error_t last = EVERSEEN_OK;
    for (int writer = 0; writer < 100 && last == EVERSEEN_OK; writer++) {
        char name[20];
        snprintf(name, sizeof name, "writer %d", writer);
        everseen_options_t *named = small(0);
        OK(everseen_options_set_writer(named, name));
        store = opened(at("bloom"), named);
        last = everseen_commit(store, tag, EVERSEEN_MAX_TAG, NULL);
        everseen_free(store);
        everseen_options_free(named);
    }
    CODE(EVERSEEN_ERROR_TOO_MANY_WRITERS, last);
}

/* Inserts keys until one fails. `done` says where. */
static everseen_error_t fill(everseen_t *store, int from, int most, size_t *done) {
    static int numbers[1 << 16];
    static const void *keys[1 << 16];
    static size_t lengths[1 << 16];
    static uint8_t answers[1 << 16];
    CHECK(most <= 1 << 16);
    for (int key = 0; key < most; key++) {
        numbers[key] = from + key;
        keys[key] = &numbers[key];
        lengths[key] = sizeof(int);
    }
    memset(answers, 9, sizeof answers);
    everseen_error_t code = everseen_insert_batch(store, keys, lengths, most, answers, done);
    for (size_t key = 0; key < *done; key++)
        CHECK(answers[key] == EVERSEEN_NEW || answers[key] == EVERSEEN_SEEN);
    CHECK(*done == (size_t)most || answers[*done] == 9);
    return code;
}

static void full(void) {
    everseen_options_t *hundred = small(100);
    everseen_t *store = created(at("full"), hundred);
    size_t done;
    CODE(EVERSEEN_ERROR_FULL, fill(store, 0, 1000, &done));
    CHECK(done >= 100 && done < 1000);
    bool found;
    int last = (int)done - 1;
    OK(everseen_contains(store, &last, sizeof last, &found));
    CHECK(found);
    everseen_options_free(hundred);
    end(store);
}

static void transactions(void) {
    everseen_options_t *tight = everseen_options_new();
    OK(everseen_options_set_buffer(tight, 128 << 10));
    OK(everseen_options_set_transactional(tight, true));
    everseen_t *store = created(at("transaction"), tight);
    uint64_t keys, most;
    OK(everseen_uncommitted(store, &keys, &most));
    CHECK(keys == 0 && most > 100 && most < 1 << 16);
    size_t done;
    CODE(EVERSEEN_ERROR_TRANSACTION_TOO_LARGE, fill(store, 0, 1 << 16, &done));
    OK(everseen_uncommitted(store, &keys, NULL));
    CHECK(keys == done);
    OK(everseen_commit(store, NULL, 0, NULL));
    OK(fill(store, (int)done, 100, &done));
    everseen_options_free(tight);
    everseen_free(store);
}

static void busy(void) {
    everseen_options_t *renewing = small(0);
    OK(everseen_options_set_transactional(renewing, true));
    OK(everseen_options_set_forget_after(renewing, 60000));
    OK(everseen_options_set_forget_by(renewing, EVERSEEN_FORGET_BY_LAST));
    OK(everseen_options_set_clock(renewing, 1700000000000));
    OK(everseen_options_set_timeout(renewing, 1));
    everseen_t *one = created(at("renewing"), renewing), *other = opened(at("renewing"), renewing);
    OK(everseen_insert(one, "key", 3, NULL));
    OK(everseen_commit(one, NULL, 0, NULL));
    OK(everseen_advance_to(one, 1700000010000));
    OK(everseen_insert(one, "key", 3, NULL));
    CODE(EVERSEEN_ERROR_BUSY, everseen_remove(other, "key", 3, NULL));
    OK(everseen_commit(one, NULL, 0, NULL));
    OK(everseen_remove(other, "key", 3, NULL));
    everseen_free(one);
    everseen_free(other);
    everseen_options_free(renewing);
}

static void names(void) {
    everseen_t *store = created(at("moved"), options);
    OK(everseen_insert(store, "key", 3, NULL));
    CHECK(rename(at("moved"), at("away")) == 0);
    CODE(EVERSEEN_ERROR_POISONED, everseen_commit(store, NULL, 0, NULL));
    char said[300];
    everseen_last_error(store, said, sizeof said);
    CHECK(strstr(said, "was removed, renamed or replaced"));
    everseen_free(store);

    everseen_t *reader;
    end(created(at("read"), options));
    OK(everseen_open_read_only(at("read"), NULL, &reader));
    CHECK(rename(at("read"), at("gone")) == 0);
    CODE(EVERSEEN_ERROR_MOVED, everseen_close(reader, NULL));
    everseen_free(reader);
    CHECK(rename(at("gone"), at("read")) == 0);
    OK(everseen_open_read_only(at("read"), NULL, &reader));
    end(created(at("other"), options));
    CHECK(rename(at("other"), at("read")) == 0);
    CODE(EVERSEEN_ERROR_REPLACED, everseen_close(reader, NULL));
    everseen_free(reader);
}

static void ended(void) {
    everseen_t *writer = created(at("ended"), options), *reader;
    OK(everseen_open_read_only(at("ended"), NULL, &reader));
    bool found;
    OK(everseen_contains(reader, "key", 3, &found));
    end(writer);
    CODE(EVERSEEN_ERROR_ENDED, everseen_contains(reader, "key", 3, &found));
    everseen_free(reader);
}

static void overwritten(void) {
    everseen_t *first = created(at("memory"), options);
    OK(everseen_insert(first, "key", 3, NULL));
    /* The number of the next handle, which is never so high. */
    uint64_t number = UINT64_MAX;
    int memory = open(at("memory-shm"), O_RDWR);
    CHECK(memory >= 0 && pwrite(memory, &number, 8, 14 * 8) == 8 && close(memory) == 0);
    REFUSED(EVERSEEN_ERROR_SHARED_MEMORY, everseen_open(at("memory"), options, &store));
    end(first);
    bool found;
    first = opened(at("memory"), options);
    OK(everseen_contains(first, "key", 3, &found));
    CHECK(found);
    end(first);
}

static int stop_at_once(uint64_t done, uint64_t total, void *context) {
    CHECK(done <= total);
    ++*(int *)context;
    return 1;
}

static int go_on(uint64_t done, uint64_t total, void *context) {
    CHECK(done <= total);
    *(uint64_t *)context = done;
    return 0;
}

static void cancelled(void) {
    everseen_t *store = created(at("copied"), options);
    OK(everseen_insert(store, "key", 3, NULL));
    int calls = 0;
    CODE(EVERSEEN_ERROR_CANCELLED, everseen_snapshot(store, at("copy"), stop_at_once, &calls));
    CHECK(calls == 1 && access(at("copy"), F_OK) != 0);
    uint64_t bytes = 0;
    OK(everseen_snapshot(store, at("copy"), go_on, &bytes));
    struct stat copy;
    CHECK(stat(at("copy"), &copy) == 0 && bytes == (uint64_t)copy.st_size);
    CODE(EVERSEEN_ERROR_ALREADY_EXISTS, everseen_snapshot(store, at("copy"), NULL, NULL));
    end(store);
    everseen_t *held = opened(at("copy"), options);
    bool found;
    OK(everseen_contains(held, "key", 3, &found));
    CHECK(found);
    end(held);
}

static void closed(void) {
    everseen_t *store = created(at("closed"), options);
    OK(everseen_close(store, NULL));
    bool found;
    uint8_t answer;
    const void *key = "key";
    size_t length = 3, done = 9;
    everseen_stats_t stats;
    CODE(EVERSEEN_ERROR_CLOSED, everseen_insert(store, "key", 3, NULL));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_claim(store, "key", 3, &answer));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_contains(store, "key", 3, &found));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_insert_batch(store, &key, &length, 1, &answer, &done));
    CHECK(done == 0);
    CODE(EVERSEEN_ERROR_CLOSED, everseen_contains_batch(store, &key, &length, 1, &answer));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_commit(store, NULL, 0, NULL));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_last_commit(store, NULL, NULL, NULL, 0, NULL));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_stats(store, &stats, sizeof stats));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_checkpoint(store));
    CODE(EVERSEEN_ERROR_CLOSED, everseen_snapshot(store, at("none"), NULL, NULL));
    OK(everseen_close(store, NULL));
    everseen_free(store);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    options = small(10000);
    kinds_and_limits();
    full();
    transactions();
    busy();
    names();
    ended();
    overwritten();
    cancelled();
    closed();
    everseen_options_free(options);
    return 0;
}
