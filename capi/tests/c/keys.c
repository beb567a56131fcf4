/* The three layouts of a batch, and one key at a time, give the same answers. */
#include "check.h"

enum { KEYS = 2000 };

/* A small generator with a fixed seed: keys come again, and have 0 to 40 bytes. */
static uint64_t state = 0x9E3779B97F4A7C15;

static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static uint8_t bytes[KEYS * 40];
static const void *keys[KEYS];
static size_t lengths[KEYS];
static int32_t offsets32[KEYS + 1];
static int64_t offsets64[KEYS + 1];
static size_t length;

static void make_keys(void) {
    /* Arrow's arrays may begin in the middle of their bytes. */
    length = 7;
    for (int key = 0; key < KEYS; key++) {
        offsets32[key] = (int32_t)length;
        offsets64[key] = (int64_t)length;
        keys[key] = bytes + length;
        uint64_t number = draw(KEYS / 2);
        lengths[key] = number % 41;
        for (size_t byte = 0; byte < lengths[key]; byte++)
            bytes[length++] = (uint8_t)(number >> 8 * (byte % 2));
    }
    offsets32[KEYS] = (int32_t)length;
    offsets64[KEYS] = (int64_t)length;
}

enum layout { SINGLE, ARRAYS, OFFSETS32, OFFSETS64, LAYOUTS };

static void insert(everseen_t *store, enum layout layout, uint8_t *answers) {
    size_t done = 0;
    bool is_new;
    switch (layout) {
    case SINGLE:
        for (; done < KEYS; done++) {
            OK(everseen_insert(store, keys[done], lengths[done], &is_new));
            answers[done] = is_new ? EVERSEEN_NEW : EVERSEEN_SEEN;
        }
        break;
    case ARRAYS:
        OK(everseen_insert_batch(store, keys, lengths, KEYS, answers, &done));
        break;
    case OFFSETS32:
        OK(everseen_insert_offsets32(store, bytes, length, offsets32, KEYS, answers, &done));
        break;
    default:
        OK(everseen_insert_offsets64(store, bytes, length, offsets64, KEYS, answers, &done));
    }
    CHECK(done == KEYS);
}

static void claim(everseen_t *store, enum layout layout, uint8_t *answers) {
    size_t done = 0;
    switch (layout) {
    case SINGLE:
        for (; done < KEYS; done++)
            OK(everseen_claim(store, keys[done], lengths[done], &answers[done]));
        break;
    case ARRAYS:
        OK(everseen_claim_batch(store, keys, lengths, KEYS, 0, answers, &done));
        break;
    case OFFSETS32:
        OK(everseen_claim_offsets32(store, bytes, length, offsets32, KEYS, 0, answers, &done));
        break;
    default:
        OK(everseen_claim_offsets64(store, bytes, length, offsets64, KEYS, 0, answers, &done));
    }
    CHECK(done == KEYS);
}

static void contains(everseen_t *store, enum layout layout, uint8_t *answers) {
    switch (layout) {
    case SINGLE:
        for (int key = 0; key < KEYS; key++) {
            bool found;
            OK(everseen_contains(store, keys[key], lengths[key], &found));
            answers[key] = found;
        }
        break;
    case ARRAYS:
        OK(everseen_contains_batch(store, keys, lengths, KEYS, answers));
        break;
    case OFFSETS32:
        OK(everseen_contains_offsets32(store, bytes, length, offsets32, KEYS, answers));
        break;
    default:
        OK(everseen_contains_offsets64(store, bytes, length, offsets64, KEYS, answers));
    }
}

static void take_away(everseen_t *store, enum layout layout, uint8_t *answers) {
    size_t done = 0;
    bool removed;
    switch (layout) {
    case SINGLE:
        for (; done < KEYS; done++) {
            OK(everseen_remove(store, keys[done], lengths[done], &removed));
            answers[done] = removed;
        }
        break;
    case ARRAYS:
        OK(everseen_remove_batch(store, keys, lengths, KEYS, answers, &done));
        break;
    case OFFSETS32:
        OK(everseen_remove_offsets32(store, bytes, length, offsets32, KEYS, answers, &done));
        break;
    default:
        OK(everseen_remove_offsets64(store, bytes, length, offsets64, KEYS, answers, &done));
    }
    CHECK(done == KEYS);
}

