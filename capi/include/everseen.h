// Everseen for C: have I ever seen this key?
//
// docs/c.md of Everseen is the guide to these functions: what they promise, and what they don't check.
//
// Generated from capi/src by cbindgen; `EVERSEEN_WRITE=1 cargo test -p everseen-capi header` writes it.

#ifndef EVERSEEN_H
#define EVERSEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this header. `everseen_version` returns that of the library.
#define EVERSEEN_VERSION "0.1.0"
#define EVERSEEN_VERSION_MAJOR 0
#define EVERSEEN_VERSION_MINOR 1
#define EVERSEEN_VERSION_PATCH 0
#define EVERSEEN_VERSION_NUMBER 1000

// The call did what it is for.
#define EVERSEEN_OK 0

// A pointer is null that must not be.
#define EVERSEEN_ERROR_NULL_POINTER 1

// A number stands for no choice, a path or a name is no text, or a pointer leads to the middle of a value.
#define EVERSEEN_ERROR_INVALID_ARGUMENT 2

// A length or a count is more than an object in memory can have.
#define EVERSEEN_ERROR_TOO_LONG 3

// Offsets decrease, are negative or lead out of the bytes.
#define EVERSEEN_ERROR_OFFSETS 4

// The caller's buffer is too small.
#define EVERSEEN_ERROR_BUFFER_TOO_SMALL 5

// The store exists, and is less than the options for a new one ask for.
#define EVERSEEN_ERROR_UNMET_OPTION 6

// A fault of the library: the call ended in the middle of its work. The handle answers nothing any more; free it.
#define EVERSEEN_ERROR_PANIC 7

// An error of the library that has no number of its own.
#define EVERSEEN_ERROR_OTHER 8

// There is no store.
#define EVERSEEN_ERROR_NOT_FOUND 20

// A file exists where a new store or a copy is to be.
#define EVERSEEN_ERROR_ALREADY_EXISTS 21

// The file is empty: no store yet.
#define EVERSEEN_ERROR_EMPTY_FILE 22

// The file is empty and was a store, whose log lies beside it.
#define EVERSEEN_ERROR_EMPTIED 23

// The path is a link that leads nowhere.
#define EVERSEEN_ERROR_DANGLING_LINK 24

// The folder does not exist.
#define EVERSEEN_ERROR_MISSING_FOLDER 25

// The path is a folder.
#define EVERSEEN_ERROR_IS_FOLDER 26

// The path is neither a file nor a folder.
#define EVERSEEN_ERROR_NOT_A_FILE 27

// Something that is no file has the name of a side file.
#define EVERSEEN_ERROR_IN_THE_WAY 28

// A log of another store has the name of the new store's own.
#define EVERSEEN_ERROR_LEFTOVER_LOG 29

// The log belongs to another moment of the store, as after a restore of the store file alone.
#define EVERSEEN_ERROR_OTHER_MOMENT 30

// The file has several names (hard links).
#define EVERSEEN_ERROR_MANY_NAMES 31

// The store is open under another name.
#define EVERSEEN_ERROR_OTHER_NAME 32

// A file of the open store was removed, renamed or replaced.
#define EVERSEEN_ERROR_MOVED 33

// The name of a store that is open for reading leads to another file now.
#define EVERSEEN_ERROR_REPLACED 34

// The operating system denies access.
#define EVERSEEN_ERROR_PERMISSION_DENIED 35

// The file system can only be read.
#define EVERSEEN_ERROR_READ_ONLY_DISK 36

// A side file's name would be too long.
#define EVERSEEN_ERROR_NAME_TOO_LONG 37

// The disk is full. Nothing acknowledged is lost; make room and try again.
#define EVERSEEN_ERROR_NO_SPACE 38

// The disk has no room for a write buffer.
#define EVERSEEN_ERROR_NO_ROOM_FOR_BUFFER 39

// The system gives the process no more memory.
#define EVERSEEN_ERROR_OUT_OF_MEMORY 40

