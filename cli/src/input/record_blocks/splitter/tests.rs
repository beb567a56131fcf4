//! Blocks and the splitter that fills them, against obvious twins.

use std::sync::Arc;

use everseen::hash::KeyHasher;

use super::*;
use crate::input::record_blocks::Keyed;

/// Drops the items with an `a`.
fn without_a(hasher: &KeyHasher, item: &[u8]) -> Keyed {
    match item.contains(&b'a') {
        true => Keyed::Dropped,
        false => Keyed::Key(hasher.key(item)),
    }
}

/// Returns its bytes in pieces whose sizes the generator draws, with interruptions.
struct Pieces<'a> {
    bytes: &'a [u8],
    random: fastrand::Rng,
    largest: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.random.u8(..8) == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let piece = self.random.usize(1..=self.largest).min(into.len());
        self.bytes.read(&mut into[..piece])
    }
}

/// Returns all items of a stream, read through blocks that are used in turn.
fn split(splitter: &mut Splitter, input: &mut impl Read) -> Result<Vec<Vec<u8>>, SplitError> {
    let (mut items, mut spare) = (Vec::new(), Block::default());
    loop {
        let more = splitter.fill(input)?;
        if splitter.has_lines() {
            spare = splitter.take(spare);
            items.extend(spare.items().map(<[u8]>::to_vec));
            let mut joined: Vec<u8> = Vec::new();
            spare
                .items()
                .for_each(|item| joined.extend([item, &[splitter.separator]].concat()));
            assert_eq!(spare.run(0..spare.len()), joined);
            assert_eq!(spare.bytes(), joined.len());
        }
        if !more {
            return Ok(items);
        }
    }
}

/// The obvious twin.
fn naive(separator: u8, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = bytes
        .split(|byte| *byte == separator)
        .map(<[u8]>::to_vec)
        .collect();
    if items.last().is_some_and(Vec::is_empty) {
        items.pop();
    }
    items
}

#[test]
fn any_piece_and_block_sizes_give_the_items_of_the_twin() {
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..2_000 {
        let (separator, sparse) = (*random.choice(&[b'\n', 0]).unwrap_or(&0), random.u8(1..40));
        let length = random.usize(0..400);
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                if random.u8(..sparse) == 0 {
                    separator
                } else {
                    random.u8(..)
                }
            })
            .collect();
        let largest = random.usize(1..100);
        let mut splitter = Splitter::with_sizes(separator, random.usize(1..64), 1024);
        let mut input = Pieces {
            bytes: &bytes,
            random: random.fork(),
            largest,
        };
        let items = split(&mut splitter, &mut input).expect("fits");
        assert_eq!(items, naive(separator, &bytes), "round {round}");
    }
}

#[test]
fn items_keyed_together_are_keyed_as_each() {
    let hasher = KeyHasher::new(everseen::Hash::Highway, &[7; 32]);
    let mut random = fastrand::Rng::with_seed(3);
    let mut spare = Block::default();
    for round in 0..500 {
        let items: Vec<Vec<u8>> = (0..random.usize(1..30))
            .map(|_| vec![random.u8(b'a'..b'd'); random.usize(..99)])
            .collect();
        let bytes = [&items.join(&b'\n')[..], b"\n"].concat();
        let mut splitter = Splitter::new(b'\n', 99);
        splitter.fill(&mut &bytes[..]).expect("reads");
        spare = splitter.take(spare);
        spare.key_all(&hasher);
        let keys: Vec<_> = items.iter().map(|item| hasher.key(item)).collect();
        assert_eq!(spare.keys(), keys, "round {round}");
    }
}

