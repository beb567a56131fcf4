/* What is refused before the library sees it: null pointers, numbers without a meaning, lengths and offsets. */
#include "check.h"

static everseen_t *store;
static everseen_options_t *options;

#define NULL_POINTER(call) CODE(EVERSEEN_ERROR_NULL_POINTER, call)

static const char text[] = "onetwo";
static const void *const keys[] = {text, text + 3};
static const size_t lengths[] = {3, 3};
static const int32_t short_offsets[] = {0, 3, 6};
static const int64_t offsets[] = {0, 3, 6};
static uint8_t answers[2];
static size_t done;

static void no_handle(void) {
    everseen_stats_t stats;
    bool found;
    NULL_POINTER(everseen_insert(NULL, text, 3, NULL));
    NULL_POINTER(everseen_claim(NULL, text, 3, NULL));
    NULL_POINTER(everseen_contains(NULL, text, 3, &found));
    NULL_POINTER(everseen_remove(NULL, text, 3, NULL));
    done = 9;
    NULL_POINTER(everseen_insert_batch(NULL, keys, lengths, 2, answers, &done));
    CHECK(done == 0);
    NULL_POINTER(everseen_insert_offsets32(NULL, text, 6, short_offsets, 2, answers, NULL));
    NULL_POINTER(everseen_insert_offsets64(NULL, text, 6, offsets, 2, answers, NULL));
    NULL_POINTER(everseen_claim_batch(NULL, keys, lengths, 2, 0, answers, NULL));
    NULL_POINTER(everseen_claim_offsets32(NULL, text, 6, short_offsets, 2, 0, answers, NULL));
    NULL_POINTER(everseen_claim_offsets64(NULL, text, 6, offsets, 2, 0, answers, NULL));
    NULL_POINTER(everseen_contains_batch(NULL, keys, lengths, 2, answers));
    NULL_POINTER(everseen_contains_offsets32(NULL, text, 6, short_offsets, 2, answers));
    NULL_POINTER(everseen_contains_offsets64(NULL, text, 6, offsets, 2, answers));
    NULL_POINTER(everseen_remove_batch(NULL, keys, lengths, 2, answers, NULL));
    NULL_POINTER(everseen_remove_offsets32(NULL, text, 6, short_offsets, 2, answers, NULL));
    NULL_POINTER(everseen_remove_offsets64(NULL, text, 6, offsets, 2, answers, NULL));
    NULL_POINTER(everseen_commit(NULL, NULL, 0, NULL));
    NULL_POINTER(everseen_last_commit(NULL, NULL, NULL, NULL, 0, NULL));
    NULL_POINTER(everseen_uncommitted(NULL, NULL, NULL));
    NULL_POINTER(everseen_stats(NULL, &stats, sizeof stats));
    NULL_POINTER(everseen_checkpoint(NULL));
    NULL_POINTER(everseen_snapshot(NULL, at("copy"), NULL, NULL));
    NULL_POINTER(everseen_advance_to(NULL, 0));
    NULL_POINTER(everseen_close(NULL, NULL));
    everseen_free(NULL);
    everseen_options_free(NULL);
}

static void no_options(void) {
    NULL_POINTER(everseen_options_set_capacity(NULL, 1));
    NULL_POINTER(everseen_options_set_grows_to(NULL, 1));
    NULL_POINTER(everseen_options_set_fpr(NULL, 0.1));
    NULL_POINTER(everseen_options_set_kind(NULL, EVERSEEN_KIND_BLOOM));
    NULL_POINTER(everseen_options_set_transactional(NULL, true));
    NULL_POINTER(everseen_options_set_forget_after(NULL, 1000));
    NULL_POINTER(everseen_options_set_forget_steps(NULL, 1));
    NULL_POINTER(everseen_options_set_forget_by(NULL, EVERSEEN_FORGET_BY_LAST));
    NULL_POINTER(everseen_options_set_buffer(NULL, 1 << 20));
    NULL_POINTER(everseen_options_set_writer(NULL, "name"));
    NULL_POINTER(everseen_options_set_exclusive(NULL, true));
    NULL_POINTER(everseen_options_set_background(NULL, true));
    NULL_POINTER(everseen_options_set_timeout(NULL, 1));
    NULL_POINTER(everseen_options_set_on_damage(NULL, EVERSEEN_ON_DAMAGE_SEEN));
    NULL_POINTER(everseen_options_set_follow(NULL, true));
    NULL_POINTER(everseen_options_set_clock(NULL, 1));
    NULL_POINTER(everseen_options_set_writer(options, NULL));
}