/* Of equal keys the first is new: a list says which. */
static void expected_new(uint8_t *is_new) {
    for (int key = 0; key < KEYS; key++) {
        is_new[key] = 1;
        for (int before = 0; before < key && is_new[key]; before++)
            is_new[key] = lengths[before] != lengths[key] || memcmp(keys[before], keys[key], lengths[key]) != 0;
    }
}

static void layouts_agree(void) {
    static uint8_t answers[KEYS], is_new[KEYS], all[KEYS], none[KEYS];
    expected_new(is_new);
    memset(all, 1, KEYS);
    for (enum layout layout = SINGLE; layout < LAYOUTS; layout++) {
        char name[20];
        snprintf(name, sizeof name, "layout %d", layout);
        everseen_options_t *exact = small(0);
        OK(everseen_options_set_fpr(exact, 1e-9));
        everseen_t *store = created(at(name), exact);
        everseen_options_free(exact);
        contains(store, layout, answers);
        CHECK(memcmp(answers, none, KEYS) == 0);
        insert(store, layout, answers);
        CHECK(memcmp(answers, is_new, KEYS) == 0);
        contains(store, layout, answers);
        CHECK(memcmp(answers, all, KEYS) == 0);
        take_away(store, layout, answers);
        CHECK(memcmp(answers, is_new, KEYS) == 0);
        contains(store, layout, answers);
        CHECK(memcmp(answers, none, KEYS) == 0);
        claim(store, layout, answers);
        CHECK(memcmp(answers, is_new, KEYS) == 0);
        end(store);
    }
}

static void claims(void) {
    everseen_options_t *options = small(0);
    OK(everseen_options_set_transactional(options, true));
    everseen_t *one = created(at("claims"), options), *other = opened(at("claims"), options);
    uint8_t verdict;
    OK(everseen_claim(one, "b", 1, &verdict));
    CHECK(verdict == EVERSEEN_NEW);
    const void *few[] = {"a", "b", "c"};
    const size_t ones[] = {1, 1, 1};
    uint8_t verdicts[3] = {9, 9, 9};
    size_t done;
    OK(everseen_claim_batch(other, few, ones, 3, EVERSEEN_UNTIL_PENDING, verdicts, &done));
    CHECK(done == 2 && verdicts[0] == EVERSEEN_NEW && verdicts[1] == EVERSEEN_PENDING && verdicts[2] == 9);
    OK(everseen_claim_batch(other, few, ones, 3, 0, verdicts, &done));
    CHECK(done == 3 && verdicts[0] == EVERSEEN_SEEN && verdicts[1] == EVERSEEN_PENDING && verdicts[2] == EVERSEEN_NEW);
    OK(everseen_insert_batch(other, few, ones, 3, verdicts, NULL));
    CHECK(verdicts[1] == EVERSEEN_SEEN);
    end(one);
    OK(everseen_claim(other, "b", 1, &verdict));
    CHECK(verdict == EVERSEEN_NEW);
    end(other);
    everseen_options_free(options);
}

static void counted(void) {
    everseen_options_t *options = small(1000);
    OK(everseen_options_set_kind(options, EVERSEEN_KIND_COUNTING));
    everseen_t *store = created(at("counting"), options);
    everseen_options_free(options);
    const void *twice[] = {"a", "a"};
    const size_t ones[] = {1, 1};
    uint8_t answers[2];
    bool removed;
    OK(everseen_claim_batch(store, twice, ones, 2, EVERSEEN_IF_ABSENT, answers, NULL));
    CHECK(answers[0] == EVERSEEN_NEW && answers[1] == EVERSEEN_SEEN);
    OK(everseen_remove(store, "a", 1, &removed));
    CHECK(removed);
    OK(everseen_remove(store, "a", 1, &removed));
    CHECK(!removed);
    OK(everseen_insert_batch(store, twice, ones, 2, answers, NULL));
    OK(everseen_remove(store, "a", 1, &removed));
    OK(everseen_remove(store, "a", 1, &removed));
    CHECK(removed);
    end(store);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    folder = arguments[1];
    make_keys();
    layouts_agree();
    claims();
    counted();
    return 0;
}