// Any other failure of the operating system.
#define EVERSEEN_ERROR_IO 41

// Another handle has the store open, and one of the two wants it for itself.
#define EVERSEEN_ERROR_LOCKED 42

// Another version of Everseen has the store open.
#define EVERSEEN_ERROR_OTHER_LAYOUT 43

// The store file's bytes violate the format: no store, or a damaged one.
#define EVERSEEN_ERROR_FORMAT 44

// The log's bytes violate the format.
#define EVERSEEN_ERROR_LOG 45

// The memory that handles share was overwritten. Close the store in every process.
#define EVERSEEN_ERROR_SHARED_MEMORY 46

// Of deltas, which no function of this version makes or applies.
#define EVERSEEN_ERROR_DELTA 47

// The size, rate or kind of a new store can't be had.
#define EVERSEEN_ERROR_SIZING 48

// An option's value is out of range.
#define EVERSEEN_ERROR_INVALID_OPTION 49

// Of merges, which no function of this version makes.
#define EVERSEEN_ERROR_MISMATCH 50

// Stores of this kind can't do this.
#define EVERSEEN_ERROR_WRONG_KIND 51

// Only a store that forgets can do this.
#define EVERSEEN_ERROR_NEVER_FORGETS 52

// Of merges, which no function of this version makes.
#define EVERSEEN_ERROR_OVERFULL 53

// Of deltas and merges, which no function of this version makes.
#define EVERSEEN_ERROR_KEYS_IN_LOG 54

// The handle was opened to read.
#define EVERSEEN_ERROR_READ_ONLY 55

// The store holds all the keys that it was created for. It still answers.
#define EVERSEEN_ERROR_FULL 56

// The handle has as many uncommitted keys as it may have: commit, and go on.
#define EVERSEEN_ERROR_TRANSACTION_TOO_LARGE 57

// The tag is longer than `EVERSEEN_MAX_TAG` bytes.
#define EVERSEEN_ERROR_TAG_TOO_LARGE 58

// The store has no room for another writer's name and tag.
#define EVERSEEN_ERROR_TOO_MANY_WRITERS 59

// An earlier write or sync failed: close the handle and open the store again, which recovers what is durable.
#define EVERSEEN_ERROR_POISONED 60

// Another handle did not finish within the timeout: try again.
#define EVERSEEN_ERROR_BUSY 61

// File locks do not work on this file system.
#define EVERSEEN_ERROR_NO_LOCKS 62

// Too many handles have the store open.
#define EVERSEEN_ERROR_TOO_MANY_HANDLES 63

// The writers that this handle read from are gone: open the store again.
#define EVERSEEN_ERROR_ENDED 64

// The progress function ended the call.
#define EVERSEEN_ERROR_CANCELLED 65

// The process was forked after the handle was opened: open the store again in the child.
#define EVERSEEN_ERROR_FORKED 66

// The handle has been closed.
#define EVERSEEN_ERROR_CLOSED 67

// A Bloom filter, for a number of keys that is known.
#define EVERSEEN_KIND_BLOOM 1

// A multiset: keys are counted, up to 15, and can be removed.
#define EVERSEEN_KIND_COUNTING 2

// Bloom filters in layers, which grows.
#define EVERSEEN_KIND_SCALABLE 3

// A packed set of fingerprints, which grows, and whose keys can be removed.
#define EVERSEEN_KIND_FINGERPRINT 4

// A key is forgotten some time after it was accepted as new.
#define EVERSEEN_FORGET_BY_FIRST 1

// A key is forgotten some time after it was last inserted.
#define EVERSEEN_FORGET_BY_LAST 2

// A call that meets a damaged page fails.
#define EVERSEEN_ON_DAMAGE_ERROR 0

// The keys of a damaged page were never seen.
#define EVERSEEN_ON_DAMAGE_NEVER_SEEN 1