#[test]
fn dropped_items_leave_the_others_and_the_count_of_bytes() {
    let hasher = everseen::hash::KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
    let mut random = fastrand::Rng::with_seed(2);
    for round in 0..2_000 {
        let items: Vec<Vec<u8>> = (0..random.usize(1..30))
            .map(|_| vec![random.u8(b'a'..b'd'); random.usize(..9)])
            .collect();
        let bytes = items.join(&b'\n');
        let bytes = [&bytes[..], b"\n"].concat();
        let mut splitter = Splitter::new(b'\n', 99);
        splitter.fill(&mut &bytes[..]).expect("reads");
        let mut block = splitter.take(Block::default());
        block.key_by(|_, item| without_a(&hasher, item));

        let kept: Vec<&Vec<u8>> = items.iter().filter(|item| !item.contains(&b'a')).collect();
        assert_eq!(block.items().collect::<Vec<_>>(), kept, "round {round}");
        let keys: Vec<_> = kept.iter().map(|item| hasher.key(item).bits()).collect();
        let got: Vec<_> = block.keys().iter().map(|key| key.bits()).collect();
        assert_eq!(got, keys, "round {round}");
        assert_eq!(block.bytes(), bytes.len(), "round {round}");
        block.come_from(&Arc::new("input".into()), 40);
        let lines: Vec<u64> = (41..)
            .zip(&items)
            .filter(|(_, item)| !item.contains(&b'a'))
            .map(|(line, _)| line)
            .collect();
        let told: Vec<u64> = (0..kept.len()).map(|item| block.place(item).line).collect();
        assert_eq!(told, lines, "round {round}");
        // A reused block has forgotten its items.
        splitter.fill(&mut &b"a\n"[..]).expect("reads");
        let second = splitter.take(block);
        assert_eq!(
            (second.bytes(), splitter.block.bytes()),
            (2, 0),
            "round {round}"
        );
    }
}

/// The twin says which items precede the first one that is too long, whatever the sizes of pieces and blocks.
#[test]
fn an_item_is_refused_when_it_is_too_long_and_those_before_it_are_given() {
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..2_000 {
        let longest = random.usize(1..100);
        let items: Vec<Vec<u8>> = (0..random.usize(1..20))
            .map(|_| vec![b'x'; random.usize(..longest + 2)])
            .collect();
        let mut bytes = items.join(&b'\n');
        bytes.extend(random.bool().then_some(b'\n'));
        let mut expected = naive(b'\n', &bytes);
        let long = expected.iter().position(|item| item.len() > longest);
        expected.truncate(long.unwrap_or(expected.len()));

        let mut splitter = Splitter::with_sizes(b'\n', random.usize(1..64), longest);
        let mut input = Pieces {
            bytes: &bytes,
            random: random.fork(),
            largest: random.usize(1..100),
        };
        let (mut items, mut more, mut refused) = (Vec::new(), true, false);
        while more && !refused {
            match splitter.fill(&mut input) {
                Ok(goes_on) => more = goes_on,
                Err(SplitError::ItemTooLong) => refused = true,
                Err(error) => panic!("{error}"),
            }
            if !refused && splitter.has_lines() {
                let block = splitter.take(Block::default());
                items.extend(block.items().map(<[u8]>::to_vec));
            }
            let most = splitter.block_size.max(longest + 1);
            assert!(splitter.block.storage.len() <= most, "round {round}");
        }
        assert_eq!(
            (items, refused),
            (expected, long.is_some()),
            "round {round}"
        );
    }
}

#[test]
fn what_a_read_gives_is_passed_on_at_once() {
    let mut splitter = Splitter::new(b'\n', 99);
    let mut input = (&b"one\ntw"[..]).chain(&b"o\n"[..]);
    assert!(splitter.fill(&mut input).expect("reads"));
    let block = splitter.take(Block::default());
    assert_eq!(block.run(0..block.len()), b"one\n");
    assert!(splitter.fill(&mut input).expect("reads"));
    assert_eq!(splitter.take(block).run(0..1), b"two\n");
}

