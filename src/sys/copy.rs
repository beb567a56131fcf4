//! Copies a file by sharing blocks where the file system supports it, otherwise inside the system, otherwise by reading
//! and writing.

use std::io;
use std::ops::Range;

use super::storage::{StorageFile, read_exact_at, write_all_at};

/// Bytes read and written at a time.
const COPIED_AT_ONCE: u64 = 1 << 20;
/// Zeros of this length are skipped, so that a hole stays a hole in the copy.
const BLOCK: usize = 4096;

/// Called after each part with the offset up to which all bytes are copied. An error ends the copying.
type Each<'a> = &'a mut dyn FnMut(u64) -> io::Result<()>;

/// Copies a range of `from`, which has it, to `to`, which is new and empty; that one gets the length of the range's end.
/// Holes may stay holes, and what lies before the range may be copied too. An error of `each` ends the copying. Returns
/// whether the two files share their blocks.
pub(crate) fn copy(
    from: &dyn StorageFile,
    to: &dyn StorageFile,
    range: Range<u64>,
    each: Each<'_>,
) -> io::Result<bool> {
    #[cfg_attr(
        everseen_portable,
        expect(unused_mut, reason = "the system copies nothing there")
    )]
    let mut done = range.start;
    #[cfg(not(everseen_portable))]
    if let (Some(from), Some(to)) = (from.as_file(), to.as_file()) {
        match linux::copy(from, to, range.clone(), each)? {
            linux::Copied::Shared => return Ok(true),
            linux::Copied::All => return Ok(false),
            linux::Copied::UpTo(at) => done = at,
        }
    }
    // What is skipped would be zeros in the copy.
    assert!(
        (range.start..=range.end).contains(&done),
        "{done} of {range:?}"
    );
    to.set_length(range.end)?;
    copy_plainly(from, to, done..range.end, each)?;
    Ok(false)
}

/// Copies a range by reading and writing. Skips blocks of zeros: the destination is still empty.
fn copy_plainly(
    from: &dyn StorageFile,
    to: &dyn StorageFile,
    range: Range<u64>,
    each: Each<'_>,
) -> io::Result<()> {
    let mut bytes = vec![0; COPIED_AT_ONCE.min(range.end.saturating_sub(range.start)) as usize];
    let mut at = range.start;
    while at < range.end {
        let piece = &mut bytes[..COPIED_AT_ONCE.min(range.end - at) as usize];
        read_exact_at(from, piece, at)?;
        write_all_but_zeros(to, piece, at)?;
        at += piece.len() as u64;
        each(at)?;
    }
    Ok(())
}

fn write_all_but_zeros(to: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let is_blank = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let length_of = |from: usize, blank: bool| {
        let blocks = bytes[from..].chunks(BLOCK);
        let alike = blocks.take_while(|block| is_blank(block) == blank);
        alike.map(<[u8]>::len).sum::<usize>()
    };
    let mut start = 0;
    while start < bytes.len() {
        start += length_of(start, true);
        let end = start + length_of(start, false);
        write_all_at(to, &bytes[start..end], offset + start as u64)?;
        start = end;
    }
    Ok(())
}

#[cfg(not(everseen_portable))]
pub(super) mod linux {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    use rustix::fs::{SeekFrom, copy_file_range, ioctl_ficlone, seek};
    use rustix::io::Errno;

    use super::Each;

    /// Bytes that the system copies at a time.
    const COPIED_AT_ONCE: u64 = 16 << 20;

