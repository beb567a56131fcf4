/* Prints the lines of a file that were never seen before, and remembers them.
 *
 *     cc fresh.c $(pkg-config --cflags --libs everseen) -o fresh
 *     ./fresh seen.ever lines.txt
 *
 * The store is transactional: lines count as seen once they are printed and flushed. A run that is killed before that and
 * repeated prints them again, and loses none.
 */
#include <everseen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 1024, MOST_BYTES = 1 << 16 };

/* Lines of the file, one behind the other, and where each begins. */
struct batch {
    char bytes[MOST_BYTES];
    int64_t offsets[MOST_LINES + 1];
    size_t count;
};

static void expect(everseen_error_t code) {
    if (code == EVERSEEN_OK)
        return;
    char text[1000];
    everseen_last_error(NULL, text, sizeof text);
    fprintf(stderr, "fresh: error %d: %s\n", (int)code, text);
    exit(2);
}

/* Fills the batch; a line that is longer than all of it is taken in pieces. */
static size_t read_lines(FILE *file, struct batch *batch) {
    size_t length = 0;
    batch->count = 0;
    batch->offsets[0] = 0;
    while (batch->count < MOST_LINES && MOST_BYTES - length > 4096 && fgets(batch->bytes + length, 4096, file)) {
        length += strcspn(batch->bytes + length, "\n");
        batch->offsets[++batch->count] = (int64_t)length;
    }
    return batch->count;
}

static void print_new(everseen_t *store, const struct batch *batch) {
    uint8_t answers[MOST_LINES];
    expect(everseen_insert_offsets64(store, batch->bytes, MOST_BYTES, batch->offsets, batch->count, answers, NULL));
    for (size_t line = 0; line < batch->count; line++) {
        int length = (int)(batch->offsets[line + 1] - batch->offsets[line]);
        if (answers[line] == EVERSEEN_NEW)
            printf("%.*s\n", length, batch->bytes + batch->offsets[line]);
    }
    if (fflush(stdout) != 0) {
        perror("fresh");
        exit(2);
    }
    expect(everseen_commit(store, NULL, 0, NULL));
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: fresh STORE FILE\n");
        return 2;
    }
    FILE *file = fopen(arguments[2], "r");
    if (!file) {
        perror(arguments[2]);
        return 2;
    }
    everseen_options_t *options = everseen_options_new();
    everseen_options_set_transactional(options, true);
    everseen_t *store;
    expect(everseen_open_or_create(arguments[1], options, &store));
    everseen_options_free(options);

    static struct batch batch;
    while (read_lines(file, &batch) > 0)
        print_new(store, &batch);

    fclose(file);
    expect(everseen_close(store, NULL));
    everseen_free(store);
    return 0;
}
