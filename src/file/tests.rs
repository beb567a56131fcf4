//! The small structures of the file survive encoding and decoding, and a flipped bit is detected.

use proptest::prelude::*;

use super::intent;
use super::label::set_label;
use super::layout::MAX_COUNTER;
use super::layout::{FIRST_PAGE, HEADER_BYTES, LAYER_ALIGNMENT, PAGES_OFFSET};
use super::run_table::MOST_RUNS;
use super::section::{MOST_SAMPLE_PARTS, pages_for};
use super::superblock::{Commits, MAX_TAG, SUPERBLOCK_LENGTH_OFFSET};
use super::*;
use crate::codec::{Decoder, Encoder, u32_at};
use crate::hash::Hash;
use crate::page::ages::{
    LEAST_WINDOW, MOST_CLOCK, MOST_STEP, MOST_WINDOW, MOST_WINDOW_STEPS, Window,
};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Kind, PAGE_BYTES, PAYLOAD_BITS};
use crate::sizing::Cell;

fn rate() -> impl Strategy<Value = f64> {
    (-12.0..-0.01_f64).prop_map(|power| 10_f64.powf(power))
}

/// Generates any valid header. A growing store's rate must be in reach of its first layer.
fn header() -> impl Strategy<Value = Header> {
    let makes_sense = |header: &Header| header.kind != Kind::Scalable || header.growth().is_some();
    any_header().prop_filter("a rate in reach", makes_sense)
}

fn hash() -> impl Strategy<Value = Hash> {
    (1_u16..4).prop_map(|id| Hash::from_id(id).unwrap())
}

prop_compose! {
    fn any_header()(
        hash in hash(),
        transactional in any::<bool>(),
        kind in prop::sample::select(vec![Kind::Bloom, Kind::Scalable, Kind::Fingerprint]),
        (probes, capacity, pages) in (1_u32..65, 1_u64..1 << 40, 1_u64..1 << 40),
        (fpr, tightening, growth) in (rate(), 0.01..0.99, 2_u32..17),
        (seed, store_id, created) in any::<([u8; 32], [u8; 16], u64)>(),
        (compatible, read_only_compatible) in any::<(u64, u64)>(),
        window in prop::option::of((LEAST_WINDOW..=MOST_WINDOW, 1..=MOST_WINDOW_STEPS)),
    ) -> Header {
        Header {
            kind,
            hash,
            transactional,
            probes: if kind == Kind::Bloom { probes } else { 0 },
            capacity,
            fpr,
            bits: match kind {
                Kind::Bloom => pages * PAYLOAD_BITS,
                Kind::Fingerprint => pages,
                _ => 0,
            },
            seed,
            store_id,
            created,
            growth: if kind == Kind::Scalable { growth } else { 0 },
            tightening: if kind == Kind::Scalable { tightening } else { 0.0 },
            window: match kind {
                Kind::Fingerprint => window.map(|(long, steps)| Window::new(long, steps).unwrap()),
                _ => None,
            },
            compatible,
            read_only_compatible,
            locks_itself: true,
            has_bound_pages: true,
        }
    }
}

prop_compose! {
    /// Generates a layer some pages behind the last one.
    fn gap_and_layer()(
        gap in 0_u64..100,
        pages in 1_u64..1 << 30,
        capacity in 1_u64..1 << 50,
        keys in 0_u64..1 << 50,
        fpr in rate(),
        probes in 1_u32..65,
        all_written in any::<bool>(),
    ) -> Layer {
        let first_page = gap * LAYER_ALIGNMENT;
        Layer { cell: Cell::Bit, first_page, pages, capacity, keys, fpr, probes, all_written }
    }
}

/// Generates sections, each some pages behind the one before.
fn sections() -> impl Strategy<Value = Vec<Section>> {
    let numbers = (0_u64..100, 1_u64..1 << 30, any::<u32>());
    let kinds = (0_usize..=1, 0..=MOST_SAMPLE_PARTS, 0_usize..=1);
    let empty = prop::bool::weighted(0.2);
    let all = (
        prop::collection::vec(numbers, MOST_SAMPLE_PARTS + 2),
        kinds,
        1_u32..=32,
        empty,
    );
    all.prop_map(|(numbers, (exempt, parts, lost), rarity, empty)| {
        let kinds = [
            (SectionKind::Exempt, exempt),
            (SectionKind::Sample, parts),
            (SectionKind::Lost, lost),
        ];
        let kinds = kinds
            .into_iter()
            .flat_map(|(kind, count)| vec![kind; count]);
        let mut at = 0;
        let sections = kinds.zip(numbers).map(|(kind, (gap, count, crc))| {
            let is_sample = kind == SectionKind::Sample;
            if is_sample && parts == 1 && empty {
                return Section::empty_sample(rarity);
            }
            let first_page = at + gap * LAYER_ALIGNMENT;
            at = (first_page + pages_for(count)).next_multiple_of(LAYER_ALIGNMENT);
            let rarity = if is_sample { rarity } else { 0 };
            Section {
                kind,
                rarity,
                first_page,
                count,
                crc,
            }
        });
        sections.collect()
    })
}