// The keys of a damaged page were seen.
#define EVERSEEN_ON_DAMAGE_SEEN 2

// The key was there before.
#define EVERSEEN_SEEN 0

// The key is new: of all who bring it, in all threads and processes, one gets this answer.
#define EVERSEEN_NEW 1

// Another handle has claimed the key and not committed. If it dies first, the key is new again: claim it again to learn.
#define EVERSEEN_PENDING 2

// Of a claim of many keys: it ends at the first key that is pending; that verdict is the last one.
#define EVERSEEN_UNTIL_PENDING 1

// Of a claim of many keys: a store of `EVERSEEN_KIND_COUNTING` counts only keys that are absent.
#define EVERSEEN_IF_ABSENT 2

// The most bytes of a commit's tag.
#define EVERSEEN_MAX_TAG 4096

// An open store. Threads may share it.
typedef struct everseen_t everseen_t;

// Options of a handle, and of a new store. One thread at a time may use them.
typedef struct everseen_options_t everseen_options_t;

// How a call ended: `EVERSEEN_OK`, or an error. Later versions may return errors that this header doesn't name.
typedef int32_t everseen_error_t;

// What a store knows about itself. Later versions add fields at the end.
typedef struct {
  // Keys that the store holds: in the file and in the write buffer, uncommitted ones included.
  uint64_t keys;
  // The most keys that it takes.
  uint64_t key_limit;
  // Keys left until that limit.
  uint64_t keys_left;
  // Keys that it was created for, or may grow to; 0 if it grows in layers.
  uint64_t capacity;
  // The bound on the share of absent keys that it calls seen, from its creation.
  double fpr_target;
  // That share now, as expected of the keys that the file holds.
  double fpr_now;
  // Bytes of the store file.
  uint64_t bytes;
  // Filter bits per key of capacity, or per key in the file if the store grows.
  double bits_per_key;
  // Bytes of records in the logs.
  uint64_t log_bytes;
  // Bytes of memory of the write buffers, which all handles share.
  uint64_t buffer_bytes;
  // The number of checkpoints, plus one.
  uint64_t generation;
  // When the store was created, in seconds since 1970.
  uint64_t created;
  // After how many milliseconds it forgets a key; 0 if it keeps keys for ever.
  uint64_t forget_after;
  // The time of a store that forgets, in milliseconds since 1970; else 0.
  uint64_t now;
  // In how many steps it counts ages; 0 if it keeps keys for ever.
  uint32_t forget_steps;
  // `EVERSEEN_FORGET_BY_…`; 0 if it keeps keys for ever.
  int32_t forget_by;
  // `EVERSEEN_KIND_…`; 0 for a kind that this version doesn't name.
  int32_t kind;
  // 1 if only a commit makes inserts count, else 0.
  uint32_t transactional;
  // A random number that tells the store from all others; its copies have it, too.
  uint8_t store_id[16];
} everseen_stats_t;

