// The header for C++: handles that free themselves, exceptions with codes, and each method once.
#include <everseen.hpp>

#include <iostream>
#include <utility>

static void check(bool holds, const char *what) {
    if (!holds)
        throw std::logic_error(what);
}

template <typename Work> static void fails(everseen_error_t code, Work work) {
    try {
        work();
    } catch (const everseen::Error &error) {
        check(error.code == code && error.what()[0] != 0, "another error");
        return;
    }
    throw std::logic_error("no error");
}

static void run(const std::string &folder) {
    const std::string path = folder + "/store", copy = folder + "/copy";
    fails(EVERSEEN_ERROR_NOT_FOUND, [&] { everseen::Store::open(path); });
    everseen::Options options;
    options.set(everseen_options_set_transactional, true).set(everseen_options_set_buffer, 1 << 20);
    fails(EVERSEEN_ERROR_INVALID_ARGUMENT, [&] { options.set(everseen_options_set_kind, 9); });

    everseen::Store first = everseen::Store::create(path, options);
    everseen::Store store = std::move(first);
    check(store.insert("a") && !store.insert("a") && store.contains("a"), "one key");
    check(store.claim("b") == EVERSEEN_NEW && store.remove("b") && !store.contains("b"), "claim, remove");
    check(store.insert_batch({"a", "", "c"}) == std::vector<uint8_t>({0, 1, 1}), "a batch");
    check(store.last_commit().sequence == 0, "no commit yet");
    const uint64_t sequence = store.commit("here");
    const everseen::Commit last = store.last_commit();
    check(last.sequence == sequence && last.tag == "here", "the last commit");
    store.checkpoint();
    store.snapshot(copy);
    check(store.stats().keys == 3, "stats");
    store.insert("d");
    check(store.close() == 1, "an uncommitted key");
    fails(EVERSEEN_ERROR_CLOSED, [&] { store.insert("e"); });

    everseen::Store reader = everseen::Store::open_read_only(copy);
    check(reader.contains("c") && !reader.contains("d"), "the copy");
    fails(EVERSEEN_ERROR_READ_ONLY, [&] { reader.insert("e"); });
    everseen::Store again = everseen::Store::open_or_create(path, options);
    check(again.contains("a") && !again.contains("d"), "what was committed");
}

int main(int, char **arguments) {
    try {
        run(arguments[1]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}