static void no_arguments(void) {
    REFUSED(EVERSEEN_ERROR_NULL_POINTER, everseen_open(NULL, NULL, &store));
    NULL_POINTER(everseen_open(at("none"), NULL, NULL));
    NULL_POINTER(everseen_create(at("none"), NULL, NULL));
    NULL_POINTER(everseen_open_or_create(at("none"), NULL, NULL));
    NULL_POINTER(everseen_open_read_only(at("none"), NULL, NULL));
    CHECK(access(at("none"), F_OK) != 0);

    bool found;
    NULL_POINTER(everseen_insert(store, NULL, 1, NULL));
    NULL_POINTER(everseen_contains(store, NULL, 1, &found));
    NULL_POINTER(everseen_contains(store, text, 3, NULL));
    NULL_POINTER(everseen_commit(store, NULL, 1, NULL));
    NULL_POINTER(everseen_stats(store, NULL, sizeof(everseen_stats_t)));
    NULL_POINTER(everseen_snapshot(store, NULL, NULL, NULL));
    NULL_POINTER(everseen_insert_batch(store, NULL, lengths, 2, answers, &done));
    NULL_POINTER(everseen_insert_batch(store, keys, NULL, 2, answers, &done));
    NULL_POINTER(everseen_insert_batch(store, keys, lengths, 2, NULL, &done));
    NULL_POINTER(everseen_contains_batch(store, keys, lengths, 2, NULL));
    NULL_POINTER(everseen_insert_offsets64(store, NULL, 6, offsets, 2, answers, &done));
    NULL_POINTER(everseen_insert_offsets64(store, text, 6, NULL, 2, answers, &done));
    const void *const one_null[] = {text, NULL};
    NULL_POINTER(everseen_insert_batch(store, one_null, lengths, 2, answers, &done));
    CHECK(done == 0);
    OK(everseen_contains(store, text, 3, &found));
    CHECK(!found);

    /* What the caller may leave out. */
    OK(everseen_insert(store, NULL, 0, NULL));
    OK(everseen_contains(store, NULL, 0, &found));
    CHECK(found);
    OK(everseen_insert_batch(store, NULL, NULL, 0, NULL, NULL));
    OK(everseen_contains_offsets32(store, NULL, 0, NULL, 0, NULL));
    OK(everseen_uncommitted(store, NULL, NULL));
    OK(everseen_commit(store, NULL, 0, NULL));
    OK(everseen_last_commit(store, NULL, NULL, NULL, 0, NULL));
}

static void no_meaning(void) {
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT, everseen_options_set_kind(options, 0));
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT, everseen_options_set_forget_by(options, 3));
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT, everseen_options_set_on_damage(options, -1));
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT, everseen_options_set_writer(options, "\xff"));
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT,
         everseen_claim_batch(store, keys, lengths, 2, 4, answers, &done));
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT,
         everseen_last_commit(store, "\xff", NULL, NULL, 0, NULL));
    const void *crooked = (const char *)offsets + 1;
    CODE(EVERSEEN_ERROR_INVALID_ARGUMENT,
         everseen_insert_offsets64(store, text, 6, (const int64_t *)crooked, 1, answers, &done));
}

static void lengths_and_offsets(void) {
    CODE(EVERSEEN_ERROR_TOO_LONG, everseen_insert(store, text, SIZE_MAX, NULL));
    CODE(EVERSEEN_ERROR_TOO_LONG, everseen_commit(store, text, (size_t)PTRDIFF_MAX + 1, NULL));
    CODE(EVERSEEN_ERROR_TOO_LONG, everseen_insert_batch(store, keys, lengths, SIZE_MAX, answers, &done));
    CODE(EVERSEEN_ERROR_TOO_LONG,
         everseen_insert_offsets32(store, text, 6, short_offsets, SIZE_MAX, answers, &done));
    everseen_stats_t stats;
    CODE(EVERSEEN_ERROR_TOO_LONG, everseen_stats(store, &stats, SIZE_MAX));
    const size_t overlong[] = {3, SIZE_MAX};
    CODE(EVERSEEN_ERROR_TOO_LONG, everseen_insert_batch(store, keys, overlong, 2, answers, &done));

    const int32_t decreasing[] = {0, 3, 2}, negative[] = {-1, 3, 6}, behind[] = {0, 3, 7};
    CODE(EVERSEEN_ERROR_OFFSETS, everseen_insert_offsets32(store, text, 6, decreasing, 2, answers, &done));
    CODE(EVERSEEN_ERROR_OFFSETS, everseen_claim_offsets32(store, text, 6, negative, 2, 0, answers, &done));
    CODE(EVERSEEN_ERROR_OFFSETS, everseen_contains_offsets32(store, text, 6, behind, 2, answers));
    const int64_t wide[] = {0, 3, INT64_MAX}, below[] = {0, 3, INT64_MIN};
    CODE(EVERSEEN_ERROR_OFFSETS, everseen_remove_offsets64(store, text, 6, wide, 2, answers, &done));
    CODE(EVERSEEN_ERROR_OFFSETS, everseen_insert_offsets64(store, text, 6, below, 2, answers, &done));
    CHECK(done == 0);
    bool found;
    OK(everseen_contains(store, "one", 3, &found));
    CHECK(!found);
}

static void too_small(void) {
    uint8_t tag[4];
    uint64_t sequence;
    size_t length;
    OK(everseen_commit(store, "here", 4, NULL));
    CODE(EVERSEEN_ERROR_BUFFER_TOO_SMALL, everseen_last_commit(store, NULL, &sequence, tag, 3, &length));
    CHECK(sequence > 0 && length == 4);
    OK(everseen_last_commit(store, "default", &sequence, tag, 4, &length));
    CHECK(memcmp(tag, "here", 4) == 0);
}

static void unmet(void) {
    everseen_options_t *better = small(100);
    OK(everseen_options_set_fpr(better, 1e-9));
    REFUSED(EVERSEEN_ERROR_UNMET_OPTION, everseen_open_or_create(at("store"), better, &store));
    everseen_options_free(better);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    options = small(1000);
    no_handle();
    no_options();
    store = created(at("store"), options);
    no_arguments();
    no_meaning();
    lengths_and_offsets();
    too_small();
    unmet();
    end(store);
    everseen_options_free(options);
    return 0;
}
