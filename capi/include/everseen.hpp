// Everseen for C++17: everseen.h with handles that free themselves, and exceptions. docs/c.md has the promises.
#ifndef EVERSEEN_HPP
#define EVERSEEN_HPP

#include <everseen.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace everseen {

// A call that failed, with its code (EVERSEEN_ERROR_…) and the library's text.
class Error : public std::runtime_error {
public:
    Error(everseen_error_t code, const std::string &text) : std::runtime_error(text), code(code) {}
    const everseen_error_t code;
};

// Throws what the calling thread's last call has to say, unless that did what it is for.
inline void expect(everseen_error_t code) {
    if (code == EVERSEEN_OK)
        return;
    std::string text(everseen_last_error(nullptr, nullptr, 0) + 1, '\0');
    everseen_last_error(nullptr, text.data(), text.size());
    text.pop_back();
    throw Error(code, text);
}

struct Free {
    void operator()(everseen_t *store) const { everseen_free(store); }
    void operator()(everseen_options_t *options) const { everseen_options_free(options); }
};

// Options of a handle and of a new store: options.set(everseen_options_set_capacity, 1000000).
class Options {
public:
    Options() : options(everseen_options_new()) {}
    template <typename Setter, typename Value> Options &set(Setter setter, Value value) {
        expect(setter(options.get(), value));
        return *this;
    }
    everseen_options_t *get() const { return options.get(); }

private:
    std::unique_ptr<everseen_options_t, Free> options;
};

struct Commit {
    uint64_t sequence; // 0 if there is none
    std::string tag;
};

// An open store, which threads may share. Its end closes it; close() also says what went wrong.
class Store {
public:
    static Store open(const std::string &path, const Options &options = {}) {
        return Store(everseen_open, path, options);
    }
    static Store create(const std::string &path, const Options &options = {}) {
        return Store(everseen_create, path, options);
    }
    static Store open_or_create(const std::string &path, const Options &options = {}) {
        return Store(everseen_open_or_create, path, options);
    }
    static Store open_read_only(const std::string &path, const Options &options = {}) {
        return Store(everseen_open_read_only, path, options);
    }

    bool insert(std::string_view key) { return ask(everseen_insert, key); }
    bool contains(std::string_view key) const { return ask(everseen_contains, key); }
    bool remove(std::string_view key) { return ask(everseen_remove, key); }
    uint8_t claim(std::string_view key) {
        uint8_t verdict = EVERSEEN_SEEN;
        expect(everseen_claim(get(), key.data(), key.size(), &verdict));
        return verdict;
    }

    // An answer for each key. If the batch fails halfway, the keys before that one are in the store all the same.
    std::vector<uint8_t> insert_batch(const std::vector<std::string_view> &keys) {
        std::vector<const void *> pointers;
        std::vector<size_t> lengths;
        for (std::string_view key : keys) {
            pointers.push_back(key.data());
            lengths.push_back(key.size());
        }
        std::vector<uint8_t> answers(keys.size());
        expect(everseen_insert_batch(get(), pointers.data(), lengths.data(), keys.size(), answers.data(), nullptr));
        return answers;
    }

    uint64_t commit(std::string_view tag = {}) {
        uint64_t sequence = 0;
        expect(everseen_commit(get(), tag.data(), tag.size(), &sequence));
        return sequence;
    }
    Commit last_commit(const std::string &writer = "default") const {
        Commit last{0, std::string(EVERSEEN_MAX_TAG, '\0')};
        size_t length = 0;
        auto *tag = reinterpret_cast<uint8_t *>(last.tag.data());
        expect(everseen_last_commit(get(), writer.c_str(), &last.sequence, tag, last.tag.size(), &length));
        last.tag.resize(length);
        return last;
    }
    everseen_stats_t stats() const {
        everseen_stats_t stats;
        expect(everseen_stats(get(), &stats, sizeof stats));
        return stats;
    }
    void checkpoint() { expect(everseen_checkpoint(get())); }
    void snapshot(const std::string &dest) { expect(everseen_snapshot(get(), dest.c_str(), nullptr, nullptr)); }
    // Returns how many uncommitted keys a transactional store has dropped.
    uint64_t close() {
        uint64_t dropped = 0;
        expect(everseen_close(get(), &dropped));
        return dropped;
    }
    // For the functions that have no method here.
    everseen_t *get() const { return store.get(); }

private:
    template <typename Open> Store(Open open, const std::string &path, const Options &options) {
        everseen_t *opened = nullptr;
        expect(open(path.c_str(), options.get(), &opened));
        store.reset(opened);
    }
    template <typename Ask> bool ask(Ask asked, std::string_view key) const {
        bool answer = false;
        expect(asked(get(), key.data(), key.size(), &answer));
        return answer;
    }

    std::unique_ptr<everseen_t, Free> store;
};

} // namespace everseen

#endif