    /// The progress of a copy.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Copied {
        /// Everything is copied, and the two files share their blocks.
        Shared,
        All,
        /// The system copies no further: the caller has to read and write the rest.
        UpTo(u64),
    }

    /// Copies a range of `from` to the empty file `to`, which gets the length of its end, without holes. Where blocks are
    /// shared, what lies before the range is copied too.
    pub(super) fn copy(
        from: &File,
        to: &File,
        range: Range<u64>,
        each: Each<'_>,
    ) -> io::Result<Copied> {
        let length = range.end;
        // Whatever the reason for the failure, the other ways find out whether it affects them.
        if ioctl_ficlone(to, from).is_ok() {
            to.set_len(length)?;
            each(length)?;
            return Ok(Copied::Shared);
        }
        to.set_len(length)?;
        copy_data(from, to, range, each)
    }

    /// Copies the same by `copy_file_range` alone.
    pub(super) fn copy_data(
        from: &File,
        to: &File,
        range: Range<u64>,
        each: Each<'_>,
    ) -> io::Result<Copied> {
        let (mut at, length) = (range.start, range.end);
        while let Some(data) = next_data(from, at, length)? {
            at = data.start;
            while at < data.end {
                let (mut read, mut written) = (at, at);
                let count = COPIED_AT_ONCE.min(data.end - at) as usize;
                match copy_file_range(from, Some(&mut read), to, Some(&mut written), count) {
                    Ok(0) => return Ok(Copied::UpTo(at)),
                    Ok(copied) => at += copied as u64,
                    Err(Errno::INTR) => continue,
                    Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                        return Ok(Copied::UpTo(at));
                    }
                    Err(error) => return Err(error.into()),
                }
                each(at)?;
            }
        }
        each(length)?;
        Ok(Copied::All)
    }

    /// Returns the next range from `at` on that is not a hole, as far as the file system can tell.
    pub(in super::super) fn next_data(
        file: &File,
        at: u64,
        length: u64,
    ) -> io::Result<Option<Range<u64>>> {
        if at >= length {
            return Ok(None);
        }
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        if start >= length {
            return Ok(None);
        }
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) if end > start => end,
            Ok(_) | Err(Errno::INVAL | Errno::OPNOTSUPP) => length,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(start..end.min(length)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::storage::disk;
    use super::*;
    use proptest::prelude::*;

    /// Returns a file of some pieces among zeros, and its bytes.
    fn file(
        folder: &std::path::Path,
        pieces: &[(usize, u8, usize)],
        length: usize,
    ) -> (std::sync::Arc<dyn StorageFile>, Vec<u8>) {
        let file = disk().create_new(&folder.join("from")).unwrap();
        file.set_length(length as u64).unwrap();
        let mut bytes = vec![0; length];
        for (at, byte, count) in pieces {
            let at = at % length;
            let count = (*count).min(length - at);
            bytes[at..at + count].fill(*byte);
            write_all_at(&*file, &bytes[at..at + count], at as u64).unwrap();
        }
        (file, bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn each_way_of_copying_gives_the_same_bytes(
            pieces in prop::collection::vec((any::<usize>(), any::<u8>(), 1_usize..20_000), 0..12),
            length in 1_usize..3_000_000,
            part in 1_usize..3_000_000,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (from, bytes) = file(folder.path(), &pieces, length);
            let part = part.min(length);
            let mut reported = Vec::new();
            let best = disk().create_new(&folder.path().join("best")).unwrap();
            copy(&*from, &*best, 0..part as u64, &mut |at| { reported.push(at); Ok(()) }).unwrap();
            prop_assert!(reported.is_sorted());
            prop_assert_eq!(reported.last(), Some(&(part as u64)));
            let plain = disk().create_new(&folder.path().join("plain")).unwrap();
            plain.set_length(part as u64).unwrap();
            copy_plainly(&*from, &*plain, 0..part as u64, &mut |_| Ok(())).unwrap();
            for name in ["best", "plain"] {
                let copied = std::fs::read(folder.path().join(name)).unwrap();
                prop_assert!(copied == bytes[..part], "{}", name);
            }
            #[cfg(not(everseen_portable))]
            {
                let open = |name| std::fs::OpenOptions::new().read(true).write(true)
                    .create(true).truncate(false).open(folder.path().join(name)).unwrap();
                let (from, data) = (open("from"), open("data"));
                data.set_len(part as u64).unwrap();
                let way = linux::copy_data(&from, &data, 0..part as u64, &mut |_| Ok(())).unwrap();
                if way == linux::Copied::All {
                    let copied = std::fs::read(folder.path().join("data")).unwrap();
                    prop_assert!(copied == bytes[..part], "by the system");
                }
            }
        }
    }

    #[test]
    fn holes_stay_holes_and_an_error_of_the_listener_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let (from, _) = file(folder.path(), &[(40 << 20, 7, 5000)], 64 << 20);
        for plain in [false, true] {
            let name = folder.path().join(format!("to {plain}"));
            let to = disk().create_new(&name).unwrap();
            if plain {
                to.set_length(64 << 20).unwrap();
                copy_plainly(&*from, &*to, 0..64 << 20, &mut |_| Ok(())).unwrap();
            } else {
                copy(&*from, &*to, 0..64 << 20, &mut |_| Ok(())).unwrap();
            }
            #[cfg(unix)]
            {
                let blocks = std::os::unix::fs::MetadataExt::blocks(&name.metadata().unwrap());
                assert!(blocks * 512 < 1 << 20, "{blocks} blocks");
            }
            let again = disk().create_new(&folder.path().join(format!("again {plain}")));
            let mut stop = |_| Err(io::ErrorKind::Other.into());
            let stopped = copy(&*from, &*again.unwrap(), 0..64 << 20, &mut stop);
            assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Other);
        }
    }
}