fn commits() -> impl Strategy<Value = Commits> {
    let tag = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..30),
        1 => prop::collection::vec(any::<u8>(), MAX_TAG),
    ];
    let entry = (0_u64..1000, tag).prop_map(|(sequence, tag)| CommitEntry { sequence, tag });
    prop::collection::btree_map("[a-zA-Z\\u{e4}\\u{f6}]{1,30}", entry, 0..5)
}

fn label() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..40)
}

/// A directory at the end of its pages.
fn directory_before(end_page: u64, version: u64, generation: u64) -> DirectoryRef {
    DirectoryRef {
        places: [end_page - 2, end_page - 1],
        segments: 1 + end_page % 50,
        pages: end_page - FIRST_PAGE - 2,
        keys: end_page,
        end_page,
        version,
        generation,
    }
}

/// Runs whose directories lie behind the oldest one's.
fn runs_behind(
    (end_page, forgets): (u64, bool),
    count: u64,
    begin: u64,
    version: u64,
) -> Option<RunTable> {
    let runs = (0..count).map(|number| Run {
        directory: DirectoryRef {
            places: [end_page + 10 * number, end_page + 10 * number + 2],
            segments: 2,
            pages: 9,
            keys: 100 + number,
            end_page: end_page + 10 * number + 3,
            version,
            generation: 1,
        },
        // More than there is below, where keys are forgotten.
        went: if forgets { 50 + number } else { 3 * number },
        begin,
        begun_with: if begin > 0 { 200 } else { 0 },
        arrived: begin.min(7),
        below_until: if forgets {
            version % (MOST_STEP - count) + number
        } else {
            0
        },
    });
    let set_version = version;
    let runs: Vec<Run> = runs.collect();
    (count > 0).then_some(RunTable {
        set_version,
        runs,
        forgets,
    })
}

/// A store that forgets has no sample.
fn fits(section: &Section, header: &Header) -> bool {
    header.window.is_none() || section.kind == SectionKind::Exempt
}

