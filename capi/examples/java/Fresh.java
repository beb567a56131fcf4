import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Prints the lines of a file that were never seen before, and remembers them. ../c/fresh.c says how and why.
 *
 * <pre>
 * java --enable-native-access=ALL-UNNAMED -Deverseen.library=/usr/local/lib/libeverseen.so.0 Fresh.java seen.ever lines.txt
 * </pre>
 *
 * Takes Java 22 or later, and nothing else: functions are called through java.lang.foreign.
 */
public class Fresh {
    /** An open store. Threads may share it. */
    static final class Store implements AutoCloseable {
        private static final SymbolLookup LIBRARY =
                SymbolLookup.libraryLookup(Path.of(System.getProperty("everseen.library")), Arena.global());
        private static final int OK = 0;
        private static final byte NEW = 1;

        private static final MethodHandle OPTIONS_NEW = of("everseen_options_new", FunctionDescriptor.of(ADDRESS));
        private static final MethodHandle OPTIONS_FREE =
                of("everseen_options_free", FunctionDescriptor.ofVoid(ADDRESS));
        private static final MethodHandle SET_TRANSACTIONAL =
                code("everseen_options_set_transactional", ADDRESS, JAVA_BOOLEAN);
        private static final MethodHandle OPEN = code("everseen_open_or_create", ADDRESS, ADDRESS, ADDRESS);
        private static final MethodHandle INSERT = code(
                "everseen_insert_offsets64", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
        private static final MethodHandle COMMIT = code("everseen_commit", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
        private static final MethodHandle CLOSE = code("everseen_close", ADDRESS, ADDRESS);
        private static final MethodHandle FREE = of("everseen_free", FunctionDescriptor.ofVoid(ADDRESS));
        private static final MethodHandle LAST_ERROR =
                of("everseen_last_error", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG));

        private MemorySegment handle;

        private static MethodHandle of(String name, FunctionDescriptor descriptor) {
            return Linker.nativeLinker().downcallHandle(LIBRARY.find(name).orElseThrow(), descriptor);
        }

        private static MethodHandle code(String name, MemoryLayout... arguments) {
            return of(name, FunctionDescriptor.of(JAVA_INT, arguments));
        }

        /** A virtual thread may change its carrier between two calls: call from platform threads. */
        private static void expect(int code) throws Throwable {
            if (code == OK) {
                return;
            }
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = arena.allocate(1000);
                long length = (long) LAST_ERROR.invokeExact(MemorySegment.NULL, text, text.byteSize());
                throw new IOException("error " + code + (length == 0 ? "" : ": " + text.getString(0)));
            }
        }

        /** Opens a transactional store, or creates it. */
        Store(String path) throws Throwable {
            MemorySegment options = (MemorySegment) OPTIONS_NEW.invokeExact();
            try (Arena arena = Arena.ofConfined()) {
                expect((int) SET_TRANSACTIONAL.invokeExact(options, true));
                MemorySegment opened = arena.allocate(ADDRESS);
                expect((int) OPEN.invokeExact(arena.allocateFrom(path), options, opened));
                handle = opened.get(ADDRESS, 0);
            } finally {
                OPTIONS_FREE.invokeExact(options);
            }
        }

        /** Returns for each key whether it is new. */
        boolean[] insert(List<String> keys) throws Throwable {
            try (Arena arena = Arena.ofConfined()) {
                byte[] bytes = String.join("", keys).getBytes(StandardCharsets.UTF_8);
                long[] offsets = new long[keys.size() + 1];
                for (int i = 0; i < keys.size(); i++) {
                    offsets[i + 1] = offsets[i] + keys.get(i).getBytes(StandardCharsets.UTF_8).length;
                }
                MemorySegment answers = arena.allocate(Math.max(1, keys.size()));
                expect((int) INSERT.invokeExact(
                        handle,
                        arena.allocateFrom(JAVA_BYTE, bytes),
                        (long) bytes.length,
                        arena.allocateFrom(JAVA_LONG, offsets),
                        (long) keys.size(),
                        answers,
                        MemorySegment.NULL));
                boolean[] isNew = new boolean[keys.size()];
                for (int i = 0; i < isNew.length; i++) {
                    isNew[i] = answers.get(JAVA_BYTE, i) == NEW;
                }
                return isNew;
            }
        }

        void commit() throws Throwable {
            expect((int) COMMIT.invokeExact(handle, MemorySegment.NULL, 0L, MemorySegment.NULL));
        }

        @Override
        public void close() throws IOException {
            MemorySegment closing = handle;
            handle = MemorySegment.NULL;
            try {
                int code = (int) CLOSE.invokeExact(closing, MemorySegment.NULL);
                expect(code);
                FREE.invokeExact(closing);
            } catch (IOException error) {
                throw error;
            } catch (Throwable error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] arguments) throws Throwable {
        if (arguments.length != 2) {
            System.err.println("usage: Fresh STORE FILE");
            System.exit(2);
        }
        try (Store store = new Store(arguments[0])) {
            List<String> lines = Files.readAllLines(Path.of(arguments[1]));
            boolean[] isNew = store.insert(lines);
            for (int i = 0; i < isNew.length; i++) {
                if (isNew[i]) {
                    System.out.println(lines.get(i));
                }
            }
            System.out.flush();
            store.commit();
        }
    }
}
