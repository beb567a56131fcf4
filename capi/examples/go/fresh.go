// Prints the lines of a file that were never seen before, and remembers them. ../c/fresh.c says how and why.
//
//	go build -o fresh fresh.go
//	./fresh seen.ever lines.txt
package main

// #cgo pkg-config: everseen
// #include <everseen.h>
// #include <stdlib.h>
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// Store is an open store. Goroutines may share it.
type Store struct{ handle *C.everseen_t }

// The text of an error belongs to the operating system's thread that made the call, so callers hold on to theirs.
func check(code C.everseen_error_t) error {
	if code == C.EVERSEEN_OK {
		return nil
	}
	text := make([]C.char, C.everseen_last_error(nil, nil, 0)+1)
	C.everseen_last_error(nil, &text[0], C.size_t(len(text)))
	return fmt.Errorf("error %d: %s", int(code), C.GoString(&text[0]))
}

// Open opens a transactional store, or creates it.
func Open(path string) (*Store, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	options := C.everseen_options_new()
	defer C.everseen_options_free(options)
	C.everseen_options_set_transactional(options, true)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	store := new(Store)
	if err := check(C.everseen_open_or_create(name, options, &store.handle)); err != nil {
		return nil, err
	}
	return store, nil
}

// Insert returns for each key whether it is new. Cgo passes no pointers to pointers, so the keys go as one column.
func (store *Store) Insert(keys []string) ([]bool, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var bytes []byte
	offsets := []C.int64_t{0}
	for _, key := range keys {
		bytes = append(bytes, key...)
		offsets = append(offsets, C.int64_t(len(bytes)))
	}
	// There is a first byte to point to, even if all keys are empty.
	column := append(bytes, 0)
	answers := make([]C.uint8_t, len(keys))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := check(C.everseen_insert_offsets64(store.handle, unsafe.Pointer(&column[0]), C.size_t(len(bytes)),
		&offsets[0], C.size_t(len(keys)), &answers[0], nil))
	isNew := make([]bool, len(keys))
	for i, answer := range answers {
		isNew[i] = answer == C.EVERSEEN_NEW
	}
	return isNew, err
}

// Commit makes durable what was inserted, and makes it count.
func (store *Store) Commit() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return check(C.everseen_commit(store.handle, nil, 0, nil))
}

// Close closes the store, and frees the handle.
func (store *Store) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := check(C.everseen_close(store.handle, nil))
	C.everseen_free(store.handle)
	store.handle = nil
	return err
}

func printNew(store *Store, lines []string) error {
	isNew, err := store.Insert(lines)
	if err != nil {
		return err
	}
	for i, line := range lines {
		if isNew[i] {
			if _, err := fmt.Println(line); err != nil {
				return err
			}
		}
	}
	return store.Commit()
}

func run(path, input string) error {
	file, err := os.Open(input)
	if err != nil {
		return err
	}
	defer file.Close()
	store, err := Open(path)
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(file)
	var lines []string
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
		if len(lines) == 1024 {
			if err := printNew(store, lines); err != nil {
				return err
			}
			lines = lines[:0]
		}
	}
	if err := printNew(store, lines); err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	return scanner.Err()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: fresh STORE FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "fresh:", err)
		os.Exit(2)
	}
}
