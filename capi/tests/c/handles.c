/* Handles: shared by threads, inherited by a forked child, given up without a commit; what each of them says. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, KEYS = 5000 };

static everseen_t *shared;
static int wins[THREADS];

static void *compete(void *number) {
    int *won = &wins[*(int *)number];
    for (int key = 0; key < KEYS; key++) {
        bool is_new, found;
        OK(everseen_insert(shared, &key, sizeof key, &is_new));
        *won += is_new;
        OK(everseen_contains(shared, &key, sizeof key, &found));
        CHECK(found);
    }
    OK(everseen_commit(shared, NULL, 0, NULL));
    /* Its own failure, whatever the others do. */
    char said[200];
    CODE(EVERSEEN_ERROR_NEVER_FORGETS, everseen_advance_to(shared, 1));
    CHECK(everseen_last_error(NULL, said, sizeof said) > 0 && strstr(said, "only stores that forget"));
    return NULL;
}

static void threads_share_a_handle(void) {
    everseen_options_t *options = small(0);
    OK(everseen_options_set_fpr(options, 1e-9));
    shared = created(at("threads"), options);
    everseen_options_free(options);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int thread = 0; thread < THREADS; thread++) {
        numbers[thread] = thread;
        CHECK(pthread_create(&threads[thread], NULL, compete, &numbers[thread]) == 0);
    }
    int won = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK(pthread_join(threads[thread], NULL) == 0);
        won += wins[thread];
    }
    CHECK(won == KEYS);
    everseen_stats_t stats;
    OK(everseen_stats(shared, &stats, sizeof stats));
    CHECK(stats.keys == KEYS);
}

static void in_the_child(void) {
    bool found;
    int key = 0;
    CODE(EVERSEEN_ERROR_FORKED, everseen_insert(shared, "new", 3, NULL));
    CODE(EVERSEEN_ERROR_FORKED, everseen_commit(shared, NULL, 0, NULL));
    CODE(EVERSEEN_ERROR_FORKED, everseen_checkpoint(shared));
    CODE(EVERSEEN_ERROR_FORKED, everseen_snapshot(shared, at("copy"), NULL, NULL));
    CODE(EVERSEEN_ERROR_FORKED, everseen_close(shared, NULL));
    char said[200];
    CHECK(everseen_last_error(shared, said, sizeof said) > 0 && strstr(said, "after a fork"));
    everseen_free(shared);
    everseen_t *own = opened(at("threads"), NULL);
    OK(everseen_insert(own, "of the child", 12, NULL));
    OK(everseen_contains(own, &key, sizeof key, &found));
    CHECK(found);
    end(own);
}

static void a_child_opens_its_own(void) {
    in_child(in_the_child);
    bool found;
    OK(everseen_contains(shared, "of the child", 12, &found));
    CHECK(found);
    end(shared);
}

static void insert_and_die(void) {
    everseen_t *store = created(at("killed"), NULL);
    for (int key = 0; key < 1000; key++)
        OK(everseen_insert(store, &key, sizeof key, NULL));
}

static void a_killed_process_loses_nothing(void) {
    in_child(insert_and_die);
    everseen_t *store = opened(at("killed"), NULL);
    for (int key = 0; key < 1000; key++) {
        bool found;
        OK(everseen_contains(store, &key, sizeof key, &found));
        CHECK(found);
    }
    end(store);
}

static void what_is_not_committed_is_dropped(void) {
    everseen_options_t *options = small(0);
    OK(everseen_options_set_transactional(options, true));
    OK(everseen_options_set_writer(options, "crawler"));
    everseen_t *store;
    OK(everseen_open_or_create(at("dropped"), options, &store));
    uint64_t sequence = 9, again, dropped;
    uint8_t tag[EVERSEEN_MAX_TAG];
    size_t length = 9;
    OK(everseen_last_commit(store, "crawler", &sequence, tag, sizeof tag, &length));
    CHECK(sequence == 0 && length == 0);
    OK(everseen_insert(store, "kept", 4, NULL));
    OK(everseen_commit(store, "page 1", 6, &sequence));
    CHECK(sequence > 0);
    OK(everseen_insert(store, "dropped", 7, NULL));
    OK(everseen_insert(store, "dropped, too", 12, NULL));
    OK(everseen_close(store, &dropped));
    CHECK(dropped == 2);
    everseen_free(store);

    OK(everseen_open_or_create(at("dropped"), options, &store));
    everseen_options_free(options);
    bool found;
    OK(everseen_contains(store, "kept", 4, &found));
    CHECK(found);
    OK(everseen_contains(store, "dropped", 7, &found));
    CHECK(!found);
    OK(everseen_last_commit(store, "crawler", &again, tag, sizeof tag, &length));
    CHECK(again == sequence && length == 6 && memcmp(tag, "page 1", 6) == 0);
    OK(everseen_last_commit(store, NULL, &again, NULL, 0, NULL));
    CHECK(again == 0);
    end(store);
}

static void each_handle_keeps_its_own_error(void) {
    everseen_t *one = created(at("one"), NULL), *other = created(at("other"), NULL);
    char said[300], whole[300];
    CHECK(everseen_last_error(one, said, sizeof said) == 0 && said[0] == 0);
    CODE(EVERSEEN_ERROR_NEVER_FORGETS, everseen_advance_to(one, 1));
    CODE(EVERSEEN_ERROR_NULL_POINTER, everseen_insert(other, NULL, 1, NULL));
    size_t length = everseen_last_error(one, whole, sizeof whole);
    CHECK(length == strlen(whole) && strstr(whole, at("one")));
    CHECK(everseen_last_error(other, said, sizeof said) == strlen(said) && strcmp(said, "key: a null pointer") == 0);
    CHECK(everseen_last_error(NULL, said, sizeof said) && strcmp(said, "key: a null pointer") == 0);
    /* As much as there is room for. */
    memset(said, 9, sizeof said);
    CHECK(everseen_last_error(one, said, 5) == length && strlen(said) == 4 && memcmp(said, whole, 4) == 0);
    CHECK(said[5] == 9);
    CHECK(everseen_last_error(one, said, 1) == length && said[0] == 0);
    CHECK(everseen_last_error(one, NULL, 0) == length);
    /* A call that succeeds says nothing new. */
    OK(everseen_insert(one, "key", 3, NULL));
    CHECK(everseen_last_error(one, NULL, 0) == length);
    end(one);
    end(other);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    threads_share_a_handle();
    a_child_opens_its_own();
    a_killed_process_loses_nothing();
    what_is_not_committed_is_dropped();
    each_handle_keeps_its_own_error();
    return 0;
}
