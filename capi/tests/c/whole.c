/* What a store says about itself, options that reach it, time, and structures of other versions. */
#include "check.h"

static void stats_of_a_bloom_store(void) {
    everseen_options_t *options = small(1000);
    OK(everseen_options_set_fpr(options, 1e-3));
    everseen_t *store = created(at("bloom"), options);
    everseen_options_free(options);
    for (int key = 0; key < 100; key++)
        OK(everseen_insert(store, &key, sizeof key, NULL));
    OK(everseen_checkpoint(store));
    everseen_stats_t stats;
    OK(everseen_stats(store, &stats, sizeof stats));
    CHECK(stats.kind == EVERSEEN_KIND_BLOOM && stats.capacity == 1000 && stats.transactional == 0);
    CHECK(stats.keys >= 99 && stats.keys <= 100 && stats.keys_left == stats.key_limit - stats.keys);
    CHECK(stats.fpr_target == 1e-3 && stats.fpr_now > 0 && stats.fpr_now < 1e-3);
    struct stat file;
    CHECK(stat(at("bloom"), &file) == 0 && stats.bytes == (uint64_t)file.st_size);
    CHECK(stats.generation == 2 && stats.created > 1700000000);
    CHECK(stats.forget_after == 0 && stats.forget_steps == 0 && stats.forget_by == 0 && stats.now == 0);
    CHECK(stats.bits_per_key > 10 && stats.buffer_bytes > 0);

    /* The structure of an older program is shorter, and that of a newer one longer. */
    everseen_stats_t part;
    memset(&part, 9, sizeof part);
    OK(everseen_stats(store, &part, sizeof part.keys));
    CHECK(part.keys == stats.keys && part.key_limit == 0x0909090909090909);
    struct {
        everseen_stats_t known;
        uint64_t later[2];
    } more;
    memset(&more, 9, sizeof more);
    OK(everseen_stats(store, &more.known, sizeof more));
    CHECK(memcmp(&more.known, &stats, sizeof stats) == 0 && more.later[0] == 0 && more.later[1] == 0);
    end(store);
}

static void stats_of_a_store_that_forgets(void) {
    const uint64_t now = 1700000000000;
    everseen_options_t *options = small(0);
    OK(everseen_options_set_grows_to(options, 1000000));
    OK(everseen_options_set_forget_after(options, 60000));
    OK(everseen_options_set_forget_steps(options, 6));
    OK(everseen_options_set_forget_by(options, EVERSEEN_FORGET_BY_LAST));
    OK(everseen_options_set_transactional(options, true));
    OK(everseen_options_set_clock(options, now));
    OK(everseen_options_set_background(options, false));
    everseen_t *store = created(at("forgets"), options);
    everseen_options_free(options);
    everseen_stats_t stats;
    OK(everseen_stats(store, &stats, sizeof stats));
    CHECK(stats.kind == EVERSEEN_KIND_FINGERPRINT && stats.capacity == 1000000 && stats.transactional == 1);
    CHECK(stats.forget_after == 60000 && stats.forget_steps == 6 && stats.now == now);
    CHECK(stats.forget_by == EVERSEEN_FORGET_BY_LAST);
    bool is_new;
    OK(everseen_insert(store, "key", 3, &is_new));
    CHECK(is_new);
    OK(everseen_commit(store, NULL, 0, NULL));
    OK(everseen_advance_to(store, now + 60000));
    bool found;
    OK(everseen_contains(store, "key", 3, &found));
    CHECK(found);
    /* The window, and a step of 10 seconds. */
    OK(everseen_advance_to(store, now + 70001));
    OK(everseen_contains(store, "key", 3, &found));
    CHECK(!found);
    OK(everseen_stats(store, &stats, sizeof stats));
    CHECK(stats.now == now + 70001);
    end(store);
}

static void other_kinds(void) {
    const int32_t kinds[] = {EVERSEEN_KIND_COUNTING, EVERSEEN_KIND_SCALABLE};
    for (int kind = 0; kind < 2; kind++) {
        char name[20];
        snprintf(name, sizeof name, "kind %d", kind);
        everseen_options_t *options = small(1000);
        OK(everseen_options_set_kind(options, kinds[kind]));
        OK(everseen_options_set_on_damage(options, EVERSEEN_ON_DAMAGE_SEEN));
        everseen_t *store = created(at(name), options);
        everseen_options_free(options);
        everseen_stats_t stats;
        OK(everseen_stats(store, &stats, sizeof stats));
        CHECK(stats.kind == kinds[kind]);
        end(store);
    }
}

static void extremes(void) {
    everseen_options_t *options = everseen_options_new();
    OK(everseen_options_set_timeout(options, UINT64_MAX));
    OK(everseen_options_set_clock(options, UINT64_MAX));
    OK(everseen_options_set_forget_after(options, UINT64_MAX));
    REFUSED(EVERSEEN_ERROR_INVALID_OPTION, everseen_create(at("extreme"), options, &store));
    OK(everseen_options_set_forget_after(options, 1000));
    everseen_t *store = created(at("extreme"), options);
    OK(everseen_advance_to(store, UINT64_MAX));
    OK(everseen_insert(store, "key", 3, NULL));
    end(store);
    everseen_options_free(options);
}

static void a_reader_follows(void) {
    everseen_options_t *options = small(1000);
    OK(everseen_options_set_follow(options, true));
    end(created(at("followed"), options));
    everseen_t *reader;
    OK(everseen_open_read_only(at("followed"), options, &reader));
    everseen_options_free(options);
    for (int writer = 0; writer < 3; writer++) {
        everseen_t *store = opened(at("followed"), NULL);
        OK(everseen_insert(store, &writer, sizeof writer, NULL));
        end(store);
        bool found;
        OK(everseen_contains(reader, &writer, sizeof writer, &found));
        CHECK(found);
    }
    end(reader);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    CHECK(strcmp(everseen_version(), EVERSEEN_VERSION) == 0);
    CHECK(everseen_version_number() == EVERSEEN_VERSION_NUMBER);
    stats_of_a_bloom_store();
    stats_of_a_store_that_forgets();
    other_kinds();
    a_reader_follows();
    extremes();
    return 0;
}