#[test]
fn a_block_that_grew_shrinks_when_it_is_used_again() {
    let mut splitter = Splitter::with_sizes(b'\n', 16, 1 << 20);
    let bytes = [vec![b'x'; 10_000], vec![b'\n']].concat();
    splitter.fill(&mut &bytes[..]).expect("reads");
    let large = splitter.take(Block::default());
    assert!(large.storage.len() > 10_000);
    splitter.fill(&mut &b"y\n"[..]).expect("reads");
    splitter.take(large);
    assert_eq!(splitter.block.storage.len(), 16);
}

/// Returns all blocks of a stream, for which at most so much memory is needed at a time.
fn blocks(splitter: &mut Splitter, input: &mut impl Read, most: usize) -> Vec<Block> {
    let (mut blocks, mut more) = (Vec::new(), true);
    while more {
        more = splitter.fill(input).expect("reads");
        assert!(splitter.block.storage.len() <= most);
        if splitter.has_lines() {
            blocks.push(splitter.take(Block::default()));
        }
    }
    blocks
}

/// Returns lines, of which about half are longer than that. The last separator may be missing.
fn around(random: &mut fastrand::Rng, longest: usize) -> Vec<u8> {
    let items: Vec<Vec<u8>> = (0..random.usize(1..30))
        .map(|_| vec![random.u8(b'a'..b'd'); random.usize(..2 * longest)])
        .collect();
    let mut bytes = items.join(&b'\n');
    bytes.extend(random.bool().then_some(b'\n'));
    bytes
}

/// The twin says which items are too long. Others are dropped later, and the numbers of all lines stay right.
#[test]
fn items_that_are_too_long_are_dropped_and_counted() {
    let hasher = KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..3_000 {
        let longest = random.usize(1..60);
        let bytes = around(&mut random, longest);
        let lines = naive(b'\n', &bytes);
        let long = lines.iter().filter(|item| item.len() > longest).count() as u64;
        let first = lines.iter().position(|item| item.len() > longest);

        let block_size = random.usize(1..100);
        let mut splitter = Splitter::with_sizes(b'\n', block_size, longest).skip_long(true);
        let mut input = Pieces {
            bytes: &bytes,
            random: random.fork(),
            largest: random.usize(1..200),
        };
        let most = block_size.max(longest + 1);
        let (mut got, mut before, mut dropped) = (Vec::new(), 0, 0);
        let (mut told, mut told_first, mut size) = (0, None, 0);
        for mut block in blocks(&mut splitter, &mut input, most) {
            block.come_from(&Arc::new("input".into()), before);
            if let Some((count, place)) = block.first_gap() {
                told += count;
                told_first = told_first.or(Some(place.line as usize - 1));
            }
            let first_line = before;
            before += block.lines();
            block.key_by(|number, item| {
                let line = (first_line + number) as usize - 1;
                assert_eq!(item, lines[line], "round {round}");
                dropped += usize::from(item.contains(&b'a'));
                without_a(&hasher, item)
            });
            size += block.bytes();
            for (at, item) in block.items().enumerate() {
                got.push((item.to_vec(), block.place(at).line as usize - 1));
            }
        }
        let kept = lines.iter().filter(|item| item.len() <= longest);
        let (kept, without): (Vec<_>, Vec<_>) = kept.partition(|item| !item.contains(&b'a'));
        assert_eq!(without.len(), dropped, "round {round}");
        let places: Vec<_> = got
            .iter()
            .map(|(item, line)| (item, &lines[*line]))
            .collect();
        assert!(
            places.iter().all(|(item, line)| item == line),
            "round {round}"
        );
        assert!(got.is_sorted_by_key(|(_, line)| *line), "round {round}");
        assert_eq!(got.iter().map(|(item, _)| item).collect::<Vec<_>>(), kept);
        assert_eq!((told, told_first), (long, first), "round {round}");
        // The last separator may be missing.
        assert!(
            size == bytes.len() || size == bytes.len() + 1,
            "round {round}"
        );
    }
}