// Learns from time to time how many bytes of a copy are done, and of how many. Any value but 0 ends the call early. It must
// return: a C++ exception or a `longjmp` out of it ends the process, or does worse.
typedef int (*everseen_progress_t)(uint64_t done, uint64_t total, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library that the program runs with, such as "0.1.0". `EVERSEEN_VERSION` is that of the
// header it was built with.
const char *everseen_version(void);

// Returns the same as a number, to be compared with `EVERSEEN_VERSION_NUMBER`: 1,000,000 times the major version, plus
// 1,000 times the minor version, plus the patch.
uint32_t everseen_version_number(void);

// Returns new options, all of which have their defaults. `everseen_options_free` frees them; a store that was opened with
// them doesn't need them any more.
//
// Setting an option fails with `EVERSEEN_ERROR_NULL_POINTER` for no options, and with
// `EVERSEEN_ERROR_INVALID_ARGUMENT` for a number that stands for no choice. A value out of range is an error of the call
// that opens the store.
everseen_options_t *everseen_options_new(void);

// Frees options; a null pointer is none.
void everseen_options_free(everseen_options_t *options);

// Of a new store: how many keys it is for. Without a capacity it grows.
everseen_error_t everseen_options_set_capacity(everseen_options_t *options, uint64_t keys);

// Of a new store of fingerprints: how many keys it may grow to; 2^36 by default. Each doubling takes one bit a key.
everseen_error_t everseen_options_set_grows_to(everseen_options_t *options, uint64_t keys);

// Of a new store: the highest share of absent keys that it may call seen, above 0 and below 1; 1e-6 by default.
everseen_error_t everseen_options_set_fpr(everseen_options_t *options, double rate);

// Of a new store: its kind, `EVERSEEN_KIND_…`. By default `EVERSEEN_KIND_BLOOM` with a capacity and no time after
// which it forgets, else `EVERSEEN_KIND_FINGERPRINT`.
everseen_error_t everseen_options_set_kind(everseen_options_t *options, int32_t kind);

// Of a new store: whether only a commit makes inserts and removes count. What a handle has not committed is dropped
// when it is closed, or when its process dies. False by default.
everseen_error_t everseen_options_set_transactional(everseen_options_t *options, bool yes);

// Of a new store: after how many milliseconds it forgets a key, one second to a thousand years. By default it keeps keys
// for ever.
everseen_error_t everseen_options_set_forget_after(everseen_options_t *options,
                                                   uint64_t milliseconds);

// Of a new store that forgets: in how many steps it counts ages, 1 to 255; 15 by default. A key is seen for the window,
// and for one step more at most.
everseen_error_t everseen_options_set_forget_steps(everseen_options_t *options, uint32_t steps);

// Of a new store that forgets: what the window of a key begins with, `EVERSEEN_FORGET_BY_FIRST` (by default) or
// `EVERSEEN_FORGET_BY_LAST`.
everseen_error_t everseen_options_set_forget_by(everseen_options_t *options, int32_t by);

// Of the handle: the bytes of memory for both write buffers and all scratch, 131,072 or more. By default memory follows
// the filter, from 64 MiB up.
everseen_error_t everseen_options_set_buffer(everseen_options_t *options, uint64_t bytes);

// Of the handle: the name under which it commits, UTF-8 of 1 to 255 bytes with a zero at its end; "default" by default.
everseen_error_t everseen_options_set_writer(everseen_options_t *options, const char *name);

// Of the handle: whether it has the store for itself, which fails with `EVERSEEN_ERROR_LOCKED` while any other handle
// has it open. False by default.
everseen_error_t everseen_options_set_exclusive(everseen_options_t *options, bool yes);

// Of the handle: whether checkpoints run on threads of their own. True by default; otherwise they run in the call that
// fills the buffer.
everseen_error_t everseen_options_set_background(everseen_options_t *options, bool yes);

// Of the handle: how many milliseconds it waits for others before `EVERSEEN_ERROR_BUSY`; 30,000 by default.
everseen_error_t everseen_options_set_timeout(everseen_options_t *options, uint64_t milliseconds);

// Of the handle: what a damaged page means to it, `EVERSEEN_ON_DAMAGE_…`; an error by default.
everseen_error_t everseen_options_set_on_damage(everseen_options_t *options, int32_t policy);

// Of a handle that reads: whether it goes on from one writer to the next. False by default.
everseen_error_t everseen_options_set_follow(everseen_options_t *options, bool yes);

// Of a handle of a store that forgets: what time it is, in milliseconds since 1970, for replays and tests. Time stands
// still until `everseen_advance_to`. By default it follows the system's clock.
everseen_error_t everseen_options_set_clock(everseen_options_t *options, uint64_t milliseconds);

// Opens a store to read and to write, and recovers it if its last user was killed.
//
// Of `options`, which may be null, those of the handle apply. `*store` becomes the handle, which `everseen_free` frees;
// after an error it is null, and nothing has changed.
everseen_error_t everseen_open(const char *path, everseen_options_t *options, everseen_t **store);

// Creates a store, and opens it. Fails with `EVERSEEN_ERROR_ALREADY_EXISTS` if there is a file that is not empty.
everseen_error_t everseen_create(const char *path, everseen_options_t *options, everseen_t **store);

// Opens a store, or creates it if there is none. A store that exists keeps what it was created with; if that is less than
// the options ask for, the call fails with `EVERSEEN_ERROR_UNMET_OPTION`.
everseen_error_t everseen_open_or_create(const char *path,
                                         everseen_options_t *options,
                                         everseen_t **store);

// Opens a store to read what it holds, and changes nothing. While others have it open to write, the handle sees what they
// write.
everseen_error_t everseen_open_read_only(const char *path,
                                         everseen_options_t *options,
                                         everseen_t **store);

// Closes a store: moves all that counts into the file, which alone is the whole store from then on, and releases it for
// others. Any later call with the handle is `EVERSEEN_ERROR_CLOSED`, except that another close does nothing.
//
// In a transactional store this drops what the handle has not committed: the way to undo it. `*dropped`, which may be
// null, becomes the number of those keys.
//
// After any error nothing acknowledged is lost, and the next open goes on from the log. The handle still has to be freed.
everseen_error_t everseen_close(everseen_t *store,
                                uint64_t *dropped);

// Frees a handle, which no other thread may use any more; a null pointer is none. If the store is open, it is closed
// first, as far as possible: call `everseen_close` to learn of errors.
//
// In a process that was forked, this gives back memory of the child and leaves the parent's store alone.
void everseen_free(everseen_t *store);

// Copies the text of a failure to `text`, as much of it as fits into `size` bytes with the zero at its end, and returns
// the length of all of it, without that zero: 0 if no call has failed. UTF-8; it may be cut in the middle of a character.
//
// Of a store, that is the last failure of a call with it, in any thread. Without one, for a null pointer, it is the
// last failure in the calling thread, whatever failed: so threads that share a store, and callers of a function that
// returned no store, learn of their own. A call that succeeds leaves the text as it is. `text` may be null if `size` is 0.
size_t everseen_last_error(everseen_t *store,
                           char *text,
                           size_t size);

// Makes sure that a key is in the store. `*is_new`, which may be null, becomes whether it was absent.
//
// A key is `length` bytes of any value; the empty key is one, too. When the call returns, the key outlives the process,
// and after the next commit also a power cut; in a transactional store both hold only from the commit on. For a share of
// new keys no larger than the false-positive rate, `*is_new` is false.
//
// After an error the key is not in the store, unless it was there before.
everseen_error_t everseen_insert(everseen_t *store,
                                 const void *key,
                                 size_t length,
                                 bool *is_new);

// Does the same as `everseen_insert`, but answers with a verdict: `EVERSEEN_NEW`, `EVERSEEN_SEEN` or, in transactional
// stores only, `EVERSEEN_PENDING`. `verdict` may be null.
everseen_error_t everseen_claim(everseen_t *store, const void *key, size_t length, uint8_t *verdict);

// Asks whether a key is in the store. `*found` becomes the answer: false is certain, and true is wrong for a share of
// absent keys no larger than the false-positive rate. Takes no lock.
//
// In a transactional store it is also true for a key that a handle has claimed and not committed.
everseen_error_t everseen_contains(everseen_t *store, const void *key, size_t length, bool *found);

// Removes a key once. `*removed`, which may be null, becomes whether it was there; if not, nothing has changed.
//
// Remove only keys that were inserted. To remove one that merely tests positive takes another key with it.
// `EVERSEEN_ERROR_WRONG_KIND` in stores of other kinds than `EVERSEEN_KIND_COUNTING`, which counts inserts and removes,
// and `EVERSEEN_KIND_FINGERPRINT`, a set.
everseen_error_t everseen_remove(everseen_t *store, const void *key, size_t length, bool *removed);

// Inserts keys in order, several times as fast as one by one. A key of length 0 may have a null pointer.
//
// `answers` has room for `count` bytes: of each key, `EVERSEEN_NEW` or `EVERSEEN_SEEN`. Of equal keys, also within the
// batch, the first is new.
//
// `*done`, which may be null, becomes how many keys have their answer: all of them, or after an error those before the
// key that failed. Those are in the store, and none of the others is.
everseen_error_t everseen_insert_batch(everseen_t *store,
                                       const void *const *keys,
                                       const size_t *lengths,
                                       size_t count,
                                       uint8_t *answers,
                                       size_t *done);

// Inserts the keys of a column, as Arrow lays out `binary` and `utf8`: key `i` begins `offsets[i]` bytes behind `bytes`
// and ends where key `i + 1` begins, so there are `count + 1` offsets. None leads behind `length` bytes.
//
// Otherwise like `everseen_insert_batch`. Bad offsets are found before the first key is inserted.
everseen_error_t everseen_insert_offsets32(everseen_t *store,
                                           const void *bytes,
                                           size_t length,
                                           const int32_t *offsets,
                                           size_t count,
                                           uint8_t *answers,
                                           size_t *done);

// Does the same with offsets of 64 bits, as in `large_binary` and `large_utf8`.
everseen_error_t everseen_insert_offsets64(everseen_t *store,
                                           const void *bytes,
                                           size_t length,
                                           const int64_t *offsets,
                                           size_t count,
                                           uint8_t *answers,
                                           size_t *done);

// Claims keys in order: `everseen_insert_batch`, but each answer is the verdict of `everseen_claim`.
//
// `flags` is 0, or `EVERSEEN_UNTIL_PENDING`, `EVERSEEN_IF_ABSENT` or both. With the first, `*done` tells where the batch
// ended, and the keys behind that are left alone.
everseen_error_t everseen_claim_batch(everseen_t *store,
                                      const void *const *keys,
                                      const size_t *lengths,
                                      size_t count,
                                      uint32_t flags,
                                      uint8_t *answers,
                                      size_t *done);

// Claims the keys of a column: `everseen_insert_offsets32`, with the verdicts of `everseen_claim_batch`.
everseen_error_t everseen_claim_offsets32(everseen_t *store,
                                          const void *bytes,
                                          size_t length,
                                          const int32_t *offsets,
                                          size_t count,
                                          uint32_t flags,
                                          uint8_t *answers,
                                          size_t *done);

// Does the same with offsets of 64 bits.
everseen_error_t everseen_claim_offsets64(everseen_t *store,
                                          const void *bytes,
                                          size_t length,
                                          const int64_t *offsets,
                                          size_t count,
                                          uint32_t flags,
                                          uint8_t *answers,
                                          size_t *done);

// Asks of many keys whether they are in the store. `found` has room for `count` bytes: 1 for each key that is, 0 for
// others. After an error none of them has a meaning.
everseen_error_t everseen_contains_batch(everseen_t *store,
                                         const void *const *keys,
                                         const size_t *lengths,
                                         size_t count,
                                         uint8_t *found);

// Asks of the keys of a column whether they are in the store; see `everseen_insert_offsets32`.
everseen_error_t everseen_contains_offsets32(everseen_t *store,
                                             const void *bytes,
                                             size_t length,
                                             const int32_t *offsets,
                                             size_t count,
                                             uint8_t *found);

// Does the same with offsets of 64 bits.
everseen_error_t everseen_contains_offsets64(everseen_t *store,
                                             const void *bytes,
                                             size_t length,
                                             const int64_t *offsets,
                                             size_t count,
                                             uint8_t *found);

// Removes keys in order, each once. `answers` and `*done` are as of `everseen_insert_batch`, but a byte is 1 for a key
// that was there, and 0 for others. See `everseen_remove`.
everseen_error_t everseen_remove_batch(everseen_t *store,
                                       const void *const *keys,
                                       const size_t *lengths,
                                       size_t count,
                                       uint8_t *answers,
                                       size_t *done);

// Removes the keys of a column; see `everseen_insert_offsets32`.
everseen_error_t everseen_remove_offsets32(everseen_t *store,
                                           const void *bytes,
                                           size_t length,
                                           const int32_t *offsets,
                                           size_t count,
                                           uint8_t *answers,
                                           size_t *done);

// Does the same with offsets of 64 bits.
everseen_error_t everseen_remove_offsets64(everseen_t *store,
                                           const void *bytes,
                                           size_t length,
                                           const int64_t *offsets,
                                           size_t count,
                                           uint8_t *answers,
                                           size_t *done);

// Makes durable all that returned before the call, in any thread; in a transactional store, only this makes it count.
//
// `tag` is up to `EVERSEEN_MAX_TAG` bytes of the caller's own, such as where it stands in its input: they are kept with
// the commit, or neither is. The next commit of the same writer replaces them. `tag` may be null if `length` is 0.
// `*sequence`, which may be null, becomes the number of the commit, 1 or more.
//
// After `EVERSEEN_ERROR_POISONED`, close the store and open it again to learn whether the commit took effect.
everseen_error_t everseen_commit(everseen_t *store, const void *tag, size_t length, uint64_t *sequence);

// Finds the last commit of a writer: where to go on after a crash. `writer` is the name that
// `everseen_options_set_writer` has set, or null for "default".
//
// `*sequence` becomes the number of the commit, 0 if that writer has never committed. Its tag goes to `tag`, which has room
// for `size` bytes, and its length to `*length`. If there is too little room the call fails with
// `EVERSEEN_ERROR_BUFFER_TOO_SMALL`, and has set both numbers; `EVERSEEN_MAX_TAG` bytes are always enough. `sequence` and
// `length` may be null; `tag` may be, if `size` is 0.
everseen_error_t everseen_last_commit(everseen_t *store,
                                      const char *writer,
                                      uint64_t *sequence,
                                      uint8_t *tag,
                                      size_t size,
                                      size_t *length);

// Counts what the handle has not committed. `*keys` becomes how many keys closing it now would drop, `*most` how many
// there may be before `EVERSEEN_ERROR_TRANSACTION_TOO_LARGE`. Unless the store is transactional, these are 0 and
// `UINT64_MAX`. Both may be null.
everseen_error_t everseen_uncommitted(everseen_t *store, uint64_t *keys, uint64_t *most);

// Says what a store knows about itself, without reading its pages. `size` is `sizeof *stats`: a library that knows fewer
// fields sets those behind them to 0, and one that knows more leaves out what there is no room for.
everseen_error_t everseen_stats(everseen_t *store,
                                everseen_stats_t *stats,
                                size_t size);

// Moves all that is committed from log and buffer into the file, and waits until it is there. Nothing needs this call:
// a checkpoint runs by itself when the buffer is full.
everseen_error_t everseen_checkpoint(everseen_t *store);

// Copies a store to a new file at `dest`, while other threads and processes go on using it. The copy holds all that was
// acknowledged before the call, of a transactional store all that was committed.
//
// `progress` is called in this thread, with `context`; both may be null. If it ends the call, that fails with
// `EVERSEEN_ERROR_CANCELLED`. After any error there is nothing at `dest`.
everseen_error_t everseen_snapshot(everseen_t *store, const char *dest, everseen_progress_t progress, void *context);

// Goes on to a later time in a store that forgets, in milliseconds since 1970, for all handles; a handle that only
// reads does so for itself. An earlier time has no effect. `EVERSEEN_ERROR_NEVER_FORGETS` in other stores.
everseen_error_t everseen_advance_to(everseen_t *store, uint64_t milliseconds);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVERSEEN_H */
