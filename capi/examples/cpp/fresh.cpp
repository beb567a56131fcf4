// Prints the lines of a file that were never seen before, and remembers them. ../c/fresh.c says how and why.
//
//     c++ -std=c++17 fresh.cpp $(pkg-config --cflags --libs everseen) -o fresh
#include <everseen.hpp>

#include <fstream>
#include <iostream>

static void print_new(everseen::Store &store, const std::vector<std::string> &lines) {
    const std::vector<uint8_t> answers = store.insert_batch({lines.begin(), lines.end()});
    for (size_t line = 0; line < lines.size(); line++)
        if (answers[line] == EVERSEEN_NEW)
            std::cout << lines[line] << '\n';
    std::cout.flush();
    store.commit();
}

static void run(const char *path, std::ifstream &file) {
    everseen::Options options;
    options.set(everseen_options_set_transactional, true);
    everseen::Store store = everseen::Store::open_or_create(path, options);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
        if (lines.size() == 1024) {
            print_new(store, lines);
            lines.clear();
        }
    }
    print_new(store, lines);
    store.close();
}

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "usage: fresh STORE FILE\n";
        return 2;
    }
    std::ifstream file(arguments[2]);
    try {
        run(arguments[1], file);
    } catch (const std::exception &error) {
        std::cerr << "fresh: " << error.what() << '\n';
        return 2;
    }
    return 0;
}
