/* The functions of version 0.1, as programs were built with them. The header declares them again: a compiler refuses two
 * declarations that differ. Lines are added with a version, and never changed. */
everseen_error_t everseen_advance_to(everseen_t *store, uint64_t milliseconds);
everseen_error_t everseen_checkpoint(everseen_t *store);
everseen_error_t everseen_claim(everseen_t *store, const void *key, size_t length, uint8_t *verdict);
everseen_error_t everseen_claim_batch(everseen_t *store, const void *const *keys, const size_t *lengths,
    size_t count, uint32_t flags, uint8_t *answers, size_t *done);
everseen_error_t everseen_claim_offsets32(everseen_t *store, const void *bytes, size_t length, const int32_t
    *offsets, size_t count, uint32_t flags, uint8_t *answers, size_t *done);
everseen_error_t everseen_claim_offsets64(everseen_t *store, const void *bytes, size_t length, const int64_t
    *offsets, size_t count, uint32_t flags, uint8_t *answers, size_t *done);
everseen_error_t everseen_close(everseen_t *store, uint64_t *dropped);
everseen_error_t everseen_commit(everseen_t *store, const void *tag, size_t length, uint64_t *sequence);
everseen_error_t everseen_contains(everseen_t *store, const void *key, size_t length, bool *found);
everseen_error_t everseen_contains_batch(everseen_t *store, const void *const *keys, const size_t *lengths,
    size_t count, uint8_t *found);
everseen_error_t everseen_contains_offsets32(everseen_t *store, const void *bytes, size_t length, const
    int32_t *offsets, size_t count, uint8_t *found);
everseen_error_t everseen_contains_offsets64(everseen_t *store, const void *bytes, size_t length, const
    int64_t *offsets, size_t count, uint8_t *found);
everseen_error_t everseen_create(const char *path, everseen_options_t *options, everseen_t **store);
void everseen_free(everseen_t *store);
everseen_error_t everseen_insert(everseen_t *store, const void *key, size_t length, bool *is_new);
everseen_error_t everseen_insert_batch(everseen_t *store, const void *const *keys, const size_t *lengths,
    size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_insert_offsets32(everseen_t *store, const void *bytes, size_t length, const int32_t
    *offsets, size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_insert_offsets64(everseen_t *store, const void *bytes, size_t length, const int64_t
    *offsets, size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_last_commit(everseen_t *store, const char *writer, uint64_t *sequence, uint8_t *tag,
    size_t size, size_t *length);
size_t everseen_last_error(everseen_t *store, char *text, size_t size);
everseen_error_t everseen_open(const char *path, everseen_options_t *options, everseen_t **store);
everseen_error_t everseen_open_or_create(const char *path, everseen_options_t *options, everseen_t **store);
everseen_error_t everseen_open_read_only(const char *path, everseen_options_t *options, everseen_t **store);
void everseen_options_free(everseen_options_t *options);
everseen_options_t *everseen_options_new(void);
everseen_error_t everseen_options_set_background(everseen_options_t *options, bool yes);
everseen_error_t everseen_options_set_buffer(everseen_options_t *options, uint64_t bytes);
everseen_error_t everseen_options_set_capacity(everseen_options_t *options, uint64_t keys);
everseen_error_t everseen_options_set_clock(everseen_options_t *options, uint64_t milliseconds);
everseen_error_t everseen_options_set_exclusive(everseen_options_t *options, bool yes);
everseen_error_t everseen_options_set_follow(everseen_options_t *options, bool yes);
everseen_error_t everseen_options_set_forget_after(everseen_options_t *options, uint64_t milliseconds);
everseen_error_t everseen_options_set_forget_by(everseen_options_t *options, int32_t by);
everseen_error_t everseen_options_set_forget_steps(everseen_options_t *options, uint32_t steps);
everseen_error_t everseen_options_set_fpr(everseen_options_t *options, double rate);
everseen_error_t everseen_options_set_grows_to(everseen_options_t *options, uint64_t keys);
everseen_error_t everseen_options_set_kind(everseen_options_t *options, int32_t kind);
everseen_error_t everseen_options_set_on_damage(everseen_options_t *options, int32_t policy);
everseen_error_t everseen_options_set_timeout(everseen_options_t *options, uint64_t milliseconds);
everseen_error_t everseen_options_set_transactional(everseen_options_t *options, bool yes);
everseen_error_t everseen_options_set_writer(everseen_options_t *options, const char *name);
everseen_error_t everseen_remove(everseen_t *store, const void *key, size_t length, bool *removed);
everseen_error_t everseen_remove_batch(everseen_t *store, const void *const *keys, const size_t *lengths,
    size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_remove_offsets32(everseen_t *store, const void *bytes, size_t length, const int32_t
    *offsets, size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_remove_offsets64(everseen_t *store, const void *bytes, size_t length, const int64_t
    *offsets, size_t count, uint8_t *answers, size_t *done);
everseen_error_t everseen_snapshot(everseen_t *store, const char *dest, everseen_progress_t progress, void
    *context);
everseen_error_t everseen_stats(everseen_t *store, everseen_stats_t *stats, size_t size);
everseen_error_t everseen_uncommitted(everseen_t *store, uint64_t *keys, uint64_t *most);
const char *everseen_version(void);
uint32_t everseen_version_number(void);
