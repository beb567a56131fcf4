//! HighwayHash-64 after Alakuijala, Cox, Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and
//! permute" (arXiv 1612.06257).

use super::u64_at;

/// Hexadecimal digits of pi.
const MUL0: [u64; 4] = [
    0xDBE6_D5D5_FE4C_CE2F,
    0xA409_3822_299F_31D0,
    0x1319_8A2E_0370_7344,
    0x243F_6A88_85A3_08D3,
];
const MUL1: [u64; 4] = [
    0x3BD3_9E10_CB0E_F593,
    0xC0AC_F169_B5F1_8A8C,
    0xBE54_66CF_34E9_0C6C,
    0x4528_21E6_38D0_1377,
];

/// Byte `i` of a merged pair of lanes is byte `ZIPPER[i]` of the pair.
const ZIPPER: [usize; 16] = [3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7];

struct State {
    v0: [u64; 4],
    v1: [u64; 4],
    mul0: [u64; 4],
    mul1: [u64; 4],
}

pub(crate) fn hash64(key: [u64; 4], data: &[u8]) -> u64 {
    let lane = [0, 1, 2, 3];
    let mut state = State {
        v0: lane.map(|i| MUL0[i] ^ key[i]),
        v1: lane.map(|i| MUL1[i] ^ key[i].rotate_left(32)),
        mul0: MUL0,
        mul1: MUL1,
    };
    let mut packets = data.chunks_exact(32);
    for packet in &mut packets {
        state.update(lane.map(|i| u64_at(packet, 8 * i)));
    }
    if !packets.remainder().is_empty() {
        state.update_remainder(packets.remainder());
    }
    for _ in 0..4 {
        state.update([2, 3, 0, 1].map(|i: usize| state.v0[i].rotate_left(32)));
    }
    [state.v0[0], state.v1[0], state.mul0[0], state.mul1[0]]
        .into_iter()
        .fold(0, u64::wrapping_add)
}

impl State {
    fn update(&mut self, packet: [u64; 4]) {
        let low = |x: u64| x & 0xFFFF_FFFF;
        let high = |x: u64| x >> 32;
        for (i, word) in packet.into_iter().enumerate() {
            self.v1[i] = self.v1[i].wrapping_add(self.mul0[i]).wrapping_add(word);
            self.mul0[i] ^= low(self.v1[i]) * high(self.v0[i]);
            self.v0[i] = self.v0[i].wrapping_add(self.mul1[i]);
            self.mul1[i] ^= low(self.v0[i]) * high(self.v1[i]);
        }
        add(&mut self.v0, zipper_merge(self.v1));
        add(&mut self.v1, zipper_merge(self.v0));
    }

    /// Processes the last 1 to 31 bytes: the length enters the state, and a packet is filled from the ends of the rest.
    fn update_remainder(&mut self, bytes: &[u8]) {
        let length = bytes.len();
        add(&mut self.v0, [((length as u64) << 32) + length as u64; 4]);
        for lane in &mut self.v1 {
            let rotate = |half: u64| u64::from((half as u32).rotate_left(length as u32));
            *lane = rotate(*lane >> 32) << 32 | rotate(*lane);
        }
        let (words, rest) = bytes.split_at(length - length % 4);
        let mut packet = [0; 32];
        packet[..words.len()].copy_from_slice(words);
        if length >= 16 {
            packet[28..].copy_from_slice(&bytes[length - 4..]);
        } else if !rest.is_empty() {
            packet[16] = rest[0];
            packet[17] = rest[rest.len() / 2];
            packet[18] = rest[rest.len() - 1];
        }
        self.update([0, 8, 16, 24].map(|at| u64_at(&packet, at)));
    }
}

fn zipper_merge(lanes: [u64; 4]) -> [u64; 4] {
    let bytes: Vec<u8> = lanes.into_iter().flat_map(u64::to_le_bytes).collect();
    let merged: Vec<u8> = bytes
        .chunks(16)
        .flat_map(|pair| ZIPPER.map(|i| pair[i]))
        .collect();
    [0, 8, 16, 24].map(|at| u64_at(&merged, at))
}

fn add(lanes: &mut [u64; 4], more: [u64; 4]) {
    for (lane, x) in lanes.iter_mut().zip(more) {
        *lane = lane.wrapping_add(x);
    }
}