prop_compose! {
    fn header_and_superblock()(
        header in header(),
        sequence in 0..=MAX_COUNTER,
        generation in 1..=MAX_COUNTER,
        log_expected in any::<bool>(),
        commit_sequence in 1000..=MAX_COUNTER,
        gaps in prop::collection::vec(gap_and_layer(), 1..65),
        (sections, commits, label) in (sections(), commits(), label()),
        end_page in FIRST_PAGE + 200..1 << 40,
        moment in prop_oneof![Just(0), any::<u64>()],
        (run_count, cursor) in (0_u64..=MOST_RUNS as u64, 0.0..1.0_f64),
    ) -> (Header, Superblock) {
        let mut layers: Vec<Layer> = Vec::new();
        for layer in gaps {
            let least = layers.last().map_or(FIRST_PAGE, Layer::end_page);
            let first_page = least.next_multiple_of(LAYER_ALIGNMENT) + layer.first_page;
            layers.push(Layer { first_page, ..layer });
        }
        let (mut directory, mut partly_merged, mut runs) = (None, None, None);
        if header.kind == Kind::Fingerprint {
            layers.clear();
            partly_merged = Some(commit_sequence / 3).filter(|keys| log_expected && keys % 2 == 0);
            let generation = generation + u64::from(partly_merged.is_some());
            directory = Some(directory_before(end_page, sequence.max(1), generation));
            let count = header.space().map_or(0, FingerprintSpace::count);
            let begin = (count as f64 * cursor * 0.99) as u64;
            runs = runs_behind((end_page, header.window.is_some()), run_count, begin, sequence.max(1));
        } else if header.kind != Kind::Scalable {
            layers.truncate(1);
            layers[0].pages = header.bits / PAYLOAD_BITS;
            layers[0].probes = header.probes;
            layers[0].capacity = header.capacity;
        }
        let end = layers.last().map_or(end_page + 10 * run_count, Layer::end_page);
        let begin = end.next_multiple_of(LAYER_ALIGNMENT);
        let place = |section: Section| match section.count {
            0 => section,
            _ => Section { first_page: begin + section.first_page, ..section },
        };
        let mut superblock = Superblock {
            sequence,
            generation,
            log_expected,
            commit_sequence,
            layers,
            directory,
            partly_merged,
            sections: sections.into_iter().filter(|one| fits(one, &header)).map(place).collect(),
            commits,
            moment,
            clock: header.window.map_or(0, |_| sequence % MOST_CLOCK),
            earliest: header.window.map_or(0, |_| generation % 1000),
            runs,
        };
        let mut header = header;
        if header.has_label() {
            set_label(&mut header, &mut superblock, &label);
        }
        (header, superblock)
    }
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

proptest! {
    #[test]
    fn headers_go_there_and_back_unless_a_bit_is_flipped(
        header in header(),
        bit in 0..PAGE_BYTES * 8,
    ) {
        let mut page = header.encode().to_vec();
        prop_assert_eq!(page.len(), HEADER_BYTES);
        page.resize(PAGE_BYTES, 0);
        prop_assert_eq!(Header::decode(&page, PAGES_OFFSET), Ok(header));
        flip(&mut page, bit);
        prop_assert!(Header::decode(&page, PAGES_OFFSET).is_err());
    }

    #[test]
    fn superblocks_go_there_and_back_unless_a_bit_is_flipped(
        (header, superblock) in header_and_superblock(),
        other in header(),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut bytes = superblock.encode(&header);
        prop_assert!(bytes.len().is_multiple_of(PAGE_BYTES));
        prop_assert_eq!(Superblock::decode(&bytes, &header), Ok(superblock));
        if other != header {
            let foreign = Superblock::decode(&bytes, &other);
            prop_assert_eq!(foreign, Err(SuperblockFault::ForeignHeader));
        }
        // The bytes behind the superblock's length belong to nothing.
        let length = u32_at(&bytes, SUPERBLOCK_LENGTH_OFFSET) as usize;
        let bit = bit.index(length * 8);
        flip(&mut bytes, bit);
        prop_assert!(Superblock::decode(&bytes, &header).is_err(), "bit {}", bit);
        flip(&mut bytes, bit);
        prop_assert!(Superblock::decode(&bytes[..length - 8], &header).is_err());
        for cut in (0..512).filter(|cut| *cut < length) {
            prop_assert!(Superblock::decode(&bytes[..cut], &header).is_err(), "{} bytes", cut);
        }
    }

    /// It would grow for ever.
    #[test]
    fn a_store_that_forgets_has_no_sample((header, superblock) in header_and_superblock()) {
        prop_assert_eq!(superblock.check_header(&header), Ok(()));
        if header.window.is_some() {
            let sections = vec![Section::empty_sample(3)];
            let sampled = Superblock { sections, ..superblock };
            prop_assert!(sampled.check_header(&header).is_err());
        }
    }

    #[test]
    fn layers_go_there_and_back(layer in gap_and_layer()) {
        let first_page = FIRST_PAGE + layer.first_page;
        let layer = Layer { first_page, ..layer };
        let mut bytes = Vec::new();
        layer.encode(&mut Encoder::new(&mut bytes));
        prop_assert_eq!(bytes.len(), super::layer::LAYER_BYTES);
        let decoded = Layer::decode(&mut Decoder::new(&bytes), first_page);
        prop_assert_eq!(decoded, Some(Ok(layer)));
        let behind = Layer::decode(&mut Decoder::new(&bytes), first_page + 1);
        prop_assert!(matches!(behind, Some(Err(_))));
        prop_assert_eq!(Layer::decode(&mut Decoder::new(&bytes[..63]), first_page), None);
    }

    #[test]
    fn intents_go_there_and_back_unless_a_bit_is_flipped(
        header in header(),
        other in header(),
        generation in any::<u64>(),
        sequence in 0..=MAX_COUNTER,
        (start, end) in any::<(u64, u64)>(),
        bit in 0..intent::INTENT_BYTES * 8,
    ) {
        let intent = Intent { generation, sequence, pages: start..end };
        let mut bytes = intent.encode(&header);
        prop_assert_eq!(Intent::decode(&bytes, &header), Some(intent));
        if other.store_id != header.store_id {
            prop_assert_eq!(Intent::decode(&bytes, &other), None);
        }
        flip(&mut bytes, bit);
        prop_assert_eq!(Intent::decode(&bytes, &header), None);
    }
}
